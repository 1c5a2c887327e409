"""Pool of embedding actors: keeps each of them supplied with slices, replaces those that die, and follows the cluster's size.

It knows nothing of Ray: a `ActorHost` starts, feeds and stops actors (ray_actors.py). Actors stay for the whole run, so models
are loaded once. Slices of an actor that died with its node go back to the pool and are blamed on nobody; where only the
actor's process died, each of its slices ends with a receipt that says so, as in `worker_pool` of `lodestone`.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lodestone.errors import LodestoneError, RunFailedError, ServiceUnavailableError, WorkerDiedError
from lodestone.indexing.tasks import SliceReceipt, SliceTask
from lodestone_jobs.embed_actor import Event, Hello
from lodestone_jobs.rooms import Bounds

_LOOK_SECONDS: Final = 3.0  # between two looks at the nodes
_WARN_SECONDS: Final = 30.0
_START_ATTEMPTS: Final = 3  # actors that die before any of them has answered
_LOST_WITH_NODES: Final = 5  # times that a slice may be lost with a node before it counts as what killed it
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Death:
    """End of an actor that was not asked for.

    Attributes:
        reason: What Ray says about it, in one line.
        node_lost: Whether its node was lost, or the way to it, rather than the actor's process alone.
    """

    reason: str
    node_lost: bool = False


News = Hello | list[Event] | Death


@dataclass(frozen=True, slots=True)
class Surroundings:
    """State of the cluster.

    Attributes:
        room: Actors that fit its nodes, those that are there already included.
        leaving: Ids of nodes that will soon be gone.
        summary: Resources of the nodes, for messages.
    """

    room: int
    leaving: frozenset[str] = frozenset()
    summary: str = ""


class ActorHost(Protocol):
    """Starts, feeds and stops actors."""

    def start(self) -> int:
        """Ask for one more actor, and return its number. It may have to wait for room."""

    def give(self, actor: int, tasks: Sequence[SliceTask]) -> None:
        """Send tasks to an actor that has said hello."""

    def stop(self, actor: int) -> None:
        """End an actor, or take back the request for one; nothing more is heard of it."""

    def news(self, seconds: float) -> list[tuple[int, News]]:
        """Return what the actors have to tell, after at most so many seconds."""

    def look(self) -> Surroundings:
        """Return the state of the cluster."""


@dataclass(slots=True)
class _Actor:
    worker: str = ""  # "" until it has said hello
    node: str = ""
    tasks: dict[str, SliceTask] = field(default_factory=dict)
    leaving: bool = False
    kept_for: str = ""  # id of the slice that will have it for itself

    @property
    def ready(self) -> bool:
        return bool(self.worker) and not self.leaving

    def takes(self, most: int) -> bool:
        """Return whether it may have another slice beside those that it holds."""
        room = self.ready and not self.kept_for and len(self.tasks) < most
        return room and not any(held.needs_a_worker for held in self.tasks.values())


class ActorPool:
    """Gives slices to actors. All methods but `add` and `wanted` belong to one thread.

    Args:
        host: Starts and feeds the actors.
        bounds: Of their number.
        slices: Slices that an actor has in flight.
        patience: Seconds to wait for the first actor, and for another when all are lost.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        host: ActorHost,
        bounds: Bounds,
        *,
        slices: int,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._bounds = bounds
        self._slices = slices
        self._patience = patience
        self._clock = clock
        self._actors: dict[int, _Actor] = {}
        self._inbox: queue.SimpleQueue[SliceTask] = queue.SimpleQueue()
        self._waiting: deque[SliceTask] = deque()
        self._lost: Counter[str] = Counter()  # slice -> times that it was lost with a node
        self._around = Surroundings(0)
        self._next_look = 0.0
        self._alone_since: float | None = None  # since when no actor is there
        self._warned = 0.0
        self._answered = False
        self._early_deaths = 0
        self._room = 1

    def add(self, task: SliceTask) -> None:
        """Take another task. Any thread may call this."""
        self._inbox.put(task)

    def wanted(self) -> int:
        """Return how many more tasks have use now: room in the actors, and one for each of them to have ready."""
        return self._room - self._inbox.qsize()

    @property
    def is_idle(self) -> bool:
        """Return whether no task waits or is in flight."""
        return not self._waiting and self._inbox.empty() and not any(actor.tasks for actor in self._actors.values())

    def start(self) -> None:
        """Ask for the actors, which load their models meanwhile, and return at once."""
        self._look_around()

    def step(self, seconds: float) -> list[Event]:
        """Supply the actors, wait for news of them, and return receipts and progress.

        Args:
            seconds: Longest wait.

        Raises:
            RunFailedError: actors died before any of them had answered.
            ServiceUnavailableError: the cluster had no room for an actor for too long.
        """
        self._look_around()
        self._hand_out()
        events: list[Event] = []
        for number, news in self._host.news(seconds):
            actor = self._actors.get(number)
            if actor is None:
                continue
            if isinstance(news, Hello):
                actor.worker, actor.node = news.worker, news.node
            elif isinstance(news, Death):
                events += self._bury(number, actor, news)
            else:
                self._answered = True
                events += news
                for event in news:
                    if isinstance(event, SliceReceipt):
                        actor.tasks.pop(event.slice_id, None)
        self._hand_out()
        self._check_patience()
        return events

    def close(self) -> None:
        """Stop all actors. Idempotent."""
        for number in self._actors:
            self._host.stop(number)
        self._actors.clear()

    def _look_around(self) -> None:
        """Follow the cluster: ask for more actors, take requests back, retire those whose nodes leave."""
        if self._clock() < self._next_look:
            return
        self._next_look = self._clock() + _LOOK_SECONDS
        self._around = self._host.look()
        for number, actor in list(self._actors.items()):
            actor.leaving = actor.leaving or actor.node in self._around.leaving
            if actor.leaving and not actor.tasks:
                self._stop(number)
        staying = [number for number, actor in self._actors.items() if not actor.leaving]
        wanted = self._bounds.wanted(self._around.room)
        for _ in range(wanted - len(staying)):
            self._actors[self._host.start()] = _Actor()
        for number in [number for number in staying if not self._actors[number].worker][: max(len(staying) - wanted, 0)]:
            self._stop(number)  # it has no room any more

    def _stop(self, number: int) -> None:
        self._host.stop(number)
        del self._actors[number]

    def _hand_out(self) -> None:
        """Give waiting slices to the actors that hold the fewest; who needs an actor for itself has one kept for it."""
        while not self._inbox.empty():
            self._waiting.append(self._inbox.get())
        given: dict[int, list[SliceTask]] = {}
        still: deque[SliceTask] = deque()
        free = {number: actor for number, actor in self._actors.items() if actor.takes(self._slices)}
        for task in self._waiting:
            number = self._place(task, free)
            if number is None:
                still.append(task)
                continue
            actor = self._actors[number]
            actor.tasks[task.slice_id] = task
            given.setdefault(number, []).append(task)
            if not actor.takes(self._slices):
                free.pop(number, None)
        self._waiting = still
        for number, tasks in given.items():
            self._host.give(number, tasks)
        ready = [actor for actor in self._actors.values() if actor.ready]
        held = sum(len(actor.tasks) for actor in ready)
        self._room = max((self._slices + 1) * len(ready) - held, 1) - len(self._waiting)

    def _place(self, task: SliceTask, free: dict[int, _Actor]) -> int | None:
        if not task.needs_a_worker:
            return min(free, key=lambda number: len(free[number].tasks), default=None)
        kept = next((number for number, actor in self._actors.items() if actor.kept_for == task.slice_id), None)
        if kept is None:
            candidates = [n for n, actor in self._actors.items() if actor.ready and not actor.kept_for]
            kept = min(candidates, key=lambda number: len(self._actors[number].tasks), default=None)
            if kept is None:
                return None
            self._actors[kept].kept_for = task.slice_id
            free.pop(kept, None)
        actor = self._actors[kept]
        if actor.tasks:
            return None
        actor.kept_for = ""
        return kept

    def _bury(self, number: int, actor: _Actor, death: Death) -> list[Event]:
        """Return receipts for the slices of an actor that died; those that its node took along are done again."""
        del self._actors[number]
        if actor.worker:  # it is replaced at once; one that could not even start is not, or that would go on without a pause
            self._next_look = 0.0
        if not actor.tasks and not self._answered and not death.node_lost:
            self._count_early_death(death.reason)
        tasks = list(actor.tasks.values())
        blamed: list[SliceTask] = []
        for task in tasks:
            self._lost[task.slice_id] += death.node_lost
            if death.node_lost and self._lost[task.slice_id] < _LOST_WITH_NODES:
                self._waiting.appendleft(task)
            else:
                blamed.append(task)
        if death.node_lost and actor.worker:
            _log.warning("the node of worker %s was lost: %d slices are done by others", actor.worker, len(tasks) - len(blamed))
        beside = len(tasks) - 1
        error = WorkerDiedError(
            f"worker {actor.worker} died with {_count(len(tasks), 'slice')} in flight: {death.reason}",
            hint="the slice is tried again; `ray status` and the node's log say whether its memory ran out",
            beside=beside,
        )
        return [SliceReceipt(task.slice_id, (), error=error, worker=actor.worker) for task in blamed]

    def _count_early_death(self, reason: str) -> None:
        self._early_deaths += 1
        if self._early_deaths >= _START_ATTEMPTS:
            raise RunFailedError(
                f"{self._early_deaths} embedding workers died before one answered: {reason}",
                hint="Lodestone in this version must be installed on every node; `lodestone index --resume` goes on",
            )

    def _check_patience(self) -> None:
        """Warn while no actor is there, and give up after a while.

        Raises:
            ServiceUnavailableError: there was none for too long.
        """
        now = self._clock()
        if any(actor.worker for actor in self._actors.values()) or (self.is_idle and self._answered):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = self._warned = now
        where = f"no node has room for an embedding worker ({self._around.summary})"
        if self._around.room:
            where = f"no embedding worker has started ({self._around.summary})"
        if now - self._alone_since >= self._patience:
            raise self._gave_up(where)
        if now - self._warned >= _WARN_SECONDS:
            self._warned = now
            _log.warning("%s; waiting %.0f s more", where, self._patience - (now - self._alone_since))

    def _gave_up(self, where: str) -> LodestoneError:
        return ServiceUnavailableError(
            f"{where}, for {self._patience:.0f} s",
            hint="what is finished is kept: give the cluster nodes, lower cluster.gpus_per_actor or cluster.cpus_per_actor, or "
            "raise cluster.wait_s; then `lodestone index --resume`",
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
