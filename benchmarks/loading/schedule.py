"""Schedule of a load: the moments of all requests are drawn beforehand from a seed, whatever the service does meanwhile.

This is an open loop. A client that waits for an answer before it asks again slows down with the service, and then measures few
of the slow answers ("coordinated omission"). Real users do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_REQUESTS = 100_000
MOST_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A period of constant load.

    Attributes:
        rate: Requests a second, on average.
        seconds: How long it lasts.
        name: Name in tables.
        measured: False for a period that only warms up, or lets a queue run empty.
    """

    rate: float
    seconds: float
    name: str = ""
    measured: bool = True

    def __post_init__(self) -> None:
        if not (self.rate >= 0 and 0 < self.seconds <= MOST_SECONDS):
            raise ValueError(f"a phase of {self.rate} requests/s for {self.seconds} s; expected >= 0, up to {MOST_SECONDS:g} s")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request to be sent.

    Attributes:
        number: Number of the request, from 0.
        at: Seconds after the start of the load.
        phase: Place of its phase.
    """

    number: int
    at: float
    phase: int


def arrivals(phases: Sequence[Phase], *, seed: int) -> list[Arrival]:
    """Draw the arrivals of all phases: in each a Poisson process, given its `rate * seconds` arrivals.

    Raises:
        ValueError: more than `MOST_REQUESTS` requests or `MOST_SECONDS` seconds together.
    """
    counts = [round(phase.rate * phase.seconds) for phase in phases]
    if sum(counts) > MOST_REQUESTS or length(phases) > MOST_SECONDS:
        raise ValueError(
            f"{sum(counts)} requests in {length(phases):g} s; a load is bounded to {MOST_REQUESTS} in {MOST_SECONDS:g} s"
        )
    rng = np.random.default_rng(seed)
    moments: list[tuple[float, int]] = []
    begin = 0.0
    for place, (phase, count) in enumerate(zip(phases, counts, strict=True)):
        moments += [(float(at), place) for at in np.sort(begin + rng.random(count) * phase.seconds)]
        begin += phase.seconds
    return [Arrival(number, at, place) for number, (at, place) in enumerate(moments)]


def length(phases: Sequence[Phase]) -> float:
    """Return the seconds of all phases together."""
    return sum(phase.seconds for phase in phases)
