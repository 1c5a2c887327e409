"""A client of an ASGI app that can stop listening at any moment, as real ones do and test transports cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class Call:
    """One request under way.

    Attributes:
        status: Of the answer; 0 before it begins.
        headers: Of the answer, names in lower case.
        body: As far as it has come.
    """

    def __init__(
        self, app: Any, method: str, url: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> None:
        parts = urlsplit(url)
        content = b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1", **({"content-type": "application/json"} if content else {}), **(headers or {})}
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": parts.path, "raw_path": parts.path.encode(), "query_string": parts.query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7860),
        }  # fmt: skip
        self._messages = [{"type": "http.request", "body": content, "more_body": False}]
        self._left = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.task = asyncio.create_task(app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")

    def hold_body(self) -> None:
        """Send nothing of the body; before the app has run."""
        self._messages.clear()

    async def leave(self) -> None:
        """Close the connection, and wait until the app has noticed."""
        self._left.set()
        async with asyncio.timeout(120):
            await asyncio.wait([self.task])

    async def done(self) -> Call:
        """Wait for the whole answer."""
        async with asyncio.timeout(120):
            await self.task
        return self

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[dict[str, str]]:
        """The server-sent events so far; comments are left out."""
        blocks = [block for block in self.body.decode().split("\n\n") if block.strip() and not block.startswith(":")]
        return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]

    async def until_event(self, name: str) -> None:
        async with asyncio.timeout(120):
            while name not in [event["event"] for event in self.events()]:
                await asyncio.sleep(0.002)
