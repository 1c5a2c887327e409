"""Who sent a request? Middleware that finds the principal, before anything of the body is read."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lodestone.service import TOKEN_HEADER
from lodestone_serve.principal import ANYBODY, LOCAL, Principal
from lodestone_serve.services import Services


class Authentication:
    """Puts `principal` and `services` into the state of every request.

    Args:
        app: What asks for them.
        services: The whole home.
        token: Of service.json; its reader is this machine's user.
    """

    def __init__(self, app: ASGIApp, *, services: Services, token: str) -> None:
        self._app = app
        self._services = services
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] == "http":
            scope.setdefault("state", {})
            scope["state"]["principal"] = self._principal(Headers(scope=scope))
            scope["state"]["services"] = self._services
        await self._app(scope, receive, send)

    def _principal(self, headers: Headers) -> Principal:
        given = headers.get(TOKEN_HEADER)
        return LOCAL if given is not None and hmac.compare_digest(given.encode(), self._token) else ANYBODY
