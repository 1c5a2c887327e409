"""Tests of file names as people see them, and as programs get them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lodestone.sources.uris import uri_of
from lodestone_cli.file_names import brief_path, name_of, path_fields, shown_name

ODD = [b"two\nlines.jpg", b"caf\xe9.jpg", b"\x1b[31mred.jpg", "it's\tback\\slash \u202egpj.exe".encode()]


@pytest.mark.parametrize("name", ["/home/ann/a cat's photo.jpg", "/bilder/über größe 猫.jpg"])
def test_usual_names_are_shown_as_they_are(name: str) -> None:
    assert shown_name(name) == name


@pytest.mark.parametrize("name", ODD)
def test_a_shell_reads_a_quoted_name_as_the_file_and_a_terminal_shows_all_of_it(name: bytes) -> None:
    shown = shown_name(os.fsdecode(name))

    assert shown.isprintable()
    assert subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True).stdout == name


def test_programs_get_the_name_whole_whatever_its_encoding() -> None:
    assert path_fields("/p/two\nlines.jpg") == {"path": "/p/two\nlines.jpg"}
    assert path_fields(os.fsdecode(b"/p/caf\xe9.jpg")) == {"path_url": "file:///p/caf%E9.jpg"}
    assert path_fields(None) == {}


@pytest.mark.parametrize("name", [*ODD, b"plain.jpg", b"100%.jpg"])
def test_the_name_on_disk_is_shown_and_not_its_encoding(name: bytes) -> None:
    if b"/" not in name:
        assert os.fsencode(name_of(uri_of(os.fsdecode(name)))) == name


@pytest.mark.parametrize(
    ("path", "brief"),
    [
        ("here/2024/a b.jpg", "2024/a b.jpg"),  # below the working folder: any name
        ("a.jpg", "~/a.jpg"),
        ("2024/a.jpg", "~/2024/a.jpg"),
        ("a b.jpg", None),  # in quotes a shell would not read `~`
        ("../elsewhere/a.jpg", None),
    ],
)
def test_a_path_is_shown_as_it_may_be_typed_here(
    path: str, brief: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    (own / "here").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.chdir(own / "here")
    whole = str(tmp_path / "elsewhere" / "a.jpg") if path.startswith("..") else str(own / path)

    assert brief_path(whole) == (whole if brief is None else brief)
