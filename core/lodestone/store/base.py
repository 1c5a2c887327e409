"""Contract of a vector store, which the adapters `edge` and `server` implement and one suite in tests/contract checks.

A store holds collections of points. A point is (id: UUID string, vector: float32, payload: JSON object of filter fields).
Scores are inner products, higher is better; on L2-normalised vectors that is cosine similarity. Ties are broken by id so that
both adapters give identical answers with `exact=True`.

In a sparse collection (`CollectionSpec.sparse`) a vector is a few positive weights of terms. It is written by `upsert_sparse`
and searched by `search_sparse`, always exactly, among the points that share a term with the query; `build` does nothing. The
other methods are the same for both, except that sparse vectors are not read back: batches then have vectors of (n, 0).

Lifecycle of a collection: `create` -> `upsert`… -> `build` (the HNSW graph) -> `set_alias` (promotion). Searching works at any
point of it, exhaustively while there is no graph yet. Readers resolve an alias once and then use the collection's own name.

Every method raises `StoreError` when the engine fails, `OutOfSpaceError` when its disk is full, `UnknownNameError` for a
collection that does not exist and `InvalidRequestError` for points, names or queries that no engine could take. Methods block;
async callers run them in a thread. Methods are safe to call from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Condition that the field (or any element of it, when it is a list) equals one of `values`."""

    field: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """Condition `gte` <= field < `lt`; a None bound is open. Points without the field do not match.

    With `otherwise`, a point without the field is compared by that one instead.
    """

    field: str
    gte: float | None = None
    lt: float | None = None
    otherwise: str | None = None


@dataclass(frozen=True, slots=True)
class HasId:
    """Condition that the point's id is one of `ids`."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Condition that at least one of `filters` matches; without any of them, no point does."""

    filters: tuple[Filter, ...]


Condition = MatchAny | Between | HasId | AnyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter that matches points for which all of `must` and none of `must_not` hold; an empty filter matches every point."""

    must: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Batch of points in column form; `ids` (n), `vectors` (n, dim) float32 and `payloads` (n) have the same order."""

    ids: Sequence[str]
    vectors: Vectors
    payloads: Sequence[Payload]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """Query for the nearest neighbours of one vector.

    Attributes:
        vector: Query vector, (dim,) float32.
        limit: Most neighbours to return.
        filter: Restricts the candidates; None for all.
        exact: Compare with every candidate instead of searching the graph.
        ef: Size of the candidate list of a graph search; None for the collection's own.
        with_payload: True if neighbours carry payloads.
        recurring: True if the same query will probably be asked again, so that its answer is worth keeping for as long as it
            stays true. It never changes an answer.
    """

    vector: NDArray[np.float32]
    limit: int = 10
    filter: Filter | None = None
    exact: bool = False
    ef: int | None = None
    with_payload: bool = False
    recurring: bool = False


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Sparse vector that holds the weights of terms.

    Attributes:
        indices: Terms, (k,) uint32, ascending, each once, at least one.
        values: Weights of the terms, (k,) float32, finite and above 0.
    """

    indices: NDArray[np.uint32]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SparseBatch:
    """Batch of points of a sparse collection in column form; `ids`, `vectors` and `payloads` (n each) have the same order."""

    ids: Sequence[str]
    vectors: Sequence[SparseVector]
    payloads: Sequence[Payload]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class SparseQuery:
    """One query of a sparse collection for the `limit` points of highest inner product among those that share a term.

    Attributes:
        vector: Weights of terms.
        limit: Highest number of points.
        filter: What points must fulfil.
        with_payload: True if neighbours carry payloads.
        ties_by_id: Of more points with the last score than fit, return those of the lowest ids. All points of this score are
            read for that, which may be a large share of the collection; False returns any of them.
    """

    vector: SparseVector
    limit: int = 10
    filter: Filter | None = None
    with_payload: bool = False
    ties_by_id: bool = True


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
    """State of one collection at the time of the call.

    Attributes:
        name: Name of the collection.
        dim: Length of its vectors, 0 if sparse.
        points: Number of points.
        indexed: Most points that are in a graph; all of them if sparse. A server counts deleted and replaced ones until it
            removes them: `VectorStore.outside_graph` tells what is outside.
        building: True while a graph is being built.
    """

    name: str
    dim: int
    points: int
    indexed: int
    building: bool = False


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """Engine behind the adapter, its version, and the optional features of that version."""

    engine: str
    version: str
    features: frozenset[str] = field(default_factory=frozenset)


def commonest_first(counted: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return (value, number) pairs by descending number; equal numbers by value."""
    return sorted(counted, key=lambda pair: (-pair[1], pair[0]))


