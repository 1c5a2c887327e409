"""Store that another process of this machine has opened: the `VectorStore` adapter over pipes to a `StoreHost`.

The embedded store has one owner. Further processes that answer queries of the same home ask the owner by this adapter, so that
they see every write at once. A call takes a pipe for itself until it is answered; with all of them taken, it waits for one.

Exact searches among dense vectors need no call where this process has the same matrix as the owner: the file of a large one,
mapped by both, or the numbers of a small one. The owner counts its changes in shared memory. As long as the count stays what it
was when the matrix was compared with the owner's, the matrix is true; else it is compared again, and the owner answers if it
has changed.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

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
from lodestone.store.change_count import ChangeCount
from lodestone.store.checks import check_ids
from lodestone.store.edge.shared_matrix import SharedMatrix
from lodestone.store.proxy.held_matrices import HeldMatrices
from lodestone_schemas.collections import CollectionSpec

CALL_TIMEOUT_S: Final = 30.0
"""Seconds to wait for the answer of a read; what writes, builds or reads whole files takes as long as it takes."""

_WRITES: Final = frozenset(
    {"create", "drop", "upsert", "upsert_sparse", "delete", "delete_matching", "build", "erase", "examine_files", "settle"}
)
_GONE: Final = "the process that owns the embedded store is gone"
_SILENT: Final = "the process that owns the embedded store does not answer"
_HINT: Final = "start `lodestone serve` again; logs/service.log in the home says why it ended"


class StoreProxy(VectorStore):
    """Vector store behind pipes. Errors of the owner's store are raised here as they are.

    Args:
        pipes: Pipes to the `StoreHost`, at least one; they are closed with the store.
        changes: The owner's count of its changes; None to ask the owner everything.
        timeout_s: Seconds to wait for the answer of a read.
        broken: Called when a pipe breaks, or its answer does not come: it is closed, and not used again.
    """

    def __init__(
        self,
        pipes: Sequence[Connection],
        *,
        changes: ChangeCount | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self._pipes = tuple(pipes)
        self._matrices = None if changes is None else HeldMatrices(self._shared_matrix, changes)
        self._timeout_s = timeout_s
        self._free: queue.LifoQueue[Connection] = queue.LifoQueue()  # the last one used is the one whose thread is awake
        for pipe in self._pipes:
            self._free.put(pipe)
        self._left = len(self._pipes)
        self._closed = False
        self._broken = broken

    def capabilities(self) -> StoreCapabilities:
        """Return what the owner's engine can do."""
        found: StoreCapabilities = self._call("capabilities")
        return found

    def create(self, spec: CollectionSpec) -> None:
        """Create the collection, as the owner's store does."""
        self._call("create", spec)

    def drop(self, name: str) -> None:
        """Remove the collection and its aliases."""
        self._call("drop", name)

    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        names: list[str] = self._call("collections")
        return names

    def info(self, name: str) -> CollectionInfo:
        """Return the counts and the state of one collection."""
        found: CollectionInfo = self._call("info", name)
        return found

    def outside_graph(self, name: str) -> int:
        """Return how many points lie outside the graph."""
        points: int = self._call("outside_graph", name)
        return points

    def upsert(self, name: str, points: PointBatch) -> None:
        """Insert or replace whole points, durably."""
        self._call("upsert", name, points)

    def upsert_sparse(self, name: str, points: SparseBatch) -> None:
        """Insert or replace whole points of a sparse collection, durably."""
        self._call("upsert_sparse", name, points)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        """Remove points by id; missing ids are ignored."""
        self._call("delete", name, ids)

    def delete_matching(self, name: str, filter_: Filter) -> None:
        """Remove every point that the filter matches."""
        self._call("delete_matching", name, filter_)

    def build(self, name: str) -> None:
        """Build the graph, in the owner."""
        self._call("build", name)

    def erase(self, name: str, *, now: bool = True) -> int:
        """Remove the bytes of deleted points, in the owner; return how many remain."""
        left: int = self._call("erase", name, now=now)
        return left

    def search(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        """Answer several queries in one call, in their order: by the matrix that is held here, else by the owner."""
        answers = [None] * len(queries) if self._matrices is None else self._matrices.answers(name, queries)
        left = [number for number, answer in enumerate(answers) if answer is None]
        found: Iterator[Neighbours] = iter(self._call("search", name, [queries[number] for number in left]) if left else ())
        return [next(found) if answer is None else answer for answer in answers]

    def instant(self, name: str) -> bool:
        """Return True if the collection's matrix is held here, and true."""
        return self._matrices is not None and self._matrices.holds(name)

    def search_sparse(self, name: str, queries: Sequence[SparseQuery]) -> list[Neighbours]:
        """Answer several queries of a sparse collection in one call, in their order."""
        found: list[Neighbours] = self._call("search_sparse", name, list(queries))
        return found

    def examine_files(self, name: str) -> None:
        """Have the owner compare a collection's files with what was recorded of them."""
        self._call("examine_files", name)

    def settle(self) -> None:
        """Have the owner record what the files of all collections hold."""
        self._call("settle")

    def retrieve(self, name: str, ids: Sequence[str], *, with_payload: bool = True) -> PointBatch:
        """Return points by id, in the order of `ids`; missing ids are left out."""
        if self._matrices is not None and not with_payload:
            canonical = check_ids(ids)
            vectors = self._matrices.vectors(name, canonical)
            if vectors:
                held = [point_id for point_id in canonical if point_id in vectors]
                rows = np.array([vectors[point_id] for point_id in held], np.float32)
                return PointBatch(held, rows, [{}] * len(held))
        found: PointBatch = self._call("retrieve", name, list(ids), with_payload=with_payload)
        return found

    def scroll(self, name: str, filter_: Filter | None = None, *, batch_size: int = 256) -> Iterator[PointBatch]:
        """Yield all matching points, by ascending id, in batches. One pipe is taken until the last one is read or given up."""
        with self._pipe() as pipe:
            pipe.send(("scroll", (name, filter_), {"batch_size": batch_size}))
            try:
                while (page := self._answer(pipe, "scroll")) is not None:
                    yield page
            except GeneratorExit:
                while self._answer(pipe, "scroll") is not None:
                    pass  # whoever asks next must not read these
                raise

    def count(self, name: str, filter_: Filter | None = None) -> int:
        """Return the exact number of matching points."""
        points: int = self._call("count", name, filter_)
        return points

    def facet(self, name: str, field: str, filter_: Filter | None = None, *, most: int = 100) -> list[tuple[str, int]]:
        """Return the commonest values of a keyword field with the exact numbers of matching points."""
        found: list[tuple[str, int]] = self._call("facet", name, field, filter_, most=most)
        return found

    def set_alias(self, alias: str, collection: str) -> None:
        """Point the alias at the collection."""
        self._call("set_alias", alias, collection)

    def drop_alias(self, alias: str) -> None:
        """Remove the alias; a missing one is a no-op."""
        self._call("drop_alias", alias)

    def aliases(self) -> dict[str, str]:
        """Return all aliases with their collections."""
        found: dict[str, str] = self._call("aliases")
        return found

    def ping(self) -> None:
        """Return if the owner and its engine answer."""
        self._call("ping")

    def close(self) -> None:
        """Close the pipes; the owner's store stays open. Idempotent."""
        self._closed, self._matrices = True, None
        for pipe in self._pipes:
            pipe.close()

    def _shared_matrix(self, name: str, known: str | None) -> SharedMatrix | None:
        shared: SharedMatrix | None = self._call("shared_matrix", name, known)
        return shared

    def _call(self, method: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - what the method returns
        with self._pipe() as pipe:
            pipe.send((method, arguments, options))
            return self._answer(pipe, method)

    @contextmanager
    def _pipe(self) -> Iterator[Connection]:
        """Take a pipe for a call. One that broke, or whose answer did not come, is closed and not used again."""
        if self._closed:
            raise StoreError("the store is closed", hint="open it again")
        if not self._left:
            raise StoreError(_GONE, hint=_HINT)
        try:
            pipe = self._free.get(timeout=self._timeout_s)
        except queue.Empty:
            raise StoreError(_SILENT, hint=_HINT) from None
        try:
            yield pipe
        except (EOFError, OSError) as error:
            pipe.close()  # a late answer must not be taken for that of the next call
            self._left -= 1
            self._broken()
            raise StoreError(_SILENT if isinstance(error, TimeoutError) else _GONE, hint=_HINT) from error
        except BaseException:
            self._free.put(pipe)
            raise
        self._free.put(pipe)

    def _answer(self, pipe: Connection, method: str) -> Any:  # noqa: ANN401 - what the method returns
        if method not in _WRITES and not pipe.poll(self._timeout_s):
            raise TimeoutError
        fine, value = pipe.recv()
        if not fine:
            raise value
        return value
