"""Translation between our collections, filters and errors and a Qdrant server's; it keeps no state."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import grpc
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from lodestone.errors import LodestoneError, StoreError
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
from lodestone.store.limits import OVERSAMPLING, SPARSE_VECTOR, exhaustive_kilobytes
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec, Quantization

OLDEST_SERVER = (1, 12)
# Collections carry metadata from this version on; earlier servers search with the default ef.
METADATA_SERVER = (1, 16)
EF_KEY, RESCORE_KEY, OVERSAMPLING_KEY = "lodestone_ef", "lodestone_rescore", "lodestone_oversampling"
_TRANSIENT_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
)
_TRANSIENT_STATUS = (429, 502, 503, 504)
_REFUSED_CODES = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_REFUSED_STATUS = (401, 403)
# Text of a server's error for a call that is too large, however long the client waits.
_TOO_LARGE = "larger than rate limiter capacity"
# Texts of a node's internal errors while the cluster recovers because a peer has just crashed or come back.
_RECOVERING = (
    "status: Unavailable",
    "status: Cancelled",
    "status: DeadlineExceeded",
    "not have enough active replicas",
    "Not enough active replicas",
    "failed to apply operation to any replica",
    "consensus",
    "Consensus",
    "transport error",
    "Failed to connect",
    "Timeout error",
    "shard is not active",
    "in progress",
)
FIELD_TYPES = {
    FieldKind.KEYWORD: models.PayloadSchemaType.KEYWORD,
    FieldKind.INTEGER: models.PayloadSchemaType.INTEGER,
    FieldKind.FLOAT: models.PayloadSchemaType.FLOAT,
}
CLIENT_ERRORS = (grpc.RpcError, ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse)


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties of a collection that searching and writing need.

    Attributes:
        dim: Length of its vectors, 0 when sparse.
        ef: Size of its candidate list.
        quantized: True if the first pass uses quantized vectors.
        rescore: True if the candidates of the first pass are rescored by the original vectors.
        oversampling: Candidates for each requested neighbour.
        sparse: True if its vectors are sparse.
        ordering: Ordering of writes, for collections with replicas.
    """

    dim: int
    ef: int
    quantized: bool = False
    rescore: bool = True
    oversampling: float = 1.0
    sparse: bool = False
    ordering: models.WriteOrdering | None = None


def is_transient(error: BaseException) -> bool:
    """Return True if a repeated call may succeed: the server is away, starting, slow or busy, or its cluster recovers."""
    details = _details(error)
    if is_out_of_space(Exception(details)) or _TOO_LARGE in details:
        return False
    if isinstance(error, grpc.RpcError):
        return _code(error) in _TRANSIENT_CODES or (_code(error) is grpc.StatusCode.INTERNAL and _is_recovering(error))
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _TRANSIENT_STATUS or (error.status_code == 500 and _is_recovering(error))
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse)


def is_busy(error: BaseException | None) -> bool:
    """Return True if the server answers but requests fewer calls."""
    return (
        isinstance(error, ResourceExhaustedResponse)
        or (isinstance(error, grpc.RpcError) and _code(error) is grpc.StatusCode.RESOURCE_EXHAUSTED)
        or (isinstance(error, UnexpectedResponse) and error.status_code == 429)
    )


def wait_asked_for(error: BaseException | None) -> float | None:
    """Return the seconds that a busy server asks the client to wait, or None if the server is not busy."""
    if isinstance(error, ResourceExhaustedResponse):
        return float(error.retry_after_s)
    return 0.0 if is_busy(error) else None


def _is_recovering(error: BaseException) -> bool:
    details = _details(error)
    return any(sign in details for sign in _RECOVERING)


def is_missing(error: BaseException) -> bool:
    """Return True if the server says that the collection does not exist."""
    if isinstance(error, grpc.RpcError):
        return _code(error) is grpc.StatusCode.NOT_FOUND
    return isinstance(error, UnexpectedResponse) and error.status_code == 404


