"""Points that several loaders load a second into a Qdrant cluster of three nodes, beside one loader.

    python -m benchmarks.indexing.load_nodes [--points 60000] [--dim 512] [--latency-ms 40] [--rounds 3]

Loaders are Ray tasks, as in an index run on a cluster. Each reads slices, projects them and upserts a piece at a time
(`store.writers = 1`). All of it runs on this machine, so that few cores would be the limit and not the loaders' waiting. Each
node therefore stands behind a relay that delays its answers, as a network and a replica would; `--latency-ms 0` leaves it out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from scripts.fetch_qdrant import fetch
from tests.support.qdrant_cluster import run_qdrant_cluster
from tests.support.slow_relay import slow_relays

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns, timed
from benchmarks.indexing.load import make_home
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import silent
from lodestone.indexing.sync.loading import load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.store.factory import StoreServer
from lodestone_jobs.cluster import LocalRay
from lodestone_jobs.loading import TaskLoader
from lodestone_schemas.collections import CollectionSpec, Placement

NODES = 3


@contextmanager
def _loads(folder: Path, target: SpaceTarget, latency: float) -> Iterator[Mapping[str, Callable[[], float]]]:
    """Start the cluster and Ray, and yield what loads everything into an empty collection, by the number of loaders."""
    with run_qdrant_cluster(fetch(), folder / "qdrant", nodes=NODES) as cluster:
        http = [node.http_port for node in cluster.nodes]
        with slow_relays([*http, *cluster.grpc_ports], seconds=latency) as ports:
            server = StoreServer(
                tuple(f"http://127.0.0.1:{port}" for port in ports[:NODES]),
                grpc_port=tuple(ports[NODES:]),
                writers=1,
                placement=Placement(shards=NODES, replication=1),
            )
            ray_host = LocalRay(workers=NODES)
            ray_host.start()
            store = server.open()
            tasks = TaskLoader(server, store, target.embeddings, ray_host)

            def run(loaders: int) -> float:
                store.drop(target.collection)
                store.create(CollectionSpec(target.collection, target.dim))
                target.catalog.forget_loads(target.collection)
                seconds = timed(lambda: load(store, target, progress=silent, faults=Faults(), loader=tasks, loaders=loaders))
                loaded, expected = store.count(target.collection), target.catalog.count_images()
                if loaded != expected:
                    raise RuntimeError(f"{loaded} points were loaded, not {expected}")
                return seconds

            try:
                run(NODES)  # the tasks' processes start, and open the store
                yield {f"{loaders} loader{'s'[: loaders > 1]}": partial(run, loaders) for loaders in (1, NODES)}
            finally:
                store.close()
                ray_host.stop()


def measure(options: argparse.Namespace, report: Report) -> None:
    """Load the same points with one loader and with three, in turns."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        target = make_home(Path(scratch), points=options.points, dim=options.dim)
        with _loads(Path(scratch), target, options.latency_ms / 1000) as loads:
            seconds = take_turns(loads, options.rounds)
    one, several = seconds.values()
    report.text(
        f"{options.points:,} points of {options.dim} dimensions, {options.rounds} rounds; "
        f"answers come {options.latency_ms:g} ms later."
    )
    for name, values in seconds.items():
        report.record("points a second", [options.points / value for value in values], case=name)
    report.record("3 loaders / one", [float(a / b) for a, b in zip(one, several, strict=True)])
    report.text(f"Of the medians: {np.median(one) / np.median(several):.2f}.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--latency-ms", type=float, default=40.0, help="delay of each node's answers; 0 for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path)


BENCHMARK = Benchmark(
    name="load_nodes",
    about=__doc__,
    figures=(
        Figure("points a second", "points/s"),
        Figure("3 loaders / one", "ratio", peer="one loader, of the same run"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
