"""`lodestone eval` as a user runs it: every reader on its fixture, real models, figures equal to those worked out by hand."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import command, environment, run_here
from tests.support.eval_fixtures import A_COFFEE, LAYOUTS, chat_server, save_photo, write_text
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET
from tests.support.pictures import write_photos

_SHOWN = {
    "cat.jpg": (CAT, ("a tabby cat", "a cat with whiskers looks at the camera", "the face of a striped cat")),
    "coffee.jpg": (COFFEE, ("a cup of coffee on a saucer", "an espresso in a small cup", "a hot drink and a spoon")),
    "rocket.jpg": (ROCKET, ("a rocket on its launch pad", "a rocket before the start", "a space launch at night")),
    "person.jpg": (PERSON, ("a woman in an orange space suit", "an astronaut smiles", "a portrait of a woman")),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all fixtures: each benchmark has a corpus of its own."""
    return tmp_path_factory.mktemp("eval") / "home"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four described photographs among forty made-up ones, which have a caption of their own file each."""
    root = tmp_path_factory.mktemp("photos")
    for name, (source, _) in _SHOWN.items():
        save_photo(source, root / "images" / name)
    write_photos(root / "images" / "drawn", 40)
    rows = [f"{name}\t{text}" for name, (_, texts) in _SHOWN.items() for text in texts]
    drawn = sorted(path.name for path in (root / "images" / "drawn").iterdir())
    rows += [f"drawn/{name}\tmade-up picture number {number} {word}" for number, name in enumerate(drawn) for word in "ab"]
    write_text(root / "captions.tsv", "file\tcaption\n" + "\n".join(rows) + "\n")
    return root


def _metrics(report: dict[str, Any], configuration: str, group: str) -> dict[str, float]:
    found = next(one for one in report["configurations"] if one["name"] == configuration)
    means = next(one for one in found["groups"] if one["name"] == group)["metrics"]
    return {name: value["mean"] for name, value in means.items()}


@pytest.mark.parametrize("fixture", LAYOUTS)
def test_every_benchmark_gives_the_figures_worked_out_by_hand(fixture: str, tmp_path: Path, home: Path) -> None:
    name, write = LAYOUTS[fixture]
    expected = write(tmp_path)
    flags = ["--data", tmp_path, "--home", home, "--run", "text,full", "-o", "json", *expected.options]
    done = run_here("eval", name, *flags, home=home)
    assert done.code == 0, done.err
    report = done.json
    for configuration in ("text", "full"):
        found = _metrics(report, configuration, "all")
        assert {metric: found[metric] for metric in expected.metrics} == pytest.approx(expected.metrics), configuration
        main = "pairing" if "pairing" in found else "map"
        groups = {group: _metrics(report, configuration, group)[main] for group in expected.groups}
        assert groups == pytest.approx(expected.groups)
    assert len(report["queries"]) == expected.queries
    assert report["skipped"] == expected.skipped


@pytest.mark.slow
def test_described_targets_are_reported_apart_and_pixels_are_read_once(photos: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    common = ["eval", "captions", "--data", photos, "--home", home, "--captioned", "0.5", "-o", "json"]
    first = run_here(*common, "--run", "text,captions,full", "--ablate", "guides", "--report", tmp_path / "one", home=home)
    assert first.code == 0, first.err
    report = first.json
    assert report["index"]["embedded"] == 44
    sets = {row["query_id"]: row["sets"] for row in report["queries"]}
    assert len(sets) == 44  # one caption a picture is asked
    counts = [sum(target in one for one in sets.values()) for target in ("described", "undescribed")]
    assert sum(counts) == 44
    assert min(counts) > 10
    assert report["described"] == counts[0]
    assert _metrics(report, "captions", "undescribed")["map"] == 0.0  # what nobody described has no caption to be found by
    assert _metrics(report, "text", "all")["map"] == pytest.approx(
        sum(_metrics(report, "text", t)["map"] * n for t, n in zip(("described", "undescribed"), counts, strict=True)) / 44
    )
    again = run_here(*common, "--run", "text", "--report", tmp_path / "two", "--captioned", "0.0", home=home)
    assert again.code == 0, again.err
    assert again.json["index"]["embedded"] == 0
    assert again.json["described"] == 0  # the captions of the run before are gone from the index
    compared = run_here("eval", "compare", tmp_path / "one" / "report.json", tmp_path / "two" / "report.json", home=home)
    assert compared.code == 0, compared.err
    assert "the collections differ" in compared.out
    assert "n = 44" in compared.out


@pytest.mark.slow
def test_a_run_repeats_exactly(photos: Path, tmp_path: Path) -> None:
    values = []
    for _ in range(2):
        done = run_here(
            "eval", "captions", "--data", photos, "--limit", "20", "--captioned", "0.5", "-o", "json", home=tmp_path / "unused"
        )
        assert done.code == 0, done.err
        report = done.json
        values.append([one["values"] for one in report["configurations"]])
    assert values[0] == values[1]
    assert not (tmp_path / "unused").exists()  # a temporary home, and never the user's


def test_report_and_plots_are_written_where_they_are_asked_for(photos: Path, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "out"
    flags = ["--data", photos, "--home", home, "--sample", "12", "--run", "text", "--report", folder, "--plots"]
    done = run_here("eval", "captions", *flags, home=home)
    assert done.code == 0, done.err
    assert {path.name for path in folder.iterdir()} == {"report.json", "report.md", "bars.png", "histogram.png"}
    assert "12 queries" in done.out
    saved = json.loads((folder / "report.json").read_text())
    assert len(saved["queries"]) == 12
    assert saved["models"]["minilm"]
    nowhere = run_here("eval", "captions", "--data", photos, "--plots", home=home)
    assert nowhere.code == 2
    assert "--report" in nowhere.err


def test_a_language_model_s_words_are_searched_instead(tmp_path: Path, home: Path) -> None:
    for name, source in (("one.jpg", CAT), ("two.jpg", COFFEE)):
        save_photo(source, tmp_path / "images" / name)
    write_text(tmp_path / "names.tsv", "file\tname\ntwo.jpg\ttabby cat\n" + "one.jpg\tcat\n")
    with chat_server(A_COFFEE) as (url, asked):  # whatever is asked
        flags = ["--data", tmp_path, "--home", home, "--run", "rewrite", "--llm", url, "--llm-model", "tiny", "-o", "json"]
        done = run_here("eval", "names", *flags, home=home)
    assert done.code == 0, done.err
    assert len(asked) == 2
    values = {one["name"]: one["values"]["map"] for one in done.json["configurations"] if one["values"]}
    assert values["text"] == [0.5, 1.0]  # `tabby cat` is planted on the coffee's picture
    assert values["rewrite"] == [1.0, 0.5]


def test_a_tagged_picture_counts_as_described(tmp_path: Path) -> None:
    from tests.support.home import open_runtime

    from lodestone.catalog.records import TagRecord
    from lodestone.evaluation.datasets.registry import read_benchmark
    from lodestone.evaluation.staging import index_set

    LAYOUTS["names"][1](tmp_path / "data")
    evalset = read_benchmark("names", tmp_path / "data")
    with open_runtime(tmp_path) as runtime:
        indexed = index_set(runtime, evalset)
        assert indexed.described == frozenset()
        image_id = next(image_id for image_id, name in indexed.names.items() if name == "two.jpg")
        runtime.catalog.add_tags([TagRecord.new(image_id, "coffee", "user")])
        assert index_set(runtime, evalset).described == {"two.jpg"}


def test_what_is_wrong_is_said_in_a_line(photos: Path, tmp_path: Path, home: Path) -> None:
    missing = run_here("eval", "winoground", "--data", photos, home=home)
    assert missing.code == 3
    assert "examples.jsonl" in missing.err
    assert "expected: DIR/" in missing.err
    for flags in (["--ablate", "brakes"], ["--run", "everything"], ["--split", "july"], ["--captioned", "2"]):
        wrong = run_here("eval", "captions", "--data", photos, *flags, home=home)
        assert wrong.code == 2, flags
        assert wrong.err.count("\n") == 2, wrong.err  # the error and its hint: nothing was indexed before
    unknown = run_here("eval", "imagenet", "--data", photos, home=home)
    assert unknown.code == 2


@pytest.mark.slow
def test_an_interrupted_run_goes_on_without_looking_at_pictures_again(photos: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    arguments = ["eval", "captions", "--data", photos, "--home", home, "--run", "text", "--concurrency", "1"]
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(home)
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("asking text"):
            process.send_signal(signal.SIGINT)
            break
    said.append(process.stderr.read())
    assert process.wait(60) == 130, "".join(said)
    assert said[-1].strip().endswith("interrupted")
    done = run_here(*arguments, "-o", "json", home=home)
    assert done.code == 0, done.err
    assert done.json["index"]["embedded"] == 0
