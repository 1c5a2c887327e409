"""The sender of a request, as far as limits and ledgers need to know it: a name, a rate, and whether it is this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from starlette.types import Scope


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
