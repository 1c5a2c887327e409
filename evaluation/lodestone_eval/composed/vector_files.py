"""Readers and writers of vector files: rows of a length and as many 32-bit numbers, floats (`.fvecs`) or integers (`.ivecs`).

The format is that of TEXMEX (corpus-texmex.irisa.fr), little-endian. Rows of an `.ivecs` file may differ in length, as those
of MUST's ground truth do.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError, NotFoundError

_FLOATS: Final = ".fvecs"
_INTEGERS: Final = ".ivecs"
_MOST_COLUMNS: Final = 1 << 20
_HINT: Final = "rows are a 32-bit length and as many 32-bit numbers, floats in .fvecs, integers in .ivecs"


def read_floats(path: Path, *, limit: int | None = None) -> NDArray[np.float32]:
    """Read an `.fvecs` file with rows of one length.

    Args:
        path: The file.
        limit: Most rows to read.

    Returns:
        (n, dim) float32.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: the file is truncated or empty, its rows differ in length, or a number is not finite.
    """
    vectors = np.ascontiguousarray(_uniform(path, limit)).view("<f4").astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(1)))
        raise _damaged(path, f"row {row} holds a number that is not finite")
    return vectors


def read_integers(path: Path, *, limit: int | None = None) -> NDArray[np.int32]:
    """Read an `.ivecs` file with rows of one length: (n, dim) int32. Errors are as for `read_floats`."""
    return _uniform(path, limit).astype(np.int32)


def read_rows(path: Path, *, limit: int | None = None) -> list[NDArray[np.int32]]:
    """Read an `.ivecs` file whose rows may differ in length and may be empty.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: the file is truncated.
    """
    words = _words(path)
    rows: list[NDArray[np.int32]] = []
    place = 0
    while place < len(words) and (limit is None or len(rows) < limit):
        length = int(words[place])
        if not 0 <= length <= _MOST_COLUMNS:
            raise _damaged(path, f"row {len(rows)} claims to hold {length} numbers")
        if place + 1 + length > len(words):
            raise _damaged(path, f"it ends within row {len(rows)}: {length} numbers expected, {len(words) - place - 1} there")
        rows.append(words[place + 1 : place + 1 + length].astype(np.int32))
        place += 1 + length
    return rows


def write_vectors(path: Path, rows: Iterable[NDArray[np.float32] | NDArray[np.integer]]) -> None:
    """Write rows to an `.fvecs` or `.ivecs` file; integers are converted to 32 bits.

    Raises:
        InvalidRequestError: the file's ending is neither, or it cannot be written.
    """
    if path.suffix not in {_FLOATS, _INTEGERS}:
        raise InvalidRequestError(f"{str(path)!r} is no file of vectors", hint="name it .fvecs or .ivecs")
    kind = "<f4" if path.suffix == _FLOATS else "<i4"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            if isinstance(rows, np.ndarray):
                framed = np.empty((len(rows), rows.shape[1] + 1), "<i4")
                framed[:, 0] = rows.shape[1]
                framed[:, 1:] = rows.astype(kind).view("<i4")
                framed.tofile(file)
            else:
                for row in rows:
                    file.write(np.array([len(row)], "<i4").tobytes() + row.astype(kind).tobytes())
    except OSError as error:
        raise InvalidRequestError(
            f"cannot write {str(path)!r}: {error.strerror}", hint="give a prefix in a folder that can be written"
        ) from error


def _uniform(path: Path, limit: int | None) -> NDArray[np.int32]:
    """Return the numbers of a file with rows of one length, as 32-bit words (n, dim)."""
    words = _words(path)
    if not len(words):
        raise _damaged(path, "it is empty")
    length = int(words[0])
    if not 0 < length <= _MOST_COLUMNS:
        raise _damaged(path, f"row 0 claims to hold {length} numbers")
    whole, rest = divmod(len(words), length + 1)
    lengths = words[:: length + 1][:whole]
    if (lengths != length).any():
        row = int(np.argmax(lengths != length))
        raise _damaged(path, f"row {row} claims to hold {int(lengths[row])} numbers, the first {length}")
    if rest:
        raise _damaged(path, f"it ends within row {whole}: {length} numbers expected, {rest - 1} there")
    return words.reshape(whole, length + 1)[:limit, 1:]


def _words(path: Path) -> NDArray[np.int32]:
    try:
        size = path.stat().st_size
        if size % 4:
            raise _damaged(path, f"its {size} bytes are no whole number of 32-bit numbers")
        return np.memmap(path, "<i4", "r") if size else np.empty(0, "<i4")
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {str(path)!r}", hint=_HINT) from error
    except OSError as error:
        raise InvalidRequestError(f"cannot read {str(path)!r}: {error.strerror}", hint=_HINT) from error


def _damaged(path: Path, problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"cannot use {str(path)!r}: {problem}", hint=_HINT, path=str(path))
