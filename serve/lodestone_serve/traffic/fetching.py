"""Fetching of the picture at a URL that a client of the service names, from the public internet only.

Guards and bounds are those of `lodestone.remote.http_fetch`: public hosts, a pinned address, three redirects at most, no
proxies, cookies or credentials. This module adds the service's rules for URLs (plain http(s), no user, no other service's
port, no redirect from https to http) and its errors.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urljoin, urlsplit

from lodestone.errors import FetchRefusedError, InvalidRequestError
from lodestone.remote.http_fetch import (
    MAX_REDIRECTS,
    TRANSPORT_ERRORS,
    AddressRefusedError,
    BodyTooLargeError,
    GuardedFetcher,
    Reply,
    Resolve,
    follow,
    is_public,
    resolve_host,
)

MAX_URL_CHARS: Final = 2_048
TOTAL_S: Final = 15.0
_CONNECT_S: Final = 5.0
_READ_S: Final = 5.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}


class Fetcher:
    """Fetches pictures by URL, within the service's bounds.

    Args:
        enabled: The setting `serve.fetch_urls`.
        max_bytes: Largest body.
        total_s: Seconds for the whole fetch, redirects included.
        allowed: Decides whether an IP address may be connected to; public ones by default.
        resolve: Looks host names up; the system's resolver by default.
        trust: For https; the system's certificates by default.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        max_bytes: int,
        total_s: float = TOTAL_S,
        allowed: Callable[[str], bool] = is_public,
        resolve: Resolve | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._enabled = enabled
        self._max_bytes = max_bytes
        self._total_s = total_s
        timeouts = {"connect": _CONNECT_S, "read": _READ_S, "write": _READ_S, "pool": _CONNECT_S}
        self._http = GuardedFetcher(allowed=allowed, resolve=resolve or resolve_host, trust=trust, timeouts=timeouts)

    async def fetch(self, url: str) -> bytes:
        """Return the body at `url`. Whether it is a picture is for the decoder to decide.

        Raises:
            FetchRefusedError: fetching is off; or the URL, or one it redirects to, is not public, fails, or sends too much.
            InvalidRequestError: the text is no http(s) URL.
        """
        if not self._enabled:
            raise FetchRefusedError(
                "this service fetches no pictures by URL", hint="upload the picture, or set serve.fetch_urls", reason="off"
            )
        try:
            async with asyncio.timeout(self._total_s):
                return await follow(url, self._hop, too_many=_too_many_redirects)
        except TimeoutError as error:
            raise _refused(url, f"it took longer than {self._total_s:g} s", reason="slow") from error

    async def _hop(self, url: str) -> bytes | str:
        """Return the body, or the URL that a redirect leads to."""
        url = checked_url(url)
        headers = {"Host": urlsplit(url).netloc, "User-Agent": "lodestone", "Accept": "image/*"}
        try:
            async with self._http.get(url, headers) as reply:
                if reply.status in _REDIRECTS:
                    return _location(url, reply)
                if reply.status != 200:
                    raise _refused(url, f"it answers with the status {reply.status}", reason="status")
                return await reply.read(self._max_bytes)
        except AddressRefusedError as error:  # one message for unknown and private hosts, which reveals no internal names
            raise FetchRefusedError(
                f"the host {error.host!r} is not known on the public internet, and so nothing is fetched from it",
                hint="check the URL, or upload the picture instead",
                reason="not_public",
            ) from error
        except BodyTooLargeError as error:
            raise _refused(
                url, f"it is larger than {self._max_bytes} bytes", reason="too_large", limit=self._max_bytes
            ) from error
        except TRANSPORT_ERRORS as error:
            raise _refused(url, f"it cannot be read ({type(error).__name__})", reason="unreachable") from error


def checked_url(url: str) -> str:
    """Return the URL in its normal form: plain http(s), no user, no fragment, an ASCII host.

    Raises:
        InvalidRequestError: the text is no http(s) URL.
        FetchRefusedError: the URL names a user, or another port than those of the web.
    """
    if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url or "\\" in url:
        raise _no_url(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _no_url(url) from error
    if parts.scheme not in _PORTS or not host:
        raise _no_url(url)
    if parts.username is not None or parts.password is not None:
        raise _refused(url, "it holds a user", reason="user")
    if port is not None and port not in _PORTS.values() and port < 1_024:
        raise _refused(url, f"its port {port} is another service's", reason="port")
    name = _ascii(host, url)
    netloc = f"[{name}]" if ":" in name else name
    netloc = netloc if port is None else f"{netloc}:{port}"
    path = parts.path.encode("ascii", "ignore").decode() if parts.path.isascii() else _quoted(parts.path)
    query = parts.query if parts.query.isascii() else _quoted(parts.query)
    return f"{parts.scheme}://{netloc}{path or '/'}{f'?{query}' if query else ''}"


def _location(url: str, reply: Reply) -> str:
    location = reply.headers.get("location")
    if location is None:
        raise _refused(url, "it redirects to nowhere", reason="redirects")
    try:
        place = urljoin(url, location)
        downgraded = urlsplit(url).scheme == "https" and urlsplit(place).scheme == "http"
    except ValueError as error:
        raise _refused(url, "it redirects to what is no URL", reason="redirects") from error
    if downgraded:
        raise _refused(url, "it redirects from https to http", reason="redirects")
    return place


def _ascii(host: str, url: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError as error:
        raise _no_url(url) from error


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="/%:=&?~#+!$,;'@()*[]")


def _shown(url: str) -> str:
    """Return the URL for messages: without user, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
    except ValueError:
        return "this URL"


def _too_many_redirects(url: str) -> FetchRefusedError:
    return _refused(url, f"it redirects more than {MAX_REDIRECTS} times", reason="redirects")


def _no_url(url: str) -> InvalidRequestError:
    return InvalidRequestError(f"{_shown(url)!r} is no http(s) URL", hint="for example https://example.org/picture.jpg")


def _refused(url: str, why: str, *, reason: str, **details: object) -> FetchRefusedError:
    return FetchRefusedError(
        f"{_shown(url)} is not fetched: {why}", hint="upload the picture instead", reason=reason, **details
    )
