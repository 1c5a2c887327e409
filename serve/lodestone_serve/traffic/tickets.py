"""What does one query hold while it is read, waits and is worked on? Its ticket: a place, then a slot, until it is released."""

from __future__ import annotations

import asyncio
import math
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from lodestone.errors import OverloadedError
from lodestone_schemas.api import SearchResponse

if TYPE_CHECKING:
    from lodestone_serve.traffic.admission import Admission


class Priority(StrEnum):
    """Who goes first."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class State(Enum):
    """Of a ticket."""

    PLACED = "has a place, is being read"
    WAITING = "waits for a slot"
    RUNNING = "has a slot"
    DONE = "has neither"


class Ticket:
    """One query's place, then slot. `release` gives back whatever it has, at any moment and more than once.

    Attributes:
        priority: Of the query.
        arrived: When it took its place, on the admission's clock; may be set to an earlier time before `start`.
        deadline: Absolute, from `start` on: when the client wants the answer.
        way_back: Seconds before that when it must be ready.
        text_only: Why it must do without guides; "" while it may have them.
        words_s: What its text pass took; None while nobody has said (see `answered`).
        sending_s: What sending its answer took; None while that is not known.
        beside: Queries at work when it began, itself included.
        kept: Whether somebody else than the request's own guard releases it.
    """

    def __init__(self, admission: Admission, priority: Priority) -> None:
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
        """The absolute deadline of a query that allows so many milliseconds from its arrival; None: the service's own."""
        allowed = self._admission.deadline_ms if deadline_ms is None else deadline_ms
        return self.arrived + allowed / 1000

    @property
    def due(self) -> float:
        """Absolute: when the answer must be ready, to be with the client at the deadline."""
        return self.deadline - self.way_back

    async def start(self, deadline: float) -> None:
        """Wait for a slot.

        Raises:
            OverloadedError: the turn would come too late, or went to others.
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
            self._state = State.PLACED  # it never stood in the queue
            raise

    def answered(self, response: SearchResponse) -> None:
        """Learn from the answer what the text pass took: the time that it did not wait, nor spend on guides."""
        if self._state is not State.RUNNING:
            return
        self._answered = self._admission.clock()
        if response.stage == "picture":
            return  # its search takes another time
        spent = response.timings_ms
        guides_ms = spent.get("generate", 0.0) + spent.get("guides", 0.0)
        self.words_s = max(0.0, (spent.get("total", 0.0) - guides_ms) / 1000 - (self._started - self.arrived))

    def run(self, now: float, *, beside: int) -> None:
        """It has its slot."""
        self._state, self._started, self.beside = State.RUNNING, now, beside
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def turn_away(self, error: Exception) -> None:
        """It gets no slot; whoever waits in `start` is told why."""
        self.release()
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(error)

    def release(self) -> None:
        """Give back what it has."""
        state, self._state = self._state, State.DONE
        if state is State.DONE:
            return
        now = self._admission.clock()
        if self._answered is not None and not self.kept:  # a stream has sent its answer before
            self.sending_s = now - self._answered
        self._admission.leave(self, state, now - self._started)
