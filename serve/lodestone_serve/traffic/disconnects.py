"""End of the work on a request whose client has gone, for applications that their server does not cancel.

Ray Serve's proxy cancels the task of a request when its client disconnects. uvicorn only says so to whoever receives, and an
application that has read the body asks for nothing more: its query would hold its slot until it is answered, for nobody.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone_serve.traffic.arrivals import BODY


class CancelDisconnected:
    """ASGI middleware that cancels the application once the client has gone, from the end of the request's body on.

    Before that end, the application learns of it when it receives, and says what it makes of half a body.

    Args:
        app: The application that answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Watched(receive, send, body=scope.pop(BODY, None))
        try:
            async with request.gone:
                await self._app(scope, request.receive, request.send)
        except TimeoutError:
            if not request.gone.expired():
                raise
        finally:
            request.stop()


class _Watched:
    """One request, whose connection is watched once its body is here.

    Args:
        receive: Returns the server's next message.
        send: Sends to the client.
        body: The whole body, where it has been received.

    Attributes:
        gone: Expires when the client disconnects before its answer is complete.
    """

    def __init__(self, receive: Receive, send: Send, *, body: bytes | None) -> None:
        self.gone = asyncio.timeout(None)
        self._receive = receive
        self._send = send
        self._body = body
        self._answered = False
        self._left = asyncio.get_running_loop().create_future()
        self._watching = None if body is None else asyncio.create_task(self._watch())

    async def receive(self) -> Message:
        """Return the client's next message; after the body, none until the client disconnects."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._watching is not None:
            await asyncio.shield(self._left)
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._watching = asyncio.create_task(self._watch())
        return message

    async def send(self, message: Message) -> None:
        """Pass on a message, and note the last one: after it uvicorn reports a disconnect even to a client that stays."""
        await self._send(message)
        self._answered = message["type"] == "http.response.body" and not message.get("more_body", False)

    def stop(self) -> None:
        """Watch the connection no longer."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set_result(None)
        if not self._answered:
            self.gone.reschedule(asyncio.get_running_loop().time())