def is_present_already(error: BaseException) -> bool:
    """Return True if the server refuses to create a collection because it exists."""
    if isinstance(error, grpc.RpcError):
        return _code(error) is grpc.StatusCode.ALREADY_EXISTS
    return isinstance(error, UnexpectedResponse) and error.status_code == 409


def as_lodestone_error(error: BaseException, *, doing: str, url: str) -> LodestoneError:
    """Convert an error that the client raised while `doing` something at `url`."""
    details = _details(error)
    if is_out_of_space(Exception(details)):
        return out_of_space(url)
    if _TOO_LARGE in details:
        return StoreError(
            f"{doing}: Qdrant at {url} takes fewer points a minute than one call has ({details})",
            hint="raise the rate limits of the collection's strict mode to some thousands a minute, then run it again",
            url=url,
        )
    if is_busy(error):
        return StoreError(
            f"{doing}: Qdrant at {url} asks for fewer calls ({details})",
            hint="try again in a minute, or raise the rate limits of the collection's strict mode",
            url=url,
        )
    if is_transient(error):
        tls = "url says https: its gRPC port must speak TLS too, with a certificate that this machine trusts; or use http"
        ports = "check that it runs, that its HTTP and gRPC ports are reachable, and the store's url and grpc_port settings"
        hint = tls if any(sign in details.lower() for sign in ("handshake", "certificate", "ssl")) else ports
        return StoreError(f"{doing}: Qdrant at {url} does not answer ({details})", hint=hint, url=url)
    if _is_refused(error):
        return StoreError(f"{doing}: Qdrant at {url} refuses the API key", hint="set the store's api_key", url=url)
    return StoreError(f"{doing} failed at {url}: {details}", hint="see the server's log", url=url)


def _is_refused(error: BaseException) -> bool:
    if isinstance(error, grpc.RpcError):
        return _code(error) in _REFUSED_CODES
    return isinstance(error, UnexpectedResponse) and error.status_code in _REFUSED_STATUS


def version_of(text: str) -> tuple[int, int]:
    """Return major and minor of `1.16.3` or `1.17.0-dev`, or (0, 0) if the text is not a version."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def graph_config(spec: CollectionSpec) -> models.HnswConfigDiff:
    """Return the parameters of the graph that `build` makes; the collection keeps them, and its vectors say m=0 until then."""
    return models.HnswConfigDiff(
        m=spec.hnsw.m,
        ef_construct=spec.hnsw.ef_construct,
        full_scan_threshold=exhaustive_kilobytes(spec.dim),
        on_disk=spec.hnsw.on_disk,
    )


def quantization_config(spec: CollectionSpec) -> models.ScalarQuantization | models.BinaryQuantization | None:
    """Return the quantization of the first pass, kept in RAM, or None."""
    if spec.quantization is Quantization.INT8:
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=int8)
    if spec.quantization is Quantization.BINARY:
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def quantization_of(info: models.CollectionInfo) -> Quantization:
    """Return the quantization that a collection has."""
    config = info.config.quantization_config
    if config is None:
        return Quantization.NONE
    return Quantization.BINARY if isinstance(config, models.BinaryQuantization) else Quantization.INT8


def metadata_of(spec: CollectionSpec) -> dict[str, Any]:
    """Return the metadata that the server keeps with a collection: its search parameters."""
    return {EF_KEY: spec.hnsw.ef, RESCORE_KEY: spec.rescore, OVERSAMPLING_KEY: _oversampling(spec)}


def _oversampling(spec: CollectionSpec) -> float:
    return spec.oversampling or OVERSAMPLING.get(spec.quantization, 1.0)


def shape_of(info: models.CollectionInfo, *, name: str) -> Shape:
    """Return the properties of a collection; raise `StoreError` if Lodestone did not create it."""
    params = info.config.params.vectors
    if not params and list(info.config.params.sparse_vectors or ()) == [SPARSE_VECTOR]:
        return Shape(0, HnswSpec().ef, sparse=True)
    if not isinstance(params, models.VectorParams) or params.distance != models.Distance.DOT:
        raise StoreError(
            f"collection {name!r} was not made by Lodestone: it has neither one unnamed vector compared by inner product "
            f"nor one sparse vector {SPARSE_VECTOR!r}",
            hint="use another Qdrant server or drop that collection",
        )
    metadata = info.config.metadata or {}
    kind = quantization_of(info)
    return Shape(
        params.size,
        int(metadata.get(EF_KEY, HnswSpec().ef)),
        quantized=kind is not Quantization.NONE,
        rescore=bool(metadata.get(RESCORE_KEY, True)),
        oversampling=float(metadata.get(OVERSAMPLING_KEY) or OVERSAMPLING.get(kind, 1.0)),
        ordering=_ordering(info.config.params.replication_factor),
    )


def _ordering(replicas: int | None) -> models.WriteOrdering | None:
    # Replicas apply the writes of several writers in the same order only if one replica decides the order.
    return models.WriteOrdering.MEDIUM if (replicas or 1) > 1 else None


def search_request(query: VectorQuery, vector: Vectors, *, shape: Shape, fetch: int) -> models.QueryRequest:
    """Return the server's request for one nearest-neighbour query with `fetch` hits."""
    quantization = None
    if shape.quantized:
        quantization = models.QuantizationSearchParams(
            ignore=query.exact, rescore=shape.rescore, oversampling=shape.oversampling
        )
    ef = query.ef or max(shape.ef, query.limit)
    return models.QueryRequest(
        query=vector.tolist(),
        limit=fetch,
        filter=engine_filter(query.filter),
        params=models.SearchParams(hnsw_ef=ef, exact=query.exact, quantization=quantization),
        with_payload=query.with_payload,
    )


