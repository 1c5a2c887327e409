"""How is a picture at a stranger's URL fetched without becoming the stranger's tool? Only from public addresses, in bounds.

A name is resolved once, all its addresses are checked, and the connection goes to the address that was checked: a name that
answers differently the second time changes nothing. Redirects are followed three times at most, each checked like the first
URL. Proxies of the environment, cookies, credentials and other protocols take no part. Size and time are bounded while reading.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore

from lodestone.errors import FetchRefusedError, InvalidRequestError
from lodestone.generators.http_guard import is_public

MAX_REDIRECTS: Final = 3
MAX_URL_CHARS: Final = 2_048
TOTAL_S: Final = 15.0
_CONNECT_S: Final = 5.0
_READ_S: Final = 5.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to its addresses."""


class Fetcher:
    """Fetches pictures by URL.

    Args:
        enabled: The setting `serve.fetch_urls`.
        max_bytes: Largest body.
        total_s: Seconds for all of it, redirects included.
        allowed: Whether an IP address may be connected to; public ones by default.
        resolve: Looks names up; the system's resolver by default.
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
        self._backend = _Pinned(allowed, resolve or _resolved)
        self._trust = trust

    async def fetch(self, url: str) -> bytes:
        """What is at `url`. Whether it is a picture is for the decoder to say.

        Raises:
            FetchRefusedError: fetching is off; the URL or one it leads to is not public, does not answer, or gives too much.
            InvalidRequestError: it is no http(s) URL.
        """
        if not self._enabled:
            raise FetchRefusedError(
                "this service fetches no pictures by URL", hint="upload the picture, or set serve.fetch_urls", reason="off"
            )
        try:
            async with asyncio.timeout(self._total_s):
                return await self._fetch(url)
        except TimeoutError as error:
            raise _refused(url, f"it took longer than {self._total_s:g} s", reason="slow") from error

    async def _fetch(self, url: str) -> bytes:
        # A pool a fetch: nothing, no connection and no cookie, is left of one for another.
        async with httpcore.AsyncConnectionPool(
            network_backend=self._backend, ssl_context=self._trust, max_connections=1, retries=0
        ) as pool:
            for _ in range(MAX_REDIRECTS + 1):
                place = await self._asked(pool, checked_url(url))
                if isinstance(place, bytes):
                    return place
                url = place
        raise _refused(url, f"it redirects more than {MAX_REDIRECTS} times", reason="redirects")

    async def _asked(self, pool: httpcore.AsyncConnectionPool, url: str) -> bytes | str:
        """The body, or where a redirect leads."""
        headers = [
            (b"Host", urlsplit(url).netloc.encode("ascii")),
            (b"User-Agent", b"lodestone"),
            (b"Accept", b"image/*"),
            (b"Accept-Encoding", b"identity"),  # nothing that grows when it is unpacked
        ]
        timeouts = {"connect": _CONNECT_S, "read": _READ_S, "write": _READ_S, "pool": _CONNECT_S}
        try:
            async with pool.stream("GET", url, headers=headers, extensions={"timeout": timeouts}) as answer:
                if answer.status in _REDIRECTS:
                    return _location(url, answer.headers)
                if answer.status != 200:
                    raise _refused(url, f"it answers with the status {answer.status}", reason="status")
                return await self._read(url, answer)
        except (
            httpcore.NetworkError,
            httpcore.TimeoutException,
            httpcore.ProtocolError,
            httpcore.UnsupportedProtocol,
        ) as error:
            raise _refused(url, f"it cannot be read ({type(error).__name__})", reason="unreachable") from error

    async def _read(self, url: str, answer: httpcore.Response) -> bytes:
        body = bytearray()
        async for chunk in answer.aiter_stream():
            body += chunk
            if len(body) > self._max_bytes:
                raise _refused(url, f"it is larger than {self._max_bytes} bytes", reason="too_large", limit=self._max_bytes)
        return bytes(body)


def checked_url(url: str) -> str:
    """The URL in the one form in which it is asked for: plain http(s), no user, no fragment, an ASCII host.

    Raises:
        InvalidRequestError: it is none.
        FetchRefusedError: it names a user, or another port than those of the web.
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


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked, and to nothing else."""

    def __init__(self, allowed: Callable[[str], bool], resolve: Resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address of `host`, when all its addresses are allowed."""
        try:
            addresses = await asyncio.wait_for(self._resolve(host, port), timeout)
        except (OSError, UnicodeError, TimeoutError):
            addresses = ()  # said alike: which names there are inside is nobody's business
        if not addresses or not all(self._allowed(address) for address in addresses):
            raise FetchRefusedError(
                f"the host {host!r} is not known on the public internet, and so nothing is fetched from it",
                hint="check the URL, or upload the picture instead",
                reason="not_public",
            )
        return await self._inner.connect_tcp(
            addresses[0], port, timeout=timeout, local_address=local_address, socket_options=socket_options
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002 - httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise FetchRefusedError(f"{path!r} is a file", hint="name an http(s) URL", reason="not_public")

    async def sleep(self, seconds: float) -> None:
        """As any backend."""
        await self._inner.sleep(seconds)


async def _resolved(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _location(url: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
    given = [value for name, value in headers if name.lower() == b"location"]
    if not given:
        raise _refused(url, "it redirects to nowhere", reason="redirects")
    try:
        place = urljoin(url, given[0].decode("latin-1"))
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
    """For messages: without user, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
    except ValueError:
        return "this URL"


def _no_url(url: str) -> InvalidRequestError:
    return InvalidRequestError(f"{_shown(url)!r} is no http(s) URL", hint="for example https://example.org/picture.jpg")


def _refused(url: str, why: str, *, reason: str, **details: object) -> FetchRefusedError:
    return FetchRefusedError(
        f"{_shown(url)} is not fetched: {why}", hint="upload the picture instead", reason=reason, **details
    )
