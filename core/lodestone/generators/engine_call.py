"""A call to one guide engine, isolated from the query: it waits for its turn and obeys breaker, time-out and budget.

Guides are passed on as the engine gives them. A failed call costs only the guides that it has not given: the failure is written
to the query's log, counted by the breaker and reported to the observer. A charge that an engine may have made although nothing
came (a time-out, a broken picture) stays charged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from lodestone.clock import remaining, within
from lodestone.config.engines import EngineSettings
from lodestone.errors import DeadlineExceededError, LodestoneError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query_notes import QueryNotes
from lodestone.remote.breaker import Breaker, Permit, State
from lodestone.remote.budget import Budget

Outcome = Literal["ok", "empty", "error", "timeout", "late", "refused", "unpaid", "cancelled"]

_Arrived = asyncio.Queue[list[Guide] | asyncio.Task[None]]  # batches of a call, and at its end its task

_log = logging.getLogger(__name__)

CANCEL_GRACE_S: Final = 0.1  # for a cancelled engine to stop; one that ignores it goes on and keeps its semaphore slot
# A call cut off by the query's deadline counts against the engine only when it had its whole time-out, or this long: hurried
# queries must not take a good engine out of use.
_FAIR_S: Final = 5.0
_LONGEST_MESSAGE: Final = 500  # characters of a plug-in's error: it is kept with the query


@dataclass(frozen=True, slots=True)
class Engine:
    """A generator with its name and settings.

    Attributes:
        name: Name of its section in the settings.
        settings: That section.
        generator: Makes the guides.
    """

    name: str
    settings: EngineSettings
    generator: Generator


class HubObserver(Protocol):
    """Receives events of the guide engines as they happen, for metrics. Its methods must not block and must not raise."""

    def asked(self, engine: str, outcome: Outcome, seconds: float, guides: int, cost: float) -> None:
        """Record the end of a call.

        Args:
            engine: Name of the engine.
            outcome: How it ended. `refused`: the breaker is open; `unpaid`: no budget; `late`: the query's deadline.
            seconds: Duration of the call.
            guides: Number of guides that it gave.
            cost: What was charged.
        """

    def breaker(self, engine: str, state: State) -> None:
        """Record the new state of an engine's breaker."""

    def cache(self, kind: Literal["exact", "semantic", "miss"]) -> None:
        """Record one lookup of a guide in the guide cache."""


class Silent:
    """A `HubObserver` that ignores every event."""

    def asked(self, engine: str, outcome: Outcome, seconds: float, guides: int, cost: float) -> None:
        """Ignore the end of a call."""

    def breaker(self, engine: str, state: State) -> None:
        """Ignore the change of a breaker."""

    def cache(self, kind: Literal["exact", "semantic", "miss"]) -> None:
        """Ignore the lookup in the cache."""


@dataclass(slots=True)
class Draw:
    """State of one query's drawing of guides: its limits, and which engines it no longer asks.

    Attributes:
        until: Absolute deadline for the guides, seconds on `time.monotonic()`'s clock.
        budget: Of the query.
        log: Notes of the query.
        done: Engines that this query asks no more: they failed, or have no more guides for it.
        fresh: True to bypass the guide cache, for reading and for writing.
    """

    until: float
    budget: Budget
    log: QueryNotes
    done: set[str] = field(default_factory=set)
    fresh: bool = False


