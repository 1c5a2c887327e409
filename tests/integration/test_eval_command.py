"""`lodestone eval` as a user runs it: every reader on its fixture, real models, figures equal to those worked out by hand."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import command, environment, run_here
from tests.support.eval_fixtures import A_CAT, A_COFFEE, LAYOUTS, chat_server, save_photo, write_text
from tests.support.image_servers import ImageServer, png
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.pictures import write_photos

from lodestone_eval import needle_variants

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


@pytest.mark.nightly_beyond(6)
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


@pytest.mark.nightly
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


@pytest.mark.nightly
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
    from lodestone_eval.registry import read_benchmark
    from lodestone_eval.staging import index_set

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
    for flags in (["--ablate", "brakes"], ["--run", "nothing"], ["--split", "july"], ["--captioned", "2"]):
        wrong = run_here("eval", "captions", "--data", photos, *flags, home=home)
        assert wrong.code == 2, flags
        assert wrong.err.count("\n") == 2, wrong.err  # the error and its hint: nothing was indexed before
    unknown = run_here("eval", "imagenet", "--data", photos, home=home)
    assert unknown.code == 2


@pytest.mark.nightly
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
    assert process.wait(180) == 130, "".join(said)
    assert said[-1].strip().endswith("interrupted")
    done = run_here(*arguments, "-o", "json", home=home)
    assert done.code == 0, done.err
    assert done.json["index"]["embedded"] == 0


class _Painter(ImageServer):
    """A service that draws the right photograph, but for the first `wrong` guides of a query, which are the other one."""

    def __init__(self, wrong: int) -> None:
        super().__init__()
        self.wrong = wrong

    def _picture(self, prompt: str, seed: int, size: int) -> bytes:
        right, other = (COFFEE, CAT) if "cat" in prompt else (CAT, COFFEE)
        return _painted(other if seed < self.wrong else right, size)


@cache
def _painted(name: str, size: int) -> bytes:
    return png(photo(name).resize((size, size)))


def _cell(report: str, row: str, *, table: str, column: str) -> str:
    """One cell of a Markdown table in a report, by the names of its row and column."""
    lines = report[report.index(table) :].splitlines()
    head = [cell.strip() for cell in lines[2].strip("|").split("|")]
    cells = next([cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:] if line.startswith(f"| {row} |"))
    return cells[head.index(column)]


@pytest.mark.nightly
@pytest.mark.slow
def test_needles_tables_are_printed_with_the_figures_worked_out_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Captions are planted on the other picture: words about a cat belong to the coffee, and words about coffee to the cat.

    The words find each right picture second: average precision 1 / 2. Two engines draw wrong, wrong, right; a third one is
    always right. By eq. 4, a guide gives 1 / 1 to the picture that it shows and 1 / 2 to the other, in every space, so that the
    picture shown more often is first:

    - m = 1: wrong, wrong, right: second. m = 2: four wrong, two right: second. m = 3: four wrong, five right: first.
    - One engine: two wrong, one right: second. Two: four wrong, two right: second. Three: as m = 3.
    """
    sizes = (224, 256, 320)
    monkeypatch.setattr(needle_variants, "SIZES", sizes)  # small ones cost less
    for name, source in (("one.jpg", CAT), ("two.jpg", COFFEE)):
        save_photo(source, tmp_path / "data" / "images" / name)
        for size in sizes:
            _painted(source, size)
    write_text(tmp_path / "data" / "captions.tsv", f"file\tcaption\ntwo.jpg\t{A_CAT}\none.jpg\t{A_COFFEE}\n")
    flags = ["--data", tmp_path / "data", "--home", tmp_path / "home", "--report", tmp_path / "out"]
    flags += ["--run", "needle,needle-gate,needle-trust", "--ablate", "m,l,engines,size,outliers"]
    with _Painter(wrong=2) as late, _Painter(wrong=0) as right:
        engines = {"LODESTONE_QUERY__GENERATORS": '["first", "second", "third"]'}
        for name, server in (("FIRST", late), ("SECOND", late), ("THIRD", right)):
            engines |= {f"LODESTONE_GENERATORS__{name}__KIND": "http", f"LODESTONE_GENERATORS__{name}__URL": server.url}
        done = run_here("eval", "captions", *flags, home=tmp_path / "home", **engines)
    assert done.code == 0, done.err
    report = (tmp_path / "out" / "report.md").read_text()
    for metric, words, needle in (
        ("R@10", "1.000", "1.000"),
        ("P@10", "0.100", "0.100"),
        ("MAP", "0.500", "1.000"),
        ("MRR", "0.500", "1.000"),
    ):
        assert _cell(report, "text", table="NEEDLE, table 1", column=metric) == f"{words} / -", metric
        for row in ("needle", "needle-trust"):
            assert _cell(report, row, table="NEEDLE, table 1", column=metric) == f"{needle} / -", metric
    for row, value in (("m=1", "0.500"), ("m=2", "0.500"), ("m=3", "1.000")):
        for column in ("l=1", "l=2"):
            assert _cell(report, row, table="NEEDLE, figure 4", column=column) == value, (row, column)
    for row, value in (("1", "0.500"), ("2", "0.500"), ("3", "1.000")):
        assert _cell(report, row, table="NEEDLE, figure 6a", column="MAP") == value
    for size in sizes:
        assert _cell(report, str(size), table="NEEDLE, figure 6b", column="MAP") == "1.000"
    assert _cell(report, "1.000", table="NEEDLE, table 4", column="detection") == "1.000"
    assert "NEEDLE, figure 5c" in report
    assert "NEEDLE, table 1: all queries / hard queries" in done.out
    assert {asked.body["size"] for asked in late.drawn} == set(sizes)
