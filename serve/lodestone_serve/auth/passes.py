"""Passes of browsers that the user of the service's machine has unlocked: they count as the token of service.json for a while.

A pass is an expiry and a number, signed by a key that is derived from that token. So the service keeps nothing, every replica
takes it, and it ends with the service. It counts on the service's own machine alone, and only as a header: a cookie of
127.0.0.1 would be sent to every port, and so to the programs of other users of the machine.

Whether a request comes from somebody at the service's own machine, who may be told where files are. A service that asks for
keys answers other machines too, so nobody is taken for a user of its machine there. One that asks for none listens on loopback
alone (`exposure.py`). A proxy in front of it may still bring requests from elsewhere: what names such a proxy, or was sent to
another name than loopback, is not local.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from lodestone.config.serve import ServeSettings
from lodestone.home.running_service.address import TOKEN_HEADER
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


HOLDS_S: Final = 12 * 3600
"""Seconds after which a pass ends."""

_BEGIN: Final = "pass"
_MOST_CHARS: Final = 200


class UnlockPasses:
    """Makes passes and tells those that count.

    Args:
        token: Of service.json; passes of a service with another token do not count.
        settings: Say whether requests can come from the service's machine at all.
    """

    def __init__(self, token: str, settings: ServeSettings) -> None:
        self._secret = hashlib.sha256(b"lodestone pass of this machine's user\0" + token.encode()).digest()
        self._same_machine = SameMachine(settings)

    def allowed(self, headers: Headers) -> bool:
        """Return whether a request with these headers may ask for a pass, or use one: the service's own page sent it here."""
        return self._same_machine.sent(headers) and headers.get("sec-fetch-site") in {None, "same-origin"}

    def make(self) -> tuple[str, int]:
        """Return a new pass, and when it ends (seconds since 1970)."""
        expires = int(time.time()) + HOLDS_S
        begin = f"{_BEGIN}.{expires}.{secrets.token_hex(8)}"
        return f"{begin}.{self._signature(begin)}", expires

    def held(self, headers: Headers) -> bool:
        """Return whether the headers hold a pass that counts."""
        value = headers.get(TOKEN_HEADER, "")
        if not value.startswith(f"{_BEGIN}.") or len(value) > _MOST_CHARS or not value.isascii():
            return False
        begin, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature, self._signature(begin)):
            return False
        return 0 < int(begin.split(".")[1]) - time.time() <= HOLDS_S and self.allowed(headers)

    def _signature(self, begin: str) -> str:
        return hmac.new(self._secret, begin.encode(), hashlib.sha256).hexdigest()
