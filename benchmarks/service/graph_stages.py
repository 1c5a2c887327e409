"""Latency and processor time of fusion and tagging in the ingress, and in deployments of their own.

    python -m benchmarks.service.graph_stages [--queries 60] [--rounds 5] [--write docs/adr/0017-optional-stages.md]

A Serve replica stands for the ingress. It fuses the same lists, and tags the same picture, in its own process and by the
deployment, in turns, so that a change of the machine's load meets both. Sizes of fusion: the text pass of two spaces, with ten
guides in two spaces, and with ten guides in six spaces at a depth of 1,000. Latency is that of one call at a time. Processor
time is that of all of Serve's replicas on this machine per call; the peer is the ingress. For tagging, the memory of the
deployment's replica is told too.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import psutil
from PIL import Image

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread
from lodestone.config.settings import Settings, load_settings
from lodestone.retrieval.fuser import Fuser, LocalFuser
from lodestone.retrieval.fusion import RankedList
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.graph.fusion import Fusion, RemoteFuser
from lodestone_serve.graph.replicas import Host, known
from lodestone_serve.graph.stages import FUSION, TAGGING, deployment_options
from lodestone_serve.graph.tagging import RemoteTagger, Tagging
from lodestone_serve.hosting.local_ray import local_ray

HERE, THERE = "in the ingress", "deployment"
# Name -> lists that searches found, ids of each, fusion, and lists with the score of every candidate.
SIZES: Mapping[str, tuple[int, int, str, int]] = {
    "words, 2 lists of 100": (2, 100, "mean_distance", 2),
    "guides, 22 lists of 100": (22, 100, "mean_distance", 2),
    "guides, 66 lists of 1,000": (66, 1_000, "mean_distance", 6),
    "guides, 22 lists of 100, by rank": (22, 100, "rrf", 0),
}
TAGGED = "a tagged picture, 640 x 480"
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
        host: Settings of the home.
        fusion: Handle of the deployment.
        tagging: Handle of the deployment.
    """

    def __init__(self, host: Host, fusion: Any, tagging: Any) -> None:  # noqa: ANN401
        self._fusers: dict[str, Fuser] = {HERE: LocalFuser(), THERE: RemoteFuser(StageCall(FUSION, fusion, again=True))}
        self._taggers: dict[str, Tagging | RemoteTagger] = {
            HERE: Tagging(host),
            THERE: RemoteTagger(StageCall(TAGGING, tagging, again=True)),
        }

    async def fuse(self, size: str, calls: int, rounds: int) -> Measured:
        """Fuse lists of one of `SIZES`."""
        count, ids, name, spaces = SIZES[size]
        found = lists(count, ids, seed=1)
        whole = completed(found, spaces, seed=2)
        return await _compared(lambda variant: self._fusers[variant].fuse(name, found, whole, depths=(ids,)), calls, rounds)

    async def tag(self, picture: bytes, calls: int, rounds: int) -> Measured:
        """Tag the same picture each time."""
        return await _compared(lambda variant: self._taggers[variant].tag(picture), calls, rounds)


async def _compared(work: Callable[[str], Awaitable[object]], calls: int, rounds: int) -> Measured:
    """Do the work `calls` times in each variant, `rounds` times in turn; a turn before them warms up."""
    measured: Measured = {HERE: ([], 0.0), THERE: ([], 0.0)}
    for turn in range(rounds + 1):
        for variant in measured:
            milliseconds: list[float] = []
            before = _processor_seconds()
            for _ in range(calls):
                started = time.perf_counter()
                await work(variant)
                milliseconds.append(1000 * (time.perf_counter() - started))
            spent = 1000 * (_processor_seconds() - before) / calls
            if turn:
                kept, total = measured[variant]
                measured[variant] = ([*kept, *milliseconds], total + spent / rounds)
    return measured


def picture() -> bytes:
    """Return a JPEG of smooth noise, 640 x 480."""
    pixels = np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((640, 480)).save(buffer, "JPEG")
    return buffer.getvalue()


def _replicas(deployment: str = "") -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if any(f"ServeReplica:stages:{deployment}" in word for word in one.info["cmdline"] or ())]


def _processor_seconds() -> float:
    """Return the processor time of the replicas so far."""
    times = [process.cpu_times() for process in _replicas()]
    return float(sum(spent.user + spent.system for spent in times))


def measure(options: argparse.Namespace, report: Report) -> None:
    """Deploy the caller and both stages, and compare."""
    with tempfile.TemporaryDirectory(prefix="lodestone-stages-") as home, local_ray():
        graph = {"shape": "graph", "fusion": {"enabled": True, "cpus": 0}, "tagging": {"enabled": True, "cpus": 0}}
        settings = load_settings({"home": home, "serve": {"graph": graph}}).settings
        measured, megabytes = asyncio.run(_measured(settings, options.queries, options.rounds))
    rows = [["", "p50 [quartiles], ms: in the ingress", "deployment", "processor ms a call: in the ingress", "deployment"]]
    for case, variants in measured.items():
        latencies = [spread(variants[name][0]) for name in (HERE, THERE)]
        rows.append([case, *latencies, *(f"{variants[name][1]:.2f}" for name in (HERE, THERE))])
        for name, (milliseconds, processor) in variants.items():
            report.record("latency", float(np.median(milliseconds)), case=f"{case}, {name}")
            report.record("processor time", processor, case=f"{case}, {name}")
    report.text(
        f"{options.rounds} rounds of {options.queries} calls of each kind and variant, in turns. "
        f"Memory of a replica: Fusion {megabytes[FUSION]:.0f} MB, Tagging {megabytes[TAGGING]:.0f} MB."
    )
    report.table(rows)


async def _measured(settings: Settings, calls: int, rounds: int) -> tuple[dict[str, Measured], dict[str, float]]:
    from ray import serve

    host, options = Host(known(settings)), deployment_options(settings)
    fusion = serve.deployment(name=FUSION, **options[FUSION])(Fusion).bind(host)
    tagging = serve.deployment(name=TAGGING, **options[TAGGING])(Tagging).bind(host)
    caller = serve.deployment(name="Caller", ray_actor_options={"num_cpus": 0})(Caller).bind(host, fusion, tagging)
    handle = await asyncio.to_thread(serve.run, caller, name="stages", route_prefix=None)
    measured = {size: await handle.fuse.remote(size, calls, rounds) for size in SIZES}
    measured[TAGGED] = await handle.tag.remote(picture(), calls, rounds)
    megabytes = {name: _replicas(name)[0].memory_info().rss / 2**20 for name in (FUSION, TAGGING)}
    await asyncio.to_thread(serve.shutdown)
    return measured, megabytes


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)


BENCHMARK = Benchmark(
    name="graph_stages",
    about=__doc__,
    figures=(Figure("latency", "ms", peer=HERE), Figure("processor time", "ms", peer=HERE)),
    options=add_options,
    measure=measure,
    section="stages",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
