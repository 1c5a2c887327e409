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
from lodestone.sources.exclusion import CONTROL_FILES, Exclusion
from lodestone.sources.file_kinds import PICTURES, UNFINISHED_ENDINGS, kind_of_file
from lodestone.sources.folders import discover
from lodestone.sources.sidecars import SIDECAR_SUFFIXES

BURST: Final = 500  # with more changed paths than this, the whole directory is scanned


def concerns(root: Path, path: Path, exclusion: Exclusion | None = None) -> bool:
    """Return whether a change at `path` can matter to the pictures below `root`.

    It is neither hidden, nor unfinished, nor left out by the exclusion; or it decides itself about what is left out.
    """
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        return False
    exclusion = exclusion or Exclusion(str(root))
    if any(part.startswith(".") for part in parts[:-1]):
        return False
    if path.name in CONTROL_FILES:  # its folder may be left out by it, so the folder around is asked
        return not exclusion.of("/".join(parts[:-2])).reason
    if path.name.startswith(".") or path.name.lower().endswith(UNFINISHED_ENDINGS):
        return False
    return not exclusion.leaves_out("/".join(parts))


def to_index(root: Path, changed: Iterable[Path], *, burst: int = BURST, exclusion: Exclusion | None = None) -> tuple[str, ...]:
    """Return what to index for paths below `root` that changed; empty when indexing cannot help.

    The disk is read. For a folder without pictures, the nearest folder around it that has some is scanned. Where the whole
    directory has none, nothing is returned: its indexed pictures stay until it is removed.
    """
    exclusion = exclusion or Exclusion(str(root))
    paths = [path for path in dict.fromkeys(changed) if concerns(root, path, exclusion)]
    if len(paths) > burst:
        return (str(root),) if _has_pictures(root, root, exclusion) else ()
    wanted: dict[Path, None] = {}
    for path in paths:
        scope = _scope(root, path, exclusion)
        if scope is not None:
            wanted[scope] = None
    return outermost([str(path) for path in wanted])


def _scope(root: Path, path: Path, exclusion: Exclusion) -> Path | None:
    if path.is_dir():
        return path if _has_pictures(path, root, exclusion) else None
    if path.exists() and kind_of_file(path) == PICTURES:
        return path
    if path.exists() and path.suffix.lower() not in SIDECAR_SUFFIXES and path.name not in CONTROL_FILES:
        return None
    folder = path.parent
    while folder != root and not _has_pictures(folder, root, exclusion):
        folder = folder.parent
    return folder if _has_pictures(folder, root, exclusion) else None


def _has_pictures(folder: Path, root: Path, exclusion: Exclusion) -> bool:
    prefix = "" if folder == root else folder.relative_to(root).as_posix()
    try:
        found = discover(folder, exclusion=exclusion, prefix=prefix) if os.path.isdir(folder) else iter(())  # noqa: PTH112
        return next(found, None) is not None
    except OSError:
        return False
