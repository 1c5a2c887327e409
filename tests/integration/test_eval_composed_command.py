"""`lodestone eval must`, `ann`, `submission` and `make-vectors` as a user runs them, with real models and a real store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import run_here
from tests.support.composed_fixtures import COMPOSED_LAYOUTS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all fixtures: each benchmark has a corpus of its own."""
    return tmp_path_factory.mktemp("composed") / "home"


def _methods(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["method"]: one for one in report["methods"]}


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("name", COMPOSED_LAYOUTS)
def test_every_benchmark_is_indexed_encoded_and_measured(name: str, tmp_path: Path, home: Path) -> None:
    expected = COMPOSED_LAYOUTS[name](tmp_path)
    metric = next(iter(expected.metrics))

    done = run_here("eval", "must", name, "--data", tmp_path, "--home", home, "--metrics", metric, "-o", "json", home=home)

    assert done.code == 0, done.err
    methods = _methods(done.json)
    modalities = {method.removesuffix(" alone") for method in methods if method.endswith(" alone")}
    assert {"picture", "words"} <= modalities
    assert ("text" in modalities) == (name in {"mit-states", "celeba", "celeba+", "shopping100k", "coco-parts"})
    assert len([modality for modality in modalities if modality.startswith("picture")]) >= (2 if name == "celeba+" else 1)
    assert {"JE", "MR", "MUST, equal weights"} < methods.keys()
    for method in methods.values():
        values = method["values"][metric]
        assert values
        assert all(value is not None and 0 <= value <= 1 for value in values)
        assert method["failures"] == {}


def test_words_and_pictures_find_what_they_name(tmp_path: Path, home: Path) -> None:
    """The query's picture is the cat; its words ask for coffee, and the coffee's picture is the target."""
    COMPOSED_LAYOUTS["cirr"](tmp_path)
    shown = tmp_path / "img_raw" / "dev"
    shutil.copy(shown / "dev-0-0-img0.png", shown / "dev-5-0-img0.png")  # it was the coffee too, which is as good
    path = tmp_path / "captions" / "cap.rc2.val.json"
    rows = json.loads(path.read_text())
    rows[0]["caption"] = "a cup of coffee on a saucer"  # of dev-1-0-img0.png
    path.write_text(json.dumps(rows[:1]))
    flags: list[str | Path] = ["--data", tmp_path, "--home", home, "--metrics", "recall@1(1)", "--weights", "0,1", "-o", "json"]
    done = run_here("eval", "must", "cirr", *flags, home=home)
    assert done.code == 0, done.err
    methods = _methods(done.json)
    assert methods["words alone"]["values"]["recall@1(1)"] == [1.0]
    assert methods["MUST, given weights"]["values"] == methods["words alone"]["values"]
    assert methods["picture alone"]["values"]["recall@1(1)"] == [0.0]


def test_a_submission_is_written_checked_and_measured_as_the_run(tmp_path: Path, home: Path) -> None:
    COMPOSED_LAYOUTS["cirr"](tmp_path)
    flags: list[str | Path] = [
        "--data",
        tmp_path,
        "--home",
        home,
        "--weights",
        ".5,.5",
        "--submission",
        tmp_path / "out",
        "-o",
        "json",
    ]
    run = run_here("eval", "must", "cirr", *flags, home=home)
    assert run.code == 0, run.err
    recall, subset = (Path(path) for path in run.json["written"])
    assert json.loads(recall.read_text())["metric"] == "recall"
    assert len(json.loads(subset.read_text())["12"]) == 3
    for file, metrics in ((recall, "recall"), (subset, "subset")):
        checked = run_here("eval", "submission", "cirr", file, "--data", tmp_path, "-o", "json", home=home)
        assert checked.code == 0, checked.err
        (found,) = checked.json["methods"]
        assert found["values"] == {
            key: values
            for key, values in _methods(run.json)["MUST, given weights"]["values"].items()
            if key.startswith(metrics)
        }


@pytest.mark.nightly
@pytest.mark.slow
def test_vectors_are_made_and_measured_in_graphs(tmp_path: Path, home: Path) -> None:
    prefix = tmp_path / "made"
    sizes = ["--objects", "1500", "--queries", "40", "--dim", "16", "--attributes", "2", "--values", "3"]
    made = run_here("eval", "make-vectors", prefix, *sizes, "-o", "json", home=home)
    assert made.code == 0, made.err
    assert len(made.json["written"]) == 5
    flags: list[str | Path] = [
        "--store",
        "edge",
        "--candidates",
        "50,400",
        "--k",
        "10",
        "--report",
        tmp_path / "out",
        "--plots",
        "-o",
        "json",
    ]
    done = run_here("eval", "ann", prefix, *flags, home=home)
    assert done.code == 0, done.err
    report = done.json
    recalls = {(row["method"], row["effort"]): row["recall"]["mean"] for row in report["rows"] if row["table"] == "curve"}
    assert recalls["MUST", 400] >= recalls["MUST, exact", None] - 0.05
    assert {row["table"] for row in report["rows"]} == {"curve", "single modality", "modalities", "weights"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"ann.json", "curves.png"}
    shown = run_here("eval", "ann", prefix, "--sample", "5", "--weights", ".5,.5", home=home)
    assert shown.code == 0, shown.err
    assert "single modality" in shown.out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["ann", "nowhere"], "nowhere_modal1_base.fvecs"),
        (["ann", "nowhere", "--k", "ten"], "no list of whole numbers"),
        (["ann", "nowhere", "--weights", "a,b"], "no list of numbers"),
        (["must", "imagenet", "--data", "."], "imagenet"),
        (["must", "cirr", "--data", ".", "--metrics", "ndcg"], "ndcg"),
        (["must", "icir", "--data", ".", "--submission", "out"], "icir"),
        (["submission", "cirr", "nowhere.json", "--data", "."], "nowhere.json"),
        (["make-vectors", "made", "--queries-from", "some.fvecs"], "--base-from"),
    ],
)
def test_bad_input_is_named_with_a_hint(
    arguments: list[str], problem: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    COMPOSED_LAYOUTS["cirr"](tmp_path)
    monkeypatch.chdir(tmp_path)
    done = run_here("eval", *arguments, home=home)
    assert done.code != 0
    assert problem in done.err
    assert "Traceback" not in done.err
