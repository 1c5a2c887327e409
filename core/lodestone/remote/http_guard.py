"""Rules for the addresses in a service's replies and redirects: which are followed, and how.

Files are fetched over http(s) only: from the service's own origin, from hosts that the settings allow, and from public hosts,
the last by `lodestone.remote.http_fetch`, which pins the checked address.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import httpx

from lodestone.errors import ServiceUnavailableError
from lodestone.remote.http_fetch import AddressRefusedError

_PORTS: Final = {"http": 80, "https": 443}


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def shown(url: httpx.URL) -> str:
    """Return an address for messages: without user, query and fragment, which may hold secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def is_known_host(url: httpx.URL, *, own: httpx.URL, allowed: Collection[str], wording: Wording) -> bool:
    """Return whether an address is the service's own or allowed by the settings; others must turn out to be public.

    Args:
        url: Address from a reply.
        own: The service's address.
        allowed: `host` or `host:port` of others that may be private.
        wording: Words of the messages.

    Raises:
        ServiceUnavailableError: the address may not be fetched, whatever its host is.
    """
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise _refused(url, "it is no plain http(s) address", wording)
    scheme, host, port = origin(url)
    if origin(url) == origin(own) or host in allowed or f"{host}:{port}" in allowed:
        return True
    if scheme != "https" and own.scheme == "https":
        raise _refused(url, f"the {wording.service} is asked over https and this is not", wording)
    return False


def host_refused(url: httpx.URL, error: AddressRefusedError, wording: Wording) -> ServiceUnavailableError:
    """Return the error for a host that is unknown, or lies in a private network."""
    if error.unknown is not None:
        return ServiceUnavailableError(
            f"the reply names a {wording.file} at {shown(url)}, whose host is not known: {error.unknown}"
        )
    return _refused(url, "its host is in a private network", wording)


def _refused(url: httpx.URL, why: str, wording: Wording) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"the reply names a {wording.file} at {shown(url)}, which is not fetched: {why}", hint=wording.host_refused
    )


@dataclass(frozen=True, slots=True)
class Wording:
    """Nouns and hints in the messages about one kind of service.

    Attributes:
        service: Noun for the service, e.g. "engine".
        file: Noun for what its replies name by an address, e.g. "picture".
        too_slow: Hint after the deadline has passed.
        too_large: Hint after more bytes came than are allowed.
        host_refused: Hint after a reply named an address that is not fetched.
    """

    service: str = "service"
    file: str = "file"
    too_slow: str = "raise the deadline"
    too_large: str = "ask for less, or raise the limit of bytes"
    host_refused: str = "allow the host"
