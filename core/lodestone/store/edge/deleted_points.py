"""Deleted points whose bytes the files of an embedded collection still hold: their count, and a copy without them.

The engine marks a point as deleted and keeps its vector, payload and id in its files. The count is written before the points
are deleted, so a kill leaves it right or too high. It is kept beside the generations: a graph build copies deleted points too.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import qdrant_edge as qe

from lodestone.durable_files import write_atomically
from lodestone.store.edge.engine import create_field_indexes, engine_config
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec

FILE: Final = "deleted.json"
# A graph over more numbers (points times length) is not made anew for every deleted point, but after some days.
AT_ONCE_NUMBERS: Final = 50_000_000
AFTER_S: Final = 7 * 86_400.0
_POINT_BYTES: Final = 300  # of a point besides its vector: id and payload


@dataclass(frozen=True, slots=True)
class DeletedPoints:
    """Number of deleted points, of about `bytes`, and when the first of them was deleted, in seconds since 1970."""

    points: int = 0
    bytes: int = 0
    since: float = 0.0

    def may_wait(self, numbers: int) -> bool:
        """Return whether a graph over so many numbers is left as it is for now."""
        return numbers > AT_ONCE_NUMBERS and time.time() - self.since < AFTER_S


def point_bytes(spec: CollectionSpec) -> int:
    """Return about how many bytes a point takes."""
    return 4 * spec.dim + _POINT_BYTES


def copy_points(shard: qe.EdgeShard, target: Path, spec: CollectionSpec) -> None:
    """Write the points of a shard into a new one, in short calls; deleted ones are left behind.

    Args:
        shard: The opened shard.
        target: Folder of the new one, which is made.
        spec: Specification of both.
    """
    target.mkdir(parents=True)
    copied = qe.EdgeShard.create(str(target), engine_config(spec))
    try:
        create_field_indexes(copied, spec)
        offset = None
        while True:
            records, offset = shard.scroll(
                qe.ScrollRequest(offset=offset, limit=CALL_POINTS, with_payload=True, with_vector=True)
            )
            page = [qe.Point(record.id, record.vector, record.payload or {}) for record in records]
            if page:
                copied.update(qe.UpdateOperation.upsert_points(page))
            if offset is None:
                break
        copied.flush()
    finally:
        copied.close()


def read_deleted(collection: Path) -> DeletedPoints:
    """Return the count of a collection's folder; zero if there is none, and one since ever if it cannot be read."""
    try:
        facts = json.loads((collection / FILE).read_text(encoding="utf-8"))
        return DeletedPoints(int(facts["points"]), int(facts["bytes"]), float(facts["since"]))
    except FileNotFoundError:
        return DeletedPoints()
    except (OSError, ValueError, KeyError, TypeError):
        return DeletedPoints(points=1)


def add_deleted(collection: Path, points: int, size: int) -> None:
    """Count points that are about to be deleted, of about `size` bytes. Callers exclude each other."""
    before = read_deleted(collection)
    _write(collection, DeletedPoints(before.points + points, before.bytes + size, before.since or time.time()))


def subtract_deleted(collection: Path, erased: DeletedPoints) -> None:
    """Take away what a rewriting has erased; points that were deleted meanwhile stay. Callers exclude each other."""
    now = read_deleted(collection)
    if now.points <= erased.points:
        (collection / FILE).unlink(missing_ok=True)
    else:
        _write(collection, DeletedPoints(now.points - erased.points, max(0, now.bytes - erased.bytes), time.time()))


def _write(collection: Path, count: DeletedPoints) -> None:
    facts = {"points": count.points, "bytes": count.bytes, "since": count.since}
    write_atomically(collection / FILE, json.dumps(facts))
