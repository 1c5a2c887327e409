"""Answering process: opens the home beside its owner, and answers the searches that the owner hands over.

It never owns anything: an embedded store is the owner's, and asked through pipes. It ends with the owner: when the socket
between them closes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

import structlog

from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError
from lodestone.home.resources import SERVICE_PURPOSE
from lodestone.home.runtime import Runtime
from lodestone.query_log.recorder import Recorder
from lodestone.services.sessions.live_engine import LiveEngine, WarmEngine
from lodestone.services.sessions.serving import THREADS
from lodestone.store.change_count import ChangeCount
from lodestone.store.proxy.client import StoreProxy
from lodestone_schemas.api import SearchResponse
from lodestone_serve.hosting.answering.messages import (
    Begin,
    CallEnded,
    CallEvent,
    CallFailed,
    Channel,
    Message,
    NotOpened,
    Observed,
    Opened,
    SearchCall,
    Settle,
    SignOfLife,
    Withdraw,
)
from lodestone_serve.hosting.process_setup import prepare_process
from lodestone_serve.inference.shared_passes import LocalStages

ALIVE_S: Final = 1.0
"""Seconds between two signs of life."""

_log = structlog.get_logger("lodestone.serve")


def main(arguments: list[str]) -> None:
    """Answer searches until the socket closes.

    Args:
        arguments: Descriptors of the socket and, for an embedded store, of its count of changes and of the pipes to it.
    """
    # Supervisors send SIGTERM to all processes of a service. The owner ends this one when its searches are done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    calls, *store = map(int, arguments)
    lent = None
    if store:
        pipes = [Connection(pipe) for pipe in store[1:]]
        lent = StoreProxy(pipes, changes=ChangeCount(store[0]), broken=lambda: os._exit(1))  # the owner starts another process
    asyncio.run(_to_the_end(socket.socket(fileno=calls), lent))


async def _to_the_end(end: socket.socket, lent: StoreProxy | None) -> None:
    """Serve, then end the process without waiting for what its threads still compute."""
    code = 1
    try:
        await _serve(end, lent)
        code = 0
    except Exception:  # noqa: BLE001 - the owner notices the end
        _log.exception("an answering process has failed")
    finally:
        os._exit(code)


async def _serve(end: socket.socket, lent: StoreProxy | None) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="lodestone"))
    channel = await Channel.over(end)
    begin = await channel.receive()
    if not isinstance(begin, Begin):
        raise TypeError(f"the first message is {type(begin).__name__}")
    prepare_process(begin.settings, log=f"service-{begin.name}.log")
    worker = _Worker(channel, begin.settings, lent)
    try:
        await worker.open()
    except LodestoneError as error:
        await channel.send(NotOpened(error))
        return
    try:
        await worker.work()
    except* (EOFError, OSError):
        _log.debug("the owner has ended, or wants no answers any more")
    await worker.close()


class _Worker:
    """The home as a worker has it open, and the searches under way.

    Args:
        channel: To the owner.
        settings: Settings of the home.
        lent: The owner's embedded store; None where the store is a server.
    """

    def __init__(self, channel: Channel, settings: Settings, lent: StoreProxy | None) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._runtime = Runtime.open(settings, purpose=SERVICE_PURPOSE)
        self._runtime.may_only_read = False
        self._runtime.lent_store = lent
        self._runtime.observer = _Engines(self._observe)
        self._recorder = self._runtime.recorder = Recorder(observer=_Records(self._observe))
        self._runtime.remote_stages = LocalStages(
            self._runtime,
            observe=lambda texts: self._observe("texts", "observe", texts),
            observe_pictures=lambda pictures: self._observe("pictures", "observe", pictures),
        )
        self._live: LiveEngine | None = None

    async def open(self) -> None:
        """Load what searches in words need."""
        projections = await asyncio.to_thread(self._runtime.serving_projections)
        self._live = LiveEngine(self._runtime, await WarmEngine.warm(self._runtime, projections))

    async def work(self) -> None:
        """Answer until the owner closes the socket.

        Raises:
            EOFError, OSError: it has.
        """
        if self._live is None:
            raise AssertionError("open comes first")
        await self._channel.send(Opened())
        async with asyncio.TaskGroup() as beside:  # without one of them the process is of no use: it ends
            beside.create_task(self._tell_alive())
            beside.create_task(self._live.follow(asyncio.Lock()))
            while True:
                self._take(await self._channel.receive())

    async def close(self) -> None:
        """Write the records that wait."""
        await asyncio.to_thread(self._recorder.close)

    def _take(self, message: Message) -> None:
        match message:
            case SearchCall():
                self._start(message.number, self._answer(message))
            case Settle(number, query_id):
                self._start(number, self._settle(number, query_id))
            case Withdraw(number):
                if number in self._tasks:
                    self._tasks[number].cancel()
            case _:
                raise TypeError(f"a worker takes no {type(message).__name__}")

    def _start(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[number] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, ask: SearchCall) -> None:
        """Answer a search; the owner raises what went wrong."""
        message: CallEnded | CallFailed
        try:
            message = CallEnded(ask.number, await self._searched(ask))
        except LodestoneError as error:
            message = CallFailed(ask.number, error)
        except Exception as error:  # noqa: BLE001 - the log has everything
            _log.exception("a search failed")
            message = CallFailed(ask.number, RuntimeError(f"{type(error).__name__}: {error}"))
        await self._tell(message)

    async def _searched(self, ask: SearchCall) -> SearchResponse | None:
        if self._live is None:
            raise AssertionError("open comes first")
        engine, context = self._live.answering.engine, ask.context
        match ask.method:
            case "answer":
                return await engine.answer(*ask.arguments, request_context=context)
            case "similar":
                return await engine.similar(*ask.arguments, request_context=context)
            case "events":
                async with aclosing(engine.events(*ask.arguments, request_context=context)) as events:
                    async for event in events:
                        await self._channel.send(CallEvent(ask.number, event))
                return None

    async def _settle(self, number: int, query_id: str | None) -> None:
        await asyncio.to_thread(self._recorder.settle, query_id)
        await self._tell(CallEnded(number, None))

    async def _tell(self, message: CallEnded | CallFailed) -> None:
        """Send the end of a call, whatever it holds."""
        try:
            await self._channel.send(message)
        except OSError:
            _log.debug("the owner has ended")
        except Exception as error:  # noqa: BLE001 - what cannot be pickled is told by its text
            _log.exception("an answer cannot be sent")
            await self._channel.send(CallFailed(message.number, RuntimeError(f"{type(error).__name__}: {error}")))

    async def _tell_alive(self) -> None:
        while True:
            await self._channel.send(SignOfLife())
            await asyncio.sleep(ALIVE_S)

    def _observe(self, observer: Literal["engines", "records", "texts", "pictures"], method: str, *arguments: object) -> None:
        """Tell the owner what was measured, from any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._post, Observed(observer, method, arguments))

    def _post(self, message: Message) -> None:
        try:
            self._channel.post(message)
        except OSError:
            _log.debug("the owner has ended")


Observe = Callable[..., None]


class _Engines:
    """Implements `HubObserver` by messages to the owner."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    def asked(self, engine: str, outcome: str, seconds: float, guides: int, cost: float) -> None:
        """Pass the end of a call on."""
        self._observe("engines", "asked", engine, outcome, seconds, guides, cost)

    def breaker(self, engine: str, state: str) -> None:
        """Pass the change of a breaker on."""
        self._observe("engines", "breaker", engine, state)

    def cache(self, kind: str) -> None:
        """Pass a lookup in the cache on."""
        self._observe("engines", "cache", kind)


class _Records:
    """Implements `RecordObserver` by messages to the owner. The queue's length is each process's own, and not passed on."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    def waiting(self, records: int) -> None:
        """Ignore the queue's length."""

    def lost(self, records: int) -> None:
        """Pass the number of lost records on."""
        self._observe("records", "lost", records)


if __name__ == "__main__":
    main(sys.argv[1:])
