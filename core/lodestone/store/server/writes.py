"""When may an acknowledged write to a Qdrant server be undone, and what keeps it? Writers are watched, lost deletes repeated.

While the server optimizes, it wraps the segments it works on and notes on the wrapper what was deleted or overwritten in them.
Servers up to 1.16 at least (qdrant/qdrant #10364) throw these notes away when an optimization is broken off or fails: what was
deleted since it began is back, for good. A change of a collection's settings breaks optimizations off. Hence

1. settings are changed only while the collection is at rest and no writer of ours is at work (`WriteKeeper.at_rest`);
2. ids deleted while it was not at rest are remembered until it is; those that are back by then are deleted again. A disk that
   is full for a moment or another process's change can therefore undo a delete for as long as the optimization takes, no more.

A point upserted since is never deleted again: its upsert forgets the id, and repeating happens while no writer of this process
is at work. What a process remembers dies with it; `lodestone index` finds surplus points by their count and deletes them.
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

# Writers wait this long at most for the server to come to rest; between two such waits they have at least as long.
_HOLD_SECONDS = 3.0
_POLL_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 12.0
_WATCH_SECONDS = 0.25
# No segment is being worked on; grey: there would be something to do, which waits for the next write.
_AT_REST = (models.CollectionStatus.GREEN, models.CollectionStatus.GREY)
_log = logging.getLogger(__name__)


class WriteGate:
    """Lets many writers through together, or one caller alone. Who waits to be alone is not overtaken by new writers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._waiting = 0
        self._alone = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The block is one of many. Must not be entered inside another block of the same gate."""
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
        """The block runs while no other does. Must not be entered inside another block of the same gate."""
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
    """Keeps acknowledged deletes on collections of one server; see the module's docstring. Safe from several threads.

    Args:
        server: Connection.
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
        """The block upserts these points: once it has, their deletes of before are history."""
        with self._gate(name).writing():
            yield
            self._forget(name, ids)

    @contextmanager
    def deleting(self, name: str, ids: Sequence[str]) -> Iterator[None]:
        """The block deletes these points; they stay deleted."""
        try:
            with self._gate(name).writing():
                # Before it is sent: an upsert that follows the acknowledgement must find the id to forget it. Not before the
                # gate opens: whoever is alone there would take the delete for one that was acknowledged.
                self._remember(name, ids)
                yield
        except BaseException:
            self._forget(name, ids)  # nothing was acknowledged
            raise
        self._kept(name, ids)

    @contextmanager
    def deleting_found(self, name: str) -> Iterator[Callable[[Sequence[str]], None]]:
        """The block looks for points and deletes them, without other writers; what it is given takes their ids before."""
        found: list[str] = []

        def remember(ids: Sequence[str]) -> None:
            found.extend(ids)
            self._remember(name, ids)

        try:
            with self._gate(name).alone():
                yield remember
        except BaseException:
            self._forget(name, found)
            raise
        self._kept(name, found)

    def at_rest(self, name: str, action: Callable[[], object], *, patience: float) -> bool:
        """Run the action while the collection is at rest and no writer is at work, then repeat lost deletes.

        Args:
            name: Of the collection.
            action: Short: writers wait for it.
            patience: Seconds to wait for the collection to come to rest. Writers are held for a moment at a time meanwhile:
                under steady writing it never rests by itself.

        Returns:
            Whether it came to rest; if not, nothing was run.
        """
        until = time.monotonic() + patience
        pause = _HOLD_SECONDS
        while True:
            with self._gate(name).alone():
                if self._rests(name, until=min(until, time.monotonic() + _HOLD_SECONDS)):
                    action()
                    self._repeat(name)
                    return True
            if (left := until - time.monotonic()) <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def settle(self, name: str) -> None:
        """Repeat lost deletes now if there may be some and the collection is at rest. Costs nothing where there are none."""
        if self._deleted.get(name) and self._is_at_rest(name):
            with self._gate(name).alone():
                if self._is_at_rest(name):
                    self._repeat(name)

    def dropped(self, name: str) -> None:
        """Forget what is known of a collection."""
        with self._lock:
            self._deleted.pop(name, None)

    def close(self) -> None:
        """Repeat what can be repeated without waiting, and stop watching. Idempotent."""
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

    def _kept(self, name: str, ids: Sequence[str]) -> None:
        # At rest after the acknowledgement: no segment was wrapped, the delete is in the segments themselves.
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
        """Delete what is back. Called alone and at rest; what had to be repeated is confirmed the next time."""
        ids = sorted(self._deleted.get(name, ()))
        back: list[str] = []
        for start in range(0, len(ids), CALL_POINTS):
            part: list[Any] = list(ids[start : start + CALL_POINTS])
            look = partial(self._server.client.retrieve, self._server.at(name), part, with_payload=False, with_vectors=False)
            found: list[Any] = [record.id for record in self._server.call("confirming deletes", look, name=name)]
            if found:
                selector = models.PointIdsList(points=found)
                repeat = partial(self._server.client.delete, self._server.at(name), selector, wait=True)
                self._server.write("repeating deletes", repeat, name=name)
                back += map(str, found)
        if back and not self._is_at_rest(name):
            ids = sorted(set(ids).difference(back))
        self._forget(name, ids)
        if back:
            _log.info("repeated %d deletes from %s that the server had undone", len(back), name)

    def _is_at_rest(self, name: str) -> bool:
        return self._server.state(name).status in _AT_REST

    def _rests(self, name: str, *, until: float) -> bool:
        while not self._is_at_rest(name):
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        return True
