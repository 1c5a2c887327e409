"""May this address be fetched? An engine's reply may name any; ours are not to be asked on a stranger's behalf.

Addresses in replies and redirects are followed only over http(s), to the engine's own origin, to hosts that the settings allow,
and to public ones. A public name is resolved once and the connection made to the address that was checked, so that a name
cannot change its mind in between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from typing import Final

import httpx

from lodestone.errors import ServiceUnavailableError

_PORTS: Final = {"http": 80, "https": 443}
# Outside it lie networks' own addresses (site-local) and IPv4 addresses, possibly private ones, in disguise
# (NAT64, IPv4-compatible).
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# Not every Python's `is_global` knows them: protocol assignments (with a cloud's metadata service at 192.0.0.192), 6to4 relays,
# documentation; and the address at which each of Azure's machines finds its host.
_SPECIAL: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Scheme, host, port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def shown(url: httpx.URL) -> str:
    """An address for messages: without user, query and fragment, which may hold secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


async def checked_address(url: httpx.URL, *, own: httpx.URL, allowed: Collection[str] = ()) -> str | None:
    """Where to connect to for `url`.

    Args:
        url: From a reply.
        own: The engine's.
        allowed: `host` or `host:port` of others that may be private.

    Returns:
        The checked IP address of a public host; None for the engine's own origin and allowed hosts, which are used as they are.

    Raises:
        ServiceUnavailableError: it may not be fetched, or its host is not known.
    """
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise _refused(url, "it is no plain http(s) address")
    scheme, host, port = origin(url)
    if origin(url) == origin(own) or host in allowed or f"{host}:{port}" in allowed:
        return None
    if scheme != "https" and own.scheme == "https":
        raise _refused(url, "the engine is asked over https and this is not")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServiceUnavailableError(f"the reply names a picture at {shown(url)}, whose host is not known: {error}") from error
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        if not is_public(address):
            raise _refused(url, "its host is in a private network")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour is not None or ip.teredo is not None or ip not in _GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _SPECIAL)


def _refused(url: httpx.URL, why: str) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"the reply names a picture at {shown(url)}, which is not fetched: {why}",
        hint="have the engine send base64, or allow the host: options.allow_hosts",
    )
