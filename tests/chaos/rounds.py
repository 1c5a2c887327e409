"""Rounds of SIGKILL at random moments of an index run on a cluster, each compared with an undisturbed run.

`python -m tests.chaos.rounds --rounds 20 --seed 1` prints each round's seed; `--seed N --rounds 1` plays the faults of one
round again. In each, one to three of these die at moments drawn over the whole run: a worker, the driver, a Ray node, the head
of the Ray cluster, a Qdrant node, PostgreSQL. What died comes back, the run is resumed where it failed, and then ids, counts
and vectors must be those of the run that nobody disturbed: nothing lost, nothing twice. With `--two-nodes` the Ray cluster has
two nodes, and in each round one is added and one is removed in mid-run. `make chaos` does both.

A round in which nothing happened (the run was over before) proves nothing: it is played again with earlier moments. A round
that takes longer than ten minutes has failed: the stacks of all threads are printed, and no more rounds are played.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psutil
from tests.chaos.cluster import PICTURES, RAY_NODES, ChaosCluster, Driver, chaos_cluster
from tests.chaos.state import State, differences, gaps, state_of
from tests.support.ray_nodes import NodeNotStartedError

KINDS = ("worker", "driver", "ray", "head", "qdrant", "postgres")
NODE_CHANGES = ("join", "leave")  # of the Ray cluster, with `--two-nodes`
_REPLAYS = 3  # of a round that killed nothing, each with moments half as late
_MOST_RESUMES = 5
_LONGEST_DELAY_S = 6.0
_OUTAGE_S = (0.2, 3.0)
_STARTING_STEPS = 4  # begin, discover (twice), start
_RUN_S = 240.0
_ROUND_S = 600.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Fault:
    """One SIGKILL, or a Ray node that joins.

    Attributes:
        kind: Who dies, or "join".
        step: It falls after the driver has told so many steps,
        delay_s: and so many seconds.
        victim: Which of several, as a draw from 0 to 1.
        outage_s: Until the victim is started again.
    """

    kind: str
    step: int
    delay_s: float
    victim: float
    outage_s: float


@dataclass
class Undisturbed:
    """The run that nothing happened to: its result, and when (seconds) it told each step, of which stage."""

    state: State
    steps: list[float] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)

    @property
    def embedded(self) -> int:
        """How many steps were told before nothing was left to embed: slices are loaded while others are embedded."""
        return next(place for place, stage in enumerate(self.stages) if stage in ("load", "verify"))

    def pace(self) -> str:
        """When each stage began."""
        firsts = dict(reversed(list(zip(self.stages, self.steps, strict=True))))
        return ", ".join(f"{stage} {told:.1f} s" for stage, told in reversed(firsts.items()))


def undisturbed(cluster: ChaosCluster) -> Undisturbed:
    """Index once in peace."""
    home = cluster.new_home("undisturbed")
    began = time.monotonic()
    steps: list[float] = []
    with cluster.driver(home) as driver:
        while driver.wait_for_step(len(steps) + 1):
            steps.append(time.monotonic() - began)
        assert driver.process.wait(_RUN_S) == 0, _told(driver, home)
    state = state_of(cluster, home)
    assert not (state.strays or state.doubles), (state.strays, state.doubles)
    bad, captioned = (len(list(cluster.photos.glob(files))) for files in ("bad/*", "*.txt"))
    lacking = gaps(state, pictures=PICTURES, bad=bad, captioned=captioned, nodes=len(cluster.qdrant.nodes))
    assert not lacking, lacking
    cluster.forget(home)
    return Undisturbed(state, steps, [line.split()[1] for line in driver.lines if line.startswith("step ")][: len(steps)])


def kinds_of(seed: int) -> list[str]:
    """What dies in a round: each kind first in every sixth, and up to two others."""
    draw = random.Random(seed)
    first = KINDS[seed % len(KINDS)]
    return [first, *draw.sample([kind for kind in KINDS if kind != first], k=draw.choice((0, 1, 1, 2)))]


def faults_of(seed: int, kinds: Sequence[str], steps: Sequence[float], *, embedded: int) -> list[Fault]:
    """The faults of a round, at moments spread over a run that told `steps`: half over its time, half over its steps.

    There are workers to be killed only until it has told `embedded` of them.
    """
    draw = random.Random(seed)
    faults = []
    for kind in kinds:
        moment = draw.uniform(steps[1] * 0.8, steps[-1] * 0.98)  # imports take half of the time before the first step
        if draw.random() < 0.5:  # starting takes most of the time, loading and promoting most of the steps
            place = draw.randrange(1, len(steps) - 1)
            moment = draw.uniform(steps[place], steps[place + 1])
        if kind == "worker":
            moment = draw.uniform(steps[1], steps[embedded - 1])
        step = max(sum(told <= moment for told in steps), 1)
        delay = min(max(moment - steps[step - 1], 0.0), _LONGEST_DELAY_S)
        faults.append(Fault(kind, step, delay, draw.random(), draw.uniform(*_OUTAGE_S)))
    return sorted(faults, key=lambda fault: (fault.step, fault.delay_s))


@dataclass
class Round:
    """What came of a round: what happened in it, who was killed, and what is wrong afterwards."""

    happened: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def play(cluster: ChaosCluster, name: str, faults: Sequence[Fault], wanted: Undisturbed) -> Round:
    """One round."""
    home = cluster.new_home(name)
    played = Round()
    happened = played.happened
    left = list(faults)
    begun, runs, told, code = False, 0, 0, -1
    while code != 0:
        mending: list[threading.Thread] = []
        # before the run was on record there is nothing to resume: then the same command again
        with cluster.driver(home, resume=begun and runs % 2 == 1) as driver:
            while left and driver.process.poll() is None:
                fault = left[0]
                # a resumed run has less to tell: it goes on counting where the one before ended, but for how it starts
                if not driver.wait_for_step(max(fault.step - told, min(fault.step, _STARTING_STEPS))):
                    break
                time.sleep(max(fault.delay_s, _LOOK_S))
                victim = strike(cluster, driver, fault, mending, happened)
                if victim is not None:
                    happened.append(f"{victim} at step {fault.step} + {fault.delay_s:.1f} s")
                    played.killed.append(fault.kind)
                    left.pop(0)
            code = driver.process.wait(_RUN_S)
        for thread in mending:
            thread.join()
        runs += 1
        told += max(driver.steps - _STARTING_STEPS, 0)
        begun = begun or any(line.startswith("step discover") for line in driver.lines)
        if code != 0:
            happened.append(f"driver ended with {code}{': ' + driver.lines[-1] if code > 0 and driver.lines else ''}")
            assert runs <= _MOST_RESUMES, f"{happened}: not finished after {runs} runs: {_told(driver, home)}"
            cluster.mend()
            cluster.reconfigure(home)
    cluster.mend()
    happened += [f"{fault.kind} missed" for fault in left]
    happened.append(f"{runs} runs; {driver.lines[-1]}")
    played.problems = differences(state_of(cluster, home), wanted.state)
    cluster.forget(home)
    return played


def strike(
    cluster: ChaosCluster, driver: Driver, fault: Fault, mending: list[threading.Thread], happened: list[str]
) -> str | None:
    """Kill; who it was, or None when there was nothing to kill.

    What is to come back does so in a thread of `mending`, which adds to `happened` what it could not start.
    """
    if driver.process.poll() is not None:
        return None
    if fault.kind == "driver":
        driver.process.send_signal(signal.SIGKILL)
        return "driver" if driver.process.wait() == -signal.SIGKILL else None  # it may have been at its end
    if fault.kind == "worker":
        workers = _wait_for_workers(cluster, driver)
        if not workers:
            return None
        pid = workers[int(fault.victim * len(workers))].pid
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return f"worker {pid}, one of {len(workers)},"
    if fault.kind == "head":
        cluster.ray.kill(0)
        return "head of the Ray cluster"
    if fault.kind == "join":
        _later(mending, replace(fault, outage_s=0.0), cluster.ray.add, happened)
        return "a Ray node that joins"
    if fault.kind in ("ray", "leave"):
        nodes = sorted(cluster.ray.alive - {0})
        if not nodes:
            return None
        node = nodes[int(fault.victim * len(nodes))]
        cluster.ray.kill(node)
        if fault.kind == "ray":
            _later(mending, fault, cluster.ray.add, happened)
        return f"ray node {node}"
    if fault.kind == "qdrant":
        living = [node.number for node in cluster.qdrant.nodes if node.alive]
        number = living[int(fault.victim * len(living))]
        cluster.qdrant.kill(number)
        _later(mending, fault, lambda: cluster.qdrant.start(number), happened)
        return f"qdrant node {number}"
    cluster.postgres.kill()
    _later(mending, fault, cluster.postgres.start, happened)
    return "postgres"


class RoundHungError(AssertionError):
    """A round took longer than any may."""


def within(limit_s: float, play_round: Callable[[], Round]) -> Round:
    """Return what comes of a round, which is played in a thread of its own.

    Raises:
        RoundHungError: it takes longer than `limit_s` seconds; the stacks of all threads are on standard error.
    """
    outcome: Future[Round] = Future()

    def run() -> None:
        try:
            outcome.set_result(play_round())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if wait([outcome], limit_s).done:
        return outcome.result()
    faulthandler.dump_traceback(all_threads=True)
    raise RoundHungError(f"not finished after {limit_s:.0f} s")


def run_rounds(cluster: ChaosCluster, seeds: Sequence[int], kinds: Callable[[int], Sequence[str]] = kinds_of) -> list[str]:
    """Play rounds, telling of each; returns what was wrong in any."""
    began = time.monotonic()
    wanted = undisturbed(cluster)
    images = Counter(state for _, state, _ in wanted.state.images.values())
    print(f"undisturbed: {dict(images)}, {len(wanted.steps)} steps: {wanted.pace()}", flush=True)
    wrong: list[str] = []
    planned: Counter[str] = Counter()
    struck: Counter[str] = Counter()
    for place, seed in enumerate(seeds):
        at = time.monotonic()
        faults = faults_of(seed, kinds(seed), wanted.steps, embedded=wanted.embedded)
        planned.update(kinds(seed))
        for replay in range(_REPLAYS):
            try:
                played = within(_ROUND_S, partial(play, cluster, f"round-{seed}-{replay}", faults, wanted))
            except RoundHungError as hung:  # its thread still uses the cluster: whatever came now would not count
                print(f"seed {seed}: FAILED: {hung}; {len(seeds) - place - 1} rounds are not played", flush=True)
                return [*wrong, f"seed {seed}: {hung}"]
            struck.update(played.killed)
            if not played.killed:
                played.problems.append("nothing was killed")
            verdict = "FAILED" if played.problems else "equal"
            print(f"seed {seed}: {verdict} in {time.monotonic() - at:.0f} s; {'; '.join(played.happened)}", flush=True)
            for problem in played.problems:
                print(f"  {problem}", flush=True)
            if played.killed or len(played.problems) > 1:
                break
            faults = [replace(fault, step=max(fault.step // 2, 1), delay_s=fault.delay_s / 2) for fault in faults]
        wrong += [f"seed {seed}: {problem}" for problem in played.problems]
    wrong += [f"{kind} was to die and never did" for kind in planned if not struck[kind]]
    kills = ", ".join(f"{kind} {struck[kind]}" for kind in (*KINDS, *NODE_CHANGES) if planned[kind])
    print(f"{len(seeds)} rounds in {time.monotonic() - began:.0f} s; struck: {kills}; {len(wrong)} differences", flush=True)
    return wrong


def _later(mending: list[threading.Thread], fault: Fault, mend: Callable[[], object], happened: list[str]) -> None:
    def wait_and_mend() -> None:
        time.sleep(fault.outage_s)
        try:
            mend()
        except NodeNotStartedError as error:  # the head died too: after this run the whole cluster is started again
            happened.append(str(error))

    thread = threading.Thread(target=wait_and_mend, daemon=True)
    mending.append(thread)
    thread.start()


def _wait_for_workers(cluster: ChaosCluster, driver: Driver) -> list[psutil.Process]:
    while not (found := cluster.workers()) and driver.process.poll() is None:
        time.sleep(_LOOK_S)
    return found


def _told(driver: Driver, home: Path) -> str:
    log = (home / "driver.log").read_text(errors="replace")[-3000:]
    return f"{driver.lines[-5:]}\n{log}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.rounds", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the others count on")
    parser.add_argument("--two-nodes", action="store_true", help="add a node to a Ray cluster of two, and remove one")
    parser.add_argument("--folder", type=Path, help="keep everything here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = given.folder or Path(temporary)
        seeds = range(given.seed, given.seed + given.rounds)
        with chaos_cluster(folder, ray_nodes=2 if given.two_nodes else RAY_NODES) as cluster:
            return 1 if run_rounds(cluster, seeds, (lambda _: NODE_CHANGES) if given.two_nodes else kinds_of) else 0


if __name__ == "__main__":
    sys.exit(main())
