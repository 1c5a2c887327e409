"""Refit of what is learnt: its steps, what it goes on from, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.registry import BENCHMARKS
from research import refit


def folders_in(place: Path) -> list[str]:
    """Write two sets of captioned photos and the named ones, and return the arguments that name them."""
    for name in ("first", "second"):
        (place / name).mkdir(exist_ok=True)
        (place / name / "captions.tsv").write_text(f"file\tcaption\n{name}.jpg\ta dog\n", encoding="utf-8")
    (place / "named").mkdir(exist_ok=True)
    (place / "named" / "names.tsv").write_text("file\tname\na.jpg\towl\n", encoding="utf-8")
    sets = ["--data", str(place / "first"), str(place / "second")]
    return [*sets, "--names", str(place / "named"), "--out", str(place / "out")]


class Benchmarks:
    """Stands in for the benchmarks, which take half an hour: notes their commands and writes figures; plumbing alone."""

    def __init__(self, *, failing: str = "") -> None:
        self.commands: list[list[str]] = []
        self.failing = failing
        self.value = 0.5

    def run(self, command: list[str], *, stdout: Any, **_: Any) -> SimpleNamespace:
        """Take the place of `subprocess.run`."""
        self.commands.append(command)
        if command[2].endswith(f".{self.failing}"):
            stdout.write("first line\nlast words\n")
        figure = {
            "figure": "R@10",
            "case": "captions",
            "unit": "share",
            "min": 0.4,
            "median": self.value,
            "max": 0.6,
            "runs": 3,
        }
        Path(command[command.index("--figures") + 1]).write_text(json.dumps({"figures": [figure]}), encoding="utf-8")
        return SimpleNamespace(returncode=3 if command[2].endswith(f".{self.failing}") else 0)

    @property
    def modules(self) -> list[str]:
        """Return the benchmarks that ran, in order."""
        return [command[2].rpartition(".")[2] for command in self.commands]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Benchmarks:
    fake = Benchmarks()
    monkeypatch.setattr(refit.subprocess, "run", fake.run)
    return fake


def test_steps_run_in_order_and_write_what_ships(tmp_path: Path, benchmarks: Benchmarks) -> None:
    assert refit.main(folders_in(tmp_path)) == 0
    assert benchmarks.modules[:8] == [*["quality"] * 3, "prior", *["presence"] * 3, "gate"]
    assert set(benchmarks.modules[8:]) == {"composed", "exemplars", "caption_words", "query_words", "duplicates"}
    shipped = [command[command.index("--ship") + 1] for command in benchmarks.commands[:4]]
    files = ["bridge/bridge.safetensors", "bridge/embedded-large.safetensors", "bridge/multilingual.safetensors"]
    assert shipped == [str(refit.LEARNT / file) for file in [*files, "prior/prior.safetensors"]]
    assert all((refit.LEARNT / step.writes.split(",")[0]).exists() for step in refit.STEPS if step.writes)
    assert not any("--ship" in command for command in benchmarks.commands[8:])  # they only measure
    bridge = str(tmp_path / "out" / "cache" / "embedded-0.safetensors")  # as `quality` names the first seed's
    measured = dict(zip(benchmarks.modules[8:], benchmarks.commands[8:], strict=True))
    for name in ("composed", "exemplars", "caption_words"):
        assert measured[name][measured[name].index("--bridge") + 1] == bridge


def test_every_step_is_a_benchmark_that_takes_its_arguments(tmp_path: Path) -> None:
    folders = refit.Folders((tmp_path / "first",), tmp_path / "named", tmp_path / "out")
    for step in refit.STEPS:
        module = BENCHMARKS[step.benchmark]
        assert module.startswith("research.")
        benchmark = __import__(module, fromlist=["BENCHMARK"]).BENCHMARK
        benchmark.parser().parse_args([*step.arguments(folders), "--figures", "figures.json"])


def test_a_run_that_was_stopped_goes_on_with_the_step_that_failed(
    tmp_path: Path, benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks.failing = "prior"
    assert refit.main(folders_in(tmp_path)) == 1
    assert benchmarks.modules == ["quality", "quality", "quality", "prior"]
    said = capsys.readouterr().err
    assert "last words" in said and "prior failed (3)" in said
    benchmarks.failing, benchmarks.commands = "", []
    assert refit.main(folders_in(tmp_path)) == 0
    assert benchmarks.modules[0] == "prior" and len(benchmarks.commands) == len(refit.STEPS) - 3
    benchmarks.commands = []
    assert refit.main(folders_in(tmp_path)) == 0
    assert benchmarks.commands == []


def test_figures_stand_beside_those_of_an_earlier_run(
    tmp_path: Path, benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = folders_in(tmp_path)
    assert refit.main([*arguments, "--steps", "prior"]) == 0
    assert "prior: R@10: captions [share]  0.5 (0.4 to 0.6)\n" in capsys.readouterr().out
    benchmarks.value = 0.625
    later = [*arguments[:-1], str(tmp_path / "later")]
    assert refit.main([*later, "--steps", "prior", "gate", "--against", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "prior: R@10: captions [share]  0.625 (0.4 to 0.6)  before 0.5 (0.4 to 0.6)  (+0.125)\n" in said
    assert "gate: R@10: captions [share]  0.625 (0.4 to 0.6)\n" in said


def test_what_was_learnt_from_other_tables_is_not_gone_on_with(
    tmp_path: Path, benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = folders_in(tmp_path)
    assert refit.main([*arguments, "--steps", "gate"]) == 0
    (tmp_path / "second" / "captions.tsv").write_text("file\tcaption\nother.jpg\ta cat\n", encoding="utf-8")
    benchmarks.commands = []
    assert refit.main([*arguments, "--steps", "prior"]) == 2
    assert benchmarks.commands == []
    assert "other tables" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["first/captions.tsv", "named/names.tsv"])
def test_a_folder_without_its_table_is_named(tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = folders_in(tmp_path)
    (tmp_path / missing).unlink()
    assert refit.main(arguments) == 2
    assert f"{tmp_path / missing} is missing" in capsys.readouterr().err


def test_steps_are_listed_with_what_they_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert refit.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(refit.STEPS)
    assert lines[0].split() == ["bridge-embedded", "quality", "bridge/bridge.safetensors"]
    assert refit.main([]) == 2
