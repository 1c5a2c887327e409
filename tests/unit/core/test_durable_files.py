"""A file is either as it was or as it was meant to be, whatever stops the writer."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lodestone.durable_files import MOST_BYTES, read_small_text, sync_tree, write_atomically


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_atomically(path, "old")
    write_atomically(path, "new ü")
    assert path.read_text("utf-8") == "new ü"
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert [entry.name for entry in tmp_path.iterdir()] == ["facts.json"]


def test_a_small_file_is_read_whole_and_nothing_else_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_atomically(path, "ü" * (MOST_BYTES // 2))
    assert read_small_text(path) == "ü" * (MOST_BYTES // 2)
    next_descriptor = _next_descriptor()
    with path.open("ab") as file:
        file.write(b"a")
    with pytest.raises(ValueError, match="has more than"):
        read_small_text(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="utf-8"):
        read_small_text(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_small_text(path)
    path.mkdir()
    with pytest.raises(ValueError, match="no regular file"):
        read_small_text(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="no regular file"):
        read_small_text(path)  # and does not wait for a writer
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="no regular file"):
        read_small_text(path)
    assert _next_descriptor() == next_descriptor, "none is left open"


def _next_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_a_secret_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    replace = Path.replace

    def renamed(self: Path, target: Path) -> Path:
        modes.append(self.stat().st_mode & 0o777)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", renamed)
    write_atomically(tmp_path / "token", "secret", mode=0o600)
    assert modes == [0o600]


def test_a_failed_attempt_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "facts.json"
    write_atomically(path, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["facts.json"]


def test_a_copied_tree_is_synced_to_the_last_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shard" / "segments").mkdir(parents=True)
    for name in ("shard/a", "shard/segments/b"):
        (tmp_path / name).write_bytes(b"x")
    inodes: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: inodes.add(os.fstat(handle).st_ino))
    sync_tree(tmp_path)
    assert inodes == {entry.stat().st_ino for entry in (tmp_path, *tmp_path.rglob("*"))}
