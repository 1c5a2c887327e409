"""Vector store on a Qdrant server: the `VectorStore` adapter over qdrant-client, with points sent by gRPC.

Points are loaded without a graph (m=0, payload indexes first); `build` turns the graph on and waits for it. Aliases are the
server's. Every call is idempotent and is repeated when the server is away for a moment. Deletes hold even though the server
rearranges its segments meanwhile; `writes` describes how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import StoreError
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
    slices,
    sparse_slices,
)
from lodestone.store.limits import CALL_POINTS
from lodestone.store.ranking import SPARSE_ERROR, answer, sparse_score
from lodestone.store.records import as_batch
from lodestone.store.server.build import build_graph, outside_graph
from lodestone.store.server.connection import CollectionExistsError, ServerConnection
from lodestone.store.server.create import create_collection
from lodestone.store.server.engine import (
    Shape,
    engine_filter,
    search_request,
    shape_of,
    sparse_batch,
    sparse_search_request,
)
from lodestone.store.server.reads import ask, pages
from lodestone.store.server.writes import WriteKeeper
from lodestone_schemas.collections import CollectionSpec, Placement

FEATURES = frozenset({"graph_build", "int8", "binary", "field_index", "native_aliases", "sparse"})


class ServerStore(VectorStore):
    """Vector store that keeps its collections on the Qdrant server at `url`.

    Args:
        url: URL of its HTTP port, e.g. `http://localhost:6333`, or URLs of several nodes of a cluster; when one does not
            answer, the next is used.
        api_key: API key, if the server requires one.
        prefer_grpc: Use gRPC rather than HTTP.
        grpc_port: Port of gRPC; one for all nodes, or one each.
        timeout: Seconds of one call.
        patience: Seconds that a write is repeated while the server is away or busy.
        writers: Parallel upserts.
        placement: How new collections are spread over a cluster, unless their specification says otherwise.
        build_timeout: Seconds that `build` waits at most.
        stall_timeout: Seconds that `build` waits while the server is idle with points left to index.
        namespace: Prefix of the names of this store's collections and aliases on the server. Collections and aliases of other
            namespaces are neither listed nor changed. "" for a server of one's own: then every collection is listed.

    Raises:
        InvalidRequestError: `namespace` has other characters than letters and digits.
        ConfigurationError: There is no url, or the number of gRPC ports does not match.
        StoreError: No node answers, or the server is older than 1.12.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        api_key: str | None = None,
        prefer_grpc: bool = True,
        grpc_port: int | Sequence[int] = 6334,
        timeout: float = 30.0,
        patience: float = 60.0,
        writers: int = 4,
        placement: Placement | None = None,
        build_timeout: float = 6 * 3600.0,
        stall_timeout: float = 60.0,
        namespace: str = "",
    ) -> None:
        self._build_timeout = build_timeout
        self._stall_timeout = stall_timeout
        self._placement = placement or Placement()
        self._shapes: dict[str, Shape] = {}
        self._server = ServerConnection(
            url,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
            timeout=timeout,
            patience=patience,
            namespace=namespace,
        )
        self._keeper = WriteKeeper(self._server)
        self._client = self._server.client
        self._at = self._server.at  # converts a name of ours to the server's
        self._pool = ThreadPoolExecutor(max_workers=writers, thread_name_prefix="lodestone-upsert")

    def capabilities(self) -> StoreCapabilities:
        """Return the version of the server and its features."""
        return StoreCapabilities("qdrant", self._server.version, FEATURES)

    def create(self, spec: CollectionSpec) -> None:
        """Create the collection; other graph parameters under the same name take effect at the next build."""
        check_spec(spec)
        create_collection(self._server, self._keeper, spec, default=self._placement, patience=self._stall_timeout)
        self._shape(spec.name, fresh=True)

    def drop(self, name: str) -> None:
        """Remove the collection, all its points and its aliases."""
        self._shapes.pop(name, None)
        self._keeper.dropped(name)
        if name in self.collections():
            self._server.write("dropping a collection", partial(self._client.delete_collection, self._at(name)))

    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        return self._server.collections()

    def info(self, name: str) -> CollectionInfo:
        """Return the counts and the state of one collection."""
        self._keeper.settle(name)
        state = self._server.state(name)
        shape, points = shape_of(state, name=name), self.count(name)
        return CollectionInfo(
            name,
            shape.dim,
            points,
            points if shape.sparse else min(state.indexed_vectors_count or 0, points),
            building=state.status == models.CollectionStatus.YELLOW,
        )

    def outside_graph(self, name: str) -> int:
        """Return how many points lie outside the graph, by what all nodes tell of their segments."""
        self._keeper.settle(name)
        state = self._server.state(name)
        if shape_of(state, name=name).sparse:
            return 0
        return outside_graph(self._server, state, name=name, points=self.count(name))

    def upsert(self, name: str, points: PointBatch) -> None:
        """Insert or replace whole points. Pieces of 256 points are sent, several at once; each piece is durable by itself."""
        checked = check_points(points, dim=self._shape(name, sparse=False).dim)
        ordering = self._shape(name).ordering
        pieces = slices(checked, CALL_POINTS)
        self._write(name, checked.ids, [partial(self._server.upsert, name, piece, ordering=ordering) for piece in pieces])

    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """Insert or replace whole points of a sparse collection, in pieces as `upsert` does."""
        self._shape(name, sparse=True)
        checked = check_sparse_points(points)
        pieces = sparse_slices(checked, CALL_POINTS)
        self._write(name, checked.ids, [partial(self._upsert_sparse, name, piece) for piece in pieces])

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove points by id; missing ids are ignored."""
        self._shape(name)
        canonical: list[Any] = list(check_ids(ids))
        if canonical:
            with self._keeper.deleting(name, canonical):
                self._delete(name, models.PointIdsList(points=canonical))

    def delete_matching(self, name: str, filter_: Filter) -> None:
        """Remove every point that the filter matches, while other writers of this process wait."""
        check_matching(filter_)
        self._shape(name)
        conditions = engine_filter(filter_) or models.Filter()
        with self._keeper.deleting_found(name) as remember:
            for records in pages(self._server, name, conditions, 4096, payload=False):
                remember([str(record.id) for record in records])
            self._delete(name, models.FilterSelector(filter=conditions))

    def build(self, name: str) -> None:
        """Build the graph; do nothing for a sparse collection.

        Raises:
            StoreError: The server stopped optimizing, or was not done after `build_timeout` seconds.
        """
        if self._shape(name).sparse:
            return
        build_graph(self._server, self._keeper, name, timeout=self._build_timeout, stall_timeout=self._stall_timeout)

    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """Answer several queries in one call, in their order."""
        shape = self._shape(name, sparse=False)
        vectors = [check_query(query, dim=shape.dim) for query in queries]

        def request(row: int, fetch: int) -> models.QueryRequest:
            return search_request(queries[row], vectors[row], shape=shape, fetch=fetch)

        return answer(queries, partial(ask, self._server, name, request), exact=[query.exact for query in queries])

    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """Answer several queries of a sparse collection in one call, in their order."""
        self._shape(name, sparse=True)
        vectors = [check_sparse_query(query) for query in queries]

        def request(row: int, fetch: int) -> models.QueryRequest:
            return sparse_search_request(queries[row], vectors[row], fetch=fetch)

        scored = partial(ask, self._server, name, request, score=sparse_score(vectors))
        return answer(queries, scored, exact=[query.ties_by_id for query in queries], error=SPARSE_ERROR)

    def retrieve(self, name: str, ids: Sequence[str], *, with_payload: bool = True) -> PointBatch:
        """Return points by id with vectors, and payloads or empty ones, in the order of `ids`; missing ids are left out."""
        dim = self._shape(name).dim
        self._keeper.settle(name)
        canonical: list[Any] = list(check_ids(ids))
        records: dict[str, models.Record] = {}
        for start in range(0, len(canonical), CALL_POINTS):
            batch = canonical[start : start + CALL_POINTS]
            page = self._server.call(
                "reading points",
                partial(self._client.retrieve, self._at(name), batch, with_payload=with_payload, with_vectors=dim > 0),
                name=name,
            )
            records.update((str(record.id), record) for record in page)
        return as_batch([records[point_id] for point_id in canonical if point_id in records], dim=dim)

    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """Yield all matching points, by ascending id, in batches."""
        if batch_size < 1:
            raise StoreError(f"batch size {batch_size} is out of range", hint="at least 1")
        dim = self._shape(name).dim
        self._keeper.settle(name)
        record_pages = pages(self._server, name, engine_filter(filter_), batch_size, vectors=dim > 0)
        return (as_batch(records, dim=dim) for records in record_pages)

    def count(self, name: str, filter_: Filter | None = None) -> int:
        """Return the exact number of matching points."""
        self._keeper.settle(name)
        conditions = engine_filter(filter_)
        return self._server.call(
            "counting points", partial(self._client.count, self._at(name), conditions, exact=True), name=name
        ).count

    def facet(self, name: str, field: str, filter_: Filter | None = None, *, most: int = 100) -> list[tuple[str, int]]:
        """Return the commonest values of a keyword field with the exact numbers of matching points."""
        self._keeper.settle(name)
        if field not in self._server.state(name).payload_schema:
            return []
        count = partial(self._client.facet, self._at(name), field, facet_filter=engine_filter(filter_), limit=most, exact=True)
        found = self._server.call("counting values", count, name=name)
        return commonest_first((str(hit.value), hit.count) for hit in found.hits)

    def set_alias(self, alias: str, collection: str) -> None:
        """Point the alias at an existing collection, in one step of the server."""
        check_name(alias, kind="alias")
        self._shape(collection, fresh=True)
        server_name = self._at
        create = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=server_name(collection), alias_name=server_name(alias))
        )
        delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=server_name(alias)))
        # One call: the server applies both in one step.
        steps: list[Any] = [delete, create] if alias in self.aliases() else [create]
        try:
            self._server.write("moving an alias", partial(self._client.update_collection_aliases, steps), name=collection)
        except CollectionExistsError as error:
            raise StoreError(
                f"{alias!r} cannot become an alias: a collection has that name", hint="drop that collection first"
            ) from error

    def drop_alias(self, alias: str) -> None:
        """Remove the alias; a missing one is a no-op."""
        if alias in self.aliases():
            delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._at(alias)))
            self._server.write("dropping an alias", partial(self._client.update_collection_aliases, [delete]))

    def aliases(self) -> dict[str, str]:
        """Return all aliases with their collections."""
        return self._server.aliases()

    def ping(self) -> None:
        """Call the server once, without repeats, and raise `StoreError` if it does not answer."""
        self._server.call("asking for readiness", self._client.get_collections, patience=0.0)  # needs the key, unlike `info`

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let this thread's calls inside the block wait for a server that is away, as long as writes do."""
        with self._server.patient():
            yield

    @contextmanager
    def written_elsewhere(self, name: str, ids: Sequence[str]) -> Iterator[None]:
        """Count another process as a writer of this one inside the block, and then forget earlier deletes of its points."""
        with self._keeper.upserting(name, check_ids(ids)):
            yield

    def close(self) -> None:
        """Finish running upserts, repeat lost deletes, and close the connection."""
        self._pool.shutdown(wait=True)
        self._keeper.close()
        self._server.close()

    def _shape(self, name: str, *, fresh: bool = False, sparse: bool | None = None) -> Shape:
        shape = self._shapes.get(name)
        if shape is None or fresh:
            shape = shape_of(self._server.state(name), name=name)
            self._shapes[name] = shape
        if sparse is not None:
            check_kind(name, sparse=shape.sparse, wanted=sparse)
        return shape

    def _delete(self, name: str, selector: models.PointsSelector) -> None:
        delete = partial(self._client.delete, self._at(name), selector, wait=True, ordering=self._shape(name).ordering)
        self._server.write("deleting points", delete, name=name)

    def _upsert_sparse(self, name: str, points: SparseBatch) -> None:
        batch = sparse_batch(points)
        upsert = partial(self._client.upsert, self._at(name), batch, wait=True, ordering=self._shape(name).ordering)
        self._server.write("writing points", upsert, name=name)

    def _write(self, name: str, ids: Sequence[str], pieces: Iterable[Callable[[], None]]) -> None:
        with self._keeper.upserting(name, ids):
            futures = [self._pool.submit(piece) for piece in pieces]
            wait(futures)
            for piece in futures:
                piece.result()
