"""Arrival time, time allowed, id and body of a request, which the proxy writes down and the replica reads.

A busy machine takes a few tenths of a second from proxy to replica, and a replica that is starting takes many seconds. That
time counts against the deadline, too. The arrival is a time of day, as proxy and replica may be on different nodes. An arrival
that is longer ago than any deadline allows is ignored.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from lodestone_serve.traffic.load_reports import ALLOWED, RATE_LIMITED, REFUSED

ARRIVED: Final = b"x-lodestone-arrived"
BELIEVED_S: Final = 620.0  # the longest deadline, and what proxies add
REQUEST_ID: Final = "X-Request-ID"
BODY: Final = "lodestone.body"
"""Name in an ASGI scope of the whole body, where the proxy has it before it passes the request on."""

_DIGITS: Final = 9
_BETWEEN_OURSELVES: Final = frozenset((ARRIVED, ALLOWED, REFUSED, RATE_LIMITED))
_ACCEPTABLE_ID: Final = re.compile(r"[!-~]{1,128}")


def stamp(scope: Scope) -> None:
    """Write the current time into the headers of an ASGI scope, in place of what a client may have written there.

    The other headers that only proxies write are taken out.
    """
    others = [(name, value) for name, value in scope["headers"] if name.lower() not in _BETWEEN_OURSELVES]
    scope["headers"] = [*others, (ARRIVED, f"{time.time():.6f}".encode())]


def identify(scope: Scope) -> str:
    """Return the id of a request: its client's where that is short and plain, else a new one, written into the headers."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    if _ACCEPTABLE_ID.fullmatch(given):
        return given
    made = uuid.uuid4().hex
    name = REQUEST_ID.lower().encode()
    scope["headers"] = [*((one, value) for one, value in scope["headers"] if one.lower() != name), (name, made.encode())]
    return made


def arrived_at(scope: Scope) -> float:
    """Return when a request came, in seconds of `time.monotonic()`: as its headers say, or else now."""
    now = time.monotonic()
    given = Headers(scope=scope).get(ARRIVED.decode())
    if given is None:
        return now
    try:
        ago = time.time() - float(given)
    except ValueError:
        return now
    return now - ago if 0 < ago <= BELIEVED_S else now


def allowed_s(scope: Scope) -> float | None:
    """Return the seconds that the client allows from the request's arrival; None where no proxy has written it."""
    given = Headers(scope=scope).get(ALLOWED.decode(), "")
    return int(given) / 1000 if given.isdecimal() and len(given) <= _DIGITS else None


def came_through_proxy(scope: Scope) -> bool:
    """Return whether a proxy with our middleware has passed the request on."""
    return ARRIVED.decode() in Headers(scope=scope)
