"""Answering processes of a service: started beside its owner, handed the searches that they have room for, and replaced.

The owner keeps what there is once: HTTP, admission, the store, everything that writes. A search goes to the process with the
fewest under way, the owner among them. Where a worker ends or falls silent before it has answered, the owner's own engine
answers instead; one that stays silent is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from typing import Final

import structlog

from lodestone.config.settings import Settings
from lodestone.errors import ServiceUnavailableError
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.services.sessions.session import Answering
from lodestone.store.change_count import ChangeCount
from lodestone.store.edge.store import EdgeStore
from lodestone.store.proxy.host import StoreHost
from lodestone_schemas.api import Event, SearchOptions, SearchRequest, SearchResponse
from lodestone_serve.hosting.answering.messages import (
    Begin,
    CallEnded,
    CallEvent,
    CallFailed,
    Channel,
    Message,
    Method,
    NotOpened,
    Observed,
    Opened,
    SearchCall,
    Settle,
    SignOfLife,
    Withdraw,
)
from lodestone_serve.telemetry.metrics import Metrics

PIPES: Final = 4
"""Pipes of a worker to the embedded store: calls of one worker that the store answers at once."""

SILENT_S: Final = 3.0
"""Seconds without a sign of life after which a worker gets no searches, and those that it has are answered here."""

HUNG_S: Final = 15.0
"""Seconds without a sign of life after which a worker is killed."""

OPENING_S: Final = 300.0
"""Seconds after its start at which a worker is killed that has not loaded its models."""

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 60.0  # a worker that lived so long is replaced at once
_END_S: Final = 5.0
_COUNT_S: Final = 0.5
_log = structlog.get_logger("lodestone.serve")


class WorkerGoneError(Exception):
    """A worker ended, or fell silent, before it had answered."""


class AnsweringPool:
    """The workers of one service. For one event loop.

    Args:
        settings: Settings of the home.
        store: The embedded store, which workers ask through pipes; None where the store is a server.
        observe: Called with everything that workers measure.
        metrics: Those of the service.
    """

    def __init__(
        self, settings: Settings, store: EdgeStore | None, observe: Callable[[Observed], None], metrics: Metrics
    ) -> None:
        self._settings = settings
        self._store = store
        self._observe = observe
        self._metrics = metrics
        if store is not None and store.changes is None:
            store.changes = ChangeCount()  # before the first worker starts, and one for all of them
        self._workers: dict[str, Worker] = {}
        self._keepers: list[asyncio.Task[None]] = []

    def start(self, processes: int) -> None:
        """Start so many workers, and keep as many until `close`. Returns at once: they are used when they are warm."""
        keepers = [self._keep(str(number + 2)) for number in range(processes)]
        self._keepers = [asyncio.create_task(work) for work in (*keepers, self._count())]

    async def close(self) -> None:
        """End the workers, and return when they have ended. Idempotent."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    @property
    def ready(self) -> list[Worker]:
        """The workers that can answer now."""
        return [worker for worker in self._workers.values() if worker.ready]

    async def settled(self, query_id: str | None) -> None:
        """Return when all workers have recorded the query, or every answered one."""
        for worker in self.ready:
            with suppress(WorkerGoneError):
                await worker.settle(query_id)

    async def _keep(self, name: str) -> None:
        """Run a worker of this name, and the next one when it ends, without end."""
        pause = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            worker = self._workers[name] = Worker(name, self._settings, self._store, self._observe)
            try:
                await worker.run()
            except ServiceUnavailableError as error:
                _log.warning("an answering process has ended", process=name, detail=error.message)
            except Exception:  # noqa: BLE001 - the owner answers, whatever it is
                _log.exception("an answering process has failed", process=name)
            finally:
                del self._workers[name]
                await worker.end()
            self._metrics.answering_ended.inc()
            pause = _FIRST_PAUSE_S if time.monotonic() - began > _STEADY_S else min(2 * pause, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause)

    async def _count(self) -> None:
        while True:
            self._metrics.answering.set(1 + len(self.ready))
            await asyncio.sleep(_COUNT_S)


@dataclass(slots=True)
class _Call:
    """A call under way.

    Attributes:
        answers: What has come of it, in order; the last is CallEnded or CallFailed.
        begun: Whether something has come.
    """

    answers: asyncio.Queue[CallEvent | CallEnded | CallFailed] = field(default_factory=asyncio.Queue)
    begun: bool = False


