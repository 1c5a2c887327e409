"""When did a request come? The proxy writes it down and the replica reads it: what lies between counts for the deadline too.

A busy machine takes a few tenths of a second from proxy to replica. Written as time of day, for they may be on different nodes;
clocks that differ by more than `BELIEVED_S` are not believed.
"""

from __future__ import annotations

import time
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

ARRIVED: Final = b"x-lodestone-arrived"
BELIEVED_S: Final = 10.0


def stamp(scope: Scope) -> None:
    """Write into the headers of an ASGI scope that it came now; what a client wrote there itself is taken out."""
    others = [(name, value) for name, value in scope["headers"] if name.lower() != ARRIVED]
    scope["headers"] = [*others, (ARRIVED, f"{time.time():.6f}".encode())]


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
