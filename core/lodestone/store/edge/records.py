"""Points of a collection, read from the engine or from the matrix: by id, page by page, and as answers of exact searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import qdrant_edge as qe

from lodestone.errors import StoreError
from lodestone.store.base import Filter, HasId, Neighbours, Payload, PointBatch, VectorQuery, Vectors
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


def answers_by_matrix(
    collection: EdgeCollection, queries: Sequence[VectorQuery], vectors: Sequence[Vectors]
) -> list[Neighbours | None]:
    """Return the answers of the collection's matrix; None for queries that the engine has to answer.

    Args:
        collection: Where to search.
        queries: The queries.
        vectors: The checked vector of each of them.
    """
    answers: list[Neighbours | None] = [None] * len(queries)
    matrix = collection.matrix() if queries else None
    if matrix is None:
        return answers
    # What a graph or compressed vectors would find is what was asked for, unless ids leave few points anyway.
    approximate = collection.approximate()
    chosen = [number for number, query in enumerate(queries) if query.exact or not approximate or has_ids(query.filter)]
    found = matrix.search([queries[number] for number in chosen], [vectors[number] for number in chosen])
    for number, neighbours in zip(chosen, found, strict=True):
        if neighbours is not None and queries[number].with_payload:
            answers[number] = _with_payloads(collection, neighbours)
        else:
            answers[number] = neighbours
    return answers


def points_by_matrix(collection: EdgeCollection, ids: Sequence[str], *, with_payload: bool) -> PointBatch | None:
    """Return points by id in the order of `ids`, without missing ones; None where there is no matrix. It makes none.

    Args:
        collection: Where they are.
        ids: Canonical ids.
        with_payload: Whether their payloads are wanted; else they are empty.
    """
    matrix = collection.matrix() if collection.has_matrix else None  # it is made for searches
    if matrix is None:
        return None
    vectors = matrix.vectors_of(ids)
    payloads: dict[str, Payload] = {point_id: {} for point_id in vectors}
    if with_payload:
        payloads = _payloads(collection, list(vectors))
    held = [point_id for point_id in ids if point_id in payloads]
    rows = np.array([vectors[point_id] for point_id in held], np.float32).reshape(len(held), collection.spec.dim)
    return PointBatch(held, rows, [payloads[point_id] for point_id in held])


def _with_payloads(collection: EdgeCollection, found: Neighbours) -> Neighbours:
    """Return the neighbours with their payloads; without those that were removed meanwhile."""
    payloads = _payloads(collection, found.ids)
    kept = [number for number, point_id in enumerate(found.ids) if point_id in payloads]
    ids = tuple([found.ids[number] for number in kept])
    return Neighbours(ids, found.scores[kept], tuple([payloads[point_id] for point_id in ids]))


def _payloads(collection: EdgeCollection, ids: Sequence[str]) -> dict[str, Payload]:
    return {str(record.id): record.payload or {} for record in read_records(collection, ids, vectors=False)}


def has_ids(filter_: Filter | None) -> bool:
    """Return whether a filter names the ids of points."""
    return filter_ is not None and any(isinstance(condition, HasId) for condition in filter_.must)