class Worker:
    """One answering process, from its start to its end.

    Args:
        name: Told in logs.
        settings: Settings of the home.
        store: The embedded store, or None.
        observe: Called with what it measures.
    """

    def __init__(self, name: str, settings: Settings, store: EdgeStore | None, observe: Callable[[Observed], None]) -> None:
        self._opened = self._hung = False
        self._started = time.monotonic()
        self._starting: asyncio.Future[socket.socket] | None = None
        self._heard = 0.0  # when, on the clock of `time.monotonic()`, it gave its last sign of life
        self._name = name
        self._settings = settings
        self._store = store
        self._observe = observe
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count()
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ready(self) -> bool:
        """Whether it answers searches now."""
        return self._opened and self._silent_s < SILENT_S

    @property
    def _silent_s(self) -> float:
        return time.monotonic() - self._heard

    @property
    def busy(self) -> int:
        """Number of its calls under way."""
        return len(self._calls)

    @property
    def pid(self) -> int | None:
        """Identifier of its process; None before its start."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Start the process and take what it sends, until it ends.

        Raises:
            ServiceUnavailableError: it could not open the home, ended, or gave no sign of life.
        """
        self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        self._channel = await Channel.over(await asyncio.shield(self._starting))
        self._channel.post(Begin(self._settings, self._name))
        watch = asyncio.create_task(self._watch())
        try:
            while True:
                self._take(await self._channel.receive())
        except EOFError:
            hung = f"it gave no sign of life for {HUNG_S:g} s" if self._opened else f"it was not ready after {OPENING_S:g} s"
            reason = f"{hung}, and was killed" if self._hung else "it ended by itself, or was killed"
            raise ServiceUnavailableError(reason) from None
        finally:
            watch.cancel()
            self._opened = False
            self._give_up(begun=True)

    async def _watch(self) -> None:
        """Give up the calls of a worker that is silent, and kill it if it stays so."""
        while True:
            await asyncio.sleep(SILENT_S / 6)
            if not self._opened and time.monotonic() - self._started > OPENING_S and self._process is not None:
                self._hung = True
                self._process.kill()
            if not self._opened or self.ready:
                continue
            await asyncio.sleep(SILENT_S / 6)  # this process may have been held up, and what came meanwhile is read now
            if not self.ready:
                self._give_up(begun=False)
            if self._silent_s > HUNG_S and self._process is not None:
                self._hung = True
                self._process.kill()

    def _give_up(self, *, begun: bool) -> None:
        """Tell those who wait for this worker that it will not answer; `begun`: those to whom something has come, too."""
        for number, call in self._calls.items():
            if begun or not call.begun:
                call.answers.put_nowait(CallFailed(number, WorkerGoneError()))

    async def end(self) -> None:
        """Close the channel, which ends the process, and make sure that it does."""
        if self._starting is not None:
            with suppress(Exception):  # there is no process, and `run` has told why
                end = await self._starting
                if self._channel is None:
                    end.close()
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            await asyncio.to_thread(_ended, self._process)

    async def ask(self, method: Method, *arguments: object, context: RequestContext) -> SearchResponse:
        """Return the answer to a search.

        Raises:
            WorkerGoneError: the process ended before.
            LodestoneError: as the engine's method.
        """
        async with aclosing(self._called(lambda number: SearchCall(number, method, arguments, context))) as answers:
            async for answer in answers:
                if isinstance(answer, CallEnded) and answer.answer is not None:
                    return answer.answer
        raise AssertionError("a search ends with an answer or an exception")

    async def events(self, request: SearchRequest, context: RequestContext) -> AsyncGenerator[Event, None]:
        """Yield the events of a search; raises as `ask`."""
        async with aclosing(self._called(lambda number: SearchCall(number, "events", (request,), context))) as answers:
            async for answer in answers:
                if isinstance(answer, CallEvent):
                    yield answer.event

    async def settle(self, query_id: str | None) -> None:
        """Return when the query, or every answered one, is recorded; raises WorkerGoneError."""
        async with aclosing(self._called(lambda number: Settle(number, query_id))) as answers:
            async for _ in answers:
                pass

    async def _called(self, message: Callable[[int], SearchCall | Settle]) -> AsyncGenerator[CallEvent | CallEnded, None]:
        """Send a call, and yield what comes of it; a caller that leaves before its end withdraws it."""
        if self._channel is None:
            raise WorkerGoneError
        number, call = next(self._numbers), _Call()
        self._calls[number] = call
        ended = False
        try:
            self._channel.post(message(number))
            while not ended:
                answer = await call.answers.get()
                # A worker that was given up may still answer, unless it is told not to.
                given_up = isinstance(answer, CallFailed) and isinstance(answer.error, WorkerGoneError)
                ended = not given_up and not isinstance(answer, CallEvent)
                if isinstance(answer, CallFailed):
                    raise answer.error
                yield answer
        except OSError:
            ended = True
            raise WorkerGoneError from None
        finally:
            del self._calls[number]
            if not ended:
                with suppress(OSError):
                    self._channel.post(Withdraw(number))

    def _take(self, message: Message) -> None:
        self._heard = time.monotonic()
        match message:
            case Opened():
                self._opened = True
                _log.info("a further process answers searches", process=self._name, pid=self.pid)
            case SignOfLife():
                pass
            case Observed():
                self._observe(message)
            case NotOpened(error):
                raise ServiceUnavailableError(f"it cannot open the home: {error}")
            case CallEvent(number) | CallEnded(number) | CallFailed(number):
                if number in self._calls:
                    self._calls[number].begun = True
                    self._calls[number].answers.put_nowait(message)
            case _:
                raise TypeError(f"an owner takes no {type(message).__name__}")

    def _start(self) -> socket.socket:
        """Start the process, and return this end of the socket between both. Blocking."""
        own, theirs = socket.socketpair()
        pipes, passed = [], [theirs.fileno()]
        if self._store is not None:
            if self._store.changes is None:
                raise AssertionError("the pool counts the store's changes")
            pipes = [Pipe() for _ in range(PIPES)]
            passed += [self._store.changes.descriptor, *(other.fileno() for _, other in pipes)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lodestone_serve.hosting.answering.worker", *map(str, passed)],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is for the owner, which ends this one when its searches are done
            )
        finally:
            theirs.close()
            for _, other in pipes:
                other.close()
        if self._store is not None:
            StoreHost(self._store, [mine for mine, _ in pipes]).start()
        return own


