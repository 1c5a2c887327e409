"""Keeper of a collection's matrix: makes it when searches ask for it, keeps it true to the engine, and writes its file.

A matrix is read from its file, or from the engine: small ones in the call that asks, large ones by a thread while the engine
answers. Whatever goes wrong with it leaves the engine to answer, and is logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import qdrant_edge as qe

from lodestone.errors import LodestoneError
from lodestone.store.base import PointBatch
from lodestone.store.edge.columns import FilterColumns
from lodestone.store.edge.engine import engine_errors
from lodestone.store.edge.matrix import VectorMatrix
from lodestone.store.edge.matrix_file import MATRIX_FILE, Stamp, read_matrix, stamp_of, write_matrix
from lodestone.store.edge.shared_matrix import SharedMatrix
from lodestone.store.limits import CALL_POINTS, MATRIX_AFTER, MATRIX_POINTS
from lodestone.store.records import as_batch
from lodestone_schemas.collections import CollectionSpec

# Numbers (points times length) that are read in the call that asks: some 40 ms of the engine.
AT_ONCE_NUMBERS: Final = 1_000_000
# From here a matrix has a file. A smaller one is read from the engine about as soon.
FILE_NUMBERS: Final = 1_000_000
# More dead rows than this beside the living ones, and the matrix is made anew.
_DEAD_ROWS: Final = 1_024
# Without a write for so long, the file of a matrix that other processes map is written anew.
_QUIET_S: Final = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MatrixPolicy:
    """When a collection has a matrix.

    Attributes:
        points: Points up to which it has one; 0 for none.
        after: Calls of `search` that the engine answers before one is made, so that a command that asks once makes none.
            A matrix that has a file is used at once.
    """

    points: int = MATRIX_POINTS
    after: int = MATRIX_AFTER


class MatrixSource(Protocol):
    """The collection that a matrix is made from."""

    @property
    def name(self) -> str:
        """Return the collection's name."""

    @property
    def path(self) -> Path:
        """Return the collection's folder."""

    @property
    def spec(self) -> CollectionSpec:
        """Return the collection's specification."""

    def reading(self) -> AbstractContextManager[qe.EdgeShard]:
        """Keep the engine's shard open."""

    def generation(self) -> Path:
        """Return the folder of the generation in force."""


