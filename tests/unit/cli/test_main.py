"""Tests of the command line as a whole: usage hints, the names of options in messages, and shell completion."""

from __future__ import annotations

import io
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import command, environment, run_here
from tests.support.home import settings_for

from lodestone.errors import DeadlineExceededError
from lodestone.home.runtime import Runtime
from lodestone_cli.home_client import HomeClient
from lodestone_cli.naming import local_time
from lodestone_cli.options import as_options


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.home.prepare()
        return runtime.home.path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests that searches make; each of them fails."""
    requests: list[Any] = []

    def search(_: HomeClient, request: Any) -> None:
        requests.append(request)
        raise DeadlineExceededError("the deadline passed", hint="allow more time: deadline_ms")

    monkeypatch.setattr(HomeClient, "search", search)
    return requests


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("search",), "lodestone search --help"),
        (("similar",), "lodestone similar --help"),
        (("search", "dogs", "--nonsense"), "lodestone search --help"),
        (("runs", "list", "--nonsense"), "lodestone runs list --help"),
        (("runs", "lst"), "lodestone runs --help"),
        (("serch",), "lodestone --help"),
    ],
)
def test_a_usage_hint_names_the_command_that_was_typed(arguments: tuple[str, ...], hint: str, tmp_path: Path) -> None:
    done = run_here(*arguments, home=tmp_path)

    assert done.code == 2
    assert done.err.splitlines()[-1] == f"  hint: {hint}"


def test_words_need_no_quotes(home: Path, asked: list[Any]) -> None:
    run_here("search", "two", "dogs", "-n", "3", "on a beach", home=home)

    assert [(request.query, request.limit) for request in asked] == [("two dogs on a beach", 3)]


def test_messages_name_options_and_not_fields_of_the_api(home: Path, asked: list[Any]) -> None:
    late = run_here("search", "dogs", "--deadline", "1", home=home)
    too_long = run_here("search", "dogs", "--deadline", "700000", home=home)

    assert late.err.splitlines()[-1] == "  hint: allow more time: --deadline"
    assert "--deadline: Input should be less than or equal to 600000" in too_long.err
    assert len(asked) == 1
    assert (
        as_options("set query.deadline_ms, or `deadline_ms` of a request")
        == "set query.deadline_ms, or `deadline_ms` of a request"
    )


@pytest.mark.parametrize(
    ("line", "completed"),
    [("lodestone sea", ["search"]), ("lodestone search --cop", ["--copy-to"]), ("lodestone runs ex", ["export-failures"])],
)
def test_a_shell_completes_commands_and_options_and_nothing_slow_is_loaded(
    line: str, completed: list[str], tmp_path: Path
) -> None:
    words = line.split()
    shell = {"_LODESTONE_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [command()[0], "-X", "importtime", *command()[1:]],
        env=environment(tmp_path, **shell),
        capture_output=True,
        text=True,
        check=False,
    )

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout.split() == completed
    assert "typer" in loaded
    assert not loaded & {"sqlalchemy", "numpy", "httpx", "torch", "ray", "lodestone_cli.commands.eval"}


@pytest.mark.parametrize(
    "arguments",
    ["corpus list", "corpus remove x", "runs list", "runs show", "runs cancel", "embeddings show", "embeddings verify", "watch",
     "directory list", "directory remove x", "keys list", "tags list", "duplicates list", "status --failures"],
)  # fmt: skip
def test_a_command_that_only_looks_leaves_no_home_where_none_was(arguments: str, tmp_path: Path) -> None:
    done = run_here(*arguments.split(), home=tmp_path / "mistyped")

    assert done.code in {0, 2, 3}
    assert not (tmp_path / "mistyped").exists()


def test_where_nobody_can_be_asked_the_option_that_answers_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime.open(settings_for(home.parent)) as runtime:
        runtime.catalog.ensure_corpus("family")
    monkeypatch.setattr("sys.stdin", io.StringIO())

    refused = run_here("corpus", "remove", "family", home=home)

    assert refused.code == 2
    assert "nobody can be asked here: Forget 0 pictures of 'family'?" in refused.err
    assert "--yes" in refused.err.splitlines()[-1]
    assert run_here("corpus", "remove", "family", "--yes", home=home).code == 0


def test_a_plan_for_this_machine_counts_its_cores_for_graphs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.models.hardware.cores", lambda: 3)

    here = run_here("plan", "--images", "100000", "-o", "json", home=tmp_path).json["plan"]
    elsewhere = run_here("plan", "--images", "100000", "--qdrant-nodes", "1", "-o", "json", home=tmp_path).json["plan"]

    assert (here["build_cores"], elsewhere["build_cores"]) == (3, 8)


def test_times_are_shown_as_the_clock_on_the_wall_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert local_time(datetime(2026, 5, 1, 20, 30, tzinfo=UTC)) == "2026-05-02 05:30"
    finally:
        monkeypatch.undo()
        time.tzset()
