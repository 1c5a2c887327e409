"""Pages for people whose browser sends more cookies than the service reads, and the answer that removes them.

Cookies know no ports, so another program on this host may have set them. The service stops reading before it knows what is
asked, and no application can help: the connection itself answers. It sees the target and those headers that came before the
limit. `Clear-Site-Data` removes all cookies of the address, those of other programs too, so somebody has to ask for it.
Browsers take it over TLS and at loopback; elsewhere the page says how to remove them by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers

from lodestone_serve.hosts import names_no_other_page

PATH: Final = b"forget-cookies"
"""Last segment of the address that removes the cookies, where there are too many; it is no route of the service."""

_HEAD: Final = "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>Lodestone</title>\n"
_BY_HAND: Final = "<p>If this does not help, remove the cookies of this address in the settings of your browser.</p>\n"
_TOO_MANY: Final = (
    f"{_HEAD}<h1>Your browser sends too many cookies</h1>\n"
    "<p>They were set by programs at this address, on any port. Lodestone cannot read a request with so many.</p>\n"
    f"<p><a href={PATH.decode()}>Remove all cookies of this address</a>. Other programs at this address may ask you to sign in"
    f" again.</p>\n{_BY_HAND}"
)
_REMOVED: Final = f"{_HEAD}<h1>The cookies were removed</h1>\n<p><a href=./>Open Lodestone</a></p>\n{_BY_HAND}"
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Page:
    """A page that a connection sends by itself.

    Attributes:
        text: Its HTML.
        headers: What goes with it.
    """

    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def page_for(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Page | None:
    """Return the page for a browser that opens an address with too many cookies; None for programs.

    Args:
        target: What the request asks for, as far as it came.
        headers: Those that came, with names in lower case.
    """
    given = Headers(raw=list(headers))
    if "text/html" not in given.get("accept", ""):
        return None
    found = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
    # A page elsewhere cannot make the rest of a request too large: neither the target, which is whole, nor its own headers.
    asked = target.rpartition(b"/")[2] == PATH and names_no_other_page(given, given.get("sec-fetch-site", "none"))
    return Page(_REMOVED, {**found, "Clear-Site-Data": '"cookies"'}) if asked else Page(_TOO_MANY, found)
