"""Which points, queries and names may reach an engine? The checks both adapters share, so that both refuse alike."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence

import numpy as np

from lodestone.errors import InvalidRequestError, StoreError
from lodestone.store.base import Filter, PointBatch, VectorQuery, Vectors

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAMESPACE = re.compile(r"[A-Za-z0-9]{1,64}")
MAX_LIMIT = 100_000


def check_name(name: str, *, kind: str = "collection") -> str:
    """Return the name when it is safe as a file name and as part of a URL; raise `InvalidRequestError` otherwise."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{kind} name {name!r} is not allowed", hint="use 1 to 128 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
        )
    return name


def check_namespace(namespace: str) -> str:
    """Return the namespace when it can stand in front of names on a server; raise `InvalidRequestError` otherwise."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidRequestError(f"namespace {namespace!r} is not allowed", hint="use 1 to 64 of A-Z a-z 0-9")
    return namespace


def check_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids in the canonical form that engines answer with; raise `InvalidRequestError` for other than UUIDs."""
    canonical = []
    for point_id in ids:
        try:
            canonical.append(str(uuid.UUID(point_id)))
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidRequestError(f"point id {point_id!r} is not a UUID", hint="ids are UUID strings") from error
    return canonical


def check_points(points: PointBatch, *, dim: int) -> PointBatch:
    """Return the batch with canonical ids, C-ordered float32 vectors and, of points that share an id, the last only.

    Raises:
        InvalidRequestError: Lengths differ, the vectors are not (n, dim), or some are not finite.
    """
    ids = check_ids(points.ids)
    vectors = np.ascontiguousarray(points.vectors, dtype=np.float32)
    if not len(ids) == len(points.payloads) == len(vectors):
        raise InvalidRequestError(
            f"a batch of {len(ids)} ids has {len(vectors)} vectors and {len(points.payloads)} payloads",
            hint="give one vector and one payload an id",
        )
    if ids and vectors.shape != (len(ids), dim):
        raise InvalidRequestError(
            f"vectors are {vectors.shape}, the collection takes (n, {dim})", hint="check the space's version"
        )
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise InvalidRequestError(f"vector of point {ids[row]} is not finite", hint="leave the point out")
    last = {point_id: row for row, point_id in enumerate(ids)}
    if len(last) == len(ids):
        return PointBatch(ids, vectors, points.payloads)
    rows = list(last.values())
    return PointBatch(list(last), vectors[rows], [points.payloads[row] for row in rows])


def check_query(query: VectorQuery, *, dim: int) -> Vectors:
    """Return the query's vector as (dim,) float32; raise `InvalidRequestError` on a wrong shape, value, limit or ef."""
    vector = np.ascontiguousarray(query.vector, dtype=np.float32)
    if vector.shape != (dim,):
        raise InvalidRequestError(
            f"query vector is {vector.shape}, the collection takes ({dim},)", hint="check the space's version"
        )
    if not np.isfinite(vector).all():
        raise InvalidRequestError("query vector is not finite", hint="check the encoder that made it")
    if not 1 <= query.limit <= MAX_LIMIT:
        raise InvalidRequestError(f"limit {query.limit} is out of range", hint=f"1 to {MAX_LIMIT:,}")
    if query.ef is not None and query.ef < 1:
        raise InvalidRequestError(f"ef {query.ef} is out of range", hint="at least 1")
    return vector


def check_matching(filter_: Filter) -> None:
    """Refuse a filter that matches everything, where that would delete everything."""
    if not filter_.must and not filter_.must_not:
        raise InvalidRequestError("an empty filter would delete every point", hint="use `drop` to remove a whole collection")


def other_dim(name: str, *, dim: int, wanted: int) -> StoreError:
    """The error of `create` where the collection exists with vectors of another length."""
    return StoreError(
        f"collection {name!r} holds vectors of length {dim}, not {wanted}",
        hint="use another name: each space version has its own collection",
        dim=dim,
        wanted=wanted,
    )


def slices(points: PointBatch, size: int) -> Iterator[PointBatch]:
    """The batch in pieces of at most `size` points."""
    for start in range(0, len(points), size):
        end = start + size
        yield PointBatch(points.ids[start:end], points.vectors[start:end], points.payloads[start:end])
