"""How many queries may be worked on, and how many may wait? The rest is refused at once, before any byte is streamed.

Serve's own limits are per caller and answer in plain text, and nothing can be refused once a stream has begun. So queries are
admitted here, in the one replica that does the work, and Serve's queue is set wider than this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from lodestone_serve.metrics import Metrics
from lodestone_serve.problems import Refusal, refusal_response


class Admission:
    """At most `max_ongoing` holders of a slot and `max_queued` waiting for one, first come, first served."""

    def __init__(self, *, max_ongoing: int, max_queued: int, metrics: Metrics) -> None:
        self._slots = asyncio.Semaphore(max_ongoing)
        self._most = max_ongoing + max_queued
        self._admitted = 0
        self._metrics = metrics

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it.

        Raises:
            Refusal: 503 `overloaded`; as many queries as allowed are running and waiting.
        """
        if self._admitted >= self._most:
            self._metrics.shed.labels("overloaded").inc()
            raise Refusal(503, f"{self._admitted} queries are running or waiting", hint="try again in a moment")
        self._admitted += 1
        try:
            with self._metrics.waiting.track_inprogress():
                await self._slots.acquire()
            try:
                with self._metrics.in_flight.track_inprogress():
                    yield
            finally:
                self._slots.release()
        finally:
            self._admitted -= 1


class Admitted:
    """Middleware: routes that run a query hold a slot from before their body is read until their answer has been sent."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http" or not runs_a_query(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            async with self._admission.slot():
                await self._app(scope, receive, send)
        except Refusal as refusal:
            # Only `slot` lets a Refusal out: those raised further in have been answered there.
            await refusal_response(refusal, scope["path"])(scope, receive, send)


def runs_a_query(path: str) -> bool:
    """Whether the route at `path` asks the engine."""
    return path.startswith("/v1/search") or (path.startswith("/v1/images/") and path.endswith("/similar"))
