"""One request and its answer in the proxy: its deadline, its body, and what is sent in place of the service."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from lodestone.errors import DeadlineExceededError, LodestoneError, OverloadedError, ServiceUnavailableError
from lodestone_serve.policy import MAX_JSON_BYTES, BodyPace, policy_for
from lodestone_serve.traffic.arrivals import BODY, REQUEST_ID, identify
from lodestone_serve.traffic.load_reports import LOAD
from lodestone_serve.traffic.prepared_problems import PreparedProblem, protective_headers
from lodestone_serve.traffic.request_guards import BODY_S, dawdled, is_large

_NAME: Final = b'"deadline_ms"'
_NAMED: Final = re.compile(rb'"deadline_ms"\s*:\s*"?(\d{1,6})(?![\d.eE])')
_IN_QUERY: Final = re.compile(rb"(?:^|&)deadline_ms=(\d{1,6})(?:&|$)")
_TAIL: Final = 64  # bytes at the end of a chunk that may hold the beginning of a name
_RETRY_HINT: Final = "send it again; what reads or searches may always be repeated, a write with its Idempotency-Key"


class Exchange:
    """A request and its answer while they pass through the proxy.

    Args:
        scope: The request.
        receive: Returns the client's next message.
        send: Sends to the client.
        allowed: Returns the seconds for a request that names this deadline (milliseconds, or None); None for no limit.
        late: The time limit, which starts when the body has ended.
        answered: Called with the beginning of the service's answer and the load report that came with it.

    Attributes:
        waiting: Whether the time limit still applies.
        begun: Whether the client has received the beginning of an answer.
        body_ended: Whether all of the request's body has been received.
        named_ms: The longest deadline that the request names as far as it is known, milliseconds; None for none.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        allowed: Callable[[int | None], float | None],
        late: asyncio.Timeout,
        answered: Callable[[Message, bytes | None], None],
    ) -> None:
        self.waiting = True
        self.begun = False
        self.body_ended = False
        self._answered = answered
        self._scope = scope
        self._receive = receive
        self._send = send
        self._allowed = allowed
        self._late = late
        self._refused: int | None = None
        self._tail = b""
        self.named_ms = max((int(value) for value in _IN_QUERY.findall(scope.get("query_string", b""))), default=None)

    async def receive(self) -> Message:
        """Return the client's next message; after the last one the time limit starts."""
        message = await self._receive()
        if self._counting and message["type"] == "http.request":
            self._find_deadlines(message.get("body", b""))
            if not message.get("more_body", False):
                self.body_ended = True
                seconds = self._allowed(self.named_ms)
                if seconds is not None:
                    self._late.reschedule(asyncio.get_running_loop().time() + seconds)
        return message

    async def send(self, message: Message) -> None:
        """Pass on the service's message, but not the plain text by which Ray Serve reports that no replica answered."""
        if message["type"] == "http.response.start":
            if self._counting:
                self._late.reschedule(None)
            self.waiting = False
            load = next((value for name, value in message.get("headers", ()) if name == LOAD), None)
            if load is not None:
                message = {**message, "headers": [header for header in message["headers"] if header[0] != LOAD]}
            self._answered(message, load)
            kind = next((value for name, value in message.get("headers", ()) if name.lower() == b"content-type"), b"")
            if message["status"] in {408, 429, 503} and kind.startswith(b"text/plain"):
                self._refused = message["status"]
            else:
                self.begun = True
        if self.begun:
            await self._send(message)

    async def refuse(self, refusal: PreparedProblem) -> None:
        """Answer in place of the service."""
        self._late.reschedule(None)
        self.waiting = False
        self.begun = True
        await refuse(refusal, self._scope, self._send)

    def failure(self) -> LodestoneError:
        """Return the error that says why there is no answer."""
        if self._refused == 408 or self._late.expired():
            return DeadlineExceededError(
                "nobody answered in time: the service is starting again, or too busy",
                hint=f"{_RETRY_HINT}; /readyz tells when the service is back",
            )
        if self._refused == 429:
            return OverloadedError("more requests wait for the service than may", hint="ask again after Retry-After")
        return ServiceUnavailableError("who worked on this request has gone, before there was an answer", hint=_RETRY_HINT)

    @property
    def _counting(self) -> bool:
        return self.waiting and not self._late.expired()

    def _find_deadlines(self, chunk: bytes) -> None:
        """Find the deadlines that the body names.

        Quotes within a JSON string are escaped, so no query's words match.
        """
        seen = self._tail + chunk
        named = (
            [int(value) for value in _NAMED.findall(seen)] if _NAME in seen else []
        )  # skips the search in pictures, which pass through here too
        if named:
            self.named_ms = max(named) if self.named_ms is None else max(self.named_ms, *named)
        self._tail = seen[-_TAIL:]


async def body_first(scope: Scope, receive: Receive) -> Receive | None:
    """Return `receive` once a body of normal size has arrived: slow bodies wait in the proxy and occupy no replica.

    The whole body is put into the scope too, for replicas that look there (`graph.carried_bodies`). None when the client has
    disconnected. A body that is declared too large is not awaited: the service refuses it.

    Raises:
        Refusal: the body did not arrive in time.
    """
    pace = policy_for(scope["method"], scope["path"]).body.pace
    headers = Headers(scope=scope)
    if pace is BodyPace.STREAMED or (is_large(headers) and (pace is BodyPace.LARGE or "content-length" in headers)):
        return receive
    messages: deque[Message] = deque()
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            while size <= MAX_JSON_BYTES:
                messages.append(await receive())
                if messages[-1]["type"] == "http.disconnect":
                    return None
                size += len(messages[-1].get("body", b""))
                if not messages[-1].get("more_body", False):
                    scope[BODY] = b"".join(message.get("body", b"") for message in messages)
                    break
    except TimeoutError:
        raise dawdled(BODY_S) from None

    async def replay() -> Message:
        return messages.popleft() if messages else await receive()

    return replay


async def refuse(
    refusal: PreparedProblem, scope: Scope, send: Send, *, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Send an answer that was prepared, with the headers that every answer carries, and further ones."""
    start, body = refusal.messages(scope["path"], head=scope["method"] == "HEAD")
    start["headers"] += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    request_id = (REQUEST_ID.lower().encode(), identify(scope).encode())
    start["headers"] += [*protective_headers(https=scope.get("scheme") == "https"), request_id]
    await send(start)
    await send(body)
