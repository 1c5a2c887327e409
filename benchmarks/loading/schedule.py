"""When is each request of a load sent? At moments drawn beforehand from a seed, whatever the service does meanwhile.

That is what open loop means: a client that waits for an answer before it asks again slows down with the service, and then
measures few of the slow answers ("coordinated omission"). Users do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_REQUESTS = 100_000
MOST_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of constant load.

    Attributes:
        rate: Requests a second, on average.
        seconds: How long it lasts.
        name: For tables.
        measured: False for a stretch that only warms up, or lets a queue run empty.
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
    """One request to be sent `at` so many seconds after the start; `number` counts from 0, `phase` is its phase's place."""

    number: int
    at: float
    phase: int


def arrivals(phases: Sequence[Phase], *, seed: int) -> list[Arrival]:
    """A Poisson process in every phase, given its number of arrivals: `rate * seconds` moments, uniform and sorted.

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
    """Seconds of all phases together."""
    return sum(phase.seconds for phase in phases)
