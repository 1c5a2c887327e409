"""Tests of tables on terminals and in pipes: no row is folded, cut or padded where nobody has a width."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from tests.support.cli import run_here
from tests.support.documents import ROOT
from tests.support.home import settings_for

from lodestone.home.runtime import Runtime
from lodestone_cli.terminal.console import UNLIMITED, output_console, print_table, text_width

LONG = "a long journey along the coast of Cornwall with the children, both grandmothers and the dog of the neighbours, in May"
CLI = ROOT / "cli" / "lodestone_cli"


def table() -> Table:
    made = Table(box=None, pad_edge=False)
    made.add_column("name", overflow="fold")
    made.add_column("path", overflow="ellipsis")
    made.add_row(LONG, f"/p/{LONG}")
    made.add_row("short", "/p/short")
    return made


def test_every_row_is_one_line_without_filling_spaces_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(output_console(), table())

    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "path"], [*LONG.split(), *f"/p/{LONG}".split()], ["short", "/p/short"]]
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.usefixtures("capsys")
@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("", UNLIMITED), ("wide", UNLIMITED)])
def test_a_pipe_has_the_width_that_columns_asks_for_and_no_other(monkeypatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert output_console().width == width


@pytest.mark.usefixtures("capsys")
def test_colours_that_are_forced_into_a_pipe_do_not_give_it_a_width(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = output_console()
    assert (console.width, text_width(console, 80)) == (UNLIMITED, UNLIMITED)


def test_a_terminal_folds_rows_and_running_text_as_before() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=True, color_system=None, soft_wrap=True)
    print_table(console, table())

    assert max(map(len, out.getvalue().splitlines())) <= 60
    assert len(out.getvalue().splitlines()) > 3
    assert (text_width(console, 80), text_width(console, 40)) == (60, 40)


def test_no_command_builds_a_console_of_its_own() -> None:
    built = [
        f"{path.relative_to(CLI)}: {line.strip()}"
        for path in CLI.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if "Console(" in line.replace("_console(", "") and path.name != "console.py"
    ]
    assert built == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.home.prepare()
        return runtime.home.path


def test_the_list_of_directories_keeps_names_and_paths_whole_in_a_pipe(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / LONG
    folder.mkdir()
    added = run_here("directory", "add", folder, "--no-index", "--corpus", "family", home=home)
    assert added.code == 0, added.err

    head, row = run_here("directory", "list", home=home, COLUMNS="").out.splitlines()
    assert head.split() == ["directory", "pictures", "waiting", "failed", "state", "path"]
    assert row.startswith("family/") and row.endswith(str(folder))
    assert len(run_here("directory", "list", home=home, COLUMNS="80").out.splitlines()) > 2


def test_the_settings_stand_on_a_line_each_in_a_pipe(home: Path) -> None:
    variable = {"LODESTONE_CATALOG_URL": f"postgresql+psycopg://db.example/{LONG.replace(' ', '-')}"}
    lines = run_here("config", "show", "catalog", home=home, COLUMNS="", **variable).out.splitlines()
    assert [line.split()[0] for line in lines] == ["setting", "catalog_url", "catalog_connections", "settings"]
    assert variable["LODESTONE_CATALOG_URL"] in lines[1]
