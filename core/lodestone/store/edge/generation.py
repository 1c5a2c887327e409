"""Generation of an embedded collection: one directory of the engine's files, opened as long as somebody reads it.

Beside the engine's files it keeps how many points were upserted since its graph was built. These are the points outside the
graph: the engine itself counts vectors in segments that have a graph, deleted and replaced ones too. The count is written
before the points are, so a kill leaves it right or too high. A power failure can take back its last seconds.

Check of the engine's file that maps ids of points to rows, which it trusts: one flipped bit there asks for 25 GB. 1 byte 1:
number inserted, 2: UUID inserted, 3: number deleted, 4: UUID deleted 8 or 16 the number or the UUID 4 bytes row,
little-endian; of insertions only

Each insertion takes the next row or one that was used before, so no row is as high as the number of insertions.
"""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path
from typing import Final

import numpy as np
import qdrant_edge as qe
from numpy.typing import NDArray

from lodestone.durable_files import write_atomically
from lodestone.store.edge.contents import ContentRecord
from lodestone.store.edge.engine import damaged, engine_errors
from lodestone.store.edge.probe import run_probe
from lodestone.store.files import discard, require_room_to_map
from lodestone_schemas.collections import CollectionSpec

BUILT_FILE: Final = "built.json"
UPSERTS_FILE: Final = "upserts.bin"
_COUNT: Final = struct.Struct("<Q")
SHARD_DIR: Final = "shard"


class Generation:
    """Opened engine shard that stays open as long as it has readers.

    Args:
        path: Folder of the generation.
        made_here: Whether this process made the files just now, so that they need no trial opening.

    Raises:
        CollectionDamagedError: The files are not as they were recorded, or cannot be opened.
        StoreError: The engine failed for another reason.
        OutOfSpaceError: The disk is full.
    """

    def __init__(self, path: Path, *, made_here: bool = False) -> None:
        self.path = path
        self._leases = 0
        self._retired = False
        self._idle = threading.Condition()
        collection = path.parent.name
        with engine_errors("opening", path, collection=collection):
            if not (path / SHARD_DIR).is_dir():
                raise damaged(collection, path, "the engine's folder is missing")
            self._record = content_record(path, collection)
            if (why := self._record.damage()) is not None:
                raise damaged(collection, path, why)
            require_room_to_map(path)
            # After a process was killed, or where an earlier version wrote the files, nothing vouches for all of them.
            if not (self._record.holds or made_here) and (why := _trial(path / SHARD_DIR)) is not None:
                raise damaged(collection, path, why)
            held = self._record.holds
            self._record.suspend(durable=False)  # the engine may change files when it opens them
            self.shard = qe.EdgeShard.load(str(path / SHARD_DIR))
            self.has_graph = (path / BUILT_FILE).exists()
            self._upserts = _read_upserts(path) if self.has_graph else None
            self._renew(written=not held)

    def built_with(self) -> dict[str, object] | None:
        """Return the parameters that its graph was built with, or None."""
        file = self.path / BUILT_FILE
        built: dict[str, object] | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        return built

    def counts(self) -> tuple[int, int]:
        """Return the number of points, and how many of them at most lie outside the graph: all if that is not known."""
        in_segments_with_graph = self.shard.info().indexed_vectors_count  # deleted ones too
        points = int(self.shard.count(qe.CountRequest(exact=True)))
        outside = points if self._upserts is None else max(points - in_segments_with_graph, self._upserts)
        return points, min(outside, points)

    def count_upserts(self, points: int) -> None:
        """Count points that are about to be upserted; call it before every write, also with 0. Callers exclude each other.

        Raises:
            StoreError: The count cannot be written.
        """
        with engine_errors("noting that points are written", self.path):
            self._record.suspend(durable=True)
        if points and self._upserts is not None:
            self._upserts += points
            with engine_errors("counting upserts", self.path), (self.path / UPSERTS_FILE).open("r+b", buffering=0) as file:
                file.write(_COUNT.pack(self._upserts))

    def examine(self) -> str | None:
        """Return what is wrong with the first file that is not as it was recorded; None if there is none.

        All bytes are read: less than a second a gigabyte in memory. After writes, files that are written are not compared.
        No caller may write meanwhile.
        """
        return self._record.damage(at_most=None)

    def settle(self) -> None:
        """Flush, and record what the files hold now, if points were written. No caller may write meanwhile."""
        if not self._record.holds:
            with engine_errors("flushing the collection", self.path):
                self._renew(written=True)

    def enter(self) -> None:
        """Keep the shard open until `leave` is called."""
        with self._idle:
            self._leases += 1

    def leave(self) -> None:
        """Release the shard after one `enter`."""
        with self._idle:
            self._leases -= 1
            self._idle.notify_all()

    def retire(self, *, delete: bool, record: bool = True) -> None:
        """Close the shard once it has no readers (engine calls take milliseconds), and remove its files if asked. Idempotent.

        No caller may `enter` the generation after this call.

        Args:
            delete: Remove the files.
            record: Record what the files hold, which reads those that were written; not where others are about to remove them.
        """
        with self._idle:
            self._idle.wait_for(lambda: self._leases == 0)
            if self._retired:
                return
            self._retired = True
        written = not self._record.holds
        with engine_errors("closing the collection", self.path):
            if not delete:
                self._record.suspend(durable=False)
            self.shard.close()
            if record and not delete:
                self._record.renew(written=written)
        if delete:
            discard(self.path)

    def _renew(self, *, written: bool) -> None:
        """Record what the files hold now, once all of it is on the disk."""
        self._record.renew(written=written, flush=self.shard.flush)


def _trial(shard: Path) -> str | None:
    """Return why a shard that nothing vouches for must not be opened in this process; None if it can be."""
    return wrong_mapping(shard) or run_probe(shard)


def content_record(path: Path, collection: str) -> ContentRecord:
    """Return the record of what the files of the generation in this folder hold, for the collection of this name."""
    return ContentRecord(path, collection=collection, shard=SHARD_DIR, own=(BUILT_FILE,))


def record_build(path: Path, spec: CollectionSpec) -> None:
    """Record that the graph of the generation in this folder was built just now, and begin the count of its upserts."""
    write_atomically(path / BUILT_FILE, json.dumps(build_facts(spec)))
    (path / UPSERTS_FILE).write_bytes(_COUNT.pack(0))


def build_facts(spec: CollectionSpec) -> dict[str, object]:
    """Return the parameters of a graph that another build would change."""
    return {"m": spec.hnsw.m, "ef_construct": spec.hnsw.ef_construct, "quantization": spec.quantization.value}


def _read_upserts(path: Path) -> int | None:
    file = path / UPSERTS_FILE
    content = file.read_bytes() if file.exists() else b""  # generations of earlier versions have none
    return int(_COUNT.unpack(content)[0]) if len(content) == _COUNT.size else None


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
