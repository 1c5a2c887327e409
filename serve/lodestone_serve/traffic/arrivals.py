"""When did a request come, and what is its id? The proxy writes both down, and the replica reads them.

A busy machine takes a few tenths of a second from proxy to replica, and a replica that starts many seconds: that counts for the
deadline too. Written as time of day, for they may be on different nodes; what no deadline allows is not believed.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

ARRIVED: Final = b"x-lodestone-arrived"
BELIEVED_S: Final = 620.0  # the longest deadline, and what proxies add
REQUEST_ID: Final = "X-Request-ID"
_ACCEPTABLE_ID: Final = re.compile(r"[!-~]{1,128}")


def stamp(scope: Scope) -> None:
    """Write into the headers of an ASGI scope that it came now; what a client wrote there itself is taken out."""
    others = [(name, value) for name, value in scope["headers"] if name.lower() != ARRIVED]
    scope["headers"] = [*others, (ARRIVED, f"{time.time():.6f}".encode())]


def identify(scope: Scope) -> str:
    """The id of the request of an ASGI scope: its client's where that is short and plain, else a new one, written there."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    if _ACCEPTABLE_ID.fullmatch(given):
        return given
    made = uuid.uuid4().hex
    name = REQUEST_ID.lower().encode()
    scope["headers"] = [*((one, value) for one, value in scope["headers"] if one.lower() != name), (name, made.encode())]
    return made


def arrived_at(scope: Scope) -> float:
    """When the request of an ASGI scope came, on `time.monotonic()`'s clock: as it is stamped, or else now."""
    now = time.monotonic()
    given = Headers(scope=scope).get(ARRIVED.decode())
    if given is None:
        return now
    try:
        ago = time.time() - float(given)
    except ValueError:
        return now
    return now - ago if 0 < ago <= BELIEVED_S else now
