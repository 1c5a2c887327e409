"""Recorder of queries: one thread writes records from a bounded queue, so that answers do not wait for them.

The thread writes all queued records in one transaction, and begins one four times a second at most, so that a busy service
commits seldom. It begins at once where somebody asks for a record, or when the queue fills. Records that are still queued when
the process is killed are lost: they serve explanations, and people's feedback is not among them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from lodestone.query_log.trace import Trace

MOST_WAITING: Final = 128
AT_ONCE: Final = 32  # records of one transaction
COLLECTS_S: Final = 0.25
"""Seconds between the beginnings of two transactions, at least."""

_log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Keeps several queries at once, as `query.memory.Memory` does."""

    def keep_all(self, traces: list[Trace]) -> list[str]:
        """Record queries and learn from them; return what went wrong. Blocking; raises nothing."""


class RecordObserver(Protocol):
    """Observes the recorder. Its methods must not wait and must not raise."""

    def waiting(self, records: int) -> None:
        """Take the number of queued records."""

    def lost(self, records: int) -> None:
        """Take the number of further records that were lost."""


@dataclass(frozen=True, slots=True)
class _Job:
    query_id: str
    keeper: Keeper
    trace: Callable[[], Trace]


class Recorder:
    """A queue of answered queries and the thread that records them. Thread-safe.

    Args:
        most: Queries in the queue at most.
        observer: Notified of the queue's length and of lost records.
        collects_s: Seconds between the beginnings of two transactions, unless the queue fills or somebody waits.
    """

    def __init__(
        self, *, most: int = MOST_WAITING, observer: RecordObserver | None = None, collects_s: float = COLLECTS_S
    ) -> None:
        self._most = most
        self._collects_s = collects_s
        self._observer = observer
        self._jobs: deque[_Job] = deque()
        self._pending: set[str] = set()  # queued, or being written
        self._lock = threading.Lock()
        self._enough = threading.Condition(self._lock)  # the thread has something to do now
        self._written = threading.Condition(self._lock)
        self._hurried = 0  # calls that wait for records
        self._taken_at = -math.inf
        self._closing = False
        self._thread: threading.Thread | None = None

    def offer(self, query_id: str, keeper: Keeper, trace: Callable[[], Trace]) -> bool:
        """Queue a query; return False when there is no room now. It does not block.

        Args:
            query_id: Identifier of the query, for `settle`.
            keeper: Keeps the record.
            trace: Makes the record; it is called in the thread.
        """
        with self._lock:
            if self._closing or len(self._jobs) >= self._most:
                return False
            self._jobs.append(_Job(query_id, keeper, trace))
            self._pending.add(query_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="lodestone-recorder", daemon=True)
                self._thread.start()
            if len(self._jobs) == 1 or self._is_enough():
                self._enough.notify()
        return True

    def lose(self, query_id: str) -> None:
        """Count a query for which there was no room."""
        _log.warning("query %s was not recorded: the catalog does not keep up", query_id)
        if self._observer is not None:
            self._observer.lost(1)

    def pending(self, query_id: str | None = None) -> bool:
        """Return whether the query, or any query, is still to be recorded."""
        with self._lock:
            return bool(self._pending) if query_id is None else query_id in self._pending

    def settle(self, query_id: str | None = None, *, timeout_s: float = 10.0) -> bool:
        """Wait until the query, or every query queued now, is recorded or lost; False when it takes longer. Blocking."""
        with self._lock:
            wanted = set(self._pending) if query_id is None else {query_id}
            self._hurried += 1
            self._enough.notify()
            try:
                return self._written.wait_for(lambda: not wanted & self._pending, timeout_s)
            finally:
                self._hurried -= 1

    def close(self, *, timeout_s: float = 10.0) -> bool:
        """Record what is queued, and stop; return False when that takes longer. Idempotent."""
        with self._lock:
            self._closing = True
            self._enough.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
        left = len(self._pending)
        if left:
            _log.warning("%d queries were not recorded: the catalog does not keep up", left)
        return not left

    def _work(self) -> None:
        while jobs := self._next():
            lost = 0
            try:
                lost = _keep(jobs)
            except Exception:  # noqa: BLE001  (the thread must live)
                lost = len(jobs)
                _log.exception("%d queries were not recorded", lost)
            with self._lock:
                self._pending -= {job.query_id for job in jobs}
                self._written.notify_all()
                self._observe()
            if lost and self._observer is not None:
                self._observer.lost(lost)

    def _next(self) -> list[_Job]:
        """Return queued jobs of one keeper; none at the end."""
        with self._lock:
            self._enough.wait_for(lambda: self._jobs or self._closing)
            self._enough.wait_for(self._is_enough, self._taken_at + self._collects_s - time.monotonic())
            self._taken_at = time.monotonic()
            self._observe()
            jobs: list[_Job] = []
            while self._jobs and len(jobs) < AT_ONCE and (not jobs or self._jobs[0].keeper is jobs[0].keeper):
                jobs.append(self._jobs.popleft())
            return jobs

    def _is_enough(self) -> bool:
        return self._closing or self._hurried > 0 or len(self._jobs) >= min(AT_ONCE, self._most)

    def _observe(self) -> None:
        if self._observer is not None:
            self._observer.waiting(len(self._jobs))


def _keep(jobs: list[_Job]) -> int:
    """Record jobs; return how many were lost."""
    traces: list[Trace] = []
    lost = 0
    for job in jobs:
        try:
            traces.append(job.trace())
        except Exception:  # noqa: BLE001  (of one query: the others are kept)
            _log.exception("query %s was not recorded", job.query_id)
            lost += 1
    started = time.monotonic()
    for warning in jobs[0].keeper.keep_all(traces):
        _log.warning(warning)
        lost += 1
    _log.debug("recorded %d queries in %.1f ms", len(traces), (time.monotonic() - started) * 1000)
    return lost
