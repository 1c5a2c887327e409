"""Guards that refuse requests of foreign hosts and origins, ambiguous requests, and bodies of the wrong kind, size or pace.

By default the service binds to loopback and asks for no key, so the attacker to think of is a web page in the user's browser.
DNS rebinding makes a page's own name resolve to 127.0.0.1, so only loopback names and those of `serve.public_hosts` are
accepted as Host. Pages of other origins may send requests without reading the answers. They are known by their Origin and
Sec-Fetch-Site, or by their Referer where a browser sends neither, and are refused unless `serve.cors_origins` names them. A
page on another port of this host is of the same site and of another origin: it is refused too. Programs send none of these
headers. The rows of `lodestone_serve.policy` say what each
route's body may be.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.config.serve import ServeSettings
from lodestone_serve.hosts import ANY, is_loopback, names_no_other_page
from lodestone_serve.policy import MAX_JSON_BYTES, AdmissionRule, BodyPace, policy_of
from lodestone_serve.responses.problems import Refusal, refusal_response

BODY_S: Final = 5.0
_LARGE_BODY_S: Final = 60.0
CONTENT_SECURITY_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Of every answer that has no other: nothing in it is to run, load, be framed or be sent anywhere."""

_PROTECTIVE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",  # what is no picture is for the one who asked, now
}
_HSTS: Final = "max-age=31536000"
_SAFE = {"GET", "HEAD", "OPTIONS"}
_WITH_BODY = {"POST", "PATCH"}
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(:\d*)?", re.ASCII | re.IGNORECASE)
TARGET: Final = "lodestone.target"
"""Name in an ASGI scope of the host that a request's target names, where the target is no path."""

_ONCE: Final = (
    "host", "content-length", "transfer-encoding", "origin",
    "authorization", "x-api-key", "x-lodestone-token", "idempotency-key",
)  # fmt: skip


def protect(headers: MutableHeaders, *, https: bool) -> None:
    """Add the headers that every answer carries unless its route set them: no sniffing, no framing, no scripts, no caching."""
    for name, value in _PROTECTIVE.items():
        headers.setdefault(name, value)
    if https:
        headers.setdefault("Strict-Transport-Security", _HSTS)


