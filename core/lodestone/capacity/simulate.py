"""Discrete-event simulation of an index job: how it scales with unequal workers, stragglers and crashing nodes.

The driver gives a slice to each free worker, in batches: after a batch has given out its slices or has lasted long enough,
the next one begins only when its last slice is back. The job itself has one such batch, and others for what was lost in it. A
slice takes its pictures times the worker's pace, which differs between workers (log-normal), and a share of the slices takes
a few times longer (stragglers: a slow disk, large pictures). Workers crash one by one, and nodes with all their workers,
after exponentially distributed times. A lost slice is done again from its beginning in the next batch, up to a number of
attempts. The driver needs a short time for each receipt.
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
_DRAWS: Final = 4  # independent random streams: paces, stragglers, crashes of workers, crashes of nodes


@dataclass(frozen=True, slots=True)
class Scenario:
    """Describes one job to simulate.

    Attributes:
        images: Number of pictures.
        workers: Processes that take slices.
        rate: Pictures a second of an ordinary worker.
        slice_size: Pictures in a slice.
        spread: Standard deviation of the logarithm of the workers' paces.
        straggler_share: Share of slices that are slow.
        straggler_factor: How many times slower these slices are.
        task_seconds: Measured seconds of whole slices, drawn from instead of using `rate`, `spread` and stragglers, each once
            where there are enough; empty: not measured.
        workers_per_node: Workers that crash together when their node does.
        hours_between_failures: Mean time between two crashes of one worker; None for no crashes.
        hours_between_node_failures: Mean time between two crashes of one node; None for no crashes.
        restart_seconds: Time from a crash to the worker's next slice.
        attempts: Attempts at a slice before it is given up.
        batch_slices: Highest number of slices in a batch.
        batch_seconds: Time after which a batch gives out no further slice.
        driver_seconds: The driver's time for one receipt.
        start_seconds: Time until the first slice is taken.
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
    batch_slices: int = 400
    batch_seconds: float = 300.0
    driver_seconds: float = 0.004
    start_seconds: float = 5.0

    def __post_init__(self) -> None:
        smallest = min(self.images, self.workers, self.slice_size, self.workers_per_node, self.attempts, self.batch_slices)
        if smallest < 1 or not 0 < self.rate < math.inf or not self.batch_seconds > 0:
            raise InvalidRequestError("nothing to simulate", hint="pictures, workers, rate and batches must be above zero")
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
    """Holds the result of a simulation.

    Attributes:
        seconds: Time of the whole job.
        ideal_seconds: Time that as many equal workers need without any failure.
        repeated_images: Pictures that were processed and lost.
        deaths: Crashes of workers that had a slice.
        given_up: Slices that were lost in every attempt.
        barrier_seconds: Time that a worker waited for the end of batches, on average, the last batch included.
        tail_seconds: Time that the last worker works after the first one found nothing left to do.
        batches: Number of batches.
    """

    seconds: float
    ideal_seconds: float
    repeated_images: int
    deaths: int
    given_up: int
    barrier_seconds: float
    tail_seconds: float
    batches: int

    @property
    def efficiency(self) -> float:
        """Return the ideal time divided by the simulated time."""
        return self.ideal_seconds / self.seconds


@dataclass(slots=True)
class _Job:
    """Keeps the state of a simulated job."""

    scenario: Scenario
    work: NDArray[np.float64]  # seconds of each slice on an ordinary worker
    sizes: NDArray[np.int64]
    paces: NDArray[np.float64]
    until: Callable[[int, float], float]  # (worker, time at which it is free) -> time of its next crash
    driver: float = 0.0
    repeated: int = 0
    deaths: int = 0
    given_up: int = 0
    barrier: float = 0.0
    tail: float = 0.0
    again: list[tuple[int, int]] = field(default_factory=list)

    def batch(self, left: deque[tuple[int, int]], begins: float, free: list[float]) -> float:
        """Simulate one batch that starts at `begins`, and return when the next may begin.

        Args:
            left: (slice, attempts) that are still to do; changed.
            begins: Time at which the batch starts, seconds.
            free: Time at which each worker is free; changed.
        """
        idle = [(max(moment, begins), worker) for worker, moment in enumerate(free)]
        heapq.heapify(idle)
        handed_out, ends = 0, begins
        while (
            left
            and handed_out < self.scenario.batch_slices
            and (not handed_out or idle[0][0] <= begins + self.scenario.batch_seconds)
        ):
            now, worker = heapq.heappop(idle)
            number, tries = left.popleft()
            handed_out += 1
            seconds = self.work[number] / self.paces[worker]
            crashes_at = self.until(worker, now)
            done = min(now + seconds, crashes_at)
            if crashes_at < now + seconds:
                self._lost(number, tries, (crashes_at - now) / seconds)
                heapq.heappush(idle, (crashes_at + self.scenario.restart_seconds, worker))
            else:
                heapq.heappush(idle, (done, worker))
            self.driver = max(self.driver, done) + self.scenario.driver_seconds
            ends = max(ends, done)
        for moment, worker in idle:
            free[worker] = moment
        last = max(ends, self.driver)
        idle_seconds = [max(last - moment, 0.0) for moment, _ in idle]
        self.barrier += sum(idle_seconds) / len(idle_seconds)
        self.tail = max(idle_seconds)
        left.extendleft(reversed(self.again))  # lost slices go first, as in the job
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
    """Simulate one scenario of an index job.

    The same seed gives the same result, and the same slices are slow with any number of workers.
    """
    streams = [np.random.default_rng(child_seed) for child_seed in np.random.SeedSequence(seed).spawn(_DRAWS)]
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
        paces /= paces.mean()  # so that all workers together have the same rate for every spread
    job = _Job(scenario, work, sizes, paces, _deaths(scenario, streams[2], streams[3]))
    pending = deque((number, 0) for number in range(slices))
    free_at = [scenario.start_seconds] * scenario.workers
    now, batches = scenario.start_seconds, 0
    while pending:
        now = job.batch(pending, now, free_at)
        batches += 1
    ideal = (
        float(work.sum()) / scenario.workers if scenario.task_seconds else scenario.images / (scenario.rate * scenario.workers)
    )
    return Simulated(float(now), ideal, job.repeated, job.deaths, job.given_up, float(job.barrier), float(job.tail), batches)


def _deaths(scenario: Scenario, own: np.random.Generator, shared: np.random.Generator) -> Callable[[int, float], float]:
    """Return a function that gives the time of the next crash of a worker that is free at a moment.

    A worker crashes by itself or with its node. Each crash happens once.
    """
    mean_seconds, node_mean_seconds = (
        math.inf if hours is None else hours * 3600
        for hours in (scenario.hours_between_failures, scenario.hours_between_node_failures)
    )
    nodes = -(-scenario.workers // scenario.workers_per_node)
    worker_crashes = [scenario.start_seconds + _wait(own, mean_seconds) for _ in range(scenario.workers)]
    node_crashes: list[list[float]] = [[scenario.start_seconds + _wait(shared, node_mean_seconds)] for _ in range(nodes)]

    def until(worker: int, now: float) -> float:
        if worker_crashes[worker] < now:  # exponential times have no memory, so the next one is drawn from `now` on
            worker_crashes[worker] = now + _wait(own, mean_seconds)
        node = node_crashes[worker // scenario.workers_per_node]
        if node[-1] < now:
            node.append(now + _wait(shared, node_mean_seconds))
        return min(worker_crashes[worker], next(moment for moment in node if moment >= now))

    return until


def _wait(random: np.random.Generator, mean: float) -> float:
    return math.inf if math.isinf(mean) else float(random.exponential(mean))
