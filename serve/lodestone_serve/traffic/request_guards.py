"""Which requests are turned away unread? Foreign hosts and origins, ambiguous ones, bodies of the wrong kind or size.

By default the service binds to loopback and asks for no key, so a web page in the user's browser is the attacker to think of.
DNS rebinding makes a page's own name resolve to 127.0.0.1: only loopback names, and those of `serve.public_hosts`, are accepted
as Host. Other sites' pages may send requests without reading the answers: their Origin and Sec-Fetch-Site give them away,
unless `serve.cors_origins` names them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.config.serve import ServeSettings
from lodestone.errors import ConfigurationError
from lodestone_serve.auth.authentication import PROBES
from lodestone_serve.auth.loopback import is_loopback
from lodestone_serve.responses.problems import Refusal, refusal_response

MAX_JSON_BYTES = 64 * 1024
BODY_S: Final = 5.0
_LARGE_BODY_S: Final = 60.0
UPLOAD_SLACK_BYTES = 256 * 1024  # multipart boundaries, the options field
ANY: Final = "*"
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
_ONCE: Final = ("host", "content-length", "transfer-encoding", "authorization", "x-api-key")


def checked_exposure(settings: ServeSettings) -> str:
    """The host to bind to, if whoever reaches it may.

    Raises:
        ConfigurationError: others could reach the service, or their pages could, and nobody would be asked who they are; or
            it would answer for no name that others can use; or the settings of an issuer cannot be used.
    """
    host, asks = settings.host, settings.auth.asks
    if not is_loopback(host):
        if not asks:
            raise ConfigurationError(
                f"serve.host {host!r} is not this machine's own, and nobody would be asked for a key",
                hint="set serve.auth.keys (lodestone keys create makes some) or serve.auth.oidc_issuer, or bind to 127.0.0.1",
                setting="serve.host",
            )
        if not settings.public_hosts:
            raise ConfigurationError(
                f"serve.host {host!r} is not this machine's own, and the service would answer for no name of it",
                hint="name those that clients use: serve.public_hosts",
                setting="serve.public_hosts",
            )
    if not asks and ANY in settings.public_hosts:
        raise ConfigurationError(
            "serve.public_hosts `*` without keys would let any web page ask, under a name of its own",
            hint="name the hosts, or set serve.auth.keys",
            setting="serve.public_hosts",
        )
    if settings.auth.oidc_issuer is not None:
        from lodestone_serve.auth.oidc import TokenReader

        TokenReader(settings.auth)  # refuses what it could not read tokens by; here, where whoever starts the service is told
    for origin in settings.cors_origins:
        _check_origin(origin, asks=asks)
    return host


def _check_origin(origin: str, *, asks: bool) -> None:
    if origin == ANY:
        if not asks:
            raise ConfigurationError(
                "serve.cors_origins `*` without keys would let any web page search your pictures",
                hint="name the origins, or set serve.auth.keys",
                setting="serve.cors_origins",
            )
        return
    try:
        parts = urlsplit(origin)
        plain = parts.scheme in {"http", "https"} and parts.hostname and f"{parts.scheme}://{parts.netloc}" == origin
    except ValueError:
        plain = False
    if not plain:
        raise ConfigurationError(
            f"serve.cors_origins has {origin!r}, which is no origin",
            hint="write it like https://photos.example.org, without a path",
            setting="serve.cors_origins",
        )


def protect(headers: MutableHeaders, *, https: bool) -> None:
    """Add what every answer carries, where a route has not said otherwise: no sniffing, no framing, no scripts, no caching."""
    for name, value in _PROTECTIVE.items():
        headers.setdefault(name, value)
    if https:
        headers.setdefault("Strict-Transport-Security", _HSTS)


class SiteGuard:
    """Lets through requests that name this service, come from no other site, and can be read in one way only.

    Args:
        app: What to guard.
        settings: Names to answer for, origins whose pages may ask.
    """

    def __init__(self, app: ASGIApp, *, settings: ServeSettings) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in (settings.host, *settings.public_hosts))
        self._origins = frozenset(origin.lower() for origin in settings.cors_origins)
        self._probed = PROBES if settings.auth.asks else frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] == "http" and (refusal := self._refusal(scope, Headers(scope=scope))):
            await refusal_response(refusal, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        if (ambiguous := _ambiguous(headers)) is not None:
            return ambiguous
        method, given = scope["method"], headers.get("host", "")
        name = _hostname(given)
        if name is None or not (self._answers_for(name) or scope["path"] in self._probed):
            hint = "use http://127.0.0.1, or name it in serve.public_hosts"
            return Refusal(421, f"this service does not answer for the host {given[:200]!r}", hint=hint)
        origin = headers.get("origin")
        if origin is not None and (ANY in self._origins or origin.lower() in self._origins):
            return None
        hint = "only pages of serve.cors_origins may ask"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return Refusal(403, "requests from other sites' pages are refused", hint=hint)
        if method not in _SAFE and origin is not None and _netloc(origin) != given.lower():
            return Refusal(403, f"requests from the origin {origin[:200]!r} are refused", hint=hint)
        return None

    def _answers_for(self, name: str) -> bool:
        return is_loopback(name) or name in self._names or ANY in self._names


def _ambiguous(headers: Headers) -> Refusal | None:
    """What a proxy in front may have read otherwise than we do: the usual way to smuggle a second request through it."""
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
    """Checks a body's kind before it is read and its size while it is read.

    Args:
        app: What to protect.
        uploads: Path -> largest body in bytes of routes that take multipart forms; all others take JSON of 64 KB.
        others: Path -> media type and largest body in bytes of routes that take neither.
    """

    def __init__(
        self, app: ASGIApp, *, uploads: Mapping[str, int], others: Mapping[str, tuple[str, int]] | None = None
    ) -> None:
        self._app = app
        self._taken = {**(others or {}), **{path: ("multipart/form-data", limit) for path, limit in uploads.items()}}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        expected, limit = self._taken.get(scope["path"], ("application/json", MAX_JSON_BYTES))
        refusal = self._refusal(scope, expected, limit)
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
    """Whether the body may be larger than a message of JSON is."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not length.isdecimal() or int(length) > MAX_JSON_BYTES


def dawdled(within_s: float) -> Refusal:
    """The answer to a body that was not there in so many seconds."""
    return Refusal(504, f"the body did not arrive within {within_s:g} s", hint="send it faster", code="deadline_exceeded")


class PromptBodies:
    """Gives up bodies that dawdle: each keeps a request open, and some hundreds of them would keep everybody else out.

    Args:
        app: What to protect.
        large: Paths whose bodies may be large, and then take a minute instead of five seconds.
        unhurried: Paths whose routes see to it themselves.
    """

    def __init__(self, app: ASGIApp, *, large: Collection[str], unhurried: Collection[str]) -> None:
        self._app = app
        self._large = large
        self._unhurried = unhurried

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http" or scope["path"] in self._unhurried:
            await self._app(scope, receive, send)
            return
        slowly = scope["path"] in self._large and is_large(Headers(scope=scope))
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
    """The name in a Host header, in small letters; None for what has no name, or could be read in another way."""
    if _HOST.fullmatch(given) is None:
        return None
    try:
        parts = urlsplit(f"//{given}")
        _ = parts.port  # raises ValueError for a port that there is not
    except ValueError:
        return None
    return parts.hostname