class SpreadAnswers:
    """Implements `Answering` by the engine of this process and those of the workers.

    Args:
        pool: The workers.
        own: Returns the engine of this process.
    """

    def __init__(self, pool: AnsweringPool, own: Callable[[], Answering]) -> None:
        self._pool = pool
        self._own = own
        self._busy = 0  # of this process

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return the last answer to a search in words, as the engine does."""
        return await self._asked(
            "answer", (request,), request_context, lambda: self._own().answer(request, request_context=request_context)
        )

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return pictures like an indexed one, as the engine does."""
        return await self._asked(
            "similar",
            (image_id, options),
            request_context,
            lambda: self._own().similar(image_id, options, request_context=request_context),
        )

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncGenerator[Event, None]:
        """Answer a search in words event by event, as the engine does.

        Raises:
            ServiceUnavailableError: a worker ended after its first event.
        """
        worker = self._idlest()
        if worker is not None:
            began = False
            try:
                async with aclosing(worker.events(request, request_context)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except WorkerGoneError:
                if began:
                    raise ServiceUnavailableError(
                        "the process that answered has ended", hint="ask again; logs/service.log in the home says why"
                    ) from None
        self._busy += 1
        try:
            async with aclosing(self._own().events(request, request_context=request_context)) as events:
                async for event in events:
                    yield event
        finally:
            self._busy -= 1

    async def _asked(
        self,
        method: Method,
        arguments: tuple[object, ...],
        context: RequestContext,
        own: Callable[[], Awaitable[SearchResponse]],
    ) -> SearchResponse:
        worker = self._idlest()
        if worker is not None:
            with suppress(WorkerGoneError):
                return await worker.ask(method, *arguments, context=context)
        self._busy += 1
        try:
            return await own()
        finally:
            self._busy -= 1

    def _idlest(self) -> Worker | None:
        """Return the worker with the fewest calls under way; None where this process, which needs no messages, has as few."""
        worker = min(self._pool.ready, key=lambda one: one.busy, default=None)
        return None if worker is None or worker.busy >= self._busy else worker


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process whose channel is closed, and kill it where it does not come."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
