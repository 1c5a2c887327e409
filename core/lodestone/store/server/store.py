"""How are vectors kept and searched on a Qdrant server? The `VectorStore` adapter over qdrant-client, points by gRPC.

Points are loaded without a graph (m=0, payload indexes first); `build` turns the graph on and waits for it. Aliases are the
server's. Every call is idempotent and is repeated when the server is away for a moment. Deletes hold although the server
rearranges its segments meanwhile: see `server_writes`.
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
from lodestone.store.server.build import build_graph
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
    """The store on the Qdrant server at `url`.

    Args:
        url: Of its HTTP port, e.g. `http://localhost:6333`; of a cluster those of several nodes. When one does not answer, the
            next is asked.
        api_key: If the server asks for one.
        prefer_grpc: Use gRPC rather than HTTP.
        grpc_port: Where gRPC listens; one for all nodes, or one each.
        timeout: Seconds of one call.
        patience: Seconds that a write is repeated while the server is away or busy.
        writers: Parallel upserts.
        placement: How new collections are spread over a cluster, where their specification does not say.
        build_timeout: Seconds that `build` waits at most.
        stall_timeout: Seconds that `build` waits while the server is idle with points left to index.
        namespace: Whose collections and aliases these are: stands in front of their names on the server, and there only. Those
            of other namespaces are neither seen nor touched. "" for a server of one's own: then everything is seen.

    Raises:
        InvalidRequestError: `namespace` is not of letters and digits.
        ConfigurationError: There is no url, or another number of gRPC ports.
        StoreError: No node answers, or it is older than 1.12.
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
        self._at = self._server.at  # what the server calls a collection of ours
        self._pool = ThreadPoolExecutor(max_workers=writers, thread_name_prefix="lodestone-upsert")

    def capabilities(self) -> StoreCapabilities:
        """See `VectorStore.capabilities`."""
        return StoreCapabilities("qdrant", self._server.version, FEATURES)

    def create(self, spec: CollectionSpec) -> None:
        """See `VectorStore.create`. Other graph parameters under the same name hold from the next build on."""
        check_spec(spec)
        create_collection(self._server, self._keeper, spec, default=self._placement, patience=self._stall_timeout)
        self._shape(spec.name, fresh=True)

    def drop(self, name: str) -> None:
        """See `VectorStore.drop`. Aliases of the collection go with it."""
        self._shapes.pop(name, None)
        self._keeper.dropped(name)
        if name in self.collections():
            self._server.write("dropping a collection", partial(self._client.delete_collection, self._at(name)))

    def collections(self) -> list[str]:
        """See `VectorStore.collections`."""
        return self._server.collections()

    def info(self, name: str) -> CollectionInfo:
        """See `VectorStore.info`."""
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

    def upsert(self, name: str, points: PointBatch) -> None:
        """See `VectorStore.upsert`. Sent in pieces of 256 points, several at once; each piece is durable by itself."""
        checked = check_points(points, dim=self._shape(name, sparse=False).dim)
        ordering = self._shape(name).ordering
        pieces = slices(checked, CALL_POINTS)
        self._write(name, checked.ids, [partial(self._server.upsert, name, piece, ordering=ordering) for piece in pieces])

    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """See `VectorStore.upsert_sparse`. Sent in pieces as `upsert` does."""
        self._shape(name, sparse=True)
        checked = check_sparse_points(points)
        pieces = sparse_slices(checked, CALL_POINTS)
        self._write(name, checked.ids, [partial(self._upsert_sparse, name, piece) for piece in pieces])

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """See `VectorStore.delete`."""
        self._shape(name)
        canonical: list[Any] = list(check_ids(ids))
        if canonical:
            with self._keeper.deleting(name, canonical):
                self._delete(name, models.PointIdsList(points=canonical))

    def delete_matching(self, name: str, filter_: Filter) -> None:
        """See `VectorStore.delete_matching`. Other writers of this process wait meanwhile."""
        check_matching(filter_)
        self._shape(name)
        conditions = engine_filter(filter_) or models.Filter()
        with self._keeper.deleting_found(name) as remember:
            for records in pages(self._server, name, conditions, 4096, payload=False):
                remember([str(record.id) for record in records])
            self._delete(name, models.FilterSelector(filter=conditions))

    def build(self, name: str) -> None:
        """See `VectorStore.build`.

        Raises:
            StoreError: The server stopped optimizing, or was not done after `build_timeout` seconds.
        """
        if self._shape(name).sparse:
            return
        build_graph(self._server, self._keeper, name, timeout=self._build_timeout, stall_timeout=self._stall_timeout)

    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """See `VectorStore.search`."""
        shape = self._shape(name, sparse=False)
        vectors = [check_query(query, dim=shape.dim) for query in queries]

        def request(row: int, fetch: int) -> models.QueryRequest:
            return search_request(queries[row], vectors[row], shape=shape, fetch=fetch)

        return answer(queries, partial(ask, self._server, name, request), exact=[query.exact for query in queries])

    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """See `VectorStore.search_sparse`."""
        self._shape(name, sparse=True)
        vectors = [check_sparse_query(query) for query in queries]

        def request(row: int, fetch: int) -> models.QueryRequest:
            return sparse_search_request(queries[row], vectors[row], fetch=fetch)

        scored = partial(ask, self._server, name, request, score=sparse_score(vectors))
        return answer(queries, scored, exact=[True] * len(queries), error=SPARSE_ERROR)

    def retrieve(self, name: str, ids: Sequence[str]) -> PointBatch:
        """See `VectorStore.retrieve`."""
        dim = self._shape(name).dim
        self._keeper.settle(name)
        canonical: list[Any] = list(check_ids(ids))
        records: dict[str, models.Record] = {}
        for start in range(0, len(canonical), CALL_POINTS):
            part = canonical[start : start + CALL_POINTS]
            found = self._server.call(
                "reading points",
                partial(self._client.retrieve, self._at(name), part, with_payload=True, with_vectors=dim > 0),
                name=name,
            )
            records.update((str(record.id), record) for record in found)
        return as_batch([records[point_id] for point_id in canonical if point_id in records], dim=dim)

    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """See `VectorStore.scroll`."""
        if batch_size < 1:
            raise StoreError(f"batch size {batch_size} is out of range", hint="at least 1")
        dim = self._shape(name).dim
        self._keeper.settle(name)
        found = pages(self._server, name, engine_filter(filter_), batch_size, vectors=dim > 0)
        return (as_batch(records, dim=dim) for records in found)

    def count(self, name: str, filter_: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        self._keeper.settle(name)
        conditions = engine_filter(filter_)
        return self._server.call(
            "counting points", partial(self._client.count, self._at(name), conditions, exact=True), name=name
        ).count

    def set_alias(self, alias: str, collection: str) -> None:
        """See `VectorStore.set_alias`."""
        check_name(alias, kind="alias")
        self._shape(collection, fresh=True)
        at = self._at
        create = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=at(collection), alias_name=at(alias))
        )
        forget = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=at(alias)))
        # One call: the server applies both in one step.
        steps: list[Any] = [forget, create] if alias in self.aliases() else [create]
        try:
            self._server.write("moving an alias", partial(self._client.update_collection_aliases, steps), name=collection)
        except CollectionExistsError as error:
            raise StoreError(
                f"{alias!r} cannot become an alias: a collection has that name", hint="drop that collection first"
            ) from error

    def drop_alias(self, alias: str) -> None:
        """See `VectorStore.drop_alias`."""
        if alias in self.aliases():
            forget = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._at(alias)))
            self._server.write("dropping an alias", partial(self._client.update_collection_aliases, [forget]))

    def aliases(self) -> dict[str, str]:
        """See `VectorStore.aliases`."""
        return self._server.aliases()

    def ping(self) -> None:
        """See `VectorStore.ping`. Asks once."""
        self._server.call("asking for readiness", self._client.get_collections, patience=0.0)  # needs the key, unlike `info`

    @contextmanager
    def patient(self) -> Iterator[None]:
        """See `VectorStore.patient`."""
        with self._server.patient():
            yield

    def close(self) -> None:
        """See `VectorStore.close`."""
        self._pool.shutdown(wait=True)
        self._keeper.close()
        self._server.close()

    def _shape(self, name: str, *, fresh: bool = False, sparse: bool | None = None) -> Shape:
        known = self._shapes.get(name)
        if known is None or fresh:
            known = shape_of(self._server.state(name), name=name)
            self._shapes[name] = known
        if sparse is not None:
            check_kind(name, sparse=known.sparse, wanted=sparse)
        return known

    def _delete(self, name: str, selector: models.PointsSelector) -> None:
        delete = partial(self._client.delete, self._at(name), selector, wait=True, ordering=self._shape(name).ordering)
        self._server.write("deleting points", delete, name=name)

    def _upsert_sparse(self, name: str, points: SparseBatch) -> None:
        batch = sparse_batch(points)
        upsert = partial(self._client.upsert, self._at(name), batch, wait=True, ordering=self._shape(name).ordering)
        self._server.write("writing points", upsert, name=name)

    def _write(self, name: str, ids: Sequence[str], pieces: Iterable[Callable[[], None]]) -> None:
        with self._keeper.upserting(name, ids):
            sent = [self._pool.submit(piece) for piece in pieces]
            wait(sent)
            for piece in sent:
                piece.result()
