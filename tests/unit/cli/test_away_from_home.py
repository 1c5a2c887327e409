"""Without `--local`, no command makes or changes a home here while LODESTONE_URL names a service elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.pictures import write_photos

URL = "http://127.0.0.1:9"  # nothing answers there

WRITING = [
    ("index", "{pictures}"),
    ("watch",),
    ("runs", "retry-failed"),
    ("train", "bridge", "--corpus", "a"),
    ("train", "complexity"),
    ("train", "weights"),
    ("models", "swap", "--space", "bridge", "--to", "x"),
    ("backup", "create", "{away}"),
    ("backup", "restore", "{away}"),
    ("catalog", "rebuild"),
    ("duplicates", "find"),
    ("embeddings", "compact"),
    ("verify", "--repair"),
    ("keys", "create", "a"),
    ("keys", "revoke", "a"),
    ("keys", "rotate", "a"),
    ("tags", "undo", "--since", "1d"),
    ("trust", "reset"),
    ("generator", "enable", "exemplar"),
]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_changes_a_home_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 1)
    home = tmp_path / "home"
    given = [word.format(pictures=tmp_path / "pictures", away=tmp_path / "away") for word in words]
    done = run_here(*given, home=home, LODESTONE_URL=URL)
    assert done.code == 2, done.err
    assert "LODESTONE_URL" in done.err, done.err
    assert URL in done.err
    assert "hint:" in done.err
    assert not home.exists(), "nothing is made"


@pytest.mark.parametrize(
    "words", [("directory", "add", "{pictures}"), ("corpus", "rename", "a", "b"), ("search", "a")], ids=str
)
def test_what_can_go_through_the_service_does_and_makes_nothing_here(words: tuple[str, ...], tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 1)
    home = tmp_path / "home"
    done = run_here(*[word.format(pictures=tmp_path / "pictures") for word in words], home=home, LODESTONE_URL=URL)
    assert done.code == 8, done.err  # it does not answer
    assert not home.exists()


def test_with_local_the_home_here_is_meant(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 2)
    done = run_here("index", "--local", tmp_path / "pictures", home=tmp_path / "home", LODESTONE_URL=URL)
    assert done.code == 0, done.err
    assert (tmp_path / "home" / "home.json").exists()


def test_an_empty_variable_names_no_service(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 1)
    assert run_here("index", tmp_path / "pictures", home=tmp_path / "home", LODESTONE_URL="").code == 0