def sparse_search_request(query: SparseQuery, vector: SparseVector, *, fetch: int) -> models.QueryRequest:
    """Return the server's request for one query of a sparse collection with `fetch` hits and their vectors."""
    return models.QueryRequest(
        query=_sparse(vector),
        using=SPARSE_VECTOR,
        limit=fetch,
        filter=engine_filter(query.filter),
        with_payload=query.with_payload,
        with_vector=True,
    )


def dense_batch(points: PointBatch) -> models.Batch:
    """Convert points to the server's batch class."""
    return models.Batch(ids=list(points.ids), vectors=points.vectors.tolist(), payloads=[dict(p) for p in points.payloads])


def sparse_batch(points: SparseBatch) -> models.Batch:
    """Convert points of a sparse collection to the server's batch class."""
    vectors: dict[str, Any] = {SPARSE_VECTOR: [_sparse(vector) for vector in points.vectors]}
    return models.Batch(ids=list(points.ids), vectors=vectors, payloads=[dict(p) for p in points.payloads])


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def engine_filter(filter_: Filter | None) -> models.Filter | None:
    """Convert a filter to the server's class; None if it is empty."""
    if filter_ is None or not (filter_.must or filter_.must_not):
        return None
    return models.Filter(must=[_condition(c) for c in filter_.must], must_not=[_condition(c) for c in filter_.must_not])


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case MatchAny(field, values):
            # The server takes only values of one type in a condition.
            texts = [value for value in values if isinstance(value, str)]
            numbers = [value for value in values if not isinstance(value, str)]
            if texts and numbers:
                return models.Filter(should=[_matches(field, texts), _matches(field, numbers)])
            return _matches(field, texts or numbers)
        case Between(field, gte, lt, str(otherwise)):
            empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=field))
            instead = models.Filter(must=[empty, _condition(Between(otherwise, gte, lt))])
            return models.Filter(should=[_condition(Between(field, gte, lt)), instead])
        case Between(field, gte, lt):
            bound = -sys.float_info.max if gte is None and lt is None else gte
            return models.FieldCondition(key=field, range=models.Range(gte=bound, lt=lt))
        case HasId(ids):
            return models.HasIdCondition(has_id=list(ids))
        case AnyOf(filters):
            # A `should` without conditions holds for every point; here it holds for none.
            return models.Filter(should=[engine_filter(one) or models.Filter() for one in filters] or [_condition(HasId(()))])


def _matches(field: str, values: list[Any]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=values))


def _code(error: grpc.RpcError) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None


def _details(error: BaseException) -> str:
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        return str(error.details())
    return str(error) or type(error).__name__
