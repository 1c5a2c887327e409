"""Which paths have to be indexed after some files changed? As few and as small as will do.

A new or changed picture is looked at alone. What vanished or was renamed is noticed by looking through the folder that held it;
a sidecar's captions likewise. After a burst the whole directory is looked through: single events may have been lost then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lodestone.directories.queue import outermost
from lodestone.sources.folders import SKIPPED_FOLDERS, discover, is_picture_name

BURST: Final = 500  # changed paths from which on the whole directory is looked through
_UNFINISHED: Final = ("~", ".tmp", ".part", ".partial", ".crdownload", ".download")  # what browsers and tools still write to
_SIDECAR: Final = ".txt"


def concerns(root: Path, path: Path) -> bool:
    """Whether what happened at `path` can matter to the pictures below `root`: it is not hidden, and not half written."""
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        return False
    if any(part.startswith(".") or part in SKIPPED_FOLDERS for part in parts):
        return False
    return not path.name.lower().endswith(_UNFINISHED)


def to_index(root: Path, changed: Iterable[Path], *, burst: int = BURST) -> tuple[str, ...]:
    """What to index for paths below `root` that changed in some way; empty when nothing can be done about them.

    Reads the disk. A folder that has no pictures left is looked through from the next folder around it that has some; where
    the whole directory has none, nothing is returned: what was indexed from it stays until it is removed.
    """
    paths = [path for path in dict.fromkeys(changed) if concerns(root, path)]
    if len(paths) > burst:
        return (str(root),) if _has_pictures(root) else ()
    wanted: dict[Path, None] = {}
    for path in paths:
        found = _scope(root, path)
        if found is not None:
            wanted[found] = None
    return outermost([str(path) for path in wanted])


def _scope(root: Path, path: Path) -> Path | None:
    if path.is_dir():
        return path if _has_pictures(path) else None
    if is_picture_name(path.name) and path.exists():
        return path
    if path.exists() and path.suffix.lower() != _SIDECAR:
        return None
    folder = path.parent
    while folder != root and not _has_pictures(folder):
        folder = folder.parent
    return folder if _has_pictures(folder) else None


def _has_pictures(folder: Path) -> bool:
    try:
        return next(discover(folder), None) is not None if os.path.isdir(folder) else False  # noqa: PTH112
    except OSError:
        return False
