"""Tests that every benchmark takes the options that it is run with, and that floors name figures that benchmarks record."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import benchmarks
import pytest
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.floors import Floor, check_figures, judge, read_floors
from benchmarks.harness.repeat import take_turns
from benchmarks.registry import BENCHMARKS, benchmark_named
from benchmarks.run import Outcome, parts

FOLDER = Path(benchmarks.__file__).parent
RESEARCH = FOLDER.parent / "research"
FOLDERS = (*(FOLDER / subject for subject in benchmarks.SUBJECTS), RESEARCH / "fits", RESEARCH / "studies")
MODULES = [path for folder in FOLDERS for path in folder.glob("*.py")]

# One process for all: most of the time goes into imports that they share.
_HELP = """
import contextlib, io, json, runpy, sys
texts = {}
for module in sys.argv[1:]:
    sys.argv[1:] = ["--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert not end.code, (module, end.code)
    texts[module] = out.getvalue()
print(json.dumps(texts))
"""


def _helps(modules: list[str]) -> dict[str, str]:
    done = subprocess.run([sys.executable, "-c", _HELP, *modules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


def test_every_benchmark_starts_and_has_the_options_that_it_is_run_with(tmp_path: Path) -> None:
    run = parts(tmp_path)
    texts = _helps(sorted(BENCHMARKS.values()))
    for module, text in texts.items():
        assert text.startswith(f"usage: python -m {module} ["), module
    for part in run:
        for option in (word for word in part.arguments if word.startswith("--")):
            assert option in texts[part.module], f"{part.module} has no {option}"


def test_a_pretended_feed_runs_through_the_real_pipeline(tmp_path: Path) -> None:
    quick = ["--pictures", "512", "--rounds", "1", "--read-ms", "1", "--write-ms", "1", "--decode-ms", "0.1", "--rate", "20000"]
    written = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.indexing.feed", *quick, "--figures", str(written)],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parent,
    )
    assert done.returncode == 0, done.stderr
    assert "requests a picture" in written.read_text()


def test_a_benchmark_runs_by_its_short_name_and_says_how_it_was_called() -> None:
    modules = ["benchmarks.decode", "benchmarks.indexing.decode", "research.studies.duplicates"]
    for module, text in _helps(modules).items():
        assert text.startswith(f"usage: python -m {module} [")
    assert "--pictures" in _helps(modules[:1])["benchmarks.decode"]


def test_the_table_of_benchmarks_is_complete_and_every_name_is_its_own() -> None:
    declared = {
        path.stem: ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
        for path in MODULES
        if any(
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "BENCHMARK" for target in node.targets)
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
    }
    assert declared == BENCHMARKS
    names = [path.stem for path in MODULES if path.stem != "__init__"]
    assert len(names) == len(set(names)), "short names need modules of different names"
    assert not {path.stem for path in FOLDER.iterdir()} & set(names)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_floor_names_a_figure_that_its_benchmark_records(name: str) -> None:
    benchmark = benchmark_named(name)
    assert benchmark.name == name
    check_figures([floor for floor in read_floors() if floor.benchmark == name], benchmark.figures)
    assert len({figure.name for figure in benchmark.figures}) == len(benchmark.figures)
    source = Path(sys.modules[BENCHMARKS[name]].__file__ or "").read_text(encoding="utf-8")
    others = (FOLDER / "indexing" / "index_profile.py").read_text(encoding="utf-8") if name == "index_throughput" else ""
    for figure in benchmark.figures:
        assert _records(source + others, figure.name), f"{name} declares {figure.name!r} and never records it"


def _records(source: str, figure: str) -> bool:
    """Whether the figure's name stands in the code besides its declaration, or is made by an f-string or a conditional."""
    if source.count(f'"{figure}"') > 1:
        return True
    return figure.partition(",")[0] in {"text pass", "complete answer"}  # query_latency records `{name}, p95`


def test_every_floor_is_of_a_known_benchmark() -> None:
    assert {floor.benchmark for floor in read_floors()} <= BENCHMARKS.keys()


FIGURES = (Figure("share", "ratio", peer="the peer"), Figure("seconds", "s"))


def test_an_unknown_figure_fails() -> None:
    with pytest.raises(ValueError, match="no figure 'speed'; known are 'share', 'seconds'"):
        check_figures([Floor("b", "speed", "at least", 1.0, "here")], FIGURES)
    with pytest.raises(ValueError, match="no figure 'speed'"):
        Report("b", FIGURES).record("speed", 1.0)


def test_an_absolute_time_has_a_goal_and_no_floor() -> None:
    with pytest.raises(ValueError, match="a time in s"):
        check_figures([Floor("b", "seconds", "at most", 1.0, "here")], FIGURES)
    check_figures([Floor("b", "seconds", "at most", 1.0, "here", machine="two cores")], FIGURES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[floor]]\nbenchmark = "b"\nfigure = "share"\ncomparison = "at least"\nbound = 1', "lacks stated"),
        ('[[floor]]\nbenchmark = "b"\nfigure = "share"\ncomparison = "about"\nbound = 1\nstated = "x"', "'about' is none of"),
        (
            '[[floor]]\nbenchmark = "b"\nfigure = "share"\ncomparison = "below"\nbound = 1\nstated = "x"\nwho = "y"',
            "unknown fields",
        ),
        ('[[goal]]\nbenchmark = "b"\nfigure = "share"\ncomparison = "below"\nbound = 1\nstated = "x"', "needs a `machine`"),
        ('[[flor]]\nbenchmark = "b"', "expected"),
    ],
)
def test_a_mistake_in_the_floors_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_floors(path)


