"""How well does a job scale when workers differ, stragglers happen and nodes die? A discrete-event simulation of slices.

The driver hands a slice to whoever is free (Lodestone's job does: one slice at a time for each worker). A slice takes its
pictures times the worker's pace, which differs from worker to worker (log-normal) and is a few times slower for a share of
the slices (stragglers: a slow disk, a large picture). A worker dies after an exponentially distributed time; its slice is done
again from its beginning, by another, after a restart. The driver needs a moment for each receipt.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from lodestone.errors import InvalidRequestError

_MOST_SLICES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """One job to simulate.

    Attributes:
        images: Pictures.
        workers: Processes that take slices.
        rate: Pictures a second of an ordinary worker.
        slice_size: Pictures a slice.
        spread: Standard deviation of the logarithm of the workers' paces.
        straggler_share: Share of slices that are slow.
        straggler_factor: How many times slower.
        hours_between_failures: Mean time between two deaths of one worker; None for no deaths.
        restart_seconds: From a death to the worker's next slice.
        driver_seconds: The driver's time for one receipt.
        start_seconds: Until the first slice is taken.
    """

    images: int
    workers: int
    rate: float
    slice_size: int = 256
    spread: float = 0.1
    straggler_share: float = 0.02
    straggler_factor: float = 4.0
    hours_between_failures: float | None = None
    restart_seconds: float = 30.0
    driver_seconds: float = 0.004
    start_seconds: float = 5.0

    def __post_init__(self) -> None:
        if min(self.images, self.workers, self.slice_size) < 1 or self.rate <= 0:
            raise InvalidRequestError("nothing to simulate", hint="pictures, workers and rate must be above zero")
        if self.images / self.slice_size > _MOST_SLICES:
            raise InvalidRequestError(
                f"{self.images:,} pictures are more than {_MOST_SLICES:,} slices", hint="simulate a tenth of them"
            )
        if self.hours_between_failures is not None and not self.hours_between_failures > 0:
            raise InvalidRequestError("the time between failures must be above zero", hint="leave it out for no failures")


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came out: seconds, what an ideal job needs, pictures done again, deaths, and the share of time lost at the end."""

    seconds: float
    ideal_seconds: float
    repeated_images: int
    deaths: int
    tail_seconds: float

    @property
    def efficiency(self) -> float:
        """Ideal time over simulated time."""
        return self.ideal_seconds / self.seconds


def simulate(scenario: Scenario, *, seed: int = 0) -> Simulated:
    """Run one scenario; the same seed gives the same answer.

    `tail_seconds` is how long the last worker works after the first one found nothing left to do.
    """
    random = np.random.default_rng(seed)
    slices = -(-scenario.images // scenario.slice_size)
    paces = random.lognormal(0, scenario.spread, scenario.workers)
    paces /= paces.mean()  # what all workers do together is the same for every spread
    slow = random.random(slices) < scenario.straggler_share
    mean_life = None if scenario.hours_between_failures is None else scenario.hours_between_failures * 3600
    lives = np.full(scenario.workers, np.inf) if mean_life is None else random.exponential(mean_life, scenario.workers)
    free = [(scenario.start_seconds, worker) for worker in range(scenario.workers)]
    heapq.heapify(free)
    waiting = list(range(slices - 1, -1, -1))
    sizes = np.full(slices, scenario.slice_size)
    sizes[-1] = scenario.images - (slices - 1) * scenario.slice_size
    driver, end, repeated, deaths = 0.0, 0.0, 0, 0
    idle: float | None = None
    alive_until = lives + scenario.start_seconds
    pending: list[tuple[float, int]] = []  # slices that come back when their worker's death is noticed
    while waiting or pending:
        now, worker = heapq.heappop(free)
        while pending and pending[0][0] <= now:
            waiting.append(heapq.heappop(pending)[1])
        if not waiting:
            idle = now if idle is None else idle
            heapq.heappush(free, (pending[0][0], worker))
            continue
        number = waiting.pop()
        seconds = sizes[number] / (scenario.rate * paces[worker]) * (scenario.straggler_factor if slow[number] else 1.0)
        done = now + seconds
        if done > alive_until[worker]:
            died = max(alive_until[worker], now)
            deaths += 1
            repeated += round(sizes[number] * (died - now) / seconds)
            heapq.heappush(pending, (died, number))
            again = died + scenario.restart_seconds
            alive_until[worker] = again + random.exponential(mean_life or np.inf)
            heapq.heappush(free, (again, worker))
            continue
        driver = max(driver, done) + scenario.driver_seconds
        end = max(end, driver)
        heapq.heappush(free, (done, worker))
        if not waiting and not pending and idle is None:
            idle = min(moment for moment, _ in free)
    ideal = scenario.images / (scenario.rate * scenario.workers)
    return Simulated(float(end), ideal, repeated, deaths, float(end - (idle if idle is not None else end)))
