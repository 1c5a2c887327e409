from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.types import Message, Receive, Scope, Send

from lodestone_serve.http.request_context import RequestContextMiddleware
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.tracing import Tracing


def test_a_head_request_is_answered_as_get_and_the_servers_own_scope_is_not_changed() -> None:
    methods: list[str] = []
    sent: list[Message] = []

    async def application(scope: Scope, _receive: Receive, send: Send) -> None:
        methods.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope: dict[str, Any] = {
        "type": "http",
        "method": "HEAD",
        "path": "/healthz",
        "scheme": "http",
        "headers": [(b"host", b"localhost")],
        "state": {},
    }
    before = {**scope, "headers": list(scope["headers"]), "state": {}}
    middleware = RequestContextMiddleware(application, metrics=Metrics(), tracing=cast("Tracing", None))

    asyncio.run(middleware(scope, receive, send))

    assert scope == before
    assert methods == ["GET"]
    assert [message.get("body", b"") for message in sent] == [b"", b""]
