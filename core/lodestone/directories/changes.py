"""Choice of the paths to index after some files changed: as few and as small as possible.

A new or changed picture is indexed alone. A picture that vanished or was renamed is found by scanning the folder that held it;
a sidecar's captions likewise. After a burst the whole directory is scanned, because single events may have been lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lodestone.directories.queue import outermost
from lodestone.sources.folders import SKIPPED_FOLDERS, discover, is_picture_name

BURST: Final = 500  # with more changed paths than this, the whole directory is scanned
_UNFINISHED: Final = ("~", ".tmp", ".part", ".partial", ".crdownload", ".download")  # what browsers and tools still write to
_SIDECAR: Final = ".txt"


def concerns(root: Path, path: Path) -> bool:
    """Return whether a change at `path` can matter to the pictures below `root`: it is neither hidden nor unfinished."""
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        return False
    if any(part.startswith(".") or part in SKIPPED_FOLDERS for part in parts):
        return False
    return not path.name.lower().endswith(_UNFINISHED)


def to_index(root: Path, changed: Iterable[Path], *, burst: int = BURST) -> tuple[str, ...]:
    """Return what to index for paths below `root` that changed; empty when indexing cannot help.

    The disk is read. For a folder without pictures, the nearest folder around it that has some is scanned. Where the whole
    directory has none, nothing is returned: its indexed pictures stay until it is removed.
    """
    paths = [path for path in dict.fromkeys(changed) if concerns(root, path)]
    if len(paths) > burst:
        return (str(root),) if _has_pictures(root) else ()
    wanted: dict[Path, None] = {}
    for path in paths:
        scope = _scope(root, path)
        if scope is not None:
            wanted[scope] = None
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
