"""Record of disks mounted inside indexed directories: it tells a deleted picture from one whose disk is not mounted.

An unmounted disk leaves an empty folder, or none. Its pictures must not be marked as gone then: a disk that was seen below a
directory (mounted there, or linked to) and is not mounted now keeps its pictures. The record belongs to the machine, not to the
catalog: another machine mounts other disks.

On Linux the mount table says what is mounted (bind mounts are in it, subvolumes are not). Elsewhere a disk begins where the
device number changes.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lodestone.durable_files import write_atomically
from lodestone.sources.base import FoundFile

NAME: Final = "mounts.json"
_TABLE: Final = Path("/proc/self/mountinfo")
_TABLE_SECONDS: Final = 1.0  # for which a reading of the table stays valid
_LOCK_SECONDS: Final = 10.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Mounts:
    """Folders of indexed directories that lie on separate disks.

    Attributes:
        record: File that stores them; None to keep them in memory only.
    """

    record: Path | None = None
    _points: dict[str, str] = field(default_factory=dict)  # folder -> where its disk is mounted
    _table: frozenset[str] | None = None
    _table_read_at: float | None = None

    def __post_init__(self) -> None:
        try:
            self._points = self._recorded()
        except OSError as error:
            _log.warning("which disks were seen below directories could not be read from %s: %s", self.record, error)

    def watching(self, files: Iterable[FoundFile], top: Path, *, around: Path) -> Iterator[FoundFile]:
        """Yield the files below `top` and note the disks that they lie on; at the end the record is written.

        Args:
            files: Files as `discover` yields them.
            top: A directory, or a part of one.
            around: The directory that contains `top`, or `top` itself.
        """
        before = dict(self._points)
        self._table_read_at = None
        real = os.path.realpath(top)
        own = self._point_of(real)
        # If all of `top` lies on the missing disk, the run is refused, so it is noted only for a directory inside another.
        if own == real or own != self._point_of(os.path.realpath(around)):
            self._note(str(top), own)
        last = str(top)
        for file in files:
            folder = os.path.dirname(file.locator)  # noqa: PTH120 - many files
            if folder != last and file.locator != str(top):
                last = folder
                self._note_disk_of(folder, own)
            yield file
        noted = {folder: point for folder, point in self._points.items() if before.get(folder) != point}
        if noted:
            self._change(lambda points: points.update(noted))

    def missing(self, path: Path) -> str | None:
        """Return the mount point of the disk that `path` lay on, if that disk is not mounted now."""
        if not self._points:
            return None
        for folder in (str(path), *map(str, path.parents)):
            point = self._points.get(folder)
            if point is not None and not self._is_mounted(point):
                return point
        return None

    def forget(self, top: Path, *, others: Iterable[Path] = ()) -> None:
        """Forget the disks below a removed directory, except those at, above or below one of the `others`."""
        kept = list(others)

        def change(points: dict[str, str]) -> None:
            for folder in [Path(folder) for folder in points]:
                if _is_around(top, folder) and not any(_is_around(k, folder) or _is_around(folder, k) for k in kept):
                    del points[str(folder)]

        if self._points:
            change(self._points)
            self._change(change)

    def _note_disk_of(self, folder: str, own: str) -> None:
        """Note the outermost folder above `folder` that is on the same disk, if that is not the directory's own disk."""
        point = self._point_of(os.path.realpath(folder))
        if point == own:
            return
        while (parent := os.path.dirname(folder)) != folder:  # noqa: PTH120
            if self._points.get(folder) == point:
                return
            if self._point_of(os.path.realpath(parent)) != point:
                break
            folder = parent
        self._note(folder, point)

    def _note(self, folder: str, point: str) -> None:
        if os.path.dirname(point) != point:  # noqa: PTH120 - the root directory is always mounted
            self._points[folder] = point

    def _mounted(self) -> frozenset[str] | None:
        """Return the mount points, read at most a second ago; None where the system does not tell."""
        if self._table_read_at is None or time.monotonic() - self._table_read_at > _TABLE_SECONDS:
            self._table = _mount_points()
            self._table_read_at = time.monotonic()
        return self._table

    def _point_of(self, real: str) -> str:
        """Return the mount point of the disk that a path without links lies on."""
        table = self._mounted()
        device = _device(real) if table is None else None
        if table is None and device is None:
            return os.path.abspath(os.sep)  # noqa: PTH100
        while (parent := os.path.dirname(real)) != real:  # noqa: PTH120
            if real in table if table is not None else _device(parent) != device:
                break
            real = parent
        return real

    def _is_mounted(self, point: str) -> bool:
        table = self._mounted()
        if table is not None:
            return point in table
        device = _device(point)
        return device is not None and device != _device(os.path.dirname(point))  # noqa: PTH120

    def _recorded(self) -> dict[str, str]:
        """Return the content of the record file; empty where there is none or it is unusable."""
        if self.record is None:
            return {}
        try:
            known = json.loads(self.record.read_text("utf-8"))
            return {str(folder): str(point) for folder, point in known.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:  # written anew as disks are seen
            _log.warning("which disks were seen below directories could not be read from %s: %s", self.record, error)
            return {}

    def _change(self, change: Callable[[dict[str, str]], None]) -> None:
        """Apply a change to the record file as it is now: another run may have written it meanwhile."""
        if self.record is None:
            return
        from filelock import FileLock

        try:
            with FileLock(self.record.with_name(f".{self.record.name}.lock"), timeout=_LOCK_SECONDS):
                points = self._recorded()
                change(points)
                write_atomically(self.record, json.dumps(points, indent=1, sort_keys=True))
        except OSError as error:  # indexing goes on: the next run notes them again
            _log.warning("which disks were seen below directories could not be written to %s: %s", self.record, error)


def vanished(path: Path) -> bool:
    """Return whether nothing exists at the path.

    A path that cannot be examined (permissions, a sleeping disk) has not vanished.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_around(folder: Path, path: Path) -> bool:
    return folder == path or folder in path.parents


def _mount_points() -> frozenset[str] | None:
    """Return the mount points as Linux lists them (man 5 proc); None elsewhere.

    Mounts that wait to be used first are left out.
    """
    try:
        lines = _TABLE.read_bytes().splitlines()
    except OSError:
        return None
    points = set[str]()
    for line in lines:
        mount, _, remainder = line.partition(b" - ")
        if not remainder.startswith(b"autofs "):
            point = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), mount.split(b" ")[4])
            points.add(os.fsdecode(point))
    return frozenset(points)


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev  # noqa: PTH116 - follows links
    except OSError:
        return None
