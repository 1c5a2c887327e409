"""Answers of the graph of a large collection: latency, processor time, memory and recall.

    python -m benchmarks.query.large_collection [--points 1000000] [--dim 512] [--queries 200] [--edge]

A local Qdrant server (or the embedded engine, with `--edge`) is filled with random vectors of length one, and builds its HNSW
graph. Then one client asks: one list of 100 neighbours a call, and ten lists a call, as with guides. Processor time
is that of the client and the server together. Random vectors have no neighbourhoods: a graph finds fewer of the true
neighbours than among pictures, so the recall is a lower bound. The peer of each case is the exact search by the same engine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from numpy.typing import NDArray
from scripts.fetch_qdrant import fetch
from tests.support.qdrant_server import run_qdrant

from benchmarks.harness import Benchmark, Figure, Report
from lodestone.store.base import PointBatch, VectorQuery, VectorStore
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec

NAME: Final = "large"
BATCH: Final = 2_048
LISTS: Final = 10  # of a query with guides
LIMIT: Final = 100
EXACT_CALLS: Final = 20  # an exact search of a million vectors takes as long as hundreds of the graph's


@dataclass(frozen=True, slots=True)
class Stand:
    """An open store and the processes that answer.

    Attributes:
        store: The store.
        processes: The processes whose time and memory count.
    """

    store: VectorStore
    processes: Sequence[psutil.Process]

    def processor_seconds(self) -> float:
        """Return the processor time that the processes have used, in seconds."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)

    def resident_bytes(self) -> int:
        """Return the memory that the answering process holds."""
        return int(self.processes[-1].memory_info().rss)


@contextmanager
def stand(folder: Path, *, edge: bool) -> Iterator[Stand]:
    """Yield an open store with the processes that answer."""
    here = psutil.Process()
    if edge:
        store = open_store("edge", root=folder / "store")
        yield Stand(store, [here])
        store.close()
        return
    (folder / "qdrant").mkdir()
    with run_qdrant(fetch(), folder / "qdrant") as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port, timeout=600)
        yield Stand(store, [here, psutil.Process(server.process.pid)])
        store.close()


def unit(rng: np.random.Generator, rows: int, dim: int) -> NDArray[np.float32]:
    """Return (rows, dim) random float32 vectors of length one."""
    vectors = rng.standard_normal((rows, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def fill(store: VectorStore, *, points: int, dim: int) -> None:
    """Insert the points and build the graph."""
    rng = np.random.default_rng(0)
    store.create(CollectionSpec(NAME, dim))
    for start in range(0, points, BATCH):
        rows = min(BATCH, points - start)
        ids = [str(uuid.UUID(int=start + row)) for row in range(rows)]
        payloads = [{"corpus": "bench", "root": "bench", "folders": [f"{row % 50:02}"]} for row in range(rows)]
        store.upsert(NAME, PointBatch(ids, unit(rng, rows, dim), payloads))
    store.build(NAME)
    while store.info(NAME).building or store.info(NAME).indexed < points:
        time.sleep(1)


def ask(
    place: Stand, vectors: NDArray[np.float32], *, lists: int, exact: bool = False
) -> tuple[list[float], float, list[set[str]]]:
    """Ask for all vectors, `lists` a call; return milliseconds a call, processor milliseconds a call, and the answers."""
    taken, answers = [], []
    before = place.processor_seconds()
    for start in range(0, len(vectors), lists):
        queries = [VectorQuery(vector, LIMIT, exact=exact) for vector in vectors[start : start + lists]]
        started = time.perf_counter()
        found = place.store.search(NAME, queries)
        taken.append((time.perf_counter() - started) * 1000)
        answers += [set(neighbours.ids) for neighbours in found]
    spent = (place.processor_seconds() - before) * 1000 / len(taken)
    return taken, spent, answers


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a collection and ask it."""
    engine = "embedded engine" if options.edge else "server"
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, stand(Path(scratch), edge=options.edge) as place:
        empty = place.resident_bytes()
        started = time.perf_counter()
        fill(place.store, points=options.points, dim=options.dim)
        report.text(
            f"{options.points:,} random vectors of {options.dim}, filled and built in {time.perf_counter() - started:.0f} s."
        )
        rng = np.random.default_rng(1)
        ask(place, unit(rng, 20, options.dim), lists=1)
        few = unit(rng, EXACT_CALLS, options.dim)
        exact_times, exact_spent, truth = ask(place, few, lists=1, exact=True)
        found = ask(place, few, lists=1)[2]
        recall = float(np.mean([len(a & b) / LIMIT for a, b in zip(found, truth, strict=True)]))
        for lists in (1, LISTS):
            taken, spent, _ = ask(place, unit(rng, options.queries * lists, options.dim), lists=lists)
            case = f"{engine}, {lists} list{'s' if lists > 1 else ''} a call"
            report.record("latency", taken, case=case)
            report.record("processor time a call", spent, case=case)
        report.record("latency", exact_times, case=f"{engine}, exact, 1 list a call")
        report.record("processor time a call", exact_spent, case=f"{engine}, exact, 1 list a call")
        report.record("recall of 100", recall, case=engine)
        report.record("memory", (place.resident_bytes() - empty) / 2**20, case=engine)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=200, help="calls of each kind")
    parser.add_argument("--edge", action="store_true", help="measure the embedded engine instead of a server")
    parser.add_argument("--scratch", type=Path)


BENCHMARK = Benchmark(
    name="large_collection",
    about=__doc__,
    figures=(
        Figure("latency", "ms", peer="exact search by the same engine"),
        Figure("processor time a call", "ms", peer="exact search by the same engine"),
        Figure("recall of 100", "share", peer="exact search by the same engine"),
        Figure("memory", "MiB"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
