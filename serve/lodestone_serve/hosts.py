"""Host names that can only mean this machine, the wildcard of the settings that name hosts, and requests of own pages."""

from __future__ import annotations

import ipaddress
from typing import Final

from starlette.datastructures import Headers

ANY: Final = "*"
"""The value of `serve.public_hosts` and `serve.cors_origins` that stands for every host or origin."""


def is_loopback(host: str) -> bool:
    """Return whether `host` (a name or an address, without port) can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


_PURPOSES: Final = ("sec-purpose", "purpose", "x-purpose", "x-moz")


def names_no_other_page(headers: Headers, site: str) -> bool:
    """Return whether a request comes from the service's own page, or from the user, by what `Sec-Fetch-Site` says.

    `none` stands for an address that somebody typed, or a bookmark. Chromium also sends it where a page has it load an address
    ahead (speculation rules), and says so in `Sec-Purpose`.

    Args:
        headers: Of the request.
        site: Its `Sec-Fetch-Site`.
    """
    named = site.lower()
    return named == "same-origin" or (named == "none" and not _is_loaded_ahead(headers))


def _is_loaded_ahead(headers: Headers) -> bool:
    return any(
        "prefetch" in headers.get(name, "").lower() or "prerender" in headers.get(name, "").lower() for name in _PURPOSES
    )
