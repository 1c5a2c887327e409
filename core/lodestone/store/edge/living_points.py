"""Copy of an embedded collection's points into a new shard, without the bytes of those that were deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import qdrant_edge as qe

from lodestone.store.edge.engine import create_field_indexes, engine_config
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec

_POINT_BYTES: Final = 300  # of a point besides its vector: id and payload


def point_bytes(spec: CollectionSpec) -> int:
    """Return about how many bytes a point takes."""
    return 4 * spec.dim + _POINT_BYTES


def as_they_are(records: Sequence[qe.Record]) -> qe.UpdateOperation:
    """Return the operation that writes points of either kind, read with vectors and payloads, elsewhere."""
    points = [
        qe.Point(record.id, record.vector if record.vector is not None else [], record.payload or {}) for record in records
    ]
    return qe.UpdateOperation.upsert_points(points)


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
        create_field_indexes(copied, spec.fields)
        offset = None
        while True:
            records, offset = shard.scroll(
                qe.ScrollRequest(offset=offset, limit=CALL_POINTS, with_payload=True, with_vector=True)
            )
            if records:
                copied.update(as_they_are(records))
            if offset is None:
                break
        copied.flush()
    finally:
        copied.close()
