"""Streams of a query's events as server-sent events, which are kept for a while and can be resumed; and of a sync's progress.

A query runs in a task of its own, which holds its slot. Its events are kept by this process, and connections only read them. A
reader that disconnects may come back within a grace period; after that the query is cancelled, down to its models. The id of
an event is `QUERY_ID.N`: a client that sends it as `Last-Event-ID` gets the events after it. The progress of a sync is sent as
lines of JSON.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from contextvars import Context, copy_context
from typing import Any, Final, cast

import structlog
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from lodestone.config.serve import StreamSettings
from lodestone.errors import InvalidRequestError, LodestoneError, NotFoundError
from lodestone_schemas.api import DoneEvent, ErrorEvent, Event, PlanEvent, Problem, SyncProgress
from lodestone_serve.policy import NDJSON
from lodestone_serve.responses.problems import problem_of, unexpected
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.tickets import Ticket

MOST_STREAMS: Final = 1_024
MOST_BYTES: Final = 64 << 20
_STUCK_S: Final = 60.0  # a reader that takes nothing for so long is gone
_ID: Final = re.compile(r"([!-~]{1,128})\.(\d{1,9})")
_log = structlog.get_logger("lodestone.serve")


class Streams:
    """The streams of one process, for one event loop.

    Args:
        settings: Heartbeats, the grace period, and how long a finished stream is kept.
        metrics: Counts streams that are open, resumed and cancelled.
        most_streams: Number of streams kept at once; beyond it, those that were finished longest ago go first.
        most_bytes: Size in bytes of all kept events, with the same rule.
    """

    def __init__(
        self,
        settings: StreamSettings,
        metrics: Metrics,
        *,
        most_streams: int = MOST_STREAMS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._most_streams = most_streams
        self._most_bytes = most_bytes
        self._known: dict[str, QueryStream] = {}  # by query id, finished ones in the order of their ends
        self._running: set[QueryStream] = set()

    async def begin(self, events: AsyncIterator[Event], *, ticket: Ticket, owner: str, request_id: str) -> QueryStream:
        """Start a query and wait for its first event, so that one that cannot be planned gets an ordinary problem.

        Args:
            events: The events of the query; closed at the end.
            ticket: The ticket of its slot, which is released when the query ends.
            owner: Authority of the principal that may read the stream: its name and rights.
            request_id: Id of the request, which problems name.

        Raises:
            LodestoneError: The query failed before its first event.
        """
        ticket.kept = True
        stream = QueryStream(self, ticket, owner=owner, request_id=request_id)
        self._running.add(stream)
        stream.run(events)
        try:
            await stream.begun()
        except asyncio.CancelledError:
            stream.cancel()
            raise
        return stream

    def find(self, query_id: str, owner: str) -> QueryStream:
        """Return a stream that is running or kept.

        Raises:
            NotFoundError: There is none of that id, or it is somebody else's.
        """
        found = self._known.get(query_id)
        if found is None or found.owner != owner:
            raise NotFoundError(
                f"there is no stream of the query {query_id!r} here",
                hint="ask the query again (same seed, same answer): only the replica that answers keeps its stream, "
                "and not for long",
                query_id=query_id,
            )
        self._metrics.streams_resumed.inc()
        return found

    def response(self, stream: QueryStream, after: int = 0) -> EventSourceResponse:
        """Return the answer with the events after number `after`, and those to come."""
        return _Events(
            stream.read(after, self._settings.grace_s, self._metrics),
            ping=self._settings.heartbeat_s,
            ping_message_factory=lambda: ServerSentEvent(comment="still at work", sep="\n"),
            send_timeout=_STUCK_S,
            sep="\n",
        )

    async def close(self) -> None:
        """Cancel the running queries and forget all streams."""
        running = list(self._running)
        for stream in running:
            stream.cancel()
        await asyncio.gather(*(stream.ended() for stream in running))
        for stream in list(self._known.values()):
            self._forget(stream)

    # -- for streams -----------------------------------------------------------------------------------------------------------

    def named(self, stream: QueryStream) -> None:
        """Register a stream under the id that its query has got."""
        self._known[stream.query_id] = stream

    def done(self, stream: QueryStream, *, whole: bool) -> None:
        """Note that a stream ended: with its last event if it is `whole`, else cancelled, and then it cannot be resumed."""
        self._running.discard(stream)
        self._forget(stream)
        if whole and stream.query_id and self._settings.keep_s:
            self._known[stream.query_id] = stream
            stream.forgetting = asyncio.get_running_loop().call_later(self._settings.keep_s, self._forget, stream)
            self._make_room()

    def answered(self, event: DoneEvent) -> None:
        """Record the answer of a query."""
        self._metrics.observe_answer(event.response)

    def failed(self, problem: Problem) -> None:
        """Count a stream that ends with a problem."""
        self._metrics.observe_error(problem.code, problem.status)

    def _make_room(self) -> None:
        finished = [stream for stream in self._known.values() if stream.finished]
        size = sum(stream.size for stream in finished)
        for stream in finished:
            if len(self._known) <= self._most_streams and size <= self._most_bytes:
                return
            size -= stream.size
            self._forget(stream)

    def _forget(self, stream: QueryStream) -> None:
        if stream.forgetting is not None:
            stream.forgetting.cancel()
        if self._known.get(stream.query_id) is stream:
            del self._known[stream.query_id]


class QueryStream:
    """The events of one query, as far as they have come; `Streams` makes it."""

    def __init__(self, streams: Streams, ticket: Ticket, *, owner: str, request_id: str) -> None:
        self.owner = owner
        self.query_id = ""
        self.finished = False
        self.size = 0  # bytes of its events
        self.forgetting: asyncio.TimerHandle | None = None
        self._streams = streams
        self._ticket = ticket
        self._request_id = request_id
        self._events: list[tuple[str, str]] = []  # type and JSON
        self._news = asyncio.Event()  # set, and replaced, by every change
        self._readers = 0
        self._giving_up: asyncio.TimerHandle | None = None
        self._failed: Exception | None = None
        self._whole = False  # whether its last event is there
        self._task: asyncio.Task[None] | None = None

    def run(self, events: AsyncIterator[Event]) -> None:
        """Start the query in its own task."""
        self._task = asyncio.create_task(self._pump(events), context=_own_context())
        # Not by the task itself: one that is cancelled before its first step runs nothing.
        self._task.add_done_callback(lambda _: self._end())

    async def begun(self) -> None:
        """Return when the first event has come; raise the error that came instead."""
        while not self._events and not self.finished:
            await self._news.wait()
        if self._failed is not None:
            raise self._failed

    async def ended(self) -> None:
        """Return when nothing of the query runs any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Cancel the query and its task."""
        if self._task is not None:
            self._task.cancel()

    @property
    def count(self) -> int:
        """Return the number of events so far."""
        return len(self._events)

    async def read(self, after: int, grace_s: float, metrics: Metrics) -> AsyncIterator[ServerSentEvent]:
        """Yield the events after number `after`. The query is cancelled `grace_s` seconds after its last reader left."""
        self._readers += 1
        metrics.streams_open.inc()
        if self._giving_up is not None:
            self._giving_up.cancel()
        try:
            place = after
            while True:
                news = self._news
                while place < len(self._events):
                    kind, data = self._events[place]
                    place += 1
                    yield ServerSentEvent(data=data, event=kind, id=f"{self.query_id}.{place}", sep="\n")
                if self.finished and place >= len(self._events):
                    return
                if news is self._news:
                    await news.wait()
        finally:
            self._readers -= 1
            metrics.streams_open.dec()
            if not self._readers and not self.finished:
                self._giving_up = asyncio.get_running_loop().call_later(grace_s, self._give_up, metrics)

    def _give_up(self, metrics: Metrics) -> None:
        if not self._readers and not self.finished:
            metrics.streams_cancelled.inc()
            self.cancel()

    async def _pump(self, events: AsyncIterator[Event]) -> None:
        try:
            async with aclosing(cast("Any", events)):  # an async generator; the contract only promises an iterator
                async for event in events:
                    self._take(event)
            self._whole = True
        except LodestoneError as error:
            self._fail(error, problem_of(error))
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: told to the reader, logged in full
            if self._events:
                _log.exception("unexpected error while streaming", request_id=self._request_id)
            self._fail(error, unexpected(self._request_id))

    def _end(self) -> None:
        self._ticket.release()
        self.finished = True
        self._streams.done(self, whole=self._whole)
        self._tell()

    def _take(self, event: Event) -> None:
        if isinstance(event, PlanEvent) and not self.query_id:
            self.query_id = event.query_id
            self._streams.named(self)
        if isinstance(event, DoneEvent):
            self._ticket.answered(event.response)
            self._streams.answered(event)
        data = event.model_dump_json()
        self._events.append((event.type, data))
        self.size += len(data)
        self._tell()

    def _fail(self, error: Exception, problem: Problem) -> None:
        """Send a problem inside the stream after the first event; before it, the problem is the answer of the request."""
        if not self._events:
            self._failed = error
            return
        self._streams.failed(problem)
        self._take(ErrorEvent(problem=problem))
        self._whole = True

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class _Events(EventSourceResponse):
    """Server-sent events; a reader that takes nothing for too long counts as disconnected, and not as an error."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            _log.warning("a reader took nothing of its stream", seconds=_STUCK_S)


