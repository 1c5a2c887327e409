"""Points as the engine keeps them: read by id or page by page, and checked when they become vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import qdrant_edge as qe

from lodestone.errors import StoreError
from lodestone.store.base import Filter, PointBatch
from lodestone.store.edge.collection import EdgeCollection
from lodestone.store.edge.engine import engine_errors, engine_filter
from lodestone.store.limits import CALL_POINTS
from lodestone.store.records import as_batch


def read_records(collection: EdgeCollection, ids: Sequence[str], *, vectors: bool, payloads: bool = True) -> list[qe.Record]:
    """Return the records of points, in no order; missing ones are left out.

    Args:
        collection: Where they are.
        ids: Canonical ids.
        vectors: Whether their vectors are wanted.
        payloads: Whether their payloads are wanted.
    """
    records: list[qe.Record] = []
    for start in range(0, len(ids), CALL_POINTS):
        piece: list[Any] = list(ids[start : start + CALL_POINTS])
        with collection.reading() as shard, engine_errors("reading points", collection.path, collection=collection.name):
            records += shard.retrieve(piece, payloads, vectors)
    return records


def pages_of(collection: EdgeCollection, filter_: Filter | None, size: int, *, content: bool) -> Iterator[list[qe.Record]]:
    """Yield the records of all matching points by ascending id, at most `size` at a time.

    Args:
        collection: Where they are.
        filter_: What they match; None for all.
        size: Most records of a page.
        content: Whether payloads are wanted, and vectors where they are dense.

    Raises:
        StoreError: `size` is below 1.
    """
    if size < 1:
        raise StoreError(f"batch size {size} is out of range", hint="at least 1")
    conditions, offset = engine_filter(filter_), None
    while True:
        request = qe.ScrollRequest(
            offset=offset,
            limit=size,
            filter=conditions,
            with_payload=content,
            with_vector=content and not collection.spec.sparse,
        )
        with collection.reading() as shard, engine_errors("reading", collection.path, collection=collection.name):
            records, offset = shard.scroll(request)
        if records:
            yield records
        if offset is None:
            return


def batch_of(collection: EdgeCollection, records: Sequence[qe.Record]) -> PointBatch:
    """Return records with vectors as points.

    Raises:
        StoreError: damaged files gave points without vectors, or with other ones.
    """
    with engine_errors("reading vectors", collection.path, collection=collection.name):
        return as_batch(records, dim=collection.spec.dim)
