"""The sender of a request, as far as limits and ledgers need to know it: a name, a rate, and whether it is this machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.types import Scope

_IPV6_NET: Final = 64  # bits


class Asker(Protocol):
    """What limits and ledgers read of the principal that the authentication found."""

    @property
    def owner(self) -> str:
        """Return its name in records and limits; "" where nobody has to say who they are."""

    @property
    def authority(self) -> str:
        """Return a text that two senders share exactly if they have one name and the same rights."""

    @property
    def rate(self) -> str | None:
        """Return the requests that it may send, such as `600/minute`; None for the service's own setting."""

    @property
    def local(self) -> bool:
        """Return whether it is one of Lodestone's own commands on this machine."""


@dataclass(frozen=True, slots=True)
class _Unnamed:
    owner: str = ""
    authority: str = ""
    rate: str | None = None
    local: bool = False


_UNNAMED = _Unnamed()


def asker_of(scope: Scope) -> Asker:
    """Return the sender of a request; one without a name where no authentication has run before."""
    asker: Asker = scope.get("state", {}).get("principal", _UNNAMED)
    return asker


def network_of(address: str) -> str:
    """Return the name under which a client is counted by its address: IPv6 addresses by /64, what one customer has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(parsed), _IPV6_NET), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
