"""How well does a job scale when workers differ, stragglers happen and nodes die? A discrete-event simulation of slices.

The driver hands a slice to whoever is free, in waves: when one has handed out its slices or lasted long enough, the next begins
only after its last slice is back (the job's own rule). A slice takes its pictures times the worker's pace, which differs from
worker to worker (log-normal) and is a few times slower for a share of the slices (stragglers: a slow disk, large pictures).
Workers die one by one, and nodes with all their workers, after exponentially distributed times; a lost slice is done again from
its beginning in the next wave, a few times at most. The driver needs a moment for each receipt.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError

_MOST_SLICES: Final = 2_000_000
_DRAWS: Final = 4  # independent streams: paces, stragglers, deaths of workers, deaths of nodes


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
        task_seconds: Measured times of whole slices, drawn from instead of `rate`, `spread` and
            stragglers, each once where there are enough; empty: not measured.
        workers_per_node: That die together.
        hours_between_failures: Mean time between two deaths of one worker; None for no deaths.
        hours_between_node_failures: Mean time between two deaths of one node; None for no deaths.
        restart_seconds: From a death to the worker's next slice.
        attempts: Tries of a slice; then it is given up.
        wave_slices: Most slices of a wave.
        wave_seconds: A wave hands out no further slice after so long.
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
    task_seconds: tuple[float, ...] = ()
    workers_per_node: int = 8
    hours_between_failures: float | None = None
    hours_between_node_failures: float | None = None
    restart_seconds: float = 30.0
    attempts: int = 4
    wave_slices: int = 400
    wave_seconds: float = 300.0
    driver_seconds: float = 0.004
    start_seconds: float = 5.0

    def __post_init__(self) -> None:
        least = min(self.images, self.workers, self.slice_size, self.workers_per_node, self.attempts, self.wave_slices)
        if least < 1 or not 0 < self.rate < math.inf or not self.wave_seconds > 0:
            raise InvalidRequestError("nothing to simulate", hint="pictures, workers, rate and waves must be above zero")
        if self.images / self.slice_size > _MOST_SLICES:
            raise InvalidRequestError(
                f"{self.images:,} pictures are more than {_MOST_SLICES:,} slices", hint="simulate a tenth of them"
            )
        for hours in (self.hours_between_failures, self.hours_between_node_failures):
            if hours is not None and not hours > 0:
                raise InvalidRequestError(
                    f"the time between failures must be above zero, not {hours!r} hours", hint="leave it out for no failures"
                )


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came out.

    Attributes:
        seconds: Of the whole job.
        ideal_seconds: What as many equal workers need without any trouble.
        repeated_images: Pictures that were done in vain.
        deaths: Workers that died while they had a slice.
        given_up: Slices that were lost as often as they may be tried.
        barrier_seconds: Time that workers waited for the end of waves, a worker, the last wave included.
        tail_seconds: How long the last worker works after the first one found nothing left to do.
        waves: How many there were.
    """

    seconds: float
    ideal_seconds: float
    repeated_images: int
    deaths: int
    given_up: int
    barrier_seconds: float
    tail_seconds: float
    waves: int

    @property
    def efficiency(self) -> float:
        """Ideal time over simulated time."""
        return self.ideal_seconds / self.seconds


