"""Translation between our collections, points and filters and qdrant-edge's classes, and specifications as files.

The engine raises bare `Exception`s (and Rust panics as `PanicException`, a `BaseException`), so one context manager turns them
into `StoreError`s. The engine holds the GIL during every call, so calls are kept short by cutting batches.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import qdrant_edge as qe

from lodestone.errors import CollectionDamagedError, LodestoneError, StoreError
from lodestone.store.base import (
    AnyOf,
    Between,
    Condition,
    Filter,
    HasId,
    MatchAny,
    PointBatch,
    SparseBatch,
    SparseQuery,
    SparseVector,
    VectorQuery,
    Vectors,
)
from lodestone.store.files import is_out_of_space, out_of_space
from lodestone.store.limits import CALL_POINTS, OVERSAMPLING, SPARSE_VECTOR, exhaustive_kilobytes
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec, Quantization

_FIELD_TYPES = {
    FieldKind.KEYWORD: qe.PayloadSchemaType.Keyword,
    FieldKind.INTEGER: qe.PayloadSchemaType.Integer,
    FieldKind.FLOAT: qe.PayloadSchemaType.Float,
}
# Compressed vectors of the first pass, kept in RAM.
_QUANTIZATION: Mapping[Quantization, Callable[[], Any]] = {
    Quantization.NONE: lambda: None,
    Quantization.INT8: lambda: qe.ScalarQuantizationConfig(qe.ScalarType.Int8, quantile=0.99, memory=qe.Memory.Pinned),
    Quantization.BINARY: lambda: qe.BinaryQuantizationConfig(memory=qe.Memory.Pinned),
}


@contextmanager
def engine_errors(doing: str, path: Path, *, collection: str = "") -> Iterator[None]:
    """Convert errors that the engine raises inside the block to ours, naming `path`.

    Args:
        doing: What the block does, for the message.
        path: Folder that it works on.
        collection: Collection whose own files the block reads: an error then means that they are damaged.

    Raises:
        CollectionDamagedError: the engine failed, and `collection` is given.
        StoreError: the engine failed.
        OutOfSpaceError: the disk is full.
    """
    try:
        yield
    except LodestoneError:
        raise
    except BaseException as error:
        panicked = type(error).__name__ == "PanicException"
        if not panicked and not isinstance(error, Exception):
            raise
        if is_out_of_space(error):
            raise out_of_space(path) from error
        if collection and not _is_refused(error):
            raise damaged(collection, path, f"{doing} failed: {error}") from error
        raise StoreError(
            f"{doing} failed in {path}: {error}",
            hint="if it happens again, drop the collection and rebuild it from the Parquet files (`lodestone index` does); "
            "no model has to run",
            path=str(path),
        ) from error


def damaged(collection: str, path: Path, why: str) -> CollectionDamagedError:
    """Build the error for a collection whose files are damaged."""
    return CollectionDamagedError(
        f"the collection {collection!r} in {path} is damaged: {why}",
        hint="run `lodestone index` again, or `lodestone verify --repair`: the collection is dropped and rebuilt from the "
        "Parquet files; no model runs and no picture is read",
        collection=collection,
        path=str(path),
    )


def _is_refused(error: BaseException) -> bool:
    """Return whether the system refused access: then nothing says that the files are damaged."""
    text = str(error).lower()
    refused = ("permission denied", "os error 13", "os error 1)", "read-only file system", "os error 30", "too many open files")
    return isinstance(error, PermissionError) or any(sign in text for sign in refused)


def engine_config(spec: CollectionSpec, *, threads: int = 0) -> qe.EdgeConfig:
    """Return the engine's configuration of a collection; `optimize()` under it builds the graph over every point.

    Args:
        spec: The collection.
        threads: Threads of a graph build; 0 for one a core.
    """
    if spec.sparse:
        terms = qe.EdgeSparseVectorParams(datatype=qe.VectorStorageDatatype.Float32)
        return qe.EdgeConfig(sparse_vectors={SPARSE_VECTOR: terms}, wal_enabled=True)
    return qe.EdgeConfig(
        vectors=qe.EdgeVectorParams(
            size=spec.dim, distance=qe.Distance.Dot, memory=qe.Memory.Cold if spec.on_disk else qe.Memory.Cached
        ),
        hnsw_config=qe.HnswIndexConfig(
            m=spec.hnsw.m,
            ef_construct=spec.hnsw.ef_construct,
            full_scan_threshold=exhaustive_kilobytes(spec.dim),
            max_indexing_threads=threads,
            memory=qe.Memory.Cold if spec.hnsw.on_disk else qe.Memory.Cached,
        ),
        on_disk_payload=spec.payload_on_disk,
        quantization_config=_QUANTIZATION[spec.quantization](),
        optimizers=qe.EdgeOptimizersConfig(indexing_threshold=1, deleted_threshold=0.05, vacuum_min_vector_number=100),
        wal_enabled=True,
    )


def create_field_indexes(shard: qe.EdgeShard, fields: Sequence[tuple[str, FieldKind]]) -> None:
    """Create the indexes of filter fields in a shard. Points without any of the fields cost nothing."""
    for name, kind in fields:
        shard.update(qe.UpdateOperation.create_field_index(name, _FIELD_TYPES[kind]))


def upsert_operation(points: PointBatch) -> qe.UpdateOperation:
    """Return the operation that inserts or replaces whole points."""
    rows = zip(points.ids, points.vectors, points.payloads, strict=True)
    # Making a point from a list takes two thirds of the time that it takes from an array.
    return qe.UpdateOperation.upsert_points([qe.Point(i, vector.tolist(), dict(payload)) for i, vector, payload in rows])


def sparse_upsert_operation(points: SparseBatch) -> qe.UpdateOperation:
    """Return the operation that inserts or replaces whole points of a sparse collection."""
    rows = zip(points.ids, points.vectors, points.payloads, strict=True)
    return qe.UpdateOperation.upsert_points(
        [qe.Point(i, {SPARSE_VECTOR: _sparse(vector)}, dict(payload)) for i, vector, payload in rows]
    )


def delete_operation(ids: Sequence[str]) -> qe.UpdateOperation:
    """Return the operation that removes points by id."""
    return qe.UpdateOperation.delete_points(list(ids))


def search_request(query: VectorQuery, vector: Vectors, *, spec: CollectionSpec, fetch: int) -> qe.QueryRequest:
    """Return the engine's request for one nearest-neighbour query with `fetch` hits."""
    question: Any = vector  # the engine's stub knows lists only; arrays go in without a copy to Python floats
    quantization = None
    if spec.quantization is not Quantization.NONE:
        oversampling = spec.oversampling or OVERSAMPLING[spec.quantization]
        quantization = qe.QuantizationSearchParams(ignore=query.exact, rescore=spec.rescore, oversampling=oversampling)
    return qe.QueryRequest(
        limit=fetch,
        query=qe.Query.Nearest(question),
        filter=engine_filter(query.filter),
        params=qe.SearchParams(
            hnsw_ef=query.ef or max(spec.hnsw.ef, query.limit),
            exact=query.exact,
            quantization=quantization,
        ),
        with_payload=query.with_payload,
    )


