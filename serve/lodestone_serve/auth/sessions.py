"""Sessions of browsers: a key or token that was given once, sealed into a cookie that no script and no other site can use.

Pictures are the reason: `<img>` cannot send a header. The cookie holds the credential itself, encrypted under a key that is
derived from the token of service.json. So the service keeps nothing, a revoked key ends its sessions, and another program on
the same host, to which browsers send the cookie too, cannot read the credential.
"""

from __future__ import annotations

import base64
import hashlib
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from lodestone.errors import UnauthorizedError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

COOKIE: Final = "lodestone_session"
TLS_COOKIE: Final = f"__Host-{COOKIE}"
"""Name over TLS. Browsers take a cookie of such a name only from this very host over TLS, for all its paths, and so from nobody
on a neighbouring name or on the way, who could sign people in with a key of their own to read what they search for."""

HOLDS_S: Final = 7 * 24 * 3600
"""Seconds after which the key must be given again."""

CLOCK_STEP_S: Final = 24 * 3600
"""Seconds by which the clock may have been set back since a session began. A cookie from farther in the future, from before a
clock that was wrong by years was set right, would hold for years."""

_MOST_CHARS: Final = 16_384
_SAFE: Final = frozenset({"GET", "HEAD"})


class Sessions:
    """Seals credentials into values of a cookie, and opens them.

    Args:
        token: Of service.json; cookies of a service with another token do not open.
    """

    def __init__(self, token: str) -> None:
        self._secret = hashlib.sha256(b"lodestone browser session\0" + token.encode()).digest()
        self._made: Fernet | None = None

    def seal(self, credential: str) -> str:
        """Return the value of the cookie for a key or token."""
        return self._box().encrypt(credential.encode("utf-8", "surrogatepass")).decode()

    def open(self, value: str) -> str:
        """Return the credential that a cookie holds.

        Raises:
            UnauthorizedError: The value is too old, or was not made by this service.
        """
        from cryptography.fernet import InvalidToken

        try:
            if len(value) > _MOST_CHARS:
                raise InvalidToken
            sealed, box = value.encode("ascii"), self._box()
            credential = box.decrypt(sealed).decode("utf-8", "surrogatepass")  # the signature, which covers the time
            if not -CLOCK_STEP_S <= time.time() - box.extract_timestamp(sealed) <= HOLDS_S:
                raise InvalidToken
            return credential
        except (InvalidToken, UnicodeError):
            raise UnauthorizedError("the session has ended", hint="open the search page and give the key again") from None

    def _box(self) -> Fernet:
        if self._made is None:
            from cryptography.fernet import Fernet  # only services that ask for keys need it

            self._made = Fernet(base64.urlsafe_b64encode(self._secret))
        return self._made


def is_tls(headers: Headers, *, https: bool) -> bool:
    """Return whether the browser reached this service over TLS, which a proxy in front may have ended.

    A proxy that says nothing about it is known by the origin that browsers name when they send something.

    Args:
        headers: Of the request; the guards in front have checked that the origin is this host.
        https: Whether the service itself ends TLS.
    """
    return https or headers.get("x-forwarded-proto") == "https" or headers.get("origin", "").startswith("https://")


def session_of(headers: Headers, *, method: str, https: bool) -> str | None:
    """Return the value of the session's cookie where it counts; None otherwise.

    It counts for requests that the service's own pages send. Browsers say so in `Sec-Fetch-Site`. Of a browser that does not,
    requests that only read count unless they name another origin, and requests that change something must name this one.
    Over TLS only the cookie of that name counts.

    Args:
        headers: Of the request.
        method: Of the request.
        https: Whether the service itself ends TLS.
    """
    given: dict[str, list[str]] = {COOKIE: [], TLS_COOKIE: []}
    for line in headers.getlist("cookie"):
        for name, _, value in (part.strip().partition("=") for part in line.split(";")):
            if name in given:
                given[name].append(value)
    values = given[TLS_COOKIE if given[TLS_COOKIE] or is_tls(headers, https=https) else COOKIE]
    if len(values) != 1:  # with two of them, another program on this host has set one
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        return None
    if origin is not None:
        return values[0] if _netloc(origin) == headers.get("host", "").lower() else None
    return values[0] if site is not None or method in _SAFE else None


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
