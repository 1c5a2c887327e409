"""Tests of completion in a shell, by the shell: values of options and arguments from the catalog, and nothing that harms."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.cli import command, environment, run_here
from tests.support.home import settings_for

from lodestone.catalog.known_names import known_names
from lodestone.catalog.use_records import QueryRecord
from lodestone.home.runtime import Runtime

QUERY = "3f2a0000-0000-4000-8000-00000000000a"
HOSTILE = "5c2a0000-0000-4000-8000-00000000000d"
OTHER = "77aa0000-0000-4000-8000-00000000000b"
PICTURE = "0b1c0000-0000-5000-8000-00000000000c"
SLOW = {"sqlalchemy", "numpy", "httpx", "torch", "ray"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    with Runtime.open(settings_for(folder)) as runtime:
        runtime.home.prepare()
        catalog = runtime.catalog
        for name in ("family", "family album", "press"):
            corpus = catalog.ensure_corpus(name)
        catalog.ensure_root(corpus.corpus_id, str(folder / "bad\x1b[31m"))
        root = catalog.ensure_root(corpus.corpus_id, str(folder / "Pictures"))
        for query in (QUERY, OTHER):
            catalog.add_query(QueryRecord(query, datetime.now(UTC), "words", "two dogs", None, {}, b""), keep=10)
        path = runtime.home.path
    row = (PICTURE, corpus.corpus_id, root.root_id, "a dog.jpg", "0" * 64, 1, 1, "active", 1, 1, "JPEG")
    names = "image_id, corpus_id, root_id, uri, hash, size, mtime_ns, state, width, height, format"
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection, connection:
        connection.execute(f"INSERT INTO images ({names}) VALUES ({', '.join('?' * len(row))})", row)
    return path


def completed(home: Path, words: list[str], **more: str) -> list[str]:
    """What bash offers for the last word, by the script that `lodestone completion bash` prints."""
    script = 'source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _lodestone_completion lodestone; '
    script += 'printf "%s\\n" "${COMPREPLY[@]}"'
    folder = home.parent / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "lodestone"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lodestone_cli "$@"\n')
    program.chmod(0o755)
    env = environment(home, **more)
    env["PATH"] = f"{folder}:{env['PATH']}"
    printed = folder / "script"
    printed.write_text(run_here("completion", "bash", home=home).out)
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", str(printed), "lodestone", *words],
        env=env, capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    assert done.stderr == ""
    return [line for line in done.stdout.split("\n") if line]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["compl"], ["completion"]),
        (["search", "--corpus", ""], ["family", r"family\ album", "press"]),
        (["search", "--root", ""], ["Pictures"]),
        (["corpus", "remove", "p"], ["press"]),
        (["explain", "3f"], [QUERY[:8]]),
        (["explain", QUERY[:12]], [QUERY]),
        (["search", "--profile", "embedded-l"], ["embedded-large"]),
        (["config", "show", "index.work"], ["index.workers"]),
        (["similar", "0b"], [PICTURE]),
        (["similar", ""], []),  # files, by bash itself
    ],
)
def test_bash_completes_values(home: Path, words: list[str], offered: list[str]) -> None:
    assert sorted(completed(home, words)) == sorted(offered)


def test_bash_completes_nothing_where_there_is_no_home_or_the_service_is_elsewhere(home: Path, tmp_path: Path) -> None:
    assert completed(home, ["search", "--corpus", ""], LODESTONE_HOME=str(tmp_path / "none")) == []
    assert completed(home, ["search", "--corpus", ""], LODESTONE_URL="http://127.0.0.1:9") == []
    assert not (tmp_path / "none").exists()
    elsewhere = completed(home, ["search", "--home", str(home), "--corpus", "pr"], LODESTONE_HOME=str(tmp_path / "none"))
    assert elsewhere == ["press"]


def test_names_are_read_without_anything_slow(home: Path) -> None:
    line = "lodestone search --corpus fa"
    shell = {"_LODESTONE_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(line.split()), "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command()[1:]],
        env=environment(home, **shell), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.split("\n")[:2] == ["family", r"family\ album"]
    assert not {entry.rpartition("|")[2].strip() for entry in done.stderr.splitlines()} & SLOW


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_have_scripts_too(home: Path, shell: str) -> None:
    assert f"complete_{shell}" in run_here("completion", shell, home=home).out


def test_names_are_known_with_remarks_and_a_broken_catalog_knows_none(home: Path, tmp_path: Path) -> None:
    assert known_names(home / "catalog.sqlite", "picture", "0b") == [(PICTURE, "a dog.jpg")]
    assert [name for name, _ in known_names(home / "catalog.sqlite", "query", "")] == [OTHER, QUERY]  # the newest first
    assert known_names(tmp_path / "none.sqlite", "picture", "0") == []
    (tmp_path / "broken.sqlite").write_bytes(b"not a database" * 99)
    assert known_names(tmp_path / "broken.sqlite", "corpus", "") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("explain 5c", f"{HOSTILE[:8]}:a   (touch harmed)  b  c   touch harmed  it s"),
        ("search --corpus e", r"evil\$(touch harmed)\`touch harmed`"),
    ],
)
def test_zsh_runs_nothing_that_stands_in_a_name_or_in_the_words_of_a_query(tmp_path: Path, words: str, kept: str) -> None:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.home.prepare()
        runtime.catalog.ensure_corpus(r"evil\$(touch harmed)\`touch harmed`")
        text = r"""a \$(touch harmed) [b] c \`touch harmed` it's"""
        runtime.catalog.add_query(QueryRecord(HOSTILE, datetime.now(UTC), "words", text, None, {}, b""), keep=10)
        home = runtime.home.path
    shell = {"_LODESTONE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"lodestone {words}"}
    offered = subprocess.run(command(), env=environment(home, **shell), capture_output=True, text=True, check=True)
    # As `_arguments` of zsh 5.9 does it. Quoting in double and in single quotes is the same in bash.
    script = (
        """_arguments() { local inner="${1#'*: :(('}"; eval "offered=( ${inner%))} )"; printf '%s\\n' "${offered[@]}"; }; """
    )
    script += 'eval "$1"'
    taken = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", offered.stdout], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert taken.stdout == f"{kept}\n"
    assert not (tmp_path / "harmed").exists()


def test_some_settings_are_shown_alone(home: Path) -> None:
    shown = run_here("config", "show", "index.work", "-o", "json", home=home).json

    assert list(shown) == ["index.workers"]
    refused = run_here("config", "show", "indexx", home=home)
    assert refused.code == 3
    assert "no setting's name begins with 'indexx'" in refused.err
