"""Ticket of one admitted query: it holds a place while the query is read and waits, then a slot, until it is released."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Protocol

from lodestone.errors import OverloadedError
from lodestone_schemas.api import SearchResponse


class Priority(StrEnum):
    """Order in which queries get slots: interactive before batch."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class State(Enum):
    """States of a ticket."""

    PLACED = "has a place, is being read"
    WAITING = "waits for a slot"
    RUNNING = "has a slot"
    DONE = "has neither"


class TicketOffice(Protocol):
    """What a ticket needs of the admission that issued it: its clock, its queue, and its errors.

    Attributes:
        deadline_ms: Milliseconds that a query is allowed when it names no deadline.
        clock: Returns the current time in seconds.
    """

    deadline_ms: int
    clock: Callable[[], float]

    def queue(self, ticket: Ticket) -> None:
        """Give the ticket a slot or put it into the queue; raise `OverloadedError` when its turn would come too late."""

    def leave(self, ticket: Ticket, state: State, held_s: float) -> None:
        """Take back the place and the slot of a ticket that held its slot for `held_s` seconds."""

    def expired(self) -> Exception:
        """Return the error of a query whose deadline passed while it waited, and count it."""

    def way_back_s(self, allowed_s: float) -> float:
        """Return the seconds between an answer and its client, for a query that is allowed `allowed_s` seconds."""


class Ticket:
    """Place, and later slot, of one query. `release` returns whatever it holds, at any moment and more than once.

    Attributes:
        priority: Priority of the query.
        arrived: When it took its place, on the admission's clock; may be set to an earlier time before `start`.
        queued_at: When `start` was called, on the admission's clock.
        deadline: Absolute, from `start` on: when the client wants the answer.
        way_back: Seconds before the deadline at which the answer must be ready.
        text_only: Why it must do without guides; "" while it may have them.
        words_s: Seconds of its text pass; None until known (see `answered`).
        sending_s: Seconds that sending its answer took; None until known.
        beside: Queries at work when it began, itself included.
        kept: Whether another owner than the request's own guard releases it.
    """

    def __init__(self, admission: TicketOffice, priority: Priority) -> None:
        self._admission = admission
        self._state = State.PLACED
        self._turn: asyncio.Future[None] | None = None
        self._started = 0.0
        self.priority = priority
        self.arrived = self.queued_at = admission.clock()
        self.deadline = math.inf
        self.way_back = 0.0
        self.text_only = ""
        self.words_s: float | None = None
        self.sending_s: float | None = None
        self._answered: float | None = None
        self.beside = 0
        self.kept = False

    def deadline_after(self, deadline_ms: int | None) -> float:
        """Return the absolute deadline of a query that allows this many milliseconds from its arrival.

        None stands for the service's own deadline.
        """
        allowed = self._admission.deadline_ms if deadline_ms is None else deadline_ms
        return self.arrived + allowed / 1000

    @property
    def due(self) -> float:
        """Return the absolute time at which the answer must be ready, to reach the client at the deadline."""
        return self.deadline - self.way_back

    async def start(self, deadline: float) -> None:
        """Wait for a slot.

        Raises:
            OverloadedError: the slot would come too late, or went to others.
            DeadlineExceededError: the deadline passed while waiting; nothing has been done.
        """
        self.deadline = deadline
        self.way_back = self._admission.way_back_s(deadline - self.arrived)
        self.queued_at = self._admission.clock()
        if self.due <= self.queued_at:
            self.release()
            raise self._admission.expired()
        self._turn = asyncio.get_running_loop().create_future()
        self._state = State.WAITING
        try:
            self._line_up()
            async with asyncio.timeout(self.due - self.queued_at):
                await self._turn
        except TimeoutError:
            self.release()
            raise self._admission.expired() from None
        except BaseException:
            self.release()
            raise

    def _line_up(self) -> None:
        try:
            self._admission.queue(self)
        except OverloadedError:
            self._state = State.PLACED  # it was never in the queue
            raise

    def answered(self, response: SearchResponse) -> None:
        """Record the time of the text pass from the answer: the time without waiting and guides."""
        if self._state is not State.RUNNING:
            return
        self._answered = self._admission.clock()
        if response.stage == "picture":
            return  # the duration of its search is not comparable
        spent = response.timings_ms
        guides_ms = spent.get("generate", 0.0) + spent.get("guides", 0.0)
        self.words_s = max(0.0, (spent.get("total", 0.0) - guides_ms) / 1000 - (self._started - self.arrived))

    def run(self, now: float, *, beside: int) -> None:
        """Give the ticket its slot and wake `start`."""
        self._state, self._started, self.beside = State.RUNNING, now, beside
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def turn_away(self, error: Exception) -> None:
        """Refuse the slot and raise `error` in `start`."""
        self.release()
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)

    def release(self) -> None:
        """Return the place or the slot that the ticket holds. Idempotent."""
        state, self._state = self._state, State.DONE
        if state is State.DONE:
            return
        now = self._admission.clock()
        if self._answered is not None and not self.kept:  # a stream sends its answer earlier
            self.sending_s = now - self._answered
        self._admission.leave(self, state, now - self._started)