@dataclass(slots=True)
class _Job:
    """What happens while it goes on."""

    scenario: Scenario
    work: NDArray[np.float64]  # seconds of each slice on an ordinary worker
    sizes: NDArray[np.int64]
    paces: NDArray[np.float64]
    until: Callable[[int, float], float]  # when the worker, free at a moment, dies next
    driver: float = 0.0
    repeated: int = 0
    deaths: int = 0
    given_up: int = 0
    barrier: float = 0.0
    tail: float = 0.0
    again: list[tuple[int, int]] = field(default_factory=list)

    def wave(self, left: deque[tuple[int, int]], begins: float, free: list[float]) -> float:
        """One wave, from `begins`; `free`, when each worker is, is brought up to date. Returns when the next may begin."""
        idle = [(max(moment, begins), worker) for worker, moment in enumerate(free)]
        heapq.heapify(idle)
        handed, ends = 0, begins
        while left and handed < self.scenario.wave_slices and (not handed or idle[0][0] <= begins + self.scenario.wave_seconds):
            now, worker = heapq.heappop(idle)
            number, tries = left.popleft()
            handed += 1
            seconds = self.work[number] / self.paces[worker]
            dies = self.until(worker, now)
            done = min(now + seconds, dies)
            if dies < now + seconds:
                self._lost(number, tries, (dies - now) / seconds)
                heapq.heappush(idle, (dies + self.scenario.restart_seconds, worker))
            else:
                heapq.heappush(idle, (done, worker))
            self.driver = max(self.driver, done) + self.scenario.driver_seconds
            ends = max(ends, done)
        for moment, worker in idle:
            free[worker] = moment
        last = max(ends, self.driver)
        waits = [max(last - moment, 0.0) for moment, _ in idle]
        self.barrier += sum(waits) / len(waits)
        self.tail = max(waits)
        left.extendleft(reversed(self.again))  # what was lost goes first, as in the job
        self.again.clear()
        return last

    def _lost(self, number: int, tries: int, share: float) -> None:
        self.deaths += 1
        self.repeated += round(self.sizes[number] * share)
        if tries + 1 < self.scenario.attempts:
            self.again.append((number, tries + 1))
        else:
            self.given_up += 1


def simulate(scenario: Scenario, *, seed: int = 0) -> Simulated:
    """Run one scenario; the same seed gives the same answer, and the same slices are slow with any number of workers."""
    streams = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(_DRAWS)]
    slices = -(-scenario.images // scenario.slice_size)
    sizes = np.full(slices, scenario.slice_size)
    sizes[-1] = scenario.images - (slices - 1) * scenario.slice_size
    if scenario.task_seconds:
        measured = np.asarray(scenario.task_seconds, float)
        work = streams[1].choice(measured, slices, replace=slices > len(measured))
        paces = np.ones(scenario.workers)
    else:
        slow = streams[1].random(slices) < scenario.straggler_share
        work = sizes / scenario.rate * np.where(slow, scenario.straggler_factor, 1.0)
        paces = streams[0].lognormal(0, scenario.spread, scenario.workers)
        paces /= paces.mean()  # what all workers do together is the same for every spread
    job = _Job(scenario, work, sizes, paces, _deaths(scenario, streams[2], streams[3]))
    left = deque((number, 0) for number in range(slices))
    free = [scenario.start_seconds] * scenario.workers
    now, waves = scenario.start_seconds, 0
    while left:
        now = job.wave(left, now, free)
        waves += 1
    ideal = (
        float(work.sum()) / scenario.workers if scenario.task_seconds else scenario.images / (scenario.rate * scenario.workers)
    )
    return Simulated(float(now), ideal, job.repeated, job.deaths, job.given_up, float(job.barrier), float(job.tail), waves)


def _deaths(scenario: Scenario, own: np.random.Generator, shared: np.random.Generator) -> Callable[[int, float], float]:
    """When does a worker that is free at a moment die next: by itself, or with its node? A death happens once."""
    life, node_life = (
        math.inf if hours is None else hours * 3600
        for hours in (scenario.hours_between_failures, scenario.hours_between_node_failures)
    )
    nodes = -(-scenario.workers // scenario.workers_per_node)
    alone = [scenario.start_seconds + _wait(own, life) for _ in range(scenario.workers)]
    falls: list[list[float]] = [[scenario.start_seconds + _wait(shared, node_life)] for _ in range(nodes)]

    def until(worker: int, now: float) -> float:
        if alone[worker] < now:  # how long it has lived already says nothing about how long it still will
            alone[worker] = now + _wait(own, life)
        node = falls[worker // scenario.workers_per_node]
        if node[-1] < now:
            node.append(now + _wait(shared, node_life))
        return min(alone[worker], next(moment for moment in node if moment >= now))

    return until


def _wait(random: np.random.Generator, mean: float) -> float:
    return math.inf if math.isinf(mean) else float(random.exponential(mean))
