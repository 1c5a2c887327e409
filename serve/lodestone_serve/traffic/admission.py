"""Bounded admission queue with deadlines and two priorities: it decides which query runs next, waits or is refused.

Serve's own limits are per caller and answer in plain text, and nothing can be refused once a stream has begun. So queries are
admitted here, in the replica that does the work, and Serve's queue is larger than this one.

A query takes a place before its body is read, and a slot when its deadline is known. It is refused at once when all places are
taken, or when it would get its slot too late to be answered in time: if the queue were as long as the clients' patience, every
query would get its slot too late. From a certain queue length on, queries are answered by text search alone, without guides.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from lodestone.config.serve import ServeSettings
from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.concurrency_limiter import ConcurrencyLimiter, RunningMean
from lodestone_serve.traffic.load_reports import LoadReport, way_back_s
from lodestone_serve.traffic.tickets import Priority, State, Ticket

BUSY: Final = "the service is busy"
DEADLINE_MS: Final = 10_000
MOST_RETRY_AFTER_S: Final = 60
_PRESSED_S: Final = 1.0  # seconds after a refusal during which queries get no guides
_FEW: Final = 8  # so many first answers do not count, because they load models


class Admission:
    """Admits at most `max_ongoing` running queries and `max_queued` waiting ones.

    Fewer run where more would slow each other down (concurrency_limiter.py).

    Interactive queries go before those of batches, of which at most `batch_ongoing` run at once; among equals, first come,
    first served. When the queue is full, a waiting query of a batch is refused in favour of an interactive one. For one event
    loop.

    Args:
        limits: Slots, places and behaviour under load.
        metrics: Counts running, waiting and refused queries.
        deadline_ms: Deadline of queries that name none, milliseconds.
        clock: Returns seconds; for tests.
    """

    def __init__(
        self,
        *,
        limits: ServeSettings,
        metrics: Metrics,
        deadline_ms: int = DEADLINE_MS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.deadline_ms = deadline_ms
        self._limits = limits
        self._metrics = metrics
        self.clock = clock
        self._waiting: dict[Priority, deque[Ticket]] = {priority: deque() for priority in Priority}
        self._running: dict[Priority, int] = dict.fromkeys(Priority, 0)
        self._placed: dict[Priority, int] = dict.fromkeys(Priority, 0)
        self._name = uuid.uuid4().hex[:12]
        self._refused_at = -math.inf
        self._pace = ConcurrencyLimiter(limits.max_ongoing, adaptive=limits.load.adaptive)
        metrics.slots.set(self._pace.slots)
        self.held_s = RunningMean()  # seconds that a slot is held
        self.words_s = RunningMean(_FEW)  # of that, seconds of the text pass, which every answer needs
        self.sending_s = RunningMean(_FEW)  # seconds from the answer to its last byte

    @property
    def slots(self) -> int:
        """Return how many queries may run at once now."""
        return self._pace.slots

    @property
    def running(self) -> int:
        """Return the number of slots in use."""
        return sum(self._running.values())

    @property
    def waiting(self) -> int:
        """Return the number of queries that wait for a slot."""
        return sum(len(queue) for queue in self._waiting.values())

    @property
    def places(self) -> int:
        """Return the number of queries that run, wait or are being read."""
        return sum(self._placed.values())

    @property
    def most_places(self) -> int:
        """Return the most queries that may run, wait or be read at once."""
        return self._limits.max_ongoing + self._limits.max_queued

    @property
    def full(self) -> bool:
        """Return whether even an interactive query would get no place now."""
        return self.places >= self.most_places and not self._waiting[Priority.BATCH]

    def report(self) -> LoadReport:
        """Return what the proxies in front need to know, to refuse what would be refused here."""
        return LoadReport(
            replica=self._name,
            busy=self._placed[Priority.INTERACTIVE] + self._running[Priority.BATCH],
            places=self.most_places,
            slots=self.slots,
            held_s=self.held_s.mean,
            words_s=self.words_s.bound,
            sending_s=self.sending_s.bound,
            retry_after=self.retry_after(),
        )

    def refused_in_front(self, count: int) -> None:
        """Count queries that a proxy refused; they press the others as if they had been refused here."""
        self._metrics.shed.labels("overloaded").inc(count)
        self._refused_at = self.clock()

    def enter(self, priority: Priority = Priority.INTERACTIVE) -> Ticket:
        """Take a place, to be returned by `Ticket.release`.

        Raises:
            OverloadedError: all places are taken.
        """
        if self.places >= self.most_places and not self._made_room(priority):
            raise self.refusal(f"{self.places} queries are running or waiting, as many as there may be")
        self._placed[priority] += 1
        return Ticket(self, priority)

    @asynccontextmanager
    async def slot(self, *, deadline: float, priority: Priority = Priority.INTERACTIVE) -> AsyncIterator[Ticket]:
        """Hold a slot; `deadline` is absolute, on the admission's clock.

        Raises:
            OverloadedError: as `enter` and `Ticket.start`.
            DeadlineExceededError: the deadline passed before a slot was free.
        """
        ticket = self.enter(priority)
        ticket.kept = True
        try:
            await ticket.start(deadline)
            yield ticket
        finally:
            ticket.release()

    def refusal(self, why: str) -> OverloadedError:
        """Count a refused query and return its error, with the seconds to wait in its details."""
        self._metrics.shed.labels("overloaded").inc()
        self._refused_at = self.clock()
        retry_after = self.retry_after()
        return OverloadedError(why, hint=f"try again in {retry_after} s", retry_after=retry_after)

    def retry_after(self) -> int:
        """Return the seconds after which the queue will be empty, if no other query comes."""
        seconds = max(self._limits.load.retry_after_s, self._wait_s(self.waiting))
        return min(MOST_RETRY_AFTER_S, max(1, math.ceil(seconds)))

    # -- for tickets -----------------------------------------------------------------------------------------------------------

    def queue(self, ticket: Ticket) -> None:
        """Give the ticket a slot, or put it into the queue.

        Raises:
            OverloadedError: its slot would come too late.
        """
        ahead = len(self._waiting[Priority.INTERACTIVE])
        if ticket.priority is Priority.BATCH:
            ahead += len(self._waiting[Priority.BATCH])
        if ahead == 0 and self._may_run(ticket.priority):
            self._run(ticket, pressed=False)
            return
        turn = self.clock() + self._wait_s(ahead, ticket.priority)
        if turn + self.words_s.bound > ticket.due:
            raise self.refusal(f"{ahead} queries are waiting, too many for an answer within this query's deadline")
        self._waiting[ticket.priority].append(ticket)
        self._metrics.waiting.inc()

    def leave(self, ticket: Ticket, state: State, held_s: float) -> None:
        """Take back the ticket's place or slot."""
        self._placed[ticket.priority] -= 1
        if state is State.WAITING:
            self._unqueue(ticket)
        elif state is State.RUNNING:
            self._running[ticket.priority] -= 1
            self._metrics.in_flight.dec()
            self.held_s.add(held_s)
            if ticket.sending_s is not None:
                self.sending_s.add(ticket.sending_s)
            if ticket.words_s is not None:
                self.words_s.add(ticket.words_s)
                self._pace.took(ticket.words_s, beside=ticket.beside, allowed_s=ticket.deadline - ticket.arrived)
                self._metrics.slots.set(self._pace.slots)
            self._dispatch()

    def _dispatch(self) -> None:
        while (queue := self._next()) is not None:
            pressed = self.waiting >= self._text_only_from()
            ticket = queue[0]
            left = ticket.due - self.clock()
            if left <= 0:
                ticket.turn_away(self.expired())
            elif left < self.words_s.bound:
                ticket.turn_away(self.refusal("the query waited so long that it cannot be answered in time any more"))
            else:
                self._unqueue(ticket)
                self._run(ticket, pressed=pressed)

    def _next(self) -> deque[Ticket] | None:
        for priority, queue in self._waiting.items():  # in order of priority
            if queue and self._may_run(priority):
                return queue
        return None

    def _may_run(self, priority: Priority) -> bool:
        if self.running >= self.slots:
            return False
        return priority is Priority.INTERACTIVE or self._running[priority] < self._limits.load.batch_ongoing

    def _run(self, ticket: Ticket, *, pressed: bool) -> None:
        now = self.clock()
        if pressed or self._is_pressed(ticket, now):
            self._metrics.shed.labels("text_only").inc()
            ticket.text_only = BUSY
        self._running[ticket.priority] += 1
        self._metrics.in_flight.inc()
        self._metrics.wait_seconds.labels(ticket.priority.value).observe(now - ticket.arrived)
        ticket.run(now, beside=self.running)

    def _is_pressed(self, ticket: Ticket, now: float) -> bool:
        """Return whether the queue is too long for guides: for this query, or for others that were refused a moment ago."""
        if now - self._refused_at < _PRESSED_S:
            return True
        could_wait = ticket.due - ticket.arrived - self.words_s.bound
        waited = now - ticket.queued_at
        return waited > 0 and waited >= self._limits.load.text_only_from * could_wait

    def expired(self) -> DeadlineExceededError:
        """Count a query whose deadline passed while it waited, and return its error."""
        self._metrics.shed.labels("deadline").inc()
        return DeadlineExceededError(
            "the deadline passed while the query waited for its turn",
            hint="the service is busy: ask again later, or allow more time (deadline_ms)",
        )

    def _made_room(self, priority: Priority) -> bool:
        batches = self._waiting[Priority.BATCH]
        if priority is Priority.BATCH or not batches:
            return False
        batches[-1].turn_away(self.refusal("interactive queries take all places"))
        return True

    def _unqueue(self, ticket: Ticket) -> None:
        self._waiting[ticket.priority].remove(ticket)
        self._metrics.waiting.dec()

    def way_back_s(self, allowed_s: float) -> float:
        """Return the seconds to reserve for sending an answer to the client, for a query that allows `allowed_s` seconds."""
        return way_back_s(allowed_s, self.sending_s.bound)

    def _text_only_from(self) -> float:
        return max(1, math.ceil(self._limits.load.text_only_from * self._limits.max_queued))

    def _wait_s(self, ahead: int, priority: Priority = Priority.INTERACTIVE) -> float:
        """Return the seconds that the query behind `ahead` others waits: slots become free one after another."""
        slots = self.slots
        if priority is Priority.BATCH:
            slots = min(slots, self._limits.load.batch_ongoing)
        return self.held_s.mean * (ahead + 1) / slots
