"""Middleware that gives each query a place in the queue, and the context in which its route holds a slot.

The place is taken before the body is read, and the slot once the body has named the deadline. A client that leaves stops the
work. The rows of `lodestone_serve.policy` say which routes are queries.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone.query.asking.request_context import RequestContext
from lodestone_schemas.api import SearchResponse
from lodestone_serve.policy import AdmissionRule, BodyPace, policy_of
from lodestone_serve.responses.problems import problem_of, problem_response
from lodestone_serve.traffic.admission import Admission
from lodestone_serve.traffic.request_guards import is_large
from lodestone_serve.traffic.tickets import Priority, Ticket

_BATCH_FROM: Final = 5  # RFC 9218: urgency 0 to 7, 3 by default
_URGENCY: Final = re.compile(r"(?:^|,)\s*u=([0-7])\s*(?=[,;]|$)")


def priority_of(headers: Headers) -> Priority:
    """Return the priority that a client asks for by `Priority: u=…` (RFC 9218); urgencies 5 to 7 wait for all others."""
    urgency = _URGENCY.search(headers.get("priority", ""))
    return Priority.BATCH if urgency is not None and int(urgency[1]) >= _BATCH_FROM else Priority.INTERACTIVE


class Admitted:
    """Middleware in which a route that runs a query has a place from before its body is read until its answer has been sent.

    It puts `admission` into the state of every request, and `ticket` into that of queries. Large bodies, such as pictures, take
    all slots but one at most, from before they are read: pictures that wait for memory would keep words out until their
    deadline.

    Args:
        app: The application that answers.
        admission: Gives places and slots.
    """

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app = app
        self._admission = admission
        self._uploading = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["admission"] = self._admission
        policy = policy_of(scope)
        if policy.admission is not AdmissionRule.QUERY:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        upload = policy.body.pace is BodyPace.LARGE and is_large(headers)
        try:
            if upload and self._uploading >= max(self._admission.slots - 1, 1):
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
    """The client of a request, which may disconnect while its answer is worked on."""

    def __init__(self, receive: Receive, ticket: Ticket, *, reads: bool) -> None:
        self._receive = receive
        self._ticket = ticket
        self._reading = reads
        self._gone = asyncio.Event()
        self._staying: asyncio.Timeout | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def watch(self, staying: asyncio.Timeout) -> None:
        """Let the timeout `staying` expire when the client disconnects."""
        self._staying = staying
        if not self._reading:
            self._watcher = asyncio.create_task(self._watch())

    def answered(self) -> None:
        """Note that the answer has begun, so that its sender watches the client."""
        self._staying = None

    def close(self) -> None:
        """Stop watching for the client's disconnection."""
        self._staying = None
        if self._watcher is not None:
            self._watcher.cancel()

    async def receive(self) -> Message:
        """Return the messages of the body to the application, then the disconnection."""
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
    """A query that holds its slot.

    Attributes:
        request_context: The context that the engine gets.
        ticket: The ticket of the slot, which is released when the work ends.
    """

    request_context: RequestContext
    ticket: Ticket

    def answered(self, response: SearchResponse) -> None:
        """Record from the answer how long such work takes."""
        self.ticket.answered(response)


@asynccontextmanager
async def at_work(request: Request, deadline_ms: int | None = None, *, strictly: bool = False) -> AsyncIterator[Work]:
    """Hold a slot while the route of a query works; its row must say `AdmissionRule.QUERY`.

    Args:
        request: The request that the route answers.
        deadline_ms: Milliseconds that the client allows, from the arrival of the request; None for the service's own deadline.
        strictly: Whether to cancel the work at the deadline, for work that does not watch it: fetching and decoding a picture.

    Raises:
        OverloadedError: The turn would come too late.
        DeadlineExceededError: The deadline passed before a slot was free, or with `strictly` during the work.
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
    """Return the admission that gives slots, for routes that ask for several."""
    admission: Admission = request.state.admission
    return admission
