"""Host names and addresses that can only mean this machine, and the wildcard of the settings that name hosts and origins."""

from __future__ import annotations

import ipaddress
from typing import Final

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
