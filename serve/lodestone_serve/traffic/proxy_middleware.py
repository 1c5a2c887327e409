"""Middleware around Serve's proxies: it answers with a problem, within the deadline, when no replica does.

Every proxy of Ray Serve runs it (`PROXY_ENVIRONMENT` names it; Ray calls `middlewares` when a proxy starts). A request whose
replica has crashed, or is not ready yet, never reaches the service that would keep its deadline, so the proxy keeps it: counted
from the end of the body until the answer begins. Streams are not cut, however long they take. Queries for which the replicas
have no time are refused here (`proxy_admission`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.errors import (
    ConfigurationError,
    DeadlineExceededError,
    LodestoneError,
    OverloadedError,
    ServiceUnavailableError,
)
from lodestone_serve.policy import MAX_JSON_BYTES, BodyPace, DeadlineRule, policy_for
from lodestone_serve.responses.problems import Refusal, problem_of, problem_response, refusal_response
from lodestone_serve.traffic import connections
from lodestone_serve.traffic.arrivals import REQUEST_ID, identify, stamp
from lodestone_serve.traffic.load_reports import ALLOWED, LOAD, REFUSED, encode_refused
from lodestone_serve.traffic.prepared_problems import PreparedProblem, protective_headers
from lodestone_serve.traffic.proxy_admission import Passing, ProxyAdmission
from lodestone_serve.traffic.request_guards import BODY_S, dawdled, foreign_target, is_large, protect

if TYPE_CHECKING:
    from lodestone.config.settings import Settings

PROXY_ENVIRONMENT: Final = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "lodestone_serve.traffic.proxy_middleware:middlewares"}
"""Environment variable of Ray's processes that adds this middleware to the proxies."""

GRACE_S: Final = 1.0
"""Seconds beyond a deadline, so that normally the service itself reports that it passed."""

_DEADLINE: Final = "LODESTONE_QUERY__DEADLINE_MS"
_PATIENCE: Final = "LODESTONE_SERVE__PATIENCE_S"
_CONNECTIONS: Final = "LODESTONE_SERVE__LOAD__CONNECTIONS"
_LONGEST_S: Final = 600.0  # longest deadline of a query, and longest wait of a batch's line
_PATIENCE_S: Final = 60.0
_NAME: Final = b'"deadline_ms"'
_NAMED: Final = re.compile(rb'"deadline_ms"\s*:\s*"?(\d{1,6})(?![\d.eE])')
_IN_QUERY: Final = re.compile(rb"(?:^|&)deadline_ms=(\d{1,6})(?:&|$)")
_TAIL: Final = 64  # bytes at the end of a chunk that may hold the beginning of a name
_UTF8_HEADERS: Final = frozenset((b"x-request-id", b"x-request-timeout-seconds", b"traceparent"))
"""Headers that Ray's proxy decodes as UTF-8.

An invalid one ends there as a 500, which every count of errors attributes to us.
"""
_REMOVED_HEADERS: Final = frozenset((b"x-session-id", b"serve-multiplexed-model-id", b"x-request-disconnect-disabled"))
"""Headers that Ray's proxy obeys and no client needs. The last one would let work go on after its client has disconnected."""
_PROXY_ROUTES: Final = "/-/"  # the proxy's own routes
_RETRY_HINT: Final = "send it again; what reads or searches may always be repeated, a write with its Idempotency-Key"


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that an answer may take to begin.

    Attributes:
        deadline_s: For a query that names no deadline.
        patience_s: For requests without a deadline.
    """

    deadline_s: float
    patience_s: float

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Waits:
        """Read the values that `proxy_variables` wrote; where they are missing, use the longest possible deadline.

        Raises:
            ConfigurationError: a variable is no number.
        """
        deadline_ms = _number(environment, _DEADLINE, _LONGEST_S * 1000)
        return cls(deadline_ms / 1000, _number(environment, _PATIENCE, _PATIENCE_S))

    def allowed_query(self, method: str, path: str, named_ms: int | None) -> float:
        """Return the seconds that a query may take until its answer, as the replica counts them: without what proxies add.

        Args:
            method: Method of the request.
            path: Path of the request.
            named_ms: The (longest) deadline that it names, milliseconds.
        """
        if named_ms is not None:
            return named_ms / 1000
        return _LONGEST_S if policy_for(method, path).deadline is DeadlineRule.LONGEST else self.deadline_s

    def allowed(self, method: str, path: str, named_ms: int | None) -> float | None:
        """Return the seconds for a request; None for no limit.

        Args:
            method: Method of the request.
            path: Path of the request.
            named_ms: The (longest) deadline that it names, milliseconds.
        """
        rule = policy_for(method, path).deadline
        if rule is DeadlineRule.ENDLESS:
            return None
        if named_ms is not None:
            seconds = named_ms / 1000
        elif rule is DeadlineRule.LONGEST:
            seconds = _LONGEST_S
        else:
            seconds = self.patience_s if rule is DeadlineRule.PATIENCE else self.deadline_s
        return seconds + GRACE_S + (_LONGEST_S if rule is DeadlineRule.LINES else 0.0)


def proxy_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that tell the proxies the service's limits."""
    return {
        _DEADLINE: str(settings.query.deadline_ms),
        _PATIENCE: f"{settings.serve.patience_s:g}",
        _CONNECTIONS: str(settings.serve.load.connections),
    }


