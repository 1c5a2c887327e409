"""Check of the engine's file that maps ids of points to rows, which it trusts: one flipped bit there asks for 25 GB.

    1 byte      1: number inserted, 2: UUID inserted, 3: number deleted, 4: UUID deleted
    8 or 16     the number or the UUID
    4 bytes     row, little-endian; of insertions only

Each insertion takes the next row or one that was used before, so no row is as high as the number of insertions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAPPINGS_FILE: Final = "mutable_id_tracker.mappings"
_ROW_BYTES: Final = 4
_INSERTED: Final = {1: 8, 2: 16}  # kind -> bytes of the id
_DELETED: Final = {3: 8, 4: 16}
_UUID_RECORD: Final = np.dtype([("kind", "u1"), ("id", "V16"), ("row", "<u4")])


def wrong_mapping(shard: Path) -> str | None:
    """Return what is wrong with the first mapping that cannot be true; None if there is none.

    Args:
        shard: The engine's folder.

    Raises:
        OSError: a file cannot be read.
    """
    for path in sorted(shard.glob(f"segments/*/{MAPPINGS_FILE}")):
        if (why := _wrong(path.read_bytes())) is not None:
            return f"in {path.parent.name}/{path.name}, {why}"
    return None


def _wrong(content: bytes) -> str | None:
    rows, why = _uuid_rows(content)
    if rows is None:
        rows, why = _rows(content)
    if why is None and rows.size and int(rows.max()) >= rows.size:
        return f"a point has the row {int(rows.max()):,}, and there are {rows.size:,} rows"
    return why


def _uuid_rows(content: bytes) -> tuple[NDArray[np.uint32] | None, str | None]:
    """Return the rows of a file that has inserted UUIDs alone, as nearly all have; None for another."""
    whole = len(content) // _UUID_RECORD.itemsize
    records = np.frombuffer(content, _UUID_RECORD, whole)
    return (records["row"], None) if bool((records["kind"] == 2).all()) else (None, None)


def _rows(content: bytes) -> tuple[NDArray[np.uint32], str | None]:
    rows: list[int] = []
    at = 0
    while at < len(content):
        kind = content[at]
        if kind in _INSERTED:
            end = at + 1 + _INSERTED[kind] + _ROW_BYTES
            if end > len(content):
                break  # a killed process may leave a part of the last record, which the engine cuts off
            rows.append(int.from_bytes(content[end - _ROW_BYTES : end], "little"))
        elif kind in _DELETED:
            end = at + 1 + _DELETED[kind]
        else:
            return np.array(rows, np.uint32), f"the record at byte {at:,} is of the unknown kind {kind}"
        at = end
    return np.array(rows, np.uint32), None
