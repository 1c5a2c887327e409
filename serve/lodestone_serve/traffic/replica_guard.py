"""Guard of a replica, outside of all other middleware: it refuses queries for which there is no time before they cost anything.

A query whose deadline has passed when it arrives, or for which no place is left, is answered from bytes that are prepared: its
body is not read, its key is not looked up, and nothing is traced or logged. It is counted. What was refused by a proxy is
counted here too, and every answer to a query tells the proxy how busy this replica is.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.errors import DeadlineExceededError
from lodestone_serve.policy import AdmissionRule, policy_of
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission import Admission
from lodestone_serve.traffic.arrivals import allowed_s, arrived_at, came_through_proxy
from lodestone_serve.traffic.load_reports import LOAD, RATE_LIMITED, REFUSED, decode_refused
from lodestone_serve.traffic.prepared_problems import PreparedProblem, protective_headers
from lodestone_serve.traffic.proxy_admission import overloaded

_EXPIRED = PreparedProblem(
    DeadlineExceededError(
        "the deadline passed before the service could look at the query",
        hint="the service is busy: ask again later, or allow more time (deadline_ms)",
    )
)


class ReplicaGuard:
    """Outermost middleware of a replica. It puts `arrived` and, where a proxy has told it, `due` into a query's state.

    Requests that came by no proxy are not refused here: they are few, and their answers need what the inner middleware adds.

    Args:
        app: The application that answers.
        admission: Says whether a place is left, and how busy the replica is.
        metrics: Counts what is refused here or in a proxy.
    """

    def __init__(self, app: ASGIApp, *, admission: Admission, metrics: Metrics) -> None:
        self._app = app
        self._admission = admission
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http" or not came_through_proxy(scope):
            await self._app(scope, receive, send)
            return
        self._count_refused(scope)
        if policy_of(scope).admission is not AdmissionRule.QUERY:
            await self._app(scope, receive, send)
            return
        arrived, allowed = arrived_at(scope), allowed_s(scope)
        state = {**scope.get("state", {}), "arrived": arrived}
        scope = {**scope, "state": state}
        if allowed is not None:
            state["due"] = arrived + allowed
        refusal = self._refusal(state.get("due"))
        if refusal is not None:
            await self._refuse(refusal, scope, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), self._load()]}
            await send(message)

        await self._app(scope, receive, answer)

    def _refusal(self, due: float | None) -> PreparedProblem | None:
        if due is not None and time.monotonic() >= due:
            self._metrics.shed.labels("deadline").inc()
            return _EXPIRED
        if self._admission.full:
            return overloaded(self._admission.refusal("all places are taken").details["retry_after"])
        return None

    async def _refuse(self, refusal: PreparedProblem, scope: Scope, send: Send) -> None:
        method, route = scope["method"], policy_of(scope).path
        self._metrics.observe_request(method, route, refusal.status, max(0.0, time.monotonic() - scope["state"]["arrived"]))
        self._metrics.observe_error(refusal.code, refusal.status)
        start, body = refusal.messages(scope["path"], head=method == "HEAD")
        start["headers"] += [*protective_headers(https=scope["scheme"] == "https"), self._load()]
        await send(start)
        await send(body)

    def _load(self) -> tuple[bytes, bytes]:
        return LOAD, self._admission.report().encode()

    def _count_refused(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == REFUSED and (count := self._count(value, "overloaded")):
                self._admission.refused_in_front(count)
            elif name == RATE_LIMITED:
                self._metrics.shed.labels("rate_limited").inc(self._count(value, "rate_limited"))

    def _count(self, told: bytes, code: str) -> int:
        """Count what a proxy has refused with an error, by route; return how many requests that were."""
        counts = decode_refused(told)
        for route, count in counts.items():
            method, _, path = route.partition(" ")
            self._metrics.requests.labels(method, path, "429").inc(count)
            self._metrics.errors.labels(code, "429").inc(count)
        return sum(counts.values())
