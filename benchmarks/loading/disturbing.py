"""What is done to a service under load? Faults in a seeded order, each with its mending, while requests keep coming."""

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

_MENDING_S = 60.0  # that starting a server again may take
_PATIENT_S = 60.0  # of the undisturbed questions: nothing may be left out of what others are compared with


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be done to a running service; both calls may block. Without `mend` the system must mend itself."""

    name: str
    strike: Callable[[], None]
    mend: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault, how many seconds all must have been well before it, and after how many seconds it is mended."""

    fault: Fault
    rest: float
    down: float


def plan(faults: Sequence[Fault], *, seed: int, rest: float, down: float) -> list[Planned]:
    """Faults in an order drawn from `seed`, with up to a third more or less of `rest` and `down` between and in them."""
    rng = np.random.default_rng(seed)
    order = [faults[place] for place in rng.permutation(len(faults))]
    return [Planned(one, *(float(seconds * rng.uniform(2 / 3, 4 / 3)) for seconds in (rest, down))) for one in order]


class Heartbeat:
    """Sees how requests end. All is well when the last `WELL` of them, all due after a given moment, were answered in time."""

    WELL = 5

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        self._another = asyncio.Event()

    def observe(self, outcome: Outcome) -> None:
        """A request ended."""
        self._outcomes.append(outcome)
        self._another.set()

    async def well_since(self, moment: float) -> None:
        """Return when all is well again after something that happened at `moment`."""
        while True:
            last = [one for one in self._outcomes if one.due > moment][-self.WELL :]
            if len(last) == self.WELL and all(one.in_time for one in last):
                return
            self._another.clear()
            await self._another.wait()


async def disturb(generator: Generator, pulse: Heartbeat, planned: Sequence[Planned], *, patience: float) -> list[Struck]:
    """Carry out the plan, one fault after the other: the next comes when all is well again, or after `patience` seconds.

    Returns:
        When each thing really happened, in seconds of the generator's clock.
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
    """All outcomes of a disturbed load, what struck, and the answers of before."""

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
    """Ask what is right while nothing is wrong, then offer `rate` requests a second and carry out the plan.

    Args:
        url: Of the service.
        texts: What is asked, in turn.
        planned: From `plan`.
        rate: Requests a second.
        deadline: Seconds that each allows.
        patience: Seconds that a fault may last before the next one comes all the same.
        seed: Of the moments.
        grace: Seconds beyond a deadline after which a silent service hangs.

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
    """Every question several times, complete and without guides. What differs between the rounds is all right later, too."""
    whole = await _all(generator, fixed(texts, deadline=_PATIENT_S), rounds * len(texts))
    words = await _all(generator, fixed(texts, deadline=_PATIENT_S, body={"guides": 0}), len(texts))
    complete: dict[int, list[Ranking]] = {}
    for one in whole:
        complete.setdefault(one.number % len(texts), []).append(Ranking(one.hits, one.scores))
    alone = {one.number: Ranking(one.hits, one.scores) for one in words}
    return Reference(lambda number: number % len(texts), complete, alone)


async def _all(generator: Generator, ask: Callable[[Arrival], Question], count: int) -> list[Outcome]:
    outcomes = await generator.offer([Arrival(number, 0.2 * number, 0) for number in range(count)], ask)
    for one in outcomes:
        if one.verdict != Verdict.COMPLETE:
            raise RuntimeError(f"the undisturbed service did not answer completely: {one}")
    return outcomes


def service_faults(service: Running, *, seed: int, proxy: bool = True) -> list[Fault]:
    """What can be killed of a service on Ray Serve: one of the replicas of each deployment, and the proxy."""
    rng = np.random.default_rng(seed)

    def killer(title: str) -> Callable[[], None]:
        def kill() -> None:
            found = service.processes(title)
            if not found:
                raise RuntimeError(f"no process is called {title}…")
            with suppress(ProcessLookupError):
                os.kill(found[int(rng.integers(len(found)))], signal.SIGKILL)

        return kill

    titles = sorted({title for _, title in service.titles(REPLICA)})
    faults = [Fault(f"replica of {title.rpartition(':')[2]}", killer(title)) for title in titles]
    return [*faults, Fault("proxy", killer(PROXY))] if proxy else faults
