"""How do a query's events and a sync's progress go over HTTP? As server-sent events and as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import structlog
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse, ServerSentEvent

from lodestone.errors import LodestoneError
from lodestone_schemas.api import DoneEvent, ErrorEvent, Event, SyncProgress
from lodestone_serve.metrics import Metrics
from lodestone_serve.problems import problem_of, unexpected

NDJSON = "application/x-ndjson"
_PING_S = 15
_log = structlog.get_logger("lodestone.serve")


async def event_stream(events: AsyncIterator[Event], *, metrics: Metrics, request_id: str) -> EventSourceResponse:
    """Stream a query. Its first event is awaited here, so that a query that cannot be planned gets an ordinary problem.

    When the client goes away, the response is cancelled, and with it the engine's iterator.

    Raises:
        LodestoneError: the query failed before its first event.
    """
    try:
        first = await anext(events)
    except StopAsyncIteration:
        return EventSourceResponse(_nothing(), ping=_PING_S, sep="\n")
    return EventSourceResponse(_sent(first, events, metrics, request_id), ping=_PING_S, sep="\n")


async def _sent(
    first: Event, events: AsyncIterator[Event], metrics: Metrics, request_id: str
) -> AsyncIterator[ServerSentEvent]:
    number = 1
    async with aclosing(cast("Any", events)):  # an async generator; the contract only promises an iterator
        yield _as_sse(first, number)
        try:
            async for event in events:
                number += 1
                if isinstance(event, DoneEvent):
                    metrics.observe_answer(event.response)
                yield _as_sse(event, number)
        except LodestoneError as error:
            yield _as_sse(ErrorEvent(problem=problem_of(error)), number + 1)
        except Exception:  # noqa: BLE001 - the answer has begun, so the problem must travel inside it; logged in full
            _log.exception("unexpected error while streaming", request_id=request_id)
            yield _as_sse(ErrorEvent(problem=unexpected(request_id)), number + 1)


async def _nothing() -> AsyncIterator[ServerSentEvent]:
    return
    yield  # makes this a generator


def _as_sse(event: Event, number: int) -> ServerSentEvent:
    return ServerSentEvent(data=event.model_dump_json(), event=event.type, id=str(number), sep="\n")


def progress_stream(steps: AsyncIterator[SyncProgress]) -> StreamingResponse:
    """Stream a sync's progress, one JSON object a line. The sync goes on when the reader leaves."""

    async def lines() -> AsyncIterator[bytes]:
        try:
            async for step in steps:
                yield step.model_dump_json().encode() + b"\n"
        except LodestoneError as error:
            yield SyncProgress(type="error", problem=problem_of(error)).model_dump_json().encode() + b"\n"

    return StreamingResponse(lines(), media_type=NDJSON)
