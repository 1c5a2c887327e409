"""Guarded HTTP GET for addresses that strangers name: public hosts only, a pinned address, bounded size and few redirects.

A host name is resolved once, all its addresses are checked, and the connection is made to an address that was checked: a name
that resolves differently the second time changes nothing. Certificate and `Host` header stay those of the name. Proxies of the
environment, cookies, credentials and other protocols take no part, and compressed replies are not unpacked. Every request uses
a connection of its own. Callers bound the time by a deadline around the call, decide which URLs they accept, and turn the
exceptions of this module into errors of their own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpcore

MAX_REDIRECTS: Final = 3
# Outside it lie networks' own addresses (site-local) and IPv4 addresses, possibly private ones, in another notation
# (NAT64, IPv4-compatible).
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# Not every Python's `is_global` knows them: protocol assignments (with a cloud's metadata service at 192.0.0.192), 6to4 relays,
# documentation; and the address at which each of Azure's machines finds its host.
_SPECIAL: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))
_U = TypeVar("_U")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host, given its name and port."""

TRANSPORT_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)
"""Errors of a connection, as `GuardedFetcher.get` raises them."""


class AddressRefusedError(Exception):
    """The host of a URL has no address, or one that may not be connected to.

    Args:
        host: Name of the host.
        unknown: Error of the resolver; None when the host is known and an address is refused.
    """

    def __init__(self, host: str, unknown: Exception | None = None) -> None:
        super().__init__(host)
        self.host = host
        self.unknown = unknown


class BodyTooLargeError(Exception):
    """A body is larger than the caller allows."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply whose body is still to be read.

    Attributes:
        status: HTTP status.
        headers: Headers; names in lower case.
        parts: Body as it arrives, not unpacked.
    """

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterable[bytes]

    async def read(self, most: int) -> bytes:
        """Return the body.

        Raises:
            BodyTooLargeError: it has, or announces, more than `most` bytes. No more than that is held in memory.
        """
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            raise BodyTooLargeError
        body = bytearray()
        async for part in self.parts:
            body += part
            if len(body) > most:
                raise BodyTooLargeError
        return bytes(body)


class GuardedFetcher:
    """Requests URLs of public hosts by GET. Holds no connection between two requests.

    Args:
        allowed: Decides whether an IP address may be connected to.
        resolve: Looks host names up.
        trust: For https; None for the system's certificates.
        timeouts: Seconds for `connect`, `read`, `write` and `pool`; missing ones are unbounded.
    """

    def __init__(
        self,
        *,
        allowed: Callable[[str], bool],
        resolve: Resolve,
        trust: ssl.SSLContext | None = None,
        timeouts: Mapping[str, float] | None = None,
    ) -> None:
        self._backend = _Pinned(allowed, resolve)
        self._trust = trust
        self._extensions = {"timeout": dict(timeouts or {})}

    @asynccontextmanager
    async def get(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[Reply, None]:
        """Send one request and give the reply, of whatever status. Redirects are not followed; see `follow`.

        Args:
            url: A checked http(s) URL in ASCII.
            headers: Headers of the request. `Host` is needed; `Accept-Encoding: identity` is added.

        Raises:
            AddressRefusedError: the host is unknown, or has an address that is not allowed.
            httpcore.NetworkError: one of `TRANSPORT_ERRORS`, from here or while the body is read.
        """
        sent = {**headers, "Accept-Encoding": "identity"}  # no body that grows when it is unpacked
        async with (
            httpcore.AsyncConnectionPool(
                network_backend=self._backend, ssl_context=self._trust, max_connections=1, retries=0
            ) as pool,
            pool.stream("GET", url, headers=list(sent.items()), extensions=self._extensions) as response,
        ):
            received = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in reversed(response.headers)}
            yield Reply(response.status, received, response.aiter_stream())


async def follow(url: _U, hop: Callable[[_U], Awaitable[bytes | _U]], *, too_many: Callable[[_U], Exception]) -> bytes:
    """Return the body at a URL, after at most `MAX_REDIRECTS` redirects.

    Args:
        url: The first URL.
        hop: Checks and requests one URL; returns its body, or the URL that it redirects to.
        too_many: Makes the error for too many redirects, given the URL after the last one.
    """
    for _ in range(MAX_REDIRECTS + 1):
        result = await hop(url)
        if isinstance(result, bytes):
            return result
        url = result
    raise too_many(url)


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour is not None or ip.teredo is not None or ip not in _GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _SPECIAL)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a host by the system's resolver, without duplicates.

    Raises:
        OSError: the host is not known.
        UnicodeError: the name is no host name.
    """
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


class _Pinned(httpcore.AsyncNetworkBackend):
    """Network backend that connects to checked addresses only."""

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
        """Connect to the first address of `host`, when all its addresses are allowed."""
        try:
            addresses = await asyncio.wait_for(self._resolve(host, port), timeout)
        except (OSError, UnicodeError) as error:  # (a time-out is an OSError)
            raise AddressRefusedError(host, error) from error
        if not addresses or not all(self._allowed(address) for address in addresses):
            raise AddressRefusedError(host)
        return await self._inner.connect_tcp(
            addresses[0], port, timeout=timeout, local_address=local_address, socket_options=socket_options
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002 - httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: a socket of this machine is never a public host."""
        raise AddressRefusedError(path)

    async def sleep(self, seconds: float) -> None:
        """Sleep as any backend does."""
        await self._inner.sleep(seconds)