def last_event(header: str | None) -> tuple[str, int] | None:
    """Return the query id and the number that a `Last-Event-ID` names; None where there is none.

    Raises:
        InvalidRequestError: The id was not made by this service.
    """
    if not header:
        return None
    found = _ID.fullmatch(header)
    if found is None:
        raise InvalidRequestError(
            f"Last-Event-ID {header[:200]!r} is no id of an event", hint="send the `id` of the last event, or none"
        )
    return found[1], int(found[2])


def progress_stream(steps: AsyncIterator[SyncProgress], run_id: str | None = None) -> StreamingResponse:
    """Stream a sync's progress, one JSON object a line. The sync goes on when the reader leaves.

    Args:
        steps: Its progress; raises what it fails with.
        run_id: Names the sync where it fails unexpectedly.
    """

    async def lines() -> AsyncIterator[bytes]:
        try:
            async for step in steps:
                yield step.model_dump_json().encode() + b"\n"
        except LodestoneError as error:
            yield SyncProgress(type="error", problem=problem_of(error)).model_dump_json().encode() + b"\n"
        except Exception:  # noqa: BLE001 - the reader is told; whatever ran the sync has logged everything
            problem = unexpected(run_id or "sync")
            yield SyncProgress(type="error", problem=problem).model_dump_json().encode() + b"\n"

    return StreamingResponse(lines(), media_type=NDJSON)


def _own_context() -> Context:
    """Return the context variables of the request's task, without those of Ray Serve.

    Serve cancels the calls that a request made when its client goes away; the query lives on for a grace.
    """
    context = Context()
    for variable, value in copy_context().items():
        if not variable.name.startswith("Serve internal"):
            context.run(variable.set, value)
    return context
