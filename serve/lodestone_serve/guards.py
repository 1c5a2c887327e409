"""Which requests are turned away unread? Foreign hosts and origins, bodies of the wrong kind or size.

The service binds to loopback and asks for no key, so a web page in the user's browser is the attacker to think of. DNS
rebinding makes a page's own name resolve to 127.0.0.1: only loopback names are accepted as Host. Other sites' pages may send
requests without reading the answers: their Origin and Sec-Fetch-Site give them away. There is no CORS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone_serve.problems import Refusal, refusal_response

MAX_JSON_BYTES = 64 * 1024
UPLOAD_SLACK_BYTES = 256 * 1024  # multipart boundaries, the options field
_SAFE = {"GET", "HEAD", "OPTIONS"}
_WITH_BODY = {"POST", "PATCH"}


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an address, without port) can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SameSite:
    """Lets through requests that name this machine and come from no other site."""

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        self._app = app
        self._own = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] == "http" and (refusal := self._refusal(scope["method"], Headers(scope=scope))):
            await refusal_response(refusal, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Refusal | None:
        given = headers.get("host", "")
        name = _hostname(f"//{given}")
        if name is None or not (is_loopback(name) or name == self._own):
            return Refusal(421, f"this service does not answer for the host {given[:200]!r}", hint="use http://127.0.0.1")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return Refusal(403, "requests from other sites' pages are refused", hint="there is no CORS")
        origin = headers.get("origin")
        if method not in _SAFE and origin is not None and urlsplit(origin).netloc.lower() != given.lower():
            return Refusal(403, f"requests from the origin {origin[:200]!r} are refused", hint="there is no CORS")
        return None


class BodyLimits:
    """Checks a body's kind before it is read and its size while it is read.

    Args:
        app: What to protect.
        uploads: Path -> largest body in bytes of routes that take multipart forms; all others take JSON of 64 KB.
    """

    def __init__(self, app: ASGIApp, *, uploads: Mapping[str, int]) -> None:
        self._app = app
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._uploads.get(scope["path"], MAX_JSON_BYTES)
        refusal = self._refusal(scope, limit)
        if refusal is not None:
            await refusal_response(refusal, scope["path"])(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _refusal(self, scope: Scope, limit: int) -> Refusal | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return Refusal(400, f"Content-Length {length[:40]!r} is not a number")
        if int(length) > limit:
            return _too_large(limit)
        if scope["method"] not in _WITH_BODY or (length == "0" and "transfer-encoding" not in headers):
            return None
        expected = "multipart/form-data" if scope["path"] in self._uploads else "application/json"
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != expected:
            return Refusal(415, f"the body is {given[:100]!r}, not {expected}", hint=f"send Content-Type: {expected}")
        return None


def _counted(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit} bytes", hint="see serve.max_upload_mb for pictures", limit=limit)


def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError:
        return None
    return parts.hostname
