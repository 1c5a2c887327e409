"""Bodies that reach a replica with their request, so that it need not ask the proxy for them.

For each request, a replica of Ray Serve calls the proxy back twice: for the body, and for the news that the client has left.
Each call is a task of an actor, and costs two processes more than parsing and validating the request. Our middleware in the
proxy has the whole body before it passes a request on, and puts it into the ASGI scope. That a client has left is known without
the second call: the proxy cancels its request, and with it the task that answers here.
"""

from __future__ import annotations

import asyncio
import importlib
import pickle
from collections.abc import Callable
from typing import Any

from lodestone_serve.traffic.arrivals import BODY


def take_carried_bodies() -> None:
    """Have Serve's replica take bodies from the scope; to be called in the replica before it is ready.

    Requests without a body in their scope are read as before. Ray 2.60 has no setting for this. Where a later Ray has no such
    property, the replica fails to start.
    """
    request: Any = importlib.import_module("ray.serve._private.common").StreamingHTTPRequest
    asking: Callable[[Any], Any] = request.receive_asgi_messages.fget

    def carried_or_asked(asked: Any) -> Any:  # noqa: ANN401 - Ray's own
        body = asked.asgi_scope.pop(BODY, None)
        return asking(asked) if body is None else CarriedBody(body)

    if asking.__name__ != carried_or_asked.__name__:
        request.receive_asgi_messages = property(carried_or_asked)


class CarriedBody:
    """A body as a replica receives it: one message, and then none until the request ends.

    Args:
        body: The whole body.
    """

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def __call__(self, _metadata: object) -> bytes:
        """Return the pickled messages that Serve's proxy would return."""
        body, self._body = self._body, None
        if body is None:
            await asyncio.get_running_loop().create_future()
        return pickle.dumps([{"type": "http.request", "body": body, "more_body": False}])