class VectorStore(ABC):
    """Abstract vector store; the module's docstring describes the contract."""

    @abstractmethod
    def capabilities(self) -> StoreCapabilities:
        """Return the engine, its version and its optional features (`sparse`, `int8`, `graph_build`, …)."""

    @abstractmethod
    def create(self, spec: CollectionSpec) -> None:
        """Create the collection; the same spec again is a no-op, one of other `dim` or `sparse` raises `StoreError`."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove the collection and all its points; a missing one is a no-op."""

    @abstractmethod
    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""

    @abstractmethod
    def info(self, name: str) -> CollectionInfo:
        """Return the counts and the state of one collection."""

    @abstractmethod
    def outside_graph(self, name: str) -> int:
        """Return how many points lie outside the graph, so that every search compares them one by one; 0 if sparse.

        Where the engine does not tell, the number is too high rather than too low. It may take longer than `info`.
        """

    @abstractmethod
    def upsert(self, name: str, points: PointBatch) -> None:
        """Insert or replace whole points, durably: when this returns, a kill -9 does not lose them."""

    @abstractmethod
    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """Insert or replace whole points of a sparse collection, as durably as `upsert`."""

    @abstractmethod
    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove points by id; missing ids are ignored."""

    @abstractmethod
    def delete_matching(self, name: str, filter_: Filter) -> None:
        """Remove every point that the filter matches. An empty filter is refused with `InvalidRequestError`."""

    @abstractmethod
    def build(self, name: str) -> None:
        """Build or refresh the HNSW graph over all points. Readers and writers continue meanwhile, and no write is lost."""

    def erase(self, name: str, *, now: bool = True) -> int:  # noqa: ARG002 - for stores that keep files of their own
        """Remove the bytes of deleted points from the collection's files, and return about how many bytes still hold some.

        Readers and writers continue meanwhile. A server erases them by itself, when it next rewrites their segment.

        Args:
            name: The collection.
            now: False to leave a large collection with a graph as it is for some days, because its graph is made anew.
        """
        return 0

    @abstractmethod
    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """Answer several queries in one call, in their order."""

    @abstractmethod
    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """Answer several queries of a sparse collection in one call, in their order; equal scores come by ascending id."""

    def instant(self, name: str) -> bool:  # noqa: ARG002 - adapters know
        """Return True if exact searches among a few hundred ids of a collection read memory alone, in less than a millisecond.

        An asynchronous caller then asks without a thread, which would take longer than the search.
        """
        return False

    def examine_files(self, name: str) -> None:  # noqa: B027 - a server looks after its own files
        """Compare all bytes of a collection's files with what was recorded when they were written.

        Raises:
            CollectionDamagedError: A file is not as it was recorded.
        """

    def settle(self) -> None:  # noqa: B027 - a server looks after its own files
        """Record what the files of all collections hold, at the end of a piece of work that wrote to them."""

    @abstractmethod
    def retrieve(self, name: str, ids: Sequence[str], *, with_payload: bool = True) -> PointBatch:
        """Return points by id with vectors, and payloads or empty ones, in the order of `ids`; missing ids are left out."""

    @abstractmethod
    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """Yield all matching points, by ascending id, in batches."""

    @abstractmethod
    def count(self, name: str, filter_: Filter | None = None) -> int:
        """Return the exact number of matching points."""

    @abstractmethod
    def facet(self, name: str, field: str, filter_: Filter | None = None, *, most: int = 100) -> list[tuple[str, int]]:
        """Return values of a keyword field with their exact numbers of matching points, the commonest first, at most `most`.

        Equal numbers come by value. Of several values with the last number, any may be left out. A field that the collection
        was not created with, nor got later, has no values.
        """

    @abstractmethod
    def set_alias(self, alias: str, collection: str) -> None:
        """Point the alias at the collection, atomically, whether or not the alias existed."""

    @abstractmethod
    def drop_alias(self, alias: str) -> None:
        """Remove the alias; a missing one is a no-op."""

    @abstractmethod
    def aliases(self) -> dict[str, str]:
        """Return all aliases with their collections."""

    @abstractmethod
    def ping(self) -> None:
        """Return if the engine answers, and raise `StoreError` otherwise; used for readiness."""

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let this thread's calls inside the block wait for an engine that is away for a while; reads otherwise fail soon."""
        yield

    @contextmanager
    def written_elsewhere(self, name: str, ids: Sequence[str]) -> Iterator[None]:  # noqa: ARG002 - for stores that keep deletes
        """Run a block inside which another process upserts these points.

        A store that repeats deletes which the engine has lost must not repeat those of points that were upserted since.
        """
        yield

    @abstractmethod
    def close(self) -> None:
        """Flush, and release locks and connections. Idempotent."""