class MatrixKeeper:
    """Keeps the matrix of one collection. Thread-safe.

    Args:
        source: The collection.
        writing: The lock that its writers hold: while it is held here, the engine's points do not change.
        shard: Name of the engine's folder in a generation.
        policy: When there is a matrix.
    """

    def __init__(self, source: MatrixSource, writing: threading.RLock, *, shard: str, policy: MatrixPolicy) -> None:
        self._source = source
        self._writing = writing
        self._shard = shard
        self._policy = policy
        self._matrix: VectorMatrix | None = None
        self._saved = -1  # `writes` of the matrix whose file is written
        self._asked = 0
        self._making = False
        self._refused = policy.points == 0
        self._stop = False
        self._thread: threading.Thread | None = None
        self._saver: threading.Thread | None = None
        self._unwritten = ""  # version whose file could not be written
        self._state = threading.Lock()

    def current(self) -> VectorMatrix | None:
        """Return the matrix; None while there is none, and then it may be made for the next call."""
        matrix = self._matrix
        if matrix is not None or self._refused or self._making:
            return matrix
        with self._state:
            self._asked += 1
            if self._making or self._stop or self._matrix is not None:
                return self._matrix
            if self._asked <= self._policy.after and not (self._source.generation() / MATRIX_FILE).exists():
                return None
            self._making = True
        try:
            with self._source.reading() as shard:
                points = shard.info().points_count
            if points * self._source.spec.dim > AT_ONCE_NUMBERS:
                self._thread = threading.Thread(target=self._make_patiently, name="lodestone-matrix", daemon=True)
                self._thread.start()
                return None
        except BaseException:
            self._making = False
            raise
        self._guarded(lambda: self._make(wait=False))
        return self._matrix

    @property
    def has_matrix(self) -> bool:
        """Whether the matrix is there now."""
        return self._matrix is not None

    def shared(self, approximate: bool, known: str | None) -> SharedMatrix | None:
        """Return what another process makes the matrix from; None while there is none, or its file is behind or being written.

        Args:
            approximate: Whether the collection is searched by a graph or by compressed vectors, unless it is asked exactly.
            known: Version that the other process has; its snapshot is not taken again.
        """
        matrix = self._matrix
        if matrix is None or not self._writing.acquire(blocking=False):
            return None
        try:
            shared = SharedMatrix(matrix.version, self._source.spec, approximate)
            if self._matrix is not matrix:
                return None
            if shared.version == known:
                return shared
            if not self._wants_file(matrix):
                snapshot = matrix.snapshot()
                return None if snapshot is None else replace(shared, snapshot=snapshot)
            if matrix.writes == self._saved:
                return replace(shared, path=self._source.generation() / MATRIX_FILE, stamp=self._stamp())
            self._save_when_quiet(matrix)
            return None
        finally:
            self._writing.release()

    def _save_when_quiet(self, matrix: VectorMatrix) -> None:
        """Have the file written anew once there was no write for a moment; other processes ask the engine until then."""
        if matrix.version == self._unwritten or (self._saver is not None and self._saver.is_alive()):
            return
        self._saver = threading.Thread(target=self._save, args=(matrix,), name="lodestone-matrix-file", daemon=True)
        self._saver.start()

    def _save(self, matrix: VectorMatrix) -> None:
        version, quiet_from = matrix.version, time.monotonic()
        while time.monotonic() < quiet_from + _QUIET_S:
            if self._stop or self._matrix is not matrix:
                return
            if version != matrix.version:
                version, quiet_from = matrix.version, time.monotonic()
            time.sleep(_QUIET_S / 20)
        try:
            with self._writing:
                if self._stop or self._matrix is not matrix:
                    return
                stamp, writes, version = self._stamp(), matrix.writes, matrix.version
            written = self._write(stamp, matrix, writes=writes)
        except (LodestoneError, OSError, ValueError, KeyError, TypeError) as error:
            _log.info("the file of the matrix of %r is not written: %s", self._source.name, error)
            written = False
        with self._writing:
            if written and self._matrix is matrix:
                self._saved = writes
            elif not written:
                self._unwritten = version  # it is tried again after the next write

    def moved(self) -> None:
        """Forget the file, which is that of a generation that is not in force any more. The writers' lock is held."""
        self._saved = -1

    def put(self, points: PointBatch) -> None:
        """Take points that the engine took; the writers' lock is held."""
        if self._matrix is not None:
            self._matrix.put(points)
            self._bound(self._matrix)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points that the engine removed; the writers' lock is held."""
        if self._matrix is not None:
            self._matrix.remove(ids)
            self._bound(self._matrix)

    def forget(self) -> None:
        """Drop the matrix after a write that failed: nobody knows what the engine took of it. The writers' lock is held."""
        self._matrix = None

    def stop(self) -> None:
        """End the threads that make a matrix and its file; nothing is made after this. The writers' lock must not be held."""
        self._stop = True
        for thread in (self._thread, self._saver):
            if thread is not None:
                thread.join()

    def close(self, *, save: bool) -> None:
        """Drop the matrix; with `save` write its file if it has changed. The writers' lock is held."""
        matrix, self._matrix, self._refused = self._matrix, None, True
        if save and matrix is not None and matrix.writes != self._saved and self._wants_file(matrix):
            self._guarded(lambda: self._write(self._stamp(), matrix))

    def _make_patiently(self) -> None:
        self._guarded(lambda: self._make(wait=True))

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do the work; what goes wrong leaves the engine to answer."""
        try:
            work()
        except (LodestoneError, OSError, ValueError, KeyError, TypeError) as error:
            _log.info("the collection %r is searched without its matrix: %s", self._source.name, error)
            self._refused = self._matrix is None
        finally:
            self._making = False

    def _make(self, *, wait: bool) -> None:
        """Read the matrix from its file or from the engine, and write the file of one that had none."""
        if not self._writing.acquire(blocking=wait):
            return  # a build copies the collection, say: the next call tries again
        try:
            stamp = self._stamp()
            matrix = read_matrix(self._source.generation() / MATRIX_FILE, stamp, self._source.spec)
            if matrix is not None and len(matrix) == self._points() <= self._policy.points:
                self._matrix, self._saved = matrix, matrix.writes
                return
            matrix = self._read_engine()
            if matrix is None:
                return
            self._matrix = matrix
            writes, wanted = matrix.writes, self._wants_file(matrix)
        finally:
            self._writing.release()
        if wanted and wait and self._write(stamp, matrix, writes=writes):
            self._map(stamp, matrix)

    def _read_engine(self) -> VectorMatrix | None:
        if self._points() > self._policy.points:
            self._refused = True
            return None
        matrix = VectorMatrix(self._source.spec.dim, FilterColumns(self._source.spec.fields))
        for points in self._pages():
            if self._stop:
                return None
            matrix.put(points)
        return matrix

    def _pages(self) -> Iterator[PointBatch]:
        offset = None
        while True:
            request = qe.ScrollRequest(offset=offset, limit=CALL_POINTS, with_payload=True, with_vector=True)
            with self._source.reading() as shard, self._errors("reading vectors"):
                records, offset = shard.scroll(request)
                yield as_batch(records, dim=self._source.spec.dim)
            if offset is None:
                return

    def _write(self, stamp: Stamp, matrix: VectorMatrix, *, writes: int | None = None) -> bool:
        """Write the file; with `writes` only if the matrix still has what it had at that number of writes."""
        path, snapshot = self._source.generation() / MATRIX_FILE, matrix.snapshot()
        if snapshot is None or writes not in (None, matrix.writes):
            return False
        write_matrix(path, stamp, self._source.spec, snapshot)
        return True

    def _map(self, stamp: Stamp, matrix: VectorMatrix) -> None:
        """Put the mapped file in the place of the matrix that it was written from, unless that has changed."""
        with self._writing:
            mapped = read_matrix(self._source.generation() / MATRIX_FILE, stamp, self._source.spec)
            if mapped is not None and self._matrix is matrix and len(mapped) == len(matrix) and self._stamp() == stamp:
                self._matrix, self._saved = mapped, mapped.writes

    def _stamp(self) -> Stamp:
        with self._source.reading() as shard, self._errors("flushing"):
            shard.flush()
        return stamp_of(self._source.generation() / self._shard)

    def _points(self) -> int:
        with self._source.reading() as shard, self._errors("counting points"):
            return int(shard.count(qe.CountRequest(exact=True)))

    def _wants_file(self, matrix: VectorMatrix) -> bool:
        return len(matrix) * self._source.spec.dim >= FILE_NUMBERS

    def _bound(self, matrix: VectorMatrix) -> None:
        if len(matrix) > self._policy.points:
            self._matrix, self._refused = None, True
        elif matrix.dead > len(matrix) + _DEAD_ROWS:
            self._matrix = None

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return engine_errors(doing, self._source.path, collection=self._source.name)
