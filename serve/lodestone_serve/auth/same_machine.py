"""Whether a request comes from somebody at the service's own machine, who may be told where files are.

A service that asks for keys answers other machines too, so nobody is taken for a user of its machine there. One that asks for
none listens on loopback alone (`exposure.py`). A proxy in front of it may still bring requests from elsewhere: what names such
a proxy, or was sent to another name than loopback, is not local.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from lodestone.config.serve import ServeSettings
from lodestone_serve.hosts import is_loopback

_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


class SameMachine:
    """Tells requests of the service's own machine from others.

    Args:
        settings: Whether keys are asked for, and which names the service answers for besides loopback.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._closed = settings.auth.asks or bool(settings.public_hosts) or not is_loopback(settings.host)

    @property
    def possible(self) -> bool:
        """Return whether any request can be one of this machine's."""
        return not self._closed

    def sent(self, headers: Headers) -> bool:
        """Return whether a request with these headers was sent from this machine, by a program or by the service's own page."""
        if self._closed or any(name in headers for name in _FORWARDED):
            return False
        origin = headers.get("origin")
        return _names_loopback(f"//{headers.get('host', '')}") and (origin is None or _names_loopback(origin))


def _names_loopback(address: str) -> bool:
    try:
        name = urlsplit(address).hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
