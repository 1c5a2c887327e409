"""Checks of points, queries and names, shared by both adapters so that both refuse the same input."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence

import numpy as np

from lodestone.errors import InvalidRequestError, StoreError
from lodestone.store.base import Filter, PointBatch, SparseBatch, SparseQuery, SparseVector, VectorQuery, Vectors
from lodestone_schemas.collections import CollectionSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAMESPACE = re.compile(r"[A-Za-z0-9]{1,64}")
# Making a UUID takes twenty times as long, and nearly all ids are canonical.
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EXAMPLE = "0b269412-5186-5468-95f9-a9c811334dc9"
MAX_LIMIT = 100_000
_LARGEST_INDEX = 2**32 - 1


def check_name(name: str, *, kind: str = "collection") -> str:
    """Return the name if it is safe as a file name and as part of a URL; raise `InvalidRequestError` otherwise."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{kind} name {name!r} is not allowed", hint="use 1 to 128 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
        )
    return name


def check_namespace(namespace: str) -> str:
    """Return the namespace if it can be a prefix of names on a server; raise `InvalidRequestError` otherwise."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidRequestError(f"namespace {namespace!r} is not allowed", hint="use 1 to 64 of A-Z a-z 0-9")
    return namespace


def check_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids in the canonical form that engines answer with; raise `InvalidRequestError` unless all are UUIDs."""
    canonical = []
    for point_id in ids:
        try:
            canonical.append(point_id if _CANONICAL.fullmatch(point_id) else str(uuid.UUID(point_id)))
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidRequestError(
                f"image id {point_id!r} is not a UUID such as {_EXAMPLE}",
                hint='take the "image_id" of a picture in an answer: lodestone search -o json, or POST /v1/search',
            ) from error
    return canonical


def check_points(points: PointBatch, *, dim: int) -> PointBatch:
    """Return the batch with canonical ids and C-ordered float32 vectors; of points that share an id, only the last is kept.

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
    """Return the query's vector as (dim,) float32; raise `InvalidRequestError` for a wrong shape, value, limit or ef."""
    vector = np.ascontiguousarray(query.vector, dtype=np.float32)
    if vector.shape != (dim,):
        raise InvalidRequestError(
            f"query vector is {vector.shape}, the collection takes ({dim},)", hint="check the space's version"
        )
    if not np.isfinite(vector).all():
        raise InvalidRequestError("query vector is not finite", hint="check the encoder that made it")
    _check_limit(query.limit)
    if query.ef is not None and query.ef < 1:
        raise InvalidRequestError(f"ef {query.ef} is out of range", hint="at least 1")
    return vector


def check_spec(spec: CollectionSpec) -> None:
    """Raise `InvalidRequestError` if the collection's name is invalid, or if it is neither dense nor sparse."""
    check_name(spec.name)
    if spec.dim < 0 or spec.sparse != (spec.dim == 0):
        raise InvalidRequestError(
            f"collection {spec.name!r} of dim={spec.dim}, sparse={spec.sparse} cannot be",
            hint="give vectors a length of at least 1, or say sparse=True without a length",
        )


def check_kind(name: str, *, sparse: bool, wanted: bool) -> None:
    """Raise `InvalidRequestError` if dense vectors are requested from a sparse collection, or the reverse."""
    if sparse != wanted:
        kind, suffix = ("sparse", "_sparse") if sparse else ("dense", "")
        raise InvalidRequestError(
            f"collection {name!r} holds {kind} vectors", hint=f"use `upsert{suffix}` and `search{suffix}`"
        )


def check_sparse_points(points: SparseBatch) -> SparseBatch:
    """Return the batch with canonical ids and canonical vectors; of points that share an id, only the last is kept.

    Raises:
        InvalidRequestError: Lengths differ, or a vector is not what `SparseVector` says.
    """
    ids = check_ids(points.ids)
    if not len(ids) == len(points.payloads) == len(points.vectors):
        raise InvalidRequestError(
            f"a batch of {len(ids)} ids has {len(points.vectors)} vectors and {len(points.payloads)} payloads",
            hint="give one vector and one payload an id",
        )
    vectors = [_sparse(vector, of=f"point {ids[row]}") for row, vector in enumerate(points.vectors)]
    rows = list({point_id: row for row, point_id in enumerate(ids)}.values())
    return SparseBatch([ids[row] for row in rows], [vectors[row] for row in rows], [points.payloads[row] for row in rows])


def check_sparse_query(query: SparseQuery) -> SparseVector:
    """Return the query's vector in canonical types; raise `InvalidRequestError` for a wrong vector or limit."""
    _check_limit(query.limit)
    return _sparse(query.vector, of="the query")


def _sparse(vector: SparseVector, *, of: str) -> SparseVector:
    indices, values = np.asarray(vector.indices), np.asarray(vector.values, dtype=np.float32)
    if indices.ndim != 1 or indices.shape != values.shape or not len(indices):
        raise InvalidRequestError(
            f"the sparse vector of {of} has {indices.shape} indices and {values.shape} values",
            hint="give at least one index, and each its value; leave out what has none",
        )
    if indices.dtype.kind not in "iu" or int(indices.min()) < 0 or int(indices.max()) > _LARGEST_INDEX:
        raise InvalidRequestError(f"an index of the sparse vector of {of} is no uint32", hint=f"0 to {_LARGEST_INDEX:,}")
    if not (indices[:-1] < indices[1:]).all():
        raise InvalidRequestError(
            f"the indices of the sparse vector of {of} do not ascend, each once", hint="sort them, and add up repeated ones"
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise InvalidRequestError(
            f"a value of the sparse vector of {of} is not a finite number above 0", hint="leave indices of no weight out"
        )
    return SparseVector(indices.astype(np.uint32), values)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequestError(f"limit {limit} is out of range", hint=f"1 to {MAX_LIMIT:,}")


def check_matching(filter_: Filter) -> None:
    """Raise `InvalidRequestError` for a filter that matches everything, because it would delete every point."""
    if not filter_.must and not filter_.must_not:
        raise InvalidRequestError("an empty filter would delete every point", hint="use `drop` to remove a whole collection")


def other_vectors(name: str, *, dim: int, sparse: bool, wanted: CollectionSpec) -> StoreError:
    """Build the error of `create` for a collection that exists with vectors of another length or kind."""
    actual = "sparse vectors" if sparse else f"vectors of length {dim}"
    expected = "sparse ones" if wanted.sparse else f"dense ones of length {wanted.dim}" if sparse else str(wanted.dim)
    return StoreError(
        f"collection {name!r} holds {actual}, not {expected}",
        hint="each space version has a collection of its own name: if this one is Lodestone's, drop it and run "
        "`lodestone index` again, which loads stored outputs and reads no picture; else use another Qdrant server",
        dim=dim,
        wanted=wanted.dim,
    )


def slices(points: PointBatch, size: int) -> Iterator[PointBatch]:
    """Yield the batch in pieces of at most `size` points."""
    for start in range(0, len(points), size):
        end = start + size
        yield PointBatch(points.ids[start:end], points.vectors[start:end], points.payloads[start:end])


def sparse_slices(points: SparseBatch, size: int) -> Iterator[SparseBatch]:
    """Yield the sparse batch in pieces of at most `size` points."""
    for start in range(0, len(points), size):
        end = start + size
        yield SparseBatch(points.ids[start:end], points.vectors[start:end], points.payloads[start:end])
