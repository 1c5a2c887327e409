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
from lodestone_serve.hosts import is_loopback, names_no_other_page

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

OWN_PATH: Final = "/v1"
"""Path of the cookie without TLS."""

_MOST_CHARS: Final = 16_384
_MOST_COOKIES: Final = 16  # that are tried; each one costs a decryption
_MOST_SEGMENTS: Final = 8  # of a path that a cookie is removed at
_MOST_DOMAINS: Final = 4
_SAFE: Final = frozenset({"GET", "HEAD"})


class SessionEndedError(UnauthorizedError):
    """Cookies came, and none of them says who somebody is, or two of them name different people.

    `details["keep_own"]` says whether the cookie at the service's own path may be sound.
    """


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


def sessions_of(headers: Headers, *, method: str, https: bool = False) -> tuple[str, ...]:
    """Return the values of the session's cookies where they count, each once, in the order of the header.

    They count for requests that the service's own pages send. Browsers say so in `Sec-Fetch-Site`. Of a browser that does not,
    requests that only read count unless they name another origin, and requests that change something must name this one.
    Over TLS only the cookie of that name counts. There are several where another program on this host has set one: cookies
    know no ports. Browsers trust loopback as they trust TLS, so without TLS such a program can set that name there too. Both
    names are tried then.

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
    if is_tls(headers, https=https):
        values = given[TLS_COOKIE]
    elif _at_loopback(headers):
        values = given[TLS_COOKIE] + given[COOKIE]
    else:
        values = given[TLS_COOKIE] or given[COOKIE]
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and not names_no_other_page(headers, site):
        return ()
    if origin is not None and _netloc(origin) != headers.get("host", "").lower():
        return ()
    if origin is None and site is None and method not in _SAFE:
        return ()
    return tuple(dict.fromkeys(values))[:_MOST_COOKIES]


def removals(headers: Headers, path: str, *, https: bool = False, but_own: bool = False) -> list[str]:
    """Return the values of `Set-Cookie` by which a browser forgets the cookies that it sent with the session's name.

    A cookie is known by name, domain and path, and by whether it is kept apart for each site (`Partitioned`). A browser says
    none of them but the name. So there is one value for each that can have come with this request.

    Args:
        headers: Of the request.
        path: Of the request: cookies of all paths that it begins with came with it.
        https: Whether the service itself ends TLS.
        but_own: Leave the cookie that the service sets itself, where one planted beside it is to go.
    """
    name, own_path, tls = kind_of(headers, https=https)
    if tls:  # no other path or domain can have it
        return ([] if but_own else [_removal(name, own_path, tls=True)]) + [_removal(name, own_path, apart=True)]
    segments = path.split("/")[1:_MOST_SEGMENTS]
    beginnings = ["/".join(["", *segments[:count]]) for count in range(len(segments) + 1)]
    places = dict.fromkeys(place for beginning in beginnings for place in (beginning or "/", f"{beginning}/"))
    host = _hostname(headers.get("host", ""))
    found = [
        _removal(name, place, domain)
        for place in places
        for domain in (None, *_domains(host))
        if not (but_own and place == own_path and domain is None)
    ]
    if _at_loopback(headers):  # which may set what otherwise needs TLS
        found += [_removal(name, place, apart=True) for place in places]
        found += [_removal(TLS_COOKIE, "/", tls=True), _removal(TLS_COOKIE, "/", apart=True)]
    return found


def kind_of(headers: Headers, *, https: bool) -> tuple[str, str, bool]:
    """Return name and path of the cookie that the service sets for a request, and whether it is for TLS alone."""
    tls = is_tls(headers, https=https)
    return (TLS_COOKIE, "/", tls) if tls else (COOKIE, OWN_PATH, tls)


def _removal(name: str, path: str, domain: str | None = None, *, tls: bool = False, apart: bool = False) -> str:
    of = "" if domain is None else f"; Domain={domain}"
    kind = "; Secure; Partitioned" if apart else "; Secure" if tls else ""
    return f"{name}=; Max-Age=0; Path={path}{of}; HttpOnly; SameSite=strict{kind}"


def _at_loopback(headers: Headers) -> bool:
    return is_loopback(_hostname(headers.get("host", "")))


def _domains(host: str) -> list[str]:
    """Return the domains that a cookie for a host may name: its own and those above it, but no address and no single word."""
    labels = host.split(".")
    if not host or len(labels) < 2 or labels[-1].isdecimal() or ":" in host:
        return []
    return [".".join(labels[start:]) for start in range(len(labels) - 1)][:_MOST_DOMAINS]


def _hostname(given: str) -> str:
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