class SiteGuard:
    """Middleware that passes on requests that name this service, come from no other site, and can be read in one way only.

    Args:
        app: The application to guard.
        settings: The names to answer for, and the origins whose pages may send requests.
    """

    def __init__(self, app: ASGIApp, *, settings: ServeSettings) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in (settings.host, *settings.public_hosts))
        self._origins = frozenset(origin.lower() for origin in settings.cors_origins)
        self._asks = settings.auth.asks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] == "http" and (refusal := self._refusal(scope, Headers(scope=scope))):
            await refusal_response(refusal, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        if (ambiguous := _ambiguous(headers) or foreign_target(scope)) is not None:
            return ambiguous
        given = headers.get("host", "")
        name = _hostname(given)
        if name is None or not (self._answers_for(name) or (self._asks and policy_of(scope).probe)):
            hint = "use http://127.0.0.1, or name it in serve.public_hosts"
            return Refusal(421, f"this service does not answer for the host {given[:200]!r}", hint=hint)
        return self._of_another_page(scope, headers, given)

    def _of_another_page(self, scope: Scope, headers: Headers, host: str) -> Refusal | None:
        """Return the refusal of a request that a page of another origin sends, and that is no link which somebody follows."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and (ANY in self._origins or origin.lower() in self._origins):
            return None
        sent_by = None
        if site is not None and not names_no_other_page(headers, site) and not _is_link(scope, headers):
            sent_by = "pages of other sites, and of other ports of this host,"
        elif origin is not None and _netloc(origin) != host.lower():
            sent_by = f"the origin {origin[:200]!r}"
        elif site is None and origin is None and _works(scope) and _names_another(headers, host):
            sent_by = "pages of other origins"
        if sent_by is None:
            return None
        return Refusal(403, f"requests from {sent_by} are refused", hint="only pages of serve.cors_origins may ask")

    def _answers_for(self, name: str) -> bool:
        return is_loopback(name) or name in self._names or ANY in self._names


def _works(scope: Scope) -> bool:
    """Return whether a request changes something or makes the service work, and does not only show something."""
    return scope["method"] not in _SAFE or policy_of(scope).admission is not AdmissionRule.NONE


def _names_another(headers: Headers, host: str) -> bool:
    """Return whether the request names another host's page as the one that it comes from."""
    referer = headers.get("referer")
    return referer is not None and _netloc(referer) not in {host.lower(), ""}


def _is_link(scope: Scope, headers: Headers) -> bool:
    """Return whether somebody follows a link to something that may be looked at, in a window of its own.

    A page that opens addresses in frames, or one that runs a query, makes the service work without its user's wish. A form that
    is sent opens a window, too, and is no link.
    """
    if scope["method"] not in _SAFE:
        return False
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
    return opened and policy_of(scope).admission is AdmissionRule.NONE


def foreign_target(scope: Scope) -> Refusal | None:
    """Return the refusal of a request whose target names another host than `Host`, or is neither a path nor an address.

    Routes are found by the path alone, and hosts are checked by `Host` alone, so both must say the same.
    """
    target: str | None = scope.get(TARGET)
    if target is None and scope["path"].startswith("/"):
        return None
    if target is not None and target.lower() == Headers(scope=scope).get("host", "").lower():
        return None
    named = (scope["path"] if target is None else target)[:200]
    return Refusal(400, f"the request's target names {named!r}, and Host does not", hint="send the path alone: GET /v1/status")


def _ambiguous(headers: Headers) -> Refusal | None:
    """Return the refusal of a request that a proxy in front may have read otherwise, as request smuggling needs it."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            return Refusal(400, f"the header {name!r} came more than once", hint="send it once")
    coding = headers.get("transfer-encoding")
    if coding is not None and coding.strip().lower() != "chunked":
        return Refusal(400, f"Transfer-Encoding {coding[:40]!r} is not understood", hint="send chunks, or a Content-Length")
    if coding is not None and "content-length" in headers:
        return Refusal(400, "both Transfer-Encoding and Content-Length say how long the body is", hint="send one of them")
    return None


class BodyLimits:
    """Middleware that checks the kind of a body before it is read, and its size while it is read.

    Args:
        app: The application to protect.
        settings: The settings that bound large bodies.
    """

    def __init__(self, app: ASGIApp, *, settings: ServeSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = policy_of(scope).body
        limit = body.max_bytes(self._settings)
        refusal = self._refusal(scope, body.media_type, limit)
        if refusal is not None:
            await refusal_response(refusal, scope["path"])(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _refusal(self, scope: Scope, expected: str, limit: int) -> Refusal | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return Refusal(400, f"Content-Length {length[:40]!r} is not a number")
        if int(length) > limit:
            return _too_large(limit)
        if scope["method"] not in _WITH_BODY or (length == "0" and "transfer-encoding" not in headers):
            return None
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


def is_large(headers: Headers) -> bool:
    """Return whether the body may be larger than an ordinary JSON message."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not length.isdecimal() or int(length) > MAX_JSON_BYTES


def dawdled(within_s: float) -> Refusal:
    """Return the refusal of a body that did not arrive within so many seconds."""
    return Refusal(504, f"the body did not arrive within {within_s:g} s", hint="send it faster", code="deadline_exceeded")


class PromptBodies:
    """Middleware that gives up bodies which arrive too slowly: some hundreds of them would keep all other requests out.

    Args:
        app: The application to protect.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        pace = BodyPace.STREAMED if scope["type"] != "http" else policy_of(scope).body.pace
        if pace is BodyPace.STREAMED:
            await self._app(scope, receive, send)
            return
        slowly = pace is BodyPace.LARGE and is_large(Headers(scope=scope))
        within_s = _LARGE_BODY_S if slowly else BODY_S
        late = dawdled(within_s)
        try:
            await self._app(scope, _prompt(receive, within_s, late), send)
        except Refusal as refusal:  # by whoever reads bodies before the app
            await refusal_response(refusal, scope["path"])(scope, receive, send)


def _prompt(receive: Receive, within_s: float, late: Refusal) -> Receive:
    ends = asyncio.get_running_loop().time() + within_s
    whole = False

    async def prompt() -> Message:
        nonlocal whole
        try:
            async with asyncio.timeout_at(None if whole else ends):
                message = await receive()
        except TimeoutError:
            raise late from None
        whole = whole or message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return prompt


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit} bytes", hint="see serve.max_upload_mb for pictures", limit=limit)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _hostname(given: str) -> str | None:
    """Return the name in a Host header in lower case; None where there is none, or where it can be read in another way."""
    if _HOST.fullmatch(given) is None:
        return None
    try:
        parts = urlsplit(f"//{given}")
        _ = parts.port  # raises ValueError for a port that there is not
    except ValueError:
        return None
    return parts.hostname