def test_a_floor_is_compared_with_the_median_of_its_case() -> None:
    report = Report("b", FIGURES)
    report.record("share", [0.5, 0.95, 0.97], case="server")
    report.record("share", 0.1, case="embedded store")
    (held,) = judge([Floor("b", "share", "at least", 0.9, "here", case="server")], report.measurements)
    assert held.held
    assert held.line() == "floor held: share: server is 0.95 ratio, at least 0.9"
    missed = judge([Floor("b", "share", "at least", 0.9, "here")], report.measurements)
    assert [verdict.held for verdict in missed] == [True, False]
    assert missed[1].line().startswith("FLOOR MISSED: share: embedded store is 0.1")


def test_equality_satisfies_at_least_and_at_most_and_not_below() -> None:
    report = Report("b", FIGURES)
    report.record("share", 1.0)
    floors = [Floor("b", "share", comparison, 1.0, "here") for comparison in ("at least", "at most", "below")]
    assert [verdict.held for verdict in judge(floors, report.measurements)] == [True, True, False]


def _benchmark(monkeypatch: pytest.MonkeyPatch, value: float) -> Benchmark:
    floor = Floor("b", "share", "at least", 0.9, "here", peer="the peer")
    monkeypatch.setattr("benchmarks.harness.benchmark.read_floors", lambda: [floor])

    def measure(_options: object, report: Report) -> None:
        report.text("Some pictures.")
        report.record("share", value)
        report.detail("phases", [1, 2])

    return Benchmark(name="b", about="About.", figures=FIGURES, measure=measure, section="b")


def test_a_run_prints_figures_floors_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _benchmark(monkeypatch, 0.95).main([]) == 0
    text = capsys.readouterr().out
    assert "Some pictures." in text
    assert "| share | ratio | 0.95 |" in text
    assert "floor held: share is 0.95 ratio, at least 0.9 (the peer)" in text
    assert "cores" in text
    assert "load" in text


def test_a_missed_floor_fails_a_run_that_enforces_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _benchmark(monkeypatch, 0.5).main([]) == 0
    assert _benchmark(monkeypatch, 0.5).main(["--enforce"]) == 1
    assert _benchmark(monkeypatch, 0.95).main(["--enforce"]) == 0


def test_figures_are_written_as_json_and_into_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text("before\n<!-- b -->\n<!-- /b -->\nafter\n")
    _benchmark(monkeypatch, 0.5).main(["--json", "--figures", str(file), "--write", str(page)])
    values = json.loads(capsys.readouterr().out)
    assert values == json.loads(file.read_text())
    assert values["figures"][0] | {"unit": "ratio", "median": 0.5, "runs": 1} == values["figures"][0]
    assert (values["floors"][0]["held"], values["details"]) == (False, {"phases": [1, 2]})
    assert "FLOOR MISSED" in page.read_text()
    outcome = Outcome(parts(tmp_path)[0], "", values)
    assert outcome.missed("floor") == [f"{parts(tmp_path)[0].title}: share is 0.5, not at least 0.9"]
    assert not outcome.missed("goal")


def test_programs_take_turns_in_being_first() -> None:
    order: list[str] = []
    programs = {name: (lambda name=name: order.append(name) or len(order)) for name in ("a", "b")}
    assert take_turns(programs, 2, alternate=True) == {"a": [1, 4], "b": [2, 3]}
    assert order == ["a", "b", "b", "a"]
