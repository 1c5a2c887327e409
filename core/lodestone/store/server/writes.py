"""Protection of acknowledged deletes on a Qdrant server, which can undo them when an optimization is aborted.

While the server optimizes, it wraps the segments that it works on and records in the wrapper which points were deleted or
overwritten. Servers up to 1.16 at least (qdrant/qdrant #10364) discard these records when an optimization is aborted or fails:
points that were deleted since it began are back, permanently. A change of a collection's settings aborts optimizations.
Therefore:

1. settings are changed only while the collection is at rest and no writer of this process is active (`WriteKeeper.at_rest`);
2. ids deleted while the collection was not at rest are remembered until it is; those that are back by then are deleted again. A
   disk that is full for a moment, or another process's change, can therefore undo a delete only for as long as the optimization
   takes.

A point that was upserted afterwards is never deleted again: its upsert removes the id from memory, and deletes are repeated
only while no writer of this process is active. The remembered ids are lost when the process ends; `lodestone index` finds
surplus points by their count and deletes them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import LodestoneError, UnknownNameError
from lodestone.store.limits import CALL_POINTS
from lodestone.store.server.connection import ServerConnection

# Writers are blocked at most this long for the server to come to rest; between two such waits they run at least as long.
_HOLD_SECONDS = 3.0
_POLL_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 12.0
_WATCH_SECONDS = 0.25
# No segment is being optimized; grey means that an optimization is pending until the next write.
_AT_REST = (models.CollectionStatus.GREEN, models.CollectionStatus.GREY)
_log = logging.getLogger(__name__)


class WriteGate:
    """Lock that many writers share, or one caller holds alone; new writers do not overtake a caller that waits to be alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._waiting = 0
        self._alone = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the block as one of many writers. It must not be entered inside another block of the same gate."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._writers += 1
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run the block while no other block runs. It must not be entered inside another block of the same gate."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._writers)
            finally:
                self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


class WriteKeeper:
    """Keeper of acknowledged deletes on the collections of one server, as the module's docstring describes; thread-safe.

    Args:
        server: Connection to the server.
    """

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._gates: dict[str, WriteGate] = {}
        self._deleted: dict[str, set[str]] = {}
        self._watcher: threading.Thread | None = None
        self._closing = threading.Event()

    @contextmanager
    def upserting(self, name: str, ids: Sequence[str]) -> Iterator[None]:
        """Run a block that upserts these points, and then forget their earlier deletes."""
        with self._gate(name).writing():
            yield
            self._forget(name, ids)

    @contextmanager
    def deleting(self, name: str, ids: Sequence[str]) -> Iterator[None]:
        """Run a block that deletes these points, and make sure that they stay deleted."""
        try:
            with self._gate(name).writing():
                # Remembered before it is sent: an upsert after the acknowledgement must find the id to forget it. Not before
                # the gate opens: a caller that is alone there would take the delete for an acknowledged one.
                self._remember(name, ids)
                yield
        except BaseException:
            self._forget(name, ids)  # nothing was acknowledged
            raise
        self._confirm(name, ids)

    @contextmanager
    def deleting_found(self, name: str) -> Iterator[Callable[[Sequence[str]], None]]:
        """Run a block that finds and deletes points while no other writer runs.

        Before it deletes points, the block passes their ids to the yielded function.
        """
        deleted: list[str] = []

        def remember(ids: Sequence[str]) -> None:
            deleted.extend(ids)
            self._remember(name, ids)

        try:
            with self._gate(name).alone():
                yield remember
        except BaseException:
            self._forget(name, deleted)
            raise
        self._confirm(name, deleted)

    def at_rest(self, name: str, action: Callable[[], object], *, patience: float) -> bool:
        """Run the action while the collection is at rest and no writer is active, then repeat lost deletes.

        Args:
            name: Name of the collection.
            action: Short action, because writers wait for it.
            patience: Seconds to wait for the collection to come to rest. Writers are blocked for a moment at a time meanwhile,
                because the collection never comes to rest under steady writing.

        Returns:
            True if the collection came to rest; otherwise the action was not run.
        """
        deadline = time.monotonic() + patience
        pause = _HOLD_SECONDS
        while True:
            with self._gate(name).alone():
                if self._wait_for_rest(name, deadline=min(deadline, time.monotonic() + _HOLD_SECONDS)):
                    action()
                    self._repeat(name)
                    return True
            if (remaining := deadline - time.monotonic()) <= 0:
                return False
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def settle(self, name: str) -> None:
        """Repeat lost deletes now, if there may be some and the collection is at rest; makes no call if there are none."""
        if self._deleted.get(name) and self._is_at_rest(name):
            with self._gate(name).alone():
                if self._is_at_rest(name):
                    self._repeat(name)

    def dropped(self, name: str) -> None:
        """Forget the remembered deletes of a collection."""
        with self._lock:
            self._deleted.pop(name, None)

    def close(self) -> None:
        """Repeat the deletes that can be repeated without waiting, and stop the watcher. Idempotent."""
        self._closing.set()
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.join()
            self._settle_all()

    def _gate(self, name: str) -> WriteGate:
        with self._lock:
            return self._gates.setdefault(name, WriteGate())

    def _remember(self, name: str, ids: Sequence[str]) -> None:
        with self._lock:
            self._deleted.setdefault(name, set()).update(ids)

    def _forget(self, name: str, ids: Sequence[str]) -> None:
        if self._deleted.get(name):
            with self._lock:
                self._deleted.get(name, set()).difference_update(ids)

    def _confirm(self, name: str, ids: Sequence[str]) -> None:
        # If it is at rest after the acknowledgement, no segment was wrapped and the delete is in the segments themselves.
        if self._is_at_rest(name):
            self._forget(name, ids)
            return
        with self._lock:
            if self._watcher is None and not self._closing.is_set():
                self._watcher = threading.Thread(target=self._watch, name="lodestone-deletes", daemon=True)
                self._watcher.start()

    def _watch(self) -> None:
        while not self._closing.wait(_WATCH_SECONDS):
            self._settle_all()
            with self._lock:
                if not any(self._deleted.values()):
                    self._watcher = None
                    return

    def _settle_all(self) -> None:
        for name in list(self._deleted):
            try:
                self.settle(name)
            except UnknownNameError:
                self.dropped(name)
            except LodestoneError as error:
                _log.warning("deletes from %s cannot be confirmed now: %s", name, error)

    def _repeat(self, name: str) -> None:
        """Delete points that are back. Called alone and at rest; the next call confirms what had to be repeated."""
        ids = sorted(self._deleted.get(name, ()))
        restored: list[str] = []
        for start in range(0, len(ids), CALL_POINTS):
            batch: list[Any] = list(ids[start : start + CALL_POINTS])
            retrieve = partial(
                self._server.client.retrieve, self._server.at(name), batch, with_payload=False, with_vectors=False
            )
            found: list[Any] = [record.id for record in self._server.call("confirming deletes", retrieve, name=name)]
            if found:
                selector = models.PointIdsList(points=found)
                delete = partial(self._server.client.delete, self._server.at(name), selector, wait=True)
                self._server.write("repeating deletes", delete, name=name)
                restored += map(str, found)
        if restored and not self._is_at_rest(name):
            ids = sorted(set(ids).difference(restored))
        self._forget(name, ids)
        if restored:
            _log.info("repeated %d deletes from %s that the server had undone", len(restored), name)

    def _is_at_rest(self, name: str) -> bool:
        return self._server.state(name).status in _AT_REST

    def _wait_for_rest(self, name: str, *, deadline: float) -> bool:
        while not self._is_at_rest(name):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True
