"""Latency and processor time of fusing a query's lists in the ingress and in the deployment `Fusion`.

    python -m benchmarks.graph_fusion [--queries 60] [--rounds 5] [--write docs/adr/0015-optional-stages.md]

A Serve replica stands for the ingress. It fuses the same lists in its own process and by the deployment, in turns, so that a
change of the machine's load meets both. Sizes: the text pass of two spaces, with ten guides in two spaces, and with ten guides
in six spaces at a depth of 1,000. Latency is that of one fusion at a time. Processor time is that of all of Serve's replicas on
this machine per fusion; the peer is fusing in the ingress.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread
from lodestone.config.settings import load_settings
from lodestone.retrieval.fuser import Fuser, LocalFuser
from lodestone.retrieval.fusion import RankedList
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.graph.fusion import Fusion, RemoteFuser
from lodestone_serve.graph.replicas import Host, known
from lodestone_serve.graph.stages import FUSION, deployment_options
from lodestone_serve.hosting.local_ray import local_ray

HERE, THERE = "in the ingress", "deployment"
# Name -> lists that searches found, ids of each, fusion, and lists with the score of every candidate.
SIZES: Mapping[str, tuple[int, int, str, int]] = {
    "words, 2 lists of 100": (2, 100, "mean_distance", 2),
    "guides, 22 lists of 100": (22, 100, "mean_distance", 2),
    "guides, 66 lists of 1,000": (66, 1_000, "mean_distance", 6),
    "guides, 22 lists of 100, by rank": (22, 100, "rrf", 0),
}
Measured = dict[str, tuple[list[float], float]]  # variant -> milliseconds of each fusion, processor milliseconds of one


def lists(count: int, ids: int, *, seed: int) -> list[RankedList]:
    """Return lists of ids that overlap by about a half, as those of guides do."""
    rng = np.random.default_rng(seed)
    names = [f"{number:08x}-0000-5000-8000-{number:012x}" for number in rng.permutation(2 * ids * max(1, count // 8))]
    return [
        RankedList(
            f"g/{number}",
            "bridge",
            float(rng.random() + 0.1),
            tuple(str(name) for name in rng.choice(names, ids, replace=False)),
            np.sort(rng.random(ids).astype(np.float32))[::-1].copy(),
        )
        for number in range(count)
    ]


def completed(found: Sequence[RankedList], spaces: int, *, seed: int) -> list[RankedList]:
    """Return a list for each space over every candidate; what was found where the fusion does not read scores."""
    if not spaces:
        return list(found)
    rng = np.random.default_rng(seed)
    union = sorted(set().union(*(ranked.ids for ranked in found)))
    made = []
    for number in range(spaces):
        order = rng.permutation(len(union))
        scores = np.sort(rng.random(len(union)).astype(np.float32))[::-1].copy()
        made.append(RankedList("*", f"space{number}", 0.5, tuple(union[row] for row in order), scores))
    return made


class Caller:
    """The replica that stands for the ingress.

    Args:
        fusion: Handle of the deployment.
    """

    def __init__(self, fusion: Any) -> None:  # noqa: ANN401
        self._fusers: dict[str, Fuser] = {HERE: LocalFuser(), THERE: RemoteFuser(StageCall(FUSION, fusion, again=True))}

    async def measure(self, size: str, queries: int, rounds: int) -> Measured:
        """Fuse `queries` times in each variant, `rounds` times in turn."""
        count, ids, name, spaces = SIZES[size]
        found = lists(count, ids, seed=1)
        whole = completed(found, spaces, seed=2)
        measured: Measured = {HERE: ([], 0.0), THERE: ([], 0.0)}
        for turn in range(rounds + 1):
            for variant, fuser in self._fusers.items():
                milliseconds: list[float] = []
                before = _processor_seconds()
                for _ in range(queries):
                    started = time.perf_counter()
                    await fuser.fuse(name, found, whole, depths=(ids,))
                    milliseconds.append(1000 * (time.perf_counter() - started))
                spent = 1000 * (_processor_seconds() - before) / queries
                if turn:  # the first turn warms up
                    kept, total = measured[variant]
                    measured[variant] = ([*kept, *milliseconds], total + spent / rounds)
        return measured


def _processor_seconds() -> float:
    """Return the processor time of all of Serve's replicas on this machine so far."""
    total = 0.0
    for process in psutil.process_iter(["cmdline"]):
        if any("ServeReplica" in word for word in process.info["cmdline"] or ()):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measure(options: argparse.Namespace, report: Report) -> None:
    """Deploy the caller and the fusion, and compare."""
    from ray import serve

    graph = {"shape": "graph", "fusion": {"enabled": True, "cpus": 0}}
    settings = load_settings({"serve": {"graph": graph}}).settings
    rows = [["", "p50 [quartiles], ms: in the ingress", "deployment", "processor ms a fusion: in the ingress", "deployment"]]
    with local_ray():
        fusion = serve.deployment(name=FUSION, **deployment_options(settings)[FUSION])(Fusion)
        caller = serve.deployment(name="Caller", ray_actor_options={"num_cpus": 0})(Caller)
        handle = serve.run(caller.bind(fusion.bind(Host(known(settings)))), name="fusion", route_prefix=None)

        async def ask(size: str) -> Measured:
            answer: Measured = await handle.measure.remote(size, options.queries, options.rounds)
            return answer

        for size in SIZES:
            measured = asyncio.run(ask(size))
            rows.append(
                [
                    size,
                    *(spread(measured[name][0]) for name in (HERE, THERE)),
                    *(f"{measured[name][1]:.2f}" for name in (HERE, THERE)),
                ]
            )
            for name, (milliseconds, processor) in measured.items():
                report.record("latency", float(np.median(milliseconds)), case=f"{size}, {name}")
                report.record("processor time", processor, case=f"{size}, {name}")
        serve.shutdown()
    report.text(f"{options.rounds} rounds of {options.queries} fusions of each size and variant, in turns.")
    report.table(rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)


BENCHMARK = Benchmark(
    name="graph_fusion",
    about=__doc__,
    figures=(Figure("latency", "ms", peer=HERE), Figure("processor time", "ms", peer=HERE)),
    options=add_options,
    measure=measure,
    section="fusion",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
