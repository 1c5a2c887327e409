"""How does a request get its place, its slot, and its end? Middleware around the queries, and what their routes hold meanwhile.

The place is taken before the body is read; the slot once the body has told the deadline. A client that leaves stops the work.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone.query.request_context import RequestContext
from lodestone_schemas.api import SearchResponse
from lodestone_serve.responses.problems import problem_of, problem_response
from lodestone_serve.traffic.admission import Admission
from lodestone_serve.traffic.request_guards import is_large
from lodestone_serve.traffic.tickets import Priority, Ticket

_BATCH_FROM: Final = 5  # RFC 9218: urgency 0 to 7, 3 by default
_URGENCY: Final = re.compile(r"(?:^|,)\s*u=([0-7])\s*(?=[,;]|$)")
_BATCH: Final = "/v1/search/batch"  # takes a place for each of its lines, itself
_QUERIES: Final = re.compile(
    r"/v1/search(/(?!batch$|stream/).*)?|/v1/images/[^/]+/similar|/v1/queries/[^/]+/replay|/v1/embeddings|/v1/images/generations"
)


def runs_a_query(method: str, path: str) -> bool:
    """Whether the route asks engine or models for one answer. A batch takes its places line by line."""
    asks = "GET" if path.endswith("/similar") else "POST"
    return method == asks and _QUERIES.fullmatch(path) is not None


def priority_of(headers: Headers) -> Priority:
    """As the client says by `Priority: u=…` (RFC 9218): 5 to 7 may wait for all others."""
    found = _URGENCY.search(headers.get("priority", ""))
    return Priority.BATCH if found is not None and int(found[1]) >= _BATCH_FROM else Priority.INTERACTIVE


class Admitted:
    """Middleware: routes that run a query have a place from before their body is read, until their answer has been sent.

    Puts `admission` into the state of every request, and `ticket` into that of queries.

    Args:
        app: What to surround.
        admission: Gives places and slots.
        uploads: Paths that take pictures: of bodies with one, at most as many as there are slots are read at once.
    """

    def __init__(self, app: ASGIApp, *, admission: Admission, uploads: Collection[str] = ()) -> None:
        self._app = app
        self._admission = admission
        self._uploads = uploads
        self._uploading = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["admission"] = self._admission
        if not runs_a_query(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        upload = scope["path"] in self._uploads and is_large(headers)
        try:
            if upload and self._uploading >= self._admission.slots:
                raise self._admission.refusal(
                    f"{self._uploading} pictures are being read or searched by, as many as there may be"
                )
            ticket = self._admission.enter(priority_of(headers))
        except OverloadedError as error:
            await problem_response(problem_of(error, instance=scope["path"]))(scope, receive, send)
            return
        ticket.arrived = min(ticket.arrived, state.get("arrived", ticket.arrived))
        state["ticket"] = ticket
        self._uploading += upload
        try:
            await self._admitted(ticket, scope, receive, send)
        finally:
            self._uploading -= upload
            if not ticket.kept:
                ticket.release()

    async def _admitted(self, ticket: Ticket, scope: Scope, receive: Receive, send: Send) -> None:
        client = _Client(receive, ticket, reads=scope["method"] == "POST")

        async def answer(message: Message) -> None:
            client.answered()  # whoever sends sees for themselves whether anybody listens
            await send(message)

        try:
            async with asyncio.timeout(None) as staying:
                client.watch(staying)
                await self._app(scope, client.receive, answer)
        except TimeoutError:
            if not staying.expired():
                raise
        finally:
            client.close()


class _Client:
    """The other side of a request, which may go away while its answer is worked on."""

    def __init__(self, receive: Receive, ticket: Ticket, *, reads: bool) -> None:
        self._receive = receive
        self._ticket = ticket
        self._reading = reads
        self._gone = asyncio.Event()
        self._staying: asyncio.Timeout | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def watch(self, staying: asyncio.Timeout) -> None:
        """Let `staying` expire when the client goes away."""
        self._staying = staying
        if not self._reading:
            self._watcher = asyncio.create_task(self._watch())

    def answered(self) -> None:
        """The answer has begun."""
        self._staying = None

    def close(self) -> None:
        """Stop watching."""
        self._staying = None
        if self._watcher is not None:
            self._watcher.cancel()

    async def receive(self) -> Message:
        """For the app: the body, then the end."""
        if not self._reading:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._reading = False
            self._watcher = asyncio.create_task(self._watch())
        return message

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if self._staying is not None:
            self._staying.reschedule(self._loop.time())


@dataclass(frozen=True, slots=True)
class Work:
    """A query that has its slot.

    Attributes:
        request_context: For the engine.
        ticket: The slot; given back by itself.
    """

    request_context: RequestContext
    ticket: Ticket

    def answered(self, response: SearchResponse) -> None:
        """Learn from the answer how long such work takes."""
        self.ticket.answered(response)


@asynccontextmanager
async def at_work(request: Request, deadline_ms: int | None = None, *, strictly: bool = False) -> AsyncIterator[Work]:
    """Hold a slot while the route of a query works; for routes that `runs_a_query` knows.

    Args:
        request: Of the route.
        deadline_ms: As the client asked; None for the service's own. It counts from the request's arrival.
        strictly: Give the work up at the deadline, for what does not watch it by itself: fetching and decoding a picture.

    Raises:
        OverloadedError: the turn would come too late.
        DeadlineExceededError: the deadline passed before a slot was free, or `strictly` at work.
    """
    ticket: Ticket = request.state.ticket
    await ticket.start(ticket.deadline_after(deadline_ms))
    work = Work(RequestContext(arrived=ticket.arrived, way_back=ticket.way_back, text_only=ticket.text_only), ticket)
    left_s = max(0.0, ticket.deadline - time.monotonic())
    try:
        async with asyncio.timeout(left_s if strictly else None) as limit:
            yield work
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceededError(
            "the deadline passed before the picture was read", hint="allow more time (deadline_ms), or send a smaller picture"
        ) from None


def admission_of(request: Request) -> Admission:
    """Who gives slots; for routes that ask for several."""
    found: Admission = request.state.admission
    return found
