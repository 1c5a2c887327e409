"""Middleware around Serve's proxies: it answers with a problem, within the deadline, when no replica does.

Every proxy of Ray Serve runs it (`PROXY_ENVIRONMENT` names it; Ray calls `middlewares` when a proxy starts), and a service in
one process has it around the application (`hosting.one_process`). A request whose replica has crashed, or is not ready yet,
never reaches the service that would keep its deadline, so the proxy keeps it: counted from the end of the body until the answer
begins. Streams are not cut, however long they take. Queries for which the replicas have no time are refused here
(`proxy_admission`), and so are senders that go on beyond their rate (`proxy_rates`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.errors import ConfigurationError
from lodestone_serve.policy import DeadlineRule, policy_for
from lodestone_serve.responses.problems import Refusal, problem_of, problem_response, refusal_response
from lodestone_serve.traffic import connections
from lodestone_serve.traffic.arrivals import REQUEST_ID, identify, stamp
from lodestone_serve.traffic.load_reports import ALLOWED, RATE_LIMITED, REFUSED, encode_refused
from lodestone_serve.traffic.prepared_problems import PreparedProblem
from lodestone_serve.traffic.proxy_admission import Passing, ProxyAdmission
from lodestone_serve.traffic.proxy_exchange import Exchange, body_first, refuse
from lodestone_serve.traffic.proxy_rates import LimitedRequest, ProxyRates
from lodestone_serve.traffic.request_guards import foreign_target, protect

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
_TIMEOUT: Final = b"x-request-timeout-seconds"
_UTF8_HEADERS: Final = frozenset((b"x-request-id", _TIMEOUT, b"traceparent"))
"""Headers that Ray's proxy decodes as UTF-8.

An invalid one ends there as a 500, which every count of errors attributes to us.
"""
_REMOVED_HEADERS: Final = frozenset((b"x-session-id", b"serve-multiplexed-model-id", b"x-request-disconnect-disabled"))
"""Headers that Ray's proxy obeys and no client needs. The last one would let work go on after its client has disconnected."""
_PROXY_ROUTES: Final = frozenset(("/-/routes", "/-/healthz"))  # what else is below /-/, the proxy passes on


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
        self._rates = ProxyRates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the proxy answer, or answer in its place where it does not."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or (path in _PROXY_ROUTES and foreign_target(scope) is None):
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
        limited, query = self._rates.arriving(scope), self._admission.arriving(scope)
        if (refusal := self._at_once(limited, query)) is not None:
            await refuse(refusal[0], scope, send, headers=refusal[1])
            return
        late = asyncio.timeout(None)
        allowed = partial(self._allowed, scope)
        answered = partial(self._answered, query, limited)
        exchange = Exchange(scope, receive, send, allowed=allowed, late=late, answered=answered)
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

    def _at_once(
        self, limited: LimitedRequest | None, query: Passing | None
    ) -> tuple[PreparedProblem, Mapping[str, str]] | None:
        """Return the refusal and its headers for a request that can be refused before its body is read."""
        if limited is not None and (over := self._rates.refusal(limited)) is not None:
            return over
        full = None if query is None else self._admission.without_place(query)
        return None if full is None else (full, {})

    async def _passed_on(self, query: Passing | None, scope: Scope, exchange: Exchange) -> bool:
        """Let the proxy answer; return False if the request ended before it got there."""
        body = await body_first(scope, exchange.receive)
        if body is None:
            return False
        if query is not None and (refusal := self._let_in(query, scope, exchange)) is not None:
            await exchange.refuse(refusal)
            return False
        if refused := self._admission.take_refused():
            scope["headers"].append((REFUSED, encode_refused(refused)))
        if refused := self._rates.take_refused():
            scope["headers"].append((RATE_LIMITED, encode_refused(refused)))
        await self._app(scope, body, exchange.send)
        return True

    def _let_in(self, query: Passing, scope: Scope, exchange: Exchange) -> PreparedProblem | None:
        """Count a query whose body is here, or return its refusal."""
        allowed_s = self._waits.allowed_query(scope["method"], scope["path"], exchange.named_ms)
        if exchange.body_ended:  # else its deadline is not known yet
            if (refusal := self._admission.too_late(query, allowed_s)) is not None:
                return refusal
            scope["headers"].append((ALLOWED, str(round(allowed_s * 1000)).encode()))
        self._admission.passed_on(query, allowed_s)
        return None

    def _allowed(self, scope: Scope, named_ms: int | None) -> float | None:
        """Return the seconds for a request, at most those of its header `X-Request-Timeout-Seconds`; None for no limit."""
        seconds, asked = self._waits.allowed(scope["method"], scope["path"], named_ms), _asked_s(scope)
        return min((one for one in (seconds, asked) if one is not None), default=None)

    def _answered(self, query: Passing | None, limited: LimitedRequest | None, answer: Message, load: bytes | None) -> None:
        if query is not None:
            self._admission.answered(query, answer["status"], load)
        if limited is not None:
            self._rates.answered(limited, answer["status"], answer.get("headers", ()))


def _protected(scope: Scope, send: Send) -> Send:
    """Return `send` with the headers that every answer of the service carries."""

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            protect(headers, https=scope.get("scheme") == "https")
            headers[REQUEST_ID] = identify(scope)
        await send(message)

    return protected


def _asked_s(scope: Scope) -> float | None:
    """Return the seconds that the client's header allows; None where it has none, or no number above 0."""
    given = next((value for name, value in scope["headers"] if name.lower() == _TIMEOUT), b"")
    try:
        seconds = float(given)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


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
