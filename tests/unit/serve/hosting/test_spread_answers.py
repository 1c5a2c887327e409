"""Searches are spread by what is under way, and a stream that breaks after its first event says so. Workers are stubs here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.errors import ServiceUnavailableError
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.api import SearchRequest
from lodestone_serve.hosting.answering.pool import SpreadAnswers, WorkerGoneError

REQUEST = SearchRequest(query="a cat")


class Stub:
    """Answers with its name, when it is let; it may end before or after its first event."""

    def __init__(self, name: str, *, busy: int = 0, events: int = 2, gone: bool = False) -> None:
        self.name = name
        self.busy = busy
        self.let = asyncio.Event()
        self._events = events
        self._gone = gone

    async def ask(self, *_: object, context: RequestContext) -> Any:
        if self._gone:
            raise WorkerGoneError
        return self.name

    async def answer(self, _request: SearchRequest, *, request_context: RequestContext = NOW) -> Any:
        await self.let.wait()
        return self.name

    async def events(
        self, _request: SearchRequest, *_: object, request_context: RequestContext = NOW
    ) -> AsyncGenerator[Any, None]:
        for number in range(self._events):
            yield f"{self.name} {number}"
        if self._gone:
            raise WorkerGoneError


def spread_over(own: Stub, *workers: Stub) -> SpreadAnswers:
    pool: Any = SimpleNamespace(ready=list(workers))
    return SpreadAnswers(pool, lambda: own)  # type: ignore[arg-type, return-value]


async def test_the_idlest_worker_is_asked_when_this_process_is_busy() -> None:
    own, one, other = Stub("own"), Stub("one", busy=2), Stub("other", busy=1)
    spread = spread_over(own, one, other)
    first = [asyncio.create_task(spread.answer(REQUEST)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await spread.answer(REQUEST) == "other"
    other.busy = 3
    third = asyncio.create_task(spread.answer(REQUEST))
    await asyncio.sleep(0)
    assert await spread.answer(REQUEST) == "one"
    own.let.set()
    assert await asyncio.gather(*first, third) == ["own"] * 3


async def test_what_a_worker_leaves_unanswered_is_answered_here() -> None:
    own = Stub("own")
    spread = spread_over(own, Stub("worker", gone=True))
    first = asyncio.create_task(spread.answer(REQUEST))
    await asyncio.sleep(0)
    second = asyncio.create_task(spread.answer(REQUEST))
    await asyncio.sleep(0)
    own.let.set()
    assert await asyncio.gather(first, second) == ["own", "own"]


@pytest.mark.parametrize(("events", "expected"), [(0, ["own 0", "own 1"]), (1, ["worker 0"])])
async def test_a_stream_goes_on_here_unless_it_has_begun(events: int, expected: list[str]) -> None:
    own = Stub("own")
    spread = spread_over(own, Stub("worker", events=events, gone=True))
    waiting = asyncio.create_task(spread.answer(REQUEST))
    await asyncio.sleep(0)
    got: list[Any] = []

    async def read() -> None:
        async for event in spread.events(REQUEST):
            got.append(event)  # noqa: PERF401 - what came before the error counts

    if events:
        with pytest.raises(ServiceUnavailableError, match="has ended") as raised:
            await read()
        assert raised.value.hint
    else:
        await read()
    assert got == expected
    own.let.set()
    await waiting


async def test_without_workers_everything_is_answered_here() -> None:
    own = Stub("own")
    own.let.set()
    spread = spread_over(own)
    assert await asyncio.gather(*(spread.answer(REQUEST) for _ in range(3))) == ["own"] * 3
    assert [event async for event in spread.events(REQUEST)] == ["own 0", "own 1"]
    with pytest.raises(AttributeError):  # stubs have no such search: the own engine is asked
        await spread.similar("x", REQUEST)
