"""What must a vector store do? The contract that `edge` and `server` obey, and one suite in tests/contract checks.

A store holds collections of points. A point is (id: UUID string, vector: float32, payload: JSON object of filter fields).
Scores are inner products, higher is better; on L2-normalised vectors that is cosine similarity. Ties are broken by id so that
both adapters give identical answers with `exact=True`.

In a sparse collection (`CollectionSpec.sparse`) a vector is a few positive weights of terms. It is written by `upsert_sparse`
and searched by `search_sparse`, always exactly, among the points that share a term with the question; `build` does nothing.
The other methods are the same for both, except that sparse vectors are not read back: batches then have vectors of (n, 0).

Life of a collection: `create` -> `upsert`… -> `build` (the HNSW graph) -> `set_alias` (promotion). Searching works at any
point of it, exhaustively where there is no graph yet. Readers resolve an alias once and then use the collection's own name.

Every method raises `StoreError` when the engine fails, `OutOfSpaceError` when its disk is full, `UnknownNameError` for a
collection that does not exist and `InvalidRequestError` for points, names or questions that no engine could take.
Methods block; async callers run them in a thread. Methods are safe to call from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lodestone_schemas.collections import CollectionSpec

Payload = Mapping[str, Any]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MatchAny:
    """The field (or any element of it, when it is a list) equals one of `values`."""

    field: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """`gte` <= field < `lt`; a None bound is open. Points without the field do not match."""

    field: str
    gte: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True)
class HasId:
    """The point's id is one of `ids`."""

    ids: tuple[str, ...]


Condition = MatchAny | Between | HasId


@dataclass(frozen=True, slots=True)
class Filter:
    """All of `must` and none of `must_not` hold. An empty filter matches every point."""

    must: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Points in column form: `ids` (n), `vectors` (n, dim) float32 and `payloads` (n), in the same order."""

    ids: Sequence[str]
    vectors: Vectors
    payloads: Sequence[Payload]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """One nearest-neighbour question.

    Attributes:
        vector: (dim,) float32.
        limit: How many neighbours at most.
        filter: Restricts the candidates; None for all.
        exact: Compare with every candidate instead of walking the graph.
        ef: Size of the candidate list of a graph search; None for the collection's own.
        with_payload: Whether neighbours carry payloads.
    """

    vector: NDArray[np.float32]
    limit: int = 10
    filter: Filter | None = None
    exact: bool = False
    ef: int | None = None
    with_payload: bool = False


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Weights of terms.

    Attributes:
        indices: (k,) uint32, ascending, each once, at least one: the terms.
        values: (k,) float32, finite and above 0: their weights.
    """

    indices: NDArray[np.uint32]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SparseBatch:
    """Points of a sparse collection in column form: `ids` (n), `vectors` (n) and `payloads` (n), in the same order."""

    ids: Sequence[str]
    vectors: Sequence[SparseVector]
    payloads: Sequence[Payload]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class SparseQuery:
    """One question to a sparse collection: the `limit` points of highest inner product among those that share a term."""

    vector: SparseVector
    limit: int = 10
    filter: Filter | None = None
    with_payload: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Answer to one `VectorQuery` or `SparseQuery`, best first: `ids` (k), `scores` (k,) float32, `payloads` (k, or empty)."""

    ids: tuple[str, ...]
    scores: NDArray[np.float32]
    payloads: tuple[Payload, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """State of a collection. `indexed` counts vectors reachable through the graph (or all, if sparse); `building` says so."""

    name: str
    dim: int
    points: int
    indexed: int
    building: bool = False


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """What the engine behind the adapter is and can do, by its version."""

    engine: str
    version: str
    features: frozenset[str] = field(default_factory=frozenset)


class VectorStore(ABC):
    """See the module's docstring: it is the contract."""

    @abstractmethod
    def capabilities(self) -> StoreCapabilities:
        """Engine, version and optional features (`sparse`, `int8`, `graph_build`, …)."""

    @abstractmethod
    def create(self, spec: CollectionSpec) -> None:
        """Make the collection; the same spec again is a no-op, another `dim` or `sparse` under the same name a `StoreError`."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove the collection and all its points; a missing one is a no-op."""

    @abstractmethod
    def collections(self) -> list[str]:
        """Names of all collections, sorted."""

    @abstractmethod
    def info(self, name: str) -> CollectionInfo:
        """Counts and state of one collection."""

    @abstractmethod
    def upsert(self, name: str, points: PointBatch) -> None:
        """Insert or replace whole points, durably: when this returns, a kill -9 does not lose them."""

    @abstractmethod
    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """What `upsert` is, for a sparse collection."""

    @abstractmethod
    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove points by id; missing ids are ignored."""

    @abstractmethod
    def delete_matching(self, name: str, filter_: Filter) -> None:
        """Remove every point that the filter matches. An empty filter is refused with `InvalidRequestError`."""

    @abstractmethod
    def build(self, name: str) -> None:
        """Make or refresh the HNSW graph over all points. Readers and writers go on meanwhile; nothing they do is lost."""

    @abstractmethod
    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """Answer several questions in one call, in their order."""

    @abstractmethod
    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """What `search` is, for a sparse collection; equal scores by ascending id."""

    @abstractmethod
    def retrieve(self, name: str, ids: Sequence[str]) -> PointBatch:
        """Points by id with vectors and payloads, in the order asked; missing ids are left out."""

    @abstractmethod
    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """All matching points, by ascending id, in batches."""

    @abstractmethod
    def count(self, name: str, filter_: Filter | None = None) -> int:
        """Exact number of matching points."""

    @abstractmethod
    def set_alias(self, alias: str, collection: str) -> None:
        """Point the alias at the collection, atomically, whether or not it existed."""

    @abstractmethod
    def drop_alias(self, alias: str) -> None:
        """Forget the alias; a missing one is a no-op."""

    @abstractmethod
    def aliases(self) -> dict[str, str]:
        """Alias to collection name."""

    @abstractmethod
    def ping(self) -> None:
        """Return when the engine answers; raise `StoreError` when it does not (readiness)."""

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Calls of this thread inside the block outlast an engine that is away for a while; questions otherwise fail soon."""
        yield

    @abstractmethod
    def close(self) -> None:
        """Flush and release everything (locks, connections). Idempotent."""
