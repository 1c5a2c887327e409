"""Rules for the addresses in an engine's replies and redirects: which are followed, and how.

Pictures are fetched over http(s) only: from the engine's own origin, from hosts that the settings allow, and from public hosts,
the last by `lodestone.http_fetch`, which pins the checked address.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import httpx

from lodestone.errors import ServiceUnavailableError
from lodestone.http_fetch import AddressRefusedError

_PORTS: Final = {"http": 80, "https": 443}


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def shown(url: httpx.URL) -> str:
    """Return an address for messages: without user, query and fragment, which may hold secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def is_known_host(url: httpx.URL, *, own: httpx.URL, allowed: Collection[str] = ()) -> bool:
    """Return whether an address is the engine's own or allowed by the settings; others must turn out to be public.

    Args:
        url: Address from a reply.
        own: The engine's address.
        allowed: `host` or `host:port` of others that may be private.

    Raises:
        ServiceUnavailableError: the address may not be fetched, whatever its host is.
    """
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise _refused(url, "it is no plain http(s) address")
    scheme, host, port = origin(url)
    if origin(url) == origin(own) or host in allowed or f"{host}:{port}" in allowed:
        return True
    if scheme != "https" and own.scheme == "https":
        raise _refused(url, "the engine is asked over https and this is not")
    return False


def host_refused(url: httpx.URL, error: AddressRefusedError) -> ServiceUnavailableError:
    """Return the error for a host that is unknown, or lies in a private network."""
    if error.unknown is not None:
        return ServiceUnavailableError(f"the reply names a picture at {shown(url)}, whose host is not known: {error.unknown}")
    return _refused(url, "its host is in a private network")


def _refused(url: httpx.URL, why: str) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"the reply names a picture at {shown(url)}, which is not fetched: {why}",
        hint="have the engine send base64, or allow the host: options.allow_hosts",
    )