@dataclass(slots=True)
class _Call:
    """One call in progress.

    Attributes:
        request: Request as the engine gets it.
        permit: The breaker's.
        limit: Seconds that the call may take.
        started: `time.monotonic()` at its start.
        numbers: Numbers of the guides that it gave so far.
    """

    request: GuideRequest
    permit: Permit
    limit: float
    started: float = field(default_factory=time.monotonic)
    numbers: set[int] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class EngineCaller:
    """Calls one engine and keeps its breaker, its semaphore and its counts. Belongs to one event loop at a time."""

    def __init__(self, engine: Engine, observer: HubObserver) -> None:
        self.engine = engine
        self.given = 0
        self.failures = 0
        self.last_error: str | None = None
        self._observer = observer
        settings = engine.settings
        self.breaker = Breaker(
            failures=settings.breaker_failures,
            seconds=settings.breaker_seconds,
            on_change=lambda state: observer.breaker(engine.name, state),
        )
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @property
    def name(self) -> str:
        """Return the engine's name."""
        return self.engine.name

    def failed(self, error: str) -> None:
        """Count a failure and keep its message for the status."""
        self.failures += 1
        self.last_error = error

    async def call(self, request: GuideRequest, draw: Draw) -> AsyncGenerator[list[Guide], None]:
        """Yield guides as they come, at most `request.n`, numbered from `request.first`; closing the iterator ends the call.

        After a failure nothing more comes; `draw.log` records it.
        """
        turns = self._semaphore()
        try:
            await within(turns.acquire(), draw.until)
        except TimeoutError:
            self._late(draw)
            return
        admitted = self._admit(request.n, draw)
        if admitted is None:
            turns.release()
            return
        permit, n = admitted
        limit = min(self.engine.settings.timeout_s, remaining(draw.until))
        limited_request = replace(request, n=n, size=self.engine.settings.size, deadline=time.monotonic() + limit)
        arrived: _Arrived = asyncio.Queue()
        delivering = _deliver(self.engine.generator.stream(limited_request), arrived)
        task = asyncio.create_task(delivering, name=f"generate {self.name}")
        task.add_done_callback(arrived.put_nowait)  # after the last guides
        try:
            async with aclosing(self._arriving(task, arrived, _Call(limited_request, permit, limit), draw)) as batches:
                async for guides in batches:
                    yield guides
        finally:  # only now that the result is recorded: the next call must see it
            if task.done():
                turns.release()
            else:  # it ignored the cancellation and still runs
                task.add_done_callback(lambda ended: _release_slot(ended, turns))

    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = (loop, asyncio.Semaphore(self.engine.settings.concurrency))
        return self._turns[1]

    def _admit(self, n: int, draw: Draw) -> tuple[Permit, int] | None:
        """Return the breaker's permit and the number of guides to ask for; None when the engine must not be asked."""
        if self.name in draw.done:
            return None
        permit = self.breaker.admit()
        if permit is None:
            draw.log.failed(f"generator {self.name!r} is out of use for a while: {self.last_error or 'it failed too often'}")
            self._observer.asked(self.name, "refused", 0.0, 0, 0.0)
            return None
        affordable = draw.budget.reserve(n, cost=self.engine.settings.cost)
        if affordable < n:
            draw.done.add(self.name)
            draw.log.left_out(f"guides of {self.name!r}: over the budget")
        if not affordable:
            self.breaker.withdrawn(permit)
            self._observer.asked(self.name, "unpaid", 0.0, 0, 0.0)
            return None
        return permit, affordable

    async def _arriving(
        self, task: asyncio.Task[None], arrived: _Arrived, call: _Call, draw: Draw
    ) -> AsyncGenerator[list[Guide], None]:
        """Yield what the engine gives, and record how the call ended."""
        until = call.started + call.limit
        try:
            while not isinstance(batch := await within(arrived.get(), until), asyncio.Task):
                try:
                    guides = _numbered(batch, self.engine, call)
                except (TypeError, AttributeError, ValueError) as what:  # it returned something else than guides
                    await stop({task})
                    self._broken(what, call, draw)
                    return
                self.given += len(guides)
                if guides:
                    yield guides
        except (asyncio.CancelledError, GeneratorExit):
            self.breaker.withdrawn(call.permit)
            self._report("cancelled", call)
            await stop({task})
            raise
        except TimeoutError:
            await stop({task})
            self._overdue(call, draw)
            return
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DeadlineExceededError):  # the engine checked the deadline itself
            self._overdue(call, draw)
        elif task.cancelled() or error is not None:
            self._broken(error, call, draw)
        else:
            self.breaker.succeeded(call.permit)
            if not call.numbers:
                draw.done.add(self.name)
            self._report("ok" if call.numbers else "empty", call)

    def _overdue(self, call: _Call, draw: Draw) -> None:
        had_full_timeout = call.limit >= self.engine.settings.timeout_s
        if had_full_timeout or call.limit >= _FAIR_S:
            self.failed(f"no answer within {call.limit:.3g} s")
            self.breaker.failed(call.permit)
        else:
            self.breaker.withdrawn(call.permit)
        if not had_full_timeout:
            self._late(draw, call)
            return
        draw.done.add(self.name)
        draw.log.failed(
            f"generator {self.name!r} gave {_what_came(call)}: no answer within {call.limit:.3g} s "
            f"(generators.{self.name}.timeout_s)"
        )
        self._report("timeout", call, seconds=call.limit)

    def _late(self, draw: Draw, call: _Call | None = None) -> None:
        draw.done.add(self.name)
        draw.log.left_out(f"generator {self.name!r}: out of time")
        if call is None:  # its turn never came
            self._observer.asked(self.name, "late", 0.0, 0, 0.0)
        else:
            self._report("late", call, seconds=call.limit)

    def _broken(self, error: BaseException | None, call: _Call, draw: Draw) -> None:
        rest, charged, declined = None, True, False
        if isinstance(error, LodestoneError):
            rest, charged = error.details.get("retry_after"), error.details.get("charged", True)
            declined = error.details.get("declined", False)
            message = error.message
            hint = f" ({error.hint})" if error.hint else ""
            draw.log.failed(f"generator {self.name!r} gave {_what_came(call)}: {message}{hint}")
        else:  # third-party code: it must not cost the answer
            message = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE] if error is not None else "it cancelled itself"
            _log.error("generator %s failed", self.name, exc_info=error)
            draw.log.failed(f"generator {self.name!r} failed: {message}")
        self.failed(message)
        draw.done.add(self.name)
        if declined:  # it declined these words only: the engine works
            self.breaker.succeeded(call.permit)
        else:
            self.breaker.failed(call.permit, rest=rest)
        lost = 0 if charged else call.request.n - len(call.numbers)
        draw.budget.give_back(lost, cost=self.engine.settings.cost)
        self._report("error", call, free=lost)

    def _report(self, outcome: Outcome, call: _Call, *, seconds: float | None = None, free: int = 0) -> None:
        """Tell the observer how a call ended; `free` of the guides that it was asked for were not charged."""
        cost = (call.request.n - free) * self.engine.settings.cost
        spent = call.seconds if seconds is None else seconds
        self._observer.asked(self.name, outcome, spent, len(call.numbers), cost)


