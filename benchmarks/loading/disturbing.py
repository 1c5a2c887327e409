"""Faults struck into a service under load: a seeded order of faults and repairs, while requests keep arriving."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from benchmarks.loading.answers import Ranking, Reference
from benchmarks.loading.generator import Generator, Question
from benchmarks.loading.outcomes import GRACE_S, Outcome, Verdict
from benchmarks.loading.questions import fixed
from benchmarks.loading.recovery import Struck
from benchmarks.loading.schedule import Arrival, Phase, arrivals
from benchmarks.loading.service import PROXY, REPLICA, Running

_MENDING_S = 60.0  # longest time that starting a server again takes
_PATIENT_S = 60.0  # deadline of the undisturbed questions: the answers that others are compared with must be complete


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a running service. Both calls may block.

    Attributes:
        name: What is hit.
        strike: Causes the fault.
        mend: Repairs its cause; None: the system must recover by itself.
    """

    name: str
    strike: Callable[[], None]
    mend: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault with its times.

    Attributes:
        fault: The fault.
        rest: Seconds without a fault before it.
        down: Seconds until its cause is repaired.
    """

    fault: Fault
    rest: float
    down: float


def plan(faults: Sequence[Fault], *, seed: int, rest: float, down: float) -> list[Planned]:
    """Return the faults in an order drawn from `seed`; `rest` and `down` (seconds) vary by up to a third."""
    rng = np.random.default_rng(seed)
    order = [faults[place] for place in rng.permutation(len(faults))]
    return [Planned(fault, *(float(seconds * rng.uniform(2 / 3, 4 / 3)) for seconds in (rest, down))) for fault in order]


class Heartbeat:
    """Observer of how requests end.

    The service is well when the last `WELL` requests that were due after a given moment were answered in time.
    """

    WELL = 5

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        self._another = asyncio.Event()

    def observe(self, outcome: Outcome) -> None:
        """Note the outcome of a request."""
        self._outcomes.append(outcome)
        self._another.set()

    async def well_since(self, moment: float) -> None:
        """Return as soon as the service is well again after `moment` (seconds of the load)."""
        while True:
            last = [outcome for outcome in self._outcomes if outcome.due > moment][-self.WELL :]
            if len(last) == self.WELL and all(outcome.in_time for outcome in last):
                return
            self._another.clear()
            await self._another.wait()


async def disturb(generator: Generator, pulse: Heartbeat, planned: Sequence[Planned], *, patience: float) -> list[Struck]:
    """Carry out the plan: each fault comes when the service is well again, or after `patience` seconds.

    Returns:
        When each fault happened and was repaired, in seconds of the generator's clock.
    """
    struck = []
    for item in planned:
        await asyncio.sleep(item.rest)
        at = generator.now
        await asyncio.to_thread(item.fault.strike)
        mended = None
        if item.fault.mend is not None:
            await asyncio.sleep(item.down)
            await asyncio.to_thread(item.fault.mend)
            mended = generator.now
        struck.append(Struck(item.fault.name, at, mended))
        since = generator.now
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await pulse.well_since(since)
    await asyncio.sleep(planned[-1].rest if planned else 0.0)
    return struck


@dataclass(frozen=True)
class Disturbed:
    """What was seen of a disturbed load.

    Attributes:
        outcomes: All requests.
        struck: The faults, when they happened and when they were repaired.
        reference: Answers of the undisturbed service.
        seconds: How long the load lasted.
    """

    outcomes: list[Outcome]
    struck: list[Struck]
    reference: Reference
    seconds: float


async def disturbed_load(
    url: str,
    texts: list[str],
    planned: Sequence[Planned],
    *,
    rate: float,
    deadline: float,
    patience: float,
    seed: int,
    grace: float = GRACE_S,
) -> Disturbed:
    """Ask the undisturbed service for reference answers, then offer `rate` requests a second and carry out the plan.

    Args:
        url: Address of the service.
        texts: Queries, asked in turn.
        planned: Faults from `plan`.
        rate: Requests a second.
        deadline: Seconds that each request allows.
        patience: Seconds that a fault may last before the next one comes.
        seed: Draws the moments of the requests.
        grace: Seconds beyond a deadline after which a request without an answer counts as hung.

    Raises:
        RuntimeError: the undisturbed service did not answer completely.
    """
    pulse = Heartbeat()
    generator, done = Generator(url, grace=grace, observe=pulse.observe), asyncio.Event()
    reference = await undisturbed(Generator(url), texts)
    longest = sum(item.rest + item.down + patience + _MENDING_S for item in planned)
    due = arrivals([Phase(rate, longest)], seed=seed)
    offered = asyncio.create_task(generator.offer(due, fixed(texts, deadline=deadline), until=done))
    await asyncio.sleep(0)  # the load's clock begins
    try:
        struck = await disturb(generator, pulse, planned, patience=patience)
        seconds = generator.now
    finally:
        done.set()
        outcomes = await offered
    return Disturbed(outcomes, struck, reference, seconds)


async def undisturbed(generator: Generator, texts: list[str], *, rounds: int = 2) -> Reference:
    """Ask every question several times, completely and without guides.

    Differences between the rounds are accepted later, too.
    """
    answers = await _all(generator, fixed(texts, deadline=_PATIENT_S), rounds * len(texts))
    words = await _all(generator, fixed(texts, deadline=_PATIENT_S, body={"guides": 0}), len(texts))
    complete: dict[int, list[Ranking]] = {}
    for answer in answers:
        complete.setdefault(answer.number % len(texts), []).append(Ranking(answer.hits, answer.scores))
    alone = {answer.number: Ranking(answer.hits, answer.scores) for answer in words}
    return Reference(lambda number: number % len(texts), complete, alone)


async def _all(generator: Generator, ask: Callable[[Arrival], Question], count: int) -> list[Outcome]:
    outcomes = await generator.offer([Arrival(number, 0.2 * number, 0) for number in range(count)], ask)
    for outcome in outcomes:
        if outcome.verdict != Verdict.COMPLETE:
            raise RuntimeError(f"the undisturbed service did not answer completely: {outcome}")
    return outcomes


def service_faults(service: Running, *, seed: int, proxy: bool = True) -> list[Fault]:
    """Return the faults of a service on Ray Serve: a killed replica of each deployment, and a killed proxy."""
    rng = np.random.default_rng(seed)

    def killer(title: str) -> Callable[[], None]:
        def kill() -> None:
            processes = service.processes(title)
            if not processes:
                raise RuntimeError(f"no process is called {title}…")
            with suppress(ProcessLookupError):
                os.kill(processes[int(rng.integers(len(processes)))], signal.SIGKILL)

        return kill

    titles = sorted({title for _, title in service.titles(REPLICA)})
    faults = [Fault(f"replica of {title.rpartition(':')[2]}", killer(title)) for title in titles]
    return [*faults, Fault("proxy", killer(PROXY))] if proxy else faults
