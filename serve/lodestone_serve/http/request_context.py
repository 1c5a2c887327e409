"""Context of every request: its id, trace, metrics, log line and safe headers, and an answer even when the code fails."""

from __future__ import annotations

import hashlib
import time
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone_serve.policy import policy_of
from lodestone_serve.responses.problems import CODE_IN_SCOPE, problem_response, unexpected
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.observing import observed
from lodestone_serve.telemetry.tracing import Tracing
from lodestone_serve.traffic.arrivals import REQUEST_ID, arrived_at, identify
from lodestone_serve.traffic.request_guards import protect

UNMATCHED = "unmatched"

_GONE: Final = 499  # as nginx has it: the client went away before there was an answer
_log = structlog.get_logger("lodestone.serve")


class RequestContextMiddleware:
    """Outermost middleware: everything that must hold even for requests that nothing else handles.

    A client's `X-Request-ID` is used when it is short and plain, else a new one is made; either way it is echoed. HEAD is
    answered as GET without a body. `Cross-Origin-Resource-Policy` keeps other sites' pages from embedding pictures.

    Args:
        app: The application that answers.
        metrics: Counts requests, and what the engine reports of their queries.
        tracing: Makes spans.
        echo: Whether to send the request id back; Serve's proxy does so by itself.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, tracing: Tracing, echo: bool = True) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing
        self._echo = echo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "state": dict(scope.get("state", {}))}  # the server goes by its own, e.g. whether HEAD has a body
        scope["state"]["arrived"] = arrived_at(scope)  # deadlines count from here
        method, started = scope["method"], time.perf_counter()
        request_id = identify(scope)
        if method == "HEAD":
            scope["method"] = "GET"
        answer = _Answer(
            send, request_id=request_id if self._echo else "", without_body=method == "HEAD", https=scope["scheme"] == "https"
        )
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                if policy_of(scope).observed:
                    await self._traced(method, request_id, scope, receive, answer)
                else:
                    await self._app(scope, receive, answer)
            except Exception:  # noqa: BLE001 - the last resort: logged in full, answered without internals
                _log.exception("unexpected error", method=method, path=scope["path"])
                if not answer.started:
                    await problem_response(unexpected(request_id))(scope, receive, answer)
            finally:
                self._count(method, scope, answer, time.perf_counter() - started)

    async def _traced(self, method: str, request_id: str, scope: Scope, receive: Receive, answer: _Answer) -> None:
        with self._tracing.request("request", Headers(scope=scope)) as span, observed(self._metrics, self._tracing):
            try:
                await self._app(scope, receive, answer)
            finally:
                if span is not None:
                    route = _route(scope)
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.request.method", method)
                    span.set_attribute("http.route", route)
                    span.set_attribute("http.response.status_code", answer.status or _GONE)
                    span.set_attribute("lodestone.request_id", request_id)

    def _count(self, method: str, scope: Scope, answer: _Answer, seconds: float) -> None:
        status = answer.status or _GONE
        route = _route(scope)
        self._metrics.observe_request(method, route, status, seconds)
        code = scope.get(CODE_IN_SCOPE, "")
        if code:
            self._metrics.observe_error(code, status)
        # Where nobody has said where lines go, structlog prints them: standard output belongs to whoever embeds the app.
        if policy_of(scope).observed and structlog.is_configured():
            _log.info(
                "request",
                method=method,
                route=route,
                status=status,
                milliseconds=round(seconds * 1000, 1),
                code=code,
                asker=_asker(scope),
            )


class _Answer:
    """Wrapper of `send` that adds headers to the start of the answer and remembers its status."""

    def __init__(self, send: Send, *, request_id: str, without_body: bool, https: bool) -> None:
        self._send = send
        self._https = https
        self._request_id = request_id
        self._without_body = without_body
        self.status = 0

    @property
    def started(self) -> bool:
        return self.status != 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            if self._request_id:
                headers[REQUEST_ID] = self._request_id
            protect(headers, https=self._https)
        elif self._without_body and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)


def _route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path", UNMATCHED)
    return route


def _asker(scope: Scope) -> str:
    """Return a hash that tells senders apart in the log without naming them; empty where no key is asked for."""
    owner = getattr(scope.get("state", {}).get("principal"), "owner", "")
    return hashlib.sha256(owner.encode()).hexdigest()[:12] if owner else ""
