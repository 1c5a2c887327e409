"""A real disk that is too small: a tmpfs whose size tests change, in a mount namespace that dies with its holder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PLENTY = 1 << 30
# Mounts, then sets the size to each number that it reads; a line says how that went.
_HOLDER = """
mount -t tmpfs -o size="$2" tmpfs "$1" && echo done || exit 1
while read size; do mount -o remount,size="$size" "$1" && echo done || echo failed; done
"""
_WAYS = {
    ("unshare", "--mount"): ("--mount",),
    ("unshare", "--map-root-user", "--mount"): ("--user", "--mount", "--preserve-credentials"),
}


@dataclass(frozen=True)
class SmallDisk:
    """A tmpfs at `path`, seen only by commands that are run with `prefix`."""

    path: Path
    prefix: tuple[str, ...]
    holder: subprocess.Popen[str]

    def leave(self, spare: int) -> None:
        """Shrink the disk until `spare` bytes are free."""
        seen = os.statvfs(f"/proc/{self.holder.pid}/root{self.path}")
        self._resize((seen.f_blocks - seen.f_bfree) * seen.f_frsize + spare)

    def grow(self) -> None:
        """Give it plenty of room again."""
        self._resize(_PLENTY)

    def read_only(self) -> None:
        """Let nothing be written on it from now on."""
        self._resize(f"{_PLENTY},ro")

    def _resize(self, size: int | str) -> None:
        assert self.holder.stdin is not None
        self.holder.stdin.write(f"{size}\n")
        self.holder.stdin.flush()
        assert self.said() == "done"

    def said(self) -> str:
        """The holder's next line."""
        assert self.holder.stdout is not None
        return self.holder.stdout.readline().strip()


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk | None]:
    """Mount a disk at `path` (a new folder); None where the system allows no mounts."""
    path.mkdir()
    if not all(shutil.which(name) for name in ("unshare", "nsenter", "mount")):
        yield None
        return
    for way, enter in _WAYS.items():
        holder = subprocess.Popen(
            [*way, "sh", "-c", _HOLDER, "sh", str(path), str(_PLENTY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        disk = SmallDisk(path, ("nsenter", "--target", str(holder.pid), *enter), holder)
        try:
            if disk.said() == "done":
                yield disk
                return
        finally:
            holder.communicate()  # its input ends, so it does, and the disk with it
    yield None