def middlewares() -> list[Middleware]:
    """Return the middlewares of a proxy, and guard its connections; Ray Serve calls this in each proxy before it listens."""
    connections.install(most=int(_number(os.environ, _CONNECTIONS, connections.CONNECTIONS)))
    return [Middleware(Front, waits=Waits.of_environment(os.environ))]


class Front:
    """ASGI middleware around the proxy.

    Args:
        app: The proxy.
        waits: How long the proxy may stay without an answer.
    """

    def __init__(self, app: ASGIApp, *, waits: Waits) -> None:
        self._app = app
        self._waits = waits
        self._admission = ProxyAdmission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the proxy answer, or answer in its place where it does not."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or (path.startswith(_PROXY_ROUTES) and foreign_target(scope) is None):
            await self._app(scope, receive, send)
            return
        scope["headers"] = [
            header for header in scope["headers"] if header[0].lower().replace(b"_", b"-") not in _REMOVED_HEADERS
        ]
        if (unreadable := _unreadable(scope) or foreign_target(scope)) is not None:
            await refusal_response(unreadable, path)(scope, receive, _protected(scope, send))
            return
        stamp(scope)
        identify(scope)
        query = self._admission.arriving(scope)
        if query is not None and (refusal := self._admission.without_place(query)) is not None:
            await _refuse(refusal, scope, send)
            return
        late = asyncio.timeout(None)
        exchange = _Exchange(scope, receive, send, waits=self._waits, late=late, answered=partial(self._answered, query))
        try:
            async with late:
                if not await self._passed_on(query, scope, exchange):
                    return
        except TimeoutError:
            if not late.expired():
                raise
        except Refusal as refused:
            await refusal_response(refused, path)(scope, receive, _protected(scope, send))
            return
        finally:
            exchange.waiting = False
            if query is not None:
                self._admission.ended(query)
        if not exchange.begun:
            await problem_response(problem_of(exchange.failure(), instance=path))(scope, receive, _protected(scope, send))

    async def _passed_on(self, query: Passing | None, scope: Scope, exchange: _Exchange) -> bool:
        """Let the proxy answer; return False if the request ended before it got there."""
        body = await _body_first(scope, exchange.receive)
        if body is None:
            return False
        if query is not None and (refusal := self._let_in(query, scope, exchange)) is not None:
            await exchange.refuse(refusal)
            return False
        if refused := self._admission.take_refused():
            scope["headers"].append((REFUSED, encode_refused(refused)))
        await self._app(scope, body, exchange.send)
        return True

    def _let_in(self, query: Passing, scope: Scope, exchange: _Exchange) -> PreparedProblem | None:
        """Count a query whose body is here, or return its refusal."""
        allowed_s = self._waits.allowed_query(scope["method"], scope["path"], exchange.named_ms)
        if exchange.body_ended:  # else its deadline is not known yet
            if (refusal := self._admission.too_late(query, allowed_s)) is not None:
                return refusal
            scope["headers"].append((ALLOWED, str(round(allowed_s * 1000)).encode()))
        self._admission.passed_on(query, allowed_s)
        return None

    def _answered(self, query: Passing | None, status: int, load: bytes | None) -> None:
        if query is not None:
            self._admission.answered(query, status, load)


class _Exchange:
    """A request and its answer while they pass through the proxy.

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
        waits: Waits,
        late: asyncio.Timeout,
        answered: Callable[[int, bytes | None], None],
    ) -> None:
        self.waiting = True
        self.begun = False
        self.body_ended = False
        self._answered = answered
        self._scope = scope
        self._receive = receive
        self._send = send
        self._waits = waits
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
                seconds = self._waits.allowed(self._scope["method"], self._scope["path"], self.named_ms)
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
            self._answered(message["status"], load)
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
        await _refuse(refusal, self._scope, self._send)

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


async def _body_first(scope: Scope, receive: Receive) -> Receive | None:
    """Return `receive` once a body of normal size has arrived: slow bodies wait in the proxy and occupy no replica.

    None when the client has disconnected. A body that is declared too large is not awaited: the service refuses it.

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
                    break
    except TimeoutError:
        raise dawdled(BODY_S) from None

    async def replay() -> Message:
        return messages.popleft() if messages else await receive()

    return replay


async def _refuse(refusal: PreparedProblem, scope: Scope, send: Send) -> None:
    start, body = refusal.messages(scope["path"], head=scope["method"] == "HEAD")
    request_id = (REQUEST_ID.lower().encode(), identify(scope).encode())
    start["headers"] += [*protective_headers(https=scope.get("scheme") == "https"), request_id]
    await send(start)
    await send(body)


def _protected(scope: Scope, send: Send) -> Send:
    """Return `send` with the headers that every answer of the service carries."""

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            protect(headers, https=scope.get("scheme") == "https")
            headers[REQUEST_ID] = identify(scope)
        await send(message)

    return protected


def _unreadable(scope: Scope) -> Refusal | None:
    for name, value in scope["headers"]:
        try:
            _ = value.decode() if name.lower() in _UTF8_HEADERS else ""
        except UnicodeDecodeError:
            return Refusal(400, f"the header {name.decode('latin-1')!r} is no UTF-8 text", hint="send letters and digits in it")
    return None


def _number(environment: Mapping[str, str], name: str, otherwise: float) -> float:
    text = environment.get(name, "")
    try:
        number = float(text) if text else otherwise
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ConfigurationError(f"{name} is {text!r}", hint="give a number above 0, in the environment of every container")
    return number
