"""How are vectors kept and searched inside this process? The `VectorStore` adapter over qdrant-edge.

One process owns the store (`ownership`). Each collection is a directory (`edge_collection`), opened at first use. Searches and
writes hold the GIL inside the engine, so batches are cut to let other threads breathe; graphs are built by a child process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from lodestone.errors import StoreError, StoreLockedError, UnknownNameError
from lodestone.store.aliases import AliasTable
from lodestone.store.base import (
    CollectionInfo,
    Filter,
    Neighbours,
    PointBatch,
    SparseBatch,
    SparseQuery,
    StoreCapabilities,
    VectorQuery,
    VectorStore,
)
from lodestone.store.checks import (
    check_ids,
    check_kind,
    check_matching,
    check_name,
    check_points,
    check_query,
    check_sparse_points,
    check_sparse_query,
    check_spec,
    other_vectors,
    slices,
    sparse_slices,
)
from lodestone.store.edge.build import run_build_child
from lodestone.store.edge.collection import EdgeCollection
from lodestone.store.edge.engine import (
    engine_errors,
    engine_filter,
    search_request,
    sparse_search_request,
)
from lodestone.store.edge.spec import SPEC_FILE
from lodestone.store.files import DRAFT_PREFIX, TRASH_PREFIX, discard
from lodestone.store.limits import CALL_POINTS
from lodestone.store.ownership import StoreOwnership
from lodestone.store.ranking import SPARSE_ERROR, Hit, Score, answer, engine_score, hits_of, sparse_score
from lodestone.store.records import as_batch
from lodestone_schemas.collections import CollectionSpec

COLLECTIONS_DIR = "collections"
FEATURES = frozenset({"graph_build", "int8", "binary", "field_index", "sparse"})
# Exhaustive searches take about 1 ms a question at 10,000 x 896: this keeps the GIL's longest hold near 20 ms there.
CALL_QUERIES = 16


class EdgeStore(VectorStore):
    """The embedded store under `root`, owned by this process until `close`.

    Args:
        root: Directory of the store; made when missing.
        aliases: Where aliases are kept: the engine has none.
        lock_timeout: Seconds to wait for another owner.
        owner: What this process is doing (`lodestone serve`); a second opener is told.
        build_threads: Threads of a graph build; 0 for one a core.

    Raises:
        StoreLockedError: Another process owns the store.
    """

    def __init__(
        self, root: Path, *, aliases: AliasTable, lock_timeout: float = 5.0, owner: str = "lodestone", build_threads: int = 0
    ) -> None:
        self._root = root
        self._aliases = aliases
        self._build_threads = build_threads
        self._lock = threading.RLock()
        self._collections: dict[str, EdgeCollection] = {}
        self._ownership = StoreOwnership(root, command=owner, timeout=lock_timeout)
        self._ownership.acquire()
        try:
            self._open()
        except BaseException:
            self._ownership.release()
            raise

    def capabilities(self) -> StoreCapabilities:
        """See `VectorStore.capabilities`."""
        return StoreCapabilities("qdrant-edge", version("qdrant-edge-py"), FEATURES)

    def create(self, spec: CollectionSpec) -> None:
        """See `VectorStore.create`. Other graph parameters under the same name hold from the next build on."""
        check_spec(spec)
        with self._lock:
            self._require_owned()
            known = self._collections.get(spec.name)
            if known is None:
                path = self._root / COLLECTIONS_DIR / spec.name
                discard(path)  # a directory without a specification is not a collection
                self._collections[spec.name] = EdgeCollection.create(path, spec)
                return
        if (known.spec.dim, known.spec.sparse) != (spec.dim, spec.sparse):
            raise other_vectors(spec.name, dim=known.spec.dim, sparse=known.spec.sparse, wanted=spec)
        known.respecify(spec)

    def drop(self, name: str) -> None:
        """See `VectorStore.drop`. Aliases of the collection go with it."""
        with self._lock:
            self._require_owned()
            collection = self._collections.pop(name, None)
        if collection is not None:
            for alias, target in self._aliases.all().items():
                if target == name:
                    self._aliases.delete(alias)
            collection.close(delete=True)

    def collections(self) -> list[str]:
        """See `VectorStore.collections`."""
        with self._lock:
            self._require_owned()
            return sorted(self._collections)

    def info(self, name: str) -> CollectionInfo:
        """See `VectorStore.info`."""
        collection = self._collection(name)
        with collection.reading() as shard, engine_errors(f"reading the state of {name!r}", collection.path):
            state = shard.info()
            points = shard.count(qe.CountRequest(exact=True))
        indexed = points if collection.spec.sparse else min(state.indexed_vectors_count, points)
        return CollectionInfo(name, collection.spec.dim, points, indexed, building=collection.building)

    def upsert(self, name: str, points: PointBatch) -> None:
        """See `VectorStore.upsert`. Batches beyond 256 points are written in pieces, each durable by itself."""
        collection = self._collection(name, sparse=False)
        for piece in slices(check_points(points, dim=collection.spec.dim), CALL_POINTS):
            collection.upsert(piece)

    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """See `VectorStore.upsert_sparse`. Written in pieces as `upsert` does."""
        collection = self._collection(name, sparse=True)
        for piece in sparse_slices(check_sparse_points(points), CALL_POINTS):
            collection.upsert_sparse(piece)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """See `VectorStore.delete`."""
        collection = self._collection(name)
        canonical = check_ids(ids)
        for start in range(0, len(canonical), CALL_POINTS):
            collection.delete(canonical[start : start + CALL_POINTS])

    def delete_matching(self, name: str, filter_: Filter) -> None:
        """See `VectorStore.delete_matching`."""
        check_matching(filter_)
        collection = self._collection(name)
        with collection.writing():
            found = [
                point_id for records in self._pages(collection, filter_, 4096, content=False) for point_id in _ids(records)
            ]
            self.delete(name, found)

    def build(self, name: str) -> None:
        """See `VectorStore.build`. Does nothing when every point is in a graph of the wanted parameters."""
        self._collection(name).build(lambda shard, spec, stop: run_build_child(shard, spec, stop, threads=self._build_threads))

    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """See `VectorStore.search`."""
        collection = self._collection(name, sparse=False)
        vectors = [check_query(query, dim=collection.spec.dim) for query in queries]

        def request(row: int, fetch: int) -> qe.QueryRequest:
            return search_request(queries[row], vectors[row], spec=collection.spec, fetch=fetch)

        return answer(queries, partial(self._ask, collection, request), exact=[query.exact for query in queries])

    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """See `VectorStore.search_sparse`."""
        collection = self._collection(name, sparse=True)
        vectors = [check_sparse_query(query) for query in queries]

        def request(row: int, fetch: int) -> qe.QueryRequest:
            return sparse_search_request(queries[row], vectors[row], fetch=fetch)

        ask = partial(self._ask, collection, request, score=sparse_score(vectors))
        return answer(queries, ask, exact=[True] * len(queries), error=SPARSE_ERROR)

    def retrieve(self, name: str, ids: Sequence[str]) -> PointBatch:
        """See `VectorStore.retrieve`."""
        collection = self._collection(name)
        canonical: list[Any] = list(check_ids(ids))
        records: dict[str, qe.Record] = {}
        for start in range(0, len(canonical), CALL_POINTS):
            with collection.reading() as shard, engine_errors(f"reading points of {name!r}", collection.path):
                found = shard.retrieve(canonical[start : start + CALL_POINTS], True, not collection.spec.sparse)
            records.update((str(record.id), record) for record in found)
        return as_batch([records[i] for i in canonical if i in records], dim=collection.spec.dim)

    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """See `VectorStore.scroll`."""
        collection = self._collection(name)
        return (as_batch(page, dim=collection.spec.dim) for page in self._pages(collection, filter_, batch_size, content=True))

    def count(self, name: str, filter_: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        collection = self._collection(name)
        with collection.reading() as shard, engine_errors(f"counting points of {name!r}", collection.path):
            return int(shard.count(qe.CountRequest(exact=True, filter=engine_filter(filter_))))

    def set_alias(self, alias: str, collection: str) -> None:
        """See `VectorStore.set_alias`."""
        check_name(alias, kind="alias")
        self._collection(collection)
        self._aliases.set(alias, collection)

    def drop_alias(self, alias: str) -> None:
        """See `VectorStore.drop_alias`."""
        self._require_owned()
        self._aliases.delete(alias)

    def aliases(self) -> dict[str, str]:
        """See `VectorStore.aliases`."""
        self._require_owned()
        return dict(self._aliases.all())

    def ping(self) -> None:
        """See `VectorStore.ping`. Opens what the aliases point at, so that the first query does not have to."""
        for alias, target in self.aliases().items():
            # On disk too: an open collection goes on answering from memory after its directory was deleted.
            on_disk = (self._root / COLLECTIONS_DIR / target / SPEC_FILE).is_file()
            if target not in self.collections() or not on_disk:
                raise StoreError(
                    f"alias {alias!r} points at collection {target!r}, which is not in {self._root}",
                    hint="run `lodestone index` again: it rebuilds collections from the Parquet files",
                )
            self.info(target)

    def close(self) -> None:
        """See `VectorStore.close`."""
        with self._lock:
            collections, self._collections = list(self._collections.values()), {}
        try:
            for collection in collections:
                collection.close()
        finally:
            self._ownership.release()

    def _open(self) -> None:
        home = self._root / COLLECTIONS_DIR
        home.mkdir(exist_ok=True)
        for entry in sorted(home.iterdir()):
            if entry.name.startswith((TRASH_PREFIX, DRAFT_PREFIX)):
                discard(entry)
            elif (entry / SPEC_FILE).exists():
                self._collections[entry.name] = EdgeCollection(entry)

    def _require_owned(self) -> None:
        if not self._ownership.held:
            raise StoreLockedError(f"the vector store in {self._root} was closed", hint="open it again")

    def _collection(self, name: str, *, sparse: bool | None = None) -> EdgeCollection:
        with self._lock:
            self._require_owned()
            found = self._collections.get(name)
            if found is None:
                raise UnknownNameError.among("collection", name, list(self._collections))
        if sparse is not None:
            check_kind(name, sparse=found.spec.sparse, wanted=sparse)
        return found

    def _ask(
        self,
        collection: EdgeCollection,
        request: Callable[[int, int], qe.QueryRequest],
        fetches: Mapping[int, int],
        *,
        score: Score = engine_score,
    ) -> list[list[Hit]]:
        def send(requests: list[qe.QueryRequest]) -> list[list[qe.ScoredPoint]]:
            with collection.reading() as shard, engine_errors(f"searching {collection.name!r}", collection.path):
                found: list[list[qe.ScoredPoint]] = shard.query_batch(qe.QueryBatchRequest(requests))
            return found

        return hits_of(fetches, request, send, at_once=CALL_QUERIES, score=score)

    def _pages(
        self, collection: EdgeCollection, filter_: Filter | None, size: int, *, content: bool
    ) -> Iterator[list[qe.Record]]:
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
            with collection.reading() as shard, engine_errors(f"reading {collection.name!r}", collection.path):
                records, offset = shard.scroll(request)
            if records:
                yield records
            if offset is None:
                return


def _ids(records: Sequence[qe.Record]) -> list[str]:
    return [str(record.id) for record in records]
