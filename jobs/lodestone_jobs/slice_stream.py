"""Stream of slices through a dataset: how many tasks have use now, what is in flight, and when a run has waited too long.

It knows nothing of Ray: a `SliceHost` embeds the slices (dataset.py).
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from lodestone.errors import LodestoneError, RunFailedError, ServiceUnavailableError
from lodestone.indexing.tasks import Advance
from lodestone_jobs.desk import DeskNews
from lodestone_jobs.slice_calls import ReceiptT, Task, TaskT

_AHEAD: Final = 2  # tasks for each worker that are on their way to it
_NEWS_SECONDS: Final = 0.5
_WARN_SECONDS: Final = 30.0
_START_ATTEMPTS: Final = 3  # workers that die before any of them is ready
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunWords:
    """How messages call a run.

    Attributes:
        worker: What works on its slices.
        resume: What goes on with it, as a clause.
    """

    worker: str
    resume: str


EMBEDDING: Final = RunWords("embedding worker", "`lodestone index --resume` goes on")


_Task_contra = TypeVar("_Task_contra", bound=Task, contravariant=True)


class SliceHost(Protocol[_Task_contra, ReceiptT]):
    """Has workers of its own do the tasks that it is given."""

    def start(self) -> None:
        """Start the workers, and return at once."""

    def give(self, tasks: Sequence[_Task_contra]) -> None:
        """Hand tasks out; their tickets are consecutive numbers from 0."""

    def receive(self, seconds: float) -> list[tuple[int, ReceiptT | None]]:
        """Return tickets and receipts that have come, after at most so many seconds."""

    def news(self, received: Sequence[int]) -> DeskNews:
        """Return what the workers have told; nothing more is kept about tickets whose receipts are received."""

    def summary(self) -> tuple[int, str]:
        """Return how many workers there is room for, and what the nodes have, for messages."""

    def stop(self, *, at_once: bool) -> None:
        """End the workers.

        Args:
            at_once: Whether slices are in flight, which nobody waits for any more.
        """


class SliceStream(Generic[TaskT, ReceiptT]):
    """Hands slices out and takes their receipts. All methods but `add` and `wanted` belong to one thread.

    Args:
        host: Does the tasks.
        slices: Slices that a worker has in flight.
        patience: Seconds to wait for the first worker, and for another when all are lost.
        words: How messages call the run.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        host: SliceHost[TaskT, ReceiptT],
        *,
        slices: int,
        patience: float,
        words: RunWords = EMBEDDING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._words = words
        self._slices = slices
        self._patience = patience
        self._clock = clock
        self._inbox: queue.SimpleQueue[TaskT] = queue.SimpleQueue()
        self._given = 0
        self._in_flight: dict[int, str] = {}  # ticket -> slice
        self._received: list[int] = []
        self._ready = 0
        self._answered = False
        self._next_news = 0.0
        self._alone_since: float | None = None  # since when no worker is there
        self._warned = 0.0

    def add(self, task: TaskT) -> None:
        """Take another task. Any thread may call this."""
        self._inbox.put(task)

    def wanted(self) -> int:
        """Return how many more tasks have use now: room in the workers, and some for each of them on their way."""
        return max((self._slices + _AHEAD) * self._ready, 1) - len(self._in_flight) - self._inbox.qsize()

    @property
    def is_idle(self) -> bool:
        """Return whether no task waits or is in flight."""
        return not self._in_flight and self._inbox.empty()

    def start(self) -> None:
        """Start the workers, which load their models meanwhile, and return at once."""
        self._host.start()

    def step(self, seconds: float) -> list[Advance | ReceiptT]:
        """Hand tasks out, wait for news, and return receipts and progress.

        Args:
            seconds: Longest wait.

        Raises:
            RunFailedError: workers died before any of them was ready.
            ServiceUnavailableError: the cluster had no room for a worker for too long.
        """
        self._hand_out()
        events: list[Advance | ReceiptT] = []
        if self._clock() >= self._next_news:
            events += self._hear()
        for ticket, receipt in self._host.receive(seconds):
            if receipt is not None and self._in_flight.pop(ticket, None) is not None:
                self._answered = True
                events.append(receipt)
                self._received.append(ticket)
        self._check_patience()
        return events

    def close(self) -> None:
        """End the workers. Idempotent."""
        self._host.stop(at_once=not self.is_idle)

    def _hand_out(self) -> None:
        tasks: list[TaskT] = []
        while not self._inbox.empty():
            task = self._inbox.get()
            self._in_flight[self._given] = task.slice_id
            self._given += 1
            tasks.append(task)
        if tasks:
            self._host.give(tasks)

    def _hear(self) -> list[Advance]:
        received, self._received = self._received, []
        news = self._host.news(received)
        self._next_news = self._clock() + _NEWS_SECONDS
        self._ready = news.ready
        if news.failed_starts >= _START_ATTEMPTS:
            raise RunFailedError(
                f"{news.failed_starts} {self._words.worker}s died before one was ready",
                hint="Lodestone in this version must be installed on every node, with memory for its models; the nodes' logs "
                f"tell more; {self._words.resume}",
            )
        slices = set(self._in_flight.values())
        return [advance for advance in news.advances if advance.slice_id in slices]  # not of one whose receipt came before

    def _check_patience(self) -> None:
        """Warn while no worker is there, and give up after a while.

        Raises:
            ServiceUnavailableError: there was none for too long.
        """
        now = self._clock()
        if self._ready or (self.is_idle and self._answered):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = self._warned = now
        waited = now - self._alone_since
        if waited < self._patience and now - self._warned < _WARN_SECONDS:
            return
        room, has = self._host.summary()
        where = (
            f"no {self._words.worker} has started ({has})" if room else f"no node has room for {self._words.worker}s ({has})"
        )
        if waited >= self._patience:
            raise self._gave_up(where)
        self._warned = now
        _log.warning("%s; waiting %.0f s more", where, self._patience - waited)

    def _gave_up(self, where: str) -> LodestoneError:
        return ServiceUnavailableError(
            f"{where}, for {self._patience:.0f} s",
            hint="what is finished is kept: give the cluster nodes, lower cluster.gpus_per_actor or cluster.cpus_per_actor, or "
            f"raise cluster.wait_s; then {self._words.resume}",
        )
