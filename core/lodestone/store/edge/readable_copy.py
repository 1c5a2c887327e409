"""Temporary copy of an embedded store that cannot be written, for reading: the engine writes into the files that it opens.

A home on a full disk, on a read-only one or of another user can be searched in this way. The copy keeps the holes of the
engine's sparse files, and lies in the system's folder for temporary files until the store is closed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from lodestone.errors import LodestoneError, StoreError
from lodestone.processes import sweep_folders
from lodestone.store.files import is_out_of_space, out_of_space, require_space

_PREFIX: Final = "lodestone-store-"
_PIECE: Final = 1 << 20
_SKIPPED: Final = (".trash-", ".new-")


def readable_copy(root: Path, collections: str) -> Path:
    """Copy the collections of a store into a new temporary folder, and return it. Copies of processes that ended are removed.

    Args:
        root: Directory of the store; nothing in it is changed.
        collections: Name of the folder with the collections.

    Raises:
        OutOfSpaceError: the temporary folder has no room for it.
        OSError: a file cannot be read.
    """
    sweep_folders(_PREFIX)
    copy = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    files = [path for path in (root / collections).rglob("*") if path.is_file() and not _is_skipped(path)]
    try:
        require_space(copy, sum(path.stat().st_blocks * 512 for path in files))
        for path in files:
            target = copy / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_sparse(path, target)
    except BaseException as error:
        shutil.rmtree(copy, ignore_errors=True)
        if isinstance(error, OSError) and is_out_of_space(error):
            raise out_of_space(copy) from error
        raise
    return copy


def unwritable(root: Path, error: LodestoneError | OSError) -> LodestoneError:
    """Return the error of a store that cannot be written."""
    if isinstance(error, LodestoneError):
        return error
    if is_out_of_space(error):
        return out_of_space(root)
    return StoreError(
        f"the vector store in {root} cannot be written: {error.strerror or error}",
        hint="see that the home is not on a read-only disk, and that you may write in it",
    )


def _is_skipped(path: Path) -> bool:
    return any(part.startswith(_SKIPPED) for part in path.parts)


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without its holes, which the copy has too."""
    with source.open("rb") as reading, target.open("wb") as writing:
        while piece := reading.read(_PIECE):
            if piece.count(0) == len(piece):
                writing.seek(len(piece), os.SEEK_CUR)
            else:
                writing.write(piece)
        writing.truncate(source.stat().st_size)
