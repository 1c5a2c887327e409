"""Tests of the command line as a whole: usage hints, the names of options in messages, and shell completion."""

from __future__ import annotations

import io
import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from tests.support.cli import command, environment, run_here
from tests.support.home import settings_for

from lodestone.errors import DeadlineExceededError
from lodestone.home.runtime import Runtime
from lodestone_cli import main
from lodestone_cli.file_names import inert_json
from lodestone_cli.home_client import HomeClient
from lodestone_cli.main import COMMANDS, GROUPS, HEADINGS
from lodestone_cli.naming import local_time
from lodestone_cli.options import as_options
from lodestone_serve.auth.authentication import KEY_HEADER


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.home.prepare()
        return runtime.home.path


def test_a_picture_that_is_neither_a_file_nor_an_id_is_told_where_ids_are(home: Path) -> None:
    for arguments in (
        ("similar", "IMAGE_ID"),
        ("search", "dogs", "--like", "IMAGE_ID"),
        ("search", "dogs", "--unlike", "IMAGE_ID"),
    ):
        told = run_here(*arguments, home=home)
        assert (told.code, "'IMAGE_ID'" in told.err) == (3, True), told.err
        assert '"image_id" in lodestone search -o json' in told.err


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


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("search", "say what to look for, in words or by a picture: two dogs on a beach, or --like photo.jpg"),
        ("similar", "IMAGE is missing: a picture file, or the name or id of an indexed one"),
        ("eval must", "DATASET is missing: "),
        ("search dogs -o xml", "--output is human, json or yaml, not 'xml'"),
        ("search dogs --pictures ascii", "--pictures is auto, kitty, sixel, iterm2, blocks or none, not 'ascii'"),
        ("search dogs -n 0", "--limit must be at least 1"),
        ("search dogs -n 1000", "--limit must be at most 200"),
        ("search dogs -n x", "--limit must be a whole number"),
        ("search dogs --budget x", "--budget must be a number"),
        ("search --corpus", "--corpus needs a value"),
        ("search dogs --gate=1", "option '--gate' does not take a value"),
        ("search dogs --nonsense", "no such option: --nonsense"),
        ("runs show a b c", "too much is given: b c"),
        ("runs lst", "no such command 'lst'. Did you mean 'list'?"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(line: str, sentence: str, tmp_path: Path) -> None:
    done = run_here(*line.split(), home=tmp_path)

    assert done.code == 2
    assert done.err.splitlines()[0].startswith(f"error [usage]: {sentence}")
    assert done.err.splitlines()[1].startswith(f"  hint: lodestone {line.split(maxsplit=1)[0]}")
    told = run_here(*line.split(), "--output=json", home=tmp_path).err if "-o xml" not in line else ""
    assert not told or json.loads(told)["error"]["code"] == "usage"


@pytest.mark.parametrize("group", ["", "backup", "eval", "tags"])
def test_a_bare_group_prints_its_help_and_no_error(group: str, tmp_path: Path) -> None:
    done = run_here(*group.split(), home=tmp_path)

    assert "Usage:" in done.out + done.err
    assert "error" not in done.err


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
    assert not loaded & {"sqlalchemy", "numpy", "httpx", "torch", "ray", "lodestone_cli.commands.evaluation.rankings"}


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


@pytest.mark.parametrize("form", ["human", "json"])
def test_a_problem_that_another_service_words_does_nothing_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, home: Path, form: str
) -> None:
    hostile = "no \x1b]0;title\x07\x9b31m\u202egpj.exe"

    def search(*_: Any) -> None:
        raise DeadlineExceededError(hostile, hint=hostile)

    monkeypatch.setattr(HomeClient, "search", search)
    done = run_here("search", "dogs", "-o", form, home=home)

    assert "no " in done.err
    assert "".join(done.err.splitlines()).isprintable()


def test_names_in_json_are_whole_and_do_nothing_to_the_terminal() -> None:
    document = json.dumps({"uri": "C1\x9b31m \u202egpj.exe über 猫"}, ensure_ascii=False)

    assert inert_json(document).isprintable()
    assert json.loads(inert_json(document)) == json.loads(document)
    assert "über 猫" in inert_json(document)


def test_a_hint_at_headers_becomes_one_at_the_variable_that_holds_the_key() -> None:
    hint = as_options(f"Authorization: Bearer …, or {KEY_HEADER}: …")
    assert hint.startswith("set LODESTONE_API_KEY to a key of that service")
    assert "Bearer" not in hint


def test_every_command_stands_below_one_heading_of_the_help() -> None:
    listed = [name for names in HEADINGS.values() for name in names]
    assert sorted(listed) == sorted([*COMMANDS, *GROUPS])


def test_the_help_begins_with_what_finds_pictures(home: Path) -> None:
    told = run_here("--help", home=home).out
    places = [told.index(f"─ {heading} ─") for heading in HEADINGS]
    assert places == sorted(places)


def test_help_texts_lose_no_words_to_markup() -> None:
    main._load_commands()
    texts: list[str] = []

    def read(command: Any) -> None:
        texts.extend(filter(None, [command.help, *(getattr(one, "help", None) for one in command.params)]))
        for one in getattr(command, "commands", {}).values():
            read(one)

    read(typer.main.get_command(main.app))
    assert len(texts) > 300
    assert [text for text in texts if Text.from_markup(text).plain != text] == []