async def _deliver(batches: AsyncGenerator[list[Guide], None], arrived: _Arrived) -> None:
    async with aclosing(batches):
        async for guides in batches:
            arrived.put_nowait(guides)


def _what_came(call: _Call) -> str:
    return f"only {len(call.numbers)} of {call.request.n} guides" if call.numbers else "nothing"


def version_of(engine: Engine) -> str:
    """Return the generator's version; "" if it cannot be read, because some read it from model files that may be missing."""
    try:
        return engine.generator.version
    except Exception as error:  # noqa: BLE001  (other people's code)
        _log.warning("the version of generator %s cannot be told: %s", engine.name, error)
        return ""


async def stop(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and give them a moment to end."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=CANCEL_GRACE_S)


def _release_slot(task: asyncio.Task[None], turns: asyncio.Semaphore) -> None:
    turns.release()
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it as never retrieved


def _numbered(guides: list[Guide], engine: Engine, call: _Call) -> list[Guide]:
    """Return new guides under the engine's configured name; each keeps the number that its generator gave it.

    Guides beyond those that were asked for, and numbers that came before, are left out. The numbers are noted in `call`.
    """
    by_number: dict[int, Guide] = {}
    before = len(call.numbers)
    for place, guide in enumerate(guides[: call.request.n - before], before):
        _, _, suffix = guide.guide_id.rpartition("/")
        number = int(suffix) if suffix.isdecimal() else call.request.first + place
        if number not in call.numbers:
            by_number.setdefault(
                number,
                replace(guide, guide_id=f"{engine.name}/{number}", engine=engine.name, cost=engine.settings.cost, cached=None),
            )
    call.numbers |= by_number.keys()
    return list(by_number.values())
