"""What proxies and replicas tell each other about load, in headers that no client sees and none can set.

A replica reports its load with every answer to a query, so that its proxies refuse what it would refuse. A proxy writes into
requests how long their clients wait, and how many queries it has refused by itself, so that the replica counts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LOAD: Final = b"x-lodestone-load"
"""Header of answers to queries: a `LoadReport`."""

ALLOWED: Final = b"x-lodestone-allowed"
"""Header of requests: milliseconds that the client allows, from the request's arrival at the proxy."""

REFUSED: Final = b"x-lodestone-refused"
"""Header of requests: queries that the proxy has refused since it sent the last such header, by method and route."""

RATE_LIMITED: Final = b"x-lodestone-rate-limited"
"""Header of requests: requests that the proxy has refused for their senders' rates since then, likewise."""

_ON_THE_WAY: Final = 0.1  # share of a query's time for proxies and networks, which cannot be measured here
_ON_THE_WAY_S: Final = 0.25  # most seconds of that share
_MOST_ON_THE_WAY: Final = 0.25  # largest share of a query's time, with the measured part
_MOST_COUNTED: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Load of one replica, as its admission sees it.

    Attributes:
        replica: Name of the replica, different for each.
        busy: Queries that an interactive one waits for: those at work, and interactive ones that wait or are being read.
        places: Most queries that may run, wait or be read.
        slots: Queries that may run at once now.
        held_s: Mean of the seconds that a query holds its slot.
        words_s: Seconds that nearly all text passes stay below.
        sending_s: Seconds that sending an answer takes.
        retry_after: Seconds that refused clients are told to wait.
    """

    replica: str
    busy: int
    places: int
    slots: int
    held_s: float
    words_s: float
    sending_s: float
    retry_after: int

    def encode(self) -> bytes:
        """Return the report as the value of a header."""
        numbers = (self.busy, self.places, self.slots, self.held_s, self.words_s, self.sending_s, self.retry_after)
        return " ".join([self.replica, *(f"{number:.6g}" for number in numbers)]).encode()

    @classmethod
    def decode(cls, value: bytes) -> LoadReport | None:
        """Return the report in the value of a header; None if it is none."""
        try:
            replica, *texts = value.decode().split(" ")
            busy, places, slots, held_s, words_s, sending_s, retry_after = (float(text) for text in texts)
        except ValueError:
            return None
        numbers = (busy, places, slots, held_s, words_s, sending_s, retry_after)
        if not all(math.isfinite(number) and number >= 0 for number in numbers) or slots < 1:
            return None
        return cls(replica, int(busy), int(places), int(slots), held_s, words_s, sending_s, int(retry_after))


def way_back_s(allowed_s: float, sending_s: float) -> float:
    """Return the seconds to reserve for sending an answer to its client.

    Args:
        allowed_s: Seconds that the client allows for the whole request.
        sending_s: Seconds that sending an answer takes inside the replica.
    """
    return min(min(_ON_THE_WAY * allowed_s, _ON_THE_WAY_S) + sending_s, _MOST_ON_THE_WAY * allowed_s)


def encode_refused(counts: Mapping[str, int]) -> bytes:
    """Return the number of refused queries by route (`POST /v1/search`) as the value of a header."""
    return ", ".join(f"{count} {route}" for route, count in counts.items()).encode()


def decode_refused(value: bytes) -> dict[str, int]:
    """Return the number of refused queries by route; what cannot be read is left out."""
    counts: dict[str, int] = {}
    for part in value.decode("latin-1").split(", "):
        number, _, route = part.partition(" ")
        if number.isdecimal() and route and int(number) <= _MOST_COUNTED:
            counts[route] = counts.get(route, 0) + int(number)
    return counts