def sparse_search_request(query: SparseQuery, vector: SparseVector, *, fetch: int) -> qe.QueryRequest:
    """Return the engine's request for one query of a sparse collection with `fetch` hits and their vectors."""
    return qe.QueryRequest(
        limit=fetch,
        query=qe.Query.Nearest(_sparse(vector), using=SPARSE_VECTOR),
        filter=engine_filter(query.filter),
        with_payload=query.with_payload,
        with_vector=True,
    )


def _sparse(vector: SparseVector) -> qe.SparseVector:
    return qe.SparseVector(vector.indices.tolist(), vector.values.tolist())


def engine_filter(filter_: Filter | None) -> qe.Filter | None:
    """Convert a filter to the engine's class; None if it is empty."""
    if filter_ is None or not (filter_.must or filter_.must_not):
        return None
    return qe.Filter(must=[_condition(c) for c in filter_.must], must_not=[_condition(c) for c in filter_.must_not])


def _condition(condition: Condition) -> Any:  # noqa: ANN401 - the engine's conditions share no base class
    match condition:
        case MatchAny(field, values):
            # The engine takes only values of one type in a condition.
            texts = [value for value in values if isinstance(value, str)]
            numbers = [value for value in values if not isinstance(value, str)]
            if texts and numbers:
                return qe.Filter(should=[_matches(field, texts), _matches(field, numbers)])
            return _matches(field, texts or numbers)
        case Between(field, gte, lt, str(otherwise)):
            instead = qe.Filter(must=[qe.IsEmptyCondition(field), _condition(Between(otherwise, gte, lt))])
            return qe.Filter(should=[_condition(Between(field, gte, lt)), instead])
        case Between(field, gte, lt):
            # Without any bound the engine's range matches numbers of every size, which is what "open" means here.
            bounds = qe.RangeFloat(gte=-sys.float_info.max if gte is None and lt is None else gte, lt=lt)
            return qe.FieldCondition(key=field, range=bounds)
        case HasId(ids):
            return qe.HasIdCondition(set(ids))
        case AnyOf(filters):
            # A `should` without conditions holds for every point; here it holds for none.
            return qe.Filter(should=[engine_filter(one) or qe.Filter() for one in filters] or [_condition(HasId(()))])


def _matches(field: str, values: list[Any]) -> qe.FieldCondition:
    return qe.FieldCondition(key=field, match=qe.MatchAny(values))


SPEC_FILE = "spec.json"
_CHECKSUM: Final = "checksum"  # specifications written by earlier versions have none


def dump_spec(spec: CollectionSpec) -> str:
    """Return the specification as JSON text."""
    facts = asdict(spec)
    return json.dumps({**facts, _CHECKSUM: _checksum(facts)}, indent=1)


def read_spec(path: Path) -> CollectionSpec:
    """Read the specification in a collection's directory; raise `CollectionDamagedError` if it cannot be read."""
    with engine_errors("reading the collection's specification", path, collection=path.name):
        facts = json.loads((path / SPEC_FILE).read_text(encoding="utf-8"))
        if facts.pop(_CHECKSUM, None) not in (None, _checksum(facts)):
            raise damaged(path.name, path, f"{SPEC_FILE} was altered: its checksum is another one")
        return CollectionSpec(
            name=facts["name"],
            dim=int(facts["dim"]),
            fields=tuple((name, FieldKind(kind)) for name, kind in facts["fields"]),
            hnsw=HnswSpec(**facts["hnsw"]),
            quantization=Quantization(facts["quantization"]),
            on_disk=bool(facts["on_disk"]),
            # Specifications written by earlier versions lack these.
            sparse=bool(facts.get("sparse", False)),
            rescore=bool(facts.get("rescore", True)),
            oversampling=facts.get("oversampling"),
            payload_on_disk=facts.get("payload_on_disk"),
        )


def _checksum(facts: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


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
