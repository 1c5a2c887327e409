"""Is a picture gone, or is the disk away that it lies on? Other disks inside a directory are remembered when they are seen.

An unmounted disk leaves an empty folder, or none. What lay on it must not be called gone then: a disk that was seen below a
directory (mounted there, or linked to) and is not mounted now keeps its pictures. The record is the machine's, not the
catalog's: another machine mounts other disks.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lodestone.sources.base import FoundFile

NAME: Final = "mounts.json"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Mounts:
    """Folders of indexed directories that lie on disks of their own.

    Attributes:
        record: File that remembers them; None: this object alone does.
    """

    record: Path | None = None
    _points: dict[str, str] = field(default_factory=dict)  # folder -> where its disk is mounted
    _folders: dict[str, int] = field(default_factory=dict)  # folders looked at in this run -> device

    def __post_init__(self) -> None:
        if self.record is None:
            return
        try:
            known = json.loads(self.record.read_text("utf-8"))
            self._points.update({str(folder): str(point) for folder, point in known.items()})
        except FileNotFoundError:
            return
        except (OSError, ValueError, AttributeError) as error:  # written anew as disks are seen
            _log.warning("which disks were seen below directories could not be read from %s: %s", self.record, error)

    def watching(self, files: Iterable[FoundFile], top: Path) -> Iterator[FoundFile]:
        """The files below `top`, noting the disks that they lie on; written down at the end."""
        self._folders.clear()
        before = dict(self._points)
        own = _device(str(top))
        real = os.path.realpath(top)
        if own is not None and _top_of(real, own) == real:  # around it: an unmounted disk takes all of `top` with it
            self._note(str(top), own)
        for file in files:
            if file.inode[0] != own:
                folder = os.path.dirname(file.locator)  # noqa: PTH120 - many files
                if folder not in self._folders:
                    device = _device(folder)
                    self._folders[folder] = -1 if device is None else device
                    if device is not None and device == file.inode[0]:
                        self._note(_top_of(folder, device), device)
            yield file
        if self._points != before:
            self._write()

    def missing(self, path: Path) -> str | None:
        """Where the disk is to be mounted that `path` lay on, if it is not mounted now."""
        if not self._points:
            return None
        for folder in (str(path), *map(str, path.parents)):
            point = self._points.get(folder)
            if point is not None and not _is_mounted(point):
                return point
        return None

    def _note(self, folder: str, device: int) -> None:
        point = _top_of(os.path.realpath(folder), device)
        if os.path.dirname(point) != point:  # noqa: PTH120 - the root of all is always mounted
            self._points[folder] = point

    def _write(self) -> None:
        if self.record is None:
            return
        temporary = self.record.with_name(f"{self.record.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(self._points, indent=1), "utf-8")
            temporary.replace(self.record)
        except OSError as error:  # indexing goes on: the next run notes them again
            _log.warning("which disks were seen below directories could not be written to %s: %s", self.record, error)
            temporary.unlink(missing_ok=True)


def _top_of(folder: str, device: int) -> str:
    """The outermost folder around this one, itself included, that lies on the device."""
    while (parent := os.path.dirname(folder)) != folder and _device(parent) == device:  # noqa: PTH120
        folder = parent
    return folder


def _is_mounted(point: str) -> bool:
    device = _device(point)
    return device is not None and device != _device(os.path.dirname(point))  # noqa: PTH120


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev  # noqa: PTH116 - follows links
    except OSError:
        return None
