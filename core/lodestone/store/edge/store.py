"""Embedded vector store: the `VectorStore` adapter over qdrant-edge, which runs inside this process.

One process owns the store (`ownership`). Each collection is a directory (`collection`), opened at first use. Searches and
writes hold the GIL inside the engine, so batches are cut into short calls to let other threads run; a child process builds
graphs, and small collections are searched as matrices (`matrix`), which let the GIL go. A store that cannot be written (a full
or read-only disk) is read from a temporary copy, and refuses changes.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path

import qdrant_edge as qe

from lodestone.errors import LodestoneError, OutOfSpaceError, StoreError, StoreLockedError, UnknownNameError
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
    commonest_first,
)
from lodestone.store.change_count import ChangeCount
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
from lodestone.store.deleted_points import COLLECTIONS_DIR
from lodestone.store.edge.build import run_build_child
from lodestone.store.edge.collection import EdgeCollection
from lodestone.store.edge.engine import SPEC_FILE, engine_errors, engine_filter, search_request, sparse_search_request
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.readable_copy import readable_copy, unwritable
from lodestone.store.edge.records import answers_by_matrix, batch_of, pages_of, points_by_matrix, read_records
from lodestone.store.edge.shared_matrix import SharedMatrix
from lodestone.store.files import DRAFT_PREFIX, TRASH_PREFIX, discard
from lodestone.store.limits import CALL_POINTS
from lodestone.store.ownership import StoreOwnership
from lodestone.store.ranking import SPARSE_ERROR, Hit, Score, answer, engine_score, hits_of, sparse_score
from lodestone_schemas.collections import CollectionSpec

_log = logging.getLogger(__name__)
FEATURES = frozenset({"graph_build", "int8", "binary", "field_index", "sparse"})
# Exhaustive searches take about 1 ms a query at 10,000 x 896: this keeps the GIL's longest hold near 20 ms there.
CALL_QUERIES = 16
_DELETED_AT_ONCE = 4096  # of the ids that are read before they are deleted


class EdgeStore(VectorStore):
    """Embedded vector store under `root`, which this process owns until `close`.

    Args:
        root: Directory of the store; created if missing.
        aliases: Table that keeps the aliases, because the engine has none.
        lock_timeout: Seconds to wait for another owner.
        owner: Command of this process (`lodestone serve`), shown to a second opener.
        build_threads: Threads of a graph build; 0 for one a core.
        may_only_read: Whether a store that cannot be written is read from a temporary copy.
        matrix: When collections are held as matrices.

    Attributes:
        changes: Counts changes for other processes of this machine; None where no other process asks.

    Raises:
        StoreLockedError: Another process owns the store.
        OutOfSpaceError: The disk is full, and a copy is not allowed or has no room.
        StoreError: The store cannot be written for another reason, and a copy is not allowed or has no room.
    """

    def __init__(
        self,
        root: Path,
        *,
        aliases: AliasTable,
        lock_timeout: float = 5.0,
        owner: str = "lodestone",
        build_threads: int = 0,
        may_only_read: bool = False,
        matrix: MatrixPolicy = MatrixPolicy(),  # noqa: B008 - immutable
    ) -> None:
        self.changes: ChangeCount | None = None
        self._root = root
        self._matrix = matrix
        self._aliases = aliases
        self._build_threads = build_threads
        self._lock = threading.RLock()
        self._collections: dict[str, EdgeCollection] = {}
        self._refusal: LodestoneError | None = None  # of changes, where only a copy can be read
        self._ownership = StoreOwnership(root, command=owner, timeout=lock_timeout)
        try:
            self._ownership.acquire()
        except (OutOfSpaceError, OSError) as error:
            self._refusal = unwritable(root, error)
            if not may_only_read:
                raise self._refusal from error
            try:
                self._root = readable_copy(root, COLLECTIONS_DIR)
            except (OutOfSpaceError, OSError):  # there is no room for a copy either
                raise self._refusal from error
            _log.warning("%s: a temporary copy is searched, and nothing is recorded", self._refusal.message)
            self._ownership = StoreOwnership(self._root, command=owner, timeout=lock_timeout)
            self._ownership.acquire()
        try:
            self._open()
        except BaseException:
            self._release()
            raise

    def capabilities(self) -> StoreCapabilities:
        """Return the version of qdrant-edge and its features."""
        return StoreCapabilities("qdrant-edge", version("qdrant-edge-py"), FEATURES)

    def create(self, spec: CollectionSpec) -> None:
        """Create the collection; other graph parameters under the same name take effect at the next build."""
        check_spec(spec)
        self._require_writable()
        with self._lock:
            self._require_owned()
            existing = self._collections.get(spec.name)
            if existing is None:
                path = self._root / COLLECTIONS_DIR / spec.name
                discard(path)  # a directory without a specification is not a collection
                self._collections[spec.name] = EdgeCollection.create(path, spec, self._matrix, self._changing)
                return
        if (existing.spec.dim, existing.spec.sparse) != (spec.dim, spec.sparse):
            raise other_vectors(spec.name, dim=existing.spec.dim, sparse=existing.spec.sparse, wanted=spec)
        existing.respecify(spec)

    def drop(self, name: str) -> None:
        """Remove the collection, all its points and its aliases."""
        self._require_writable()
        with self._lock:
            self._require_owned()
            with self._changing():
                collection = self._collections.pop(name, None)
        if collection is not None:
            for alias, target in self._aliases.all().items():
                if target == name:
                    self._aliases.delete(alias)
            collection.close(delete=True)

    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        with self._lock:
            self._require_owned()
            return sorted(self._collections)

    def info(self, name: str) -> CollectionInfo:
        """Return the counts and the state of one collection."""
        collection = self._collection(name)
        points, outside = collection.counts()
        return CollectionInfo(name, collection.spec.dim, points, points - outside, building=collection.building)

    def outside_graph(self, name: str) -> int:
        """Return how many points lie outside the graph: those upserted since it was built, counted as often as they were."""
        return self._collection(name).counts()[1]

    def upsert(self, name: str, points: PointBatch) -> None:
        """Insert or replace whole points. Batches beyond 256 points are written in pieces, each durable by itself."""
        self._require_writable()
        collection = self._collection(name, sparse=False)
        for piece in slices(check_points(points, dim=collection.spec.dim), CALL_POINTS):
            collection.upsert(piece)

    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """Insert or replace whole points of a sparse collection, in pieces as `upsert` does."""
        self._require_writable()
        collection = self._collection(name, sparse=True)
        for piece in sparse_slices(check_sparse_points(points), CALL_POINTS):
            collection.upsert_sparse(piece)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove points by id, in pieces of 256; missing ids are ignored."""
        self._require_writable()
        collection = self._collection(name)
        canonical = check_ids(ids)
        for start in range(0, len(canonical), CALL_POINTS):
            collection.delete(canonical[start : start + CALL_POINTS])

    def delete_matching(self, name: str, filter_: Filter) -> None:
        """Remove every point that the filter matches, while other writers wait."""
        check_matching(filter_)
        collection = self._collection(name)
        with collection.writing():
            pages = pages_of(collection, filter_, _DELETED_AT_ONCE, content=False)
            self.delete(name, [str(record.id) for page in pages for record in page])

    def build(self, name: str) -> None:
        """Build the graph; do nothing if every point is already in a graph with the specified parameters."""
        self._require_writable()
        self._collection(name).build(lambda shard, spec, stop: run_build_child(shard, spec, stop, threads=self._build_threads))

    def erase(self, name: str, *, now: bool = True) -> int:
        """Write the files of a collection anew if they hold deleted points; return how many bytes of those remain."""
        self._require_writable()
        collection = self._collection(name)
        if not now and collection.may_wait():
            return collection.deleted_bytes()
        collection.erase(lambda shard, spec, stop: run_build_child(shard, spec, stop, threads=self._build_threads))
        return collection.deleted_bytes()

    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """Answer several queries in one call, in their order: by the matrix where there is one, else by the engine."""
        collection = self._collection(name, sparse=False)
        vectors = [check_query(query, dim=collection.spec.dim) for query in queries]
        answers = answers_by_matrix(collection, queries, vectors)
        left = [number for number, found in enumerate(answers) if found is None]
        if not left:
            return [found for found in answers if found is not None]

        def request(row: int, fetch: int) -> qe.QueryRequest:
            return search_request(queries[left[row]], vectors[left[row]], spec=collection.spec, fetch=fetch)

        asked = [queries[number] for number in left]
        found = iter(answer(asked, partial(self._ask, collection, request), exact=[query.exact for query in asked]))
        return [next(found) if known is None else known for known in answers]

    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """Answer several queries of a sparse collection in one call, in their order."""
        collection = self._collection(name, sparse=True)
        vectors = [check_sparse_query(query) for query in queries]

        def request(row: int, fetch: int) -> qe.QueryRequest:
            return sparse_search_request(queries[row], vectors[row], fetch=fetch)

        ask = partial(self._ask, collection, request, score=sparse_score(vectors))
        return answer(queries, ask, exact=[query.ties_by_id for query in queries], error=SPARSE_ERROR)

    def instant(self, name: str) -> bool:
        """Return True if the collection has a matrix."""
        with self._lock:
            collection = self._collections.get(name)
        return collection is not None and collection.has_matrix

    def shared_matrix(self, name: str, known: str | None = None) -> SharedMatrix | None:
        """Return what another process makes the matrix of a collection from; None while it has to ask here.

        Args:
            name: The collection.
            known: Version of the matrix that the other process has.
        """
        return self._collection(name).shared_matrix(known)

    def examine_files(self, name: str) -> None:
        """Compare all bytes of a collection's files with what was recorded when they were written."""
        self._collection(name).examine()

    def settle(self) -> None:
        """Record what the files of all opened collections hold."""
        with self._lock:
            collections = list(self._collections.values())
        for collection in collections:
            collection.settle()

    def retrieve(self, name: str, ids: Sequence[str], *, with_payload: bool = True) -> PointBatch:
        """Return points by id with vectors, and payloads or empty ones, in the order of `ids`; missing ids are left out."""
        collection = self._collection(name)
        canonical = check_ids(ids)
        held = points_by_matrix(collection, canonical, with_payload=with_payload)
        if held is not None:
            return held
        found = read_records(collection, canonical, vectors=not collection.spec.sparse, payloads=with_payload)
        records = {str(record.id): record for record in found}
        return batch_of(collection, [records[point_id] for point_id in canonical if point_id in records])

    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """Yield all matching points, by ascending id, in batches."""
        collection = self._collection(name)
        return (batch_of(collection, page) for page in pages_of(collection, filter_, batch_size, content=True))

    def count(self, name: str, filter_: Filter | None = None) -> int:
        """Return the exact number of matching points."""
        collection = self._collection(name)
        with collection.reading() as shard, engine_errors("counting points", collection.path, collection=name):
            return int(shard.count(qe.CountRequest(exact=True, filter=engine_filter(filter_))))

    def facet(self, name: str, field: str, filter_: Filter | None = None, *, most: int = 100) -> list[tuple[str, int]]:
        """Return the commonest values of a keyword field with the exact numbers of matching points."""
        collection = self._collection(name)
        if field not in dict(collection.spec.fields):
            return []
        request = qe.FacetRequest(field, limit=most, exact=True, filter=engine_filter(filter_))
        with collection.reading() as shard, engine_errors("counting values", collection.path, collection=name):
            return commonest_first((str(hit.value), int(hit.count)) for hit in shard.facet(request).hits)

    def set_alias(self, alias: str, collection: str) -> None:
        """Point the alias at an existing collection."""
        check_name(alias, kind="alias")
        self._collection(collection)
        self._aliases.set(alias, collection)

    def drop_alias(self, alias: str) -> None:
        """Remove the alias; a missing one is a no-op."""
        self._require_owned()
        self._aliases.delete(alias)

    def aliases(self) -> dict[str, str]:
        """Return all aliases with their collections."""
        self._require_owned()
        return dict(self._aliases.all())

    def ping(self) -> None:
        """Check that every alias points at a collection on disk, and open these, so that the first query does not have to."""
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
        """Close all collections and release the ownership of the store."""
        with self._lock:
            collections, self._collections = list(self._collections.values()), {}
        try:
            for collection in collections:
                collection.close()
        finally:
            self._release()

    def _release(self) -> None:
        self._ownership.release()
        if self._refusal is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _changing(self) -> AbstractContextManager[None]:
        return nullcontext() if self.changes is None else self.changes.changing()

    def _require_writable(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    def _open(self) -> None:
        folder = self._root / COLLECTIONS_DIR
        folder.mkdir(exist_ok=True)
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith((TRASH_PREFIX, DRAFT_PREFIX)):
                discard(entry)
            elif (entry / SPEC_FILE).exists():
                self._collections[entry.name] = EdgeCollection(entry, self._matrix, self._changing)

    def _require_owned(self) -> None:
        if not self._ownership.held:
            raise StoreLockedError(f"the vector store in {self._root} was closed", hint="open it again")

    def _collection(self, name: str, *, sparse: bool | None = None) -> EdgeCollection:
        with self._lock:
            self._require_owned()
            collection = self._collections.get(name)
            if collection is None:
                raise UnknownNameError.among("collection", name, list(self._collections))
        if sparse is not None:
            check_kind(name, sparse=collection.spec.sparse, wanted=sparse)
        return collection

    def _ask(
        self,
        collection: EdgeCollection,
        request: Callable[[int, int], qe.QueryRequest],
        fetches: Mapping[int, int],
        *,
        score: Score = engine_score,
    ) -> list[list[Hit]]:
        def send(requests: list[qe.QueryRequest]) -> list[list[qe.ScoredPoint]]:
            with collection.reading() as shard, engine_errors("searching", collection.path, collection=collection.name):
                hits: list[list[qe.ScoredPoint]] = shard.query_batch(qe.QueryBatchRequest(requests))
            return hits

        return hits_of(fetches, request, send, at_once=CALL_QUERIES, score=score)
