"""Latency of a warm query in this process, stage by stage.

    python -m benchmarks.query.query_latency [--points 10000] [--queries 200] [--captioned 0.1]

Models, catalog and embedded store are real; the vectors are random ones of the real lengths, because only their number matters
here. Recorded are the text pass and the complete answer with their 95th percentiles, each stage, and processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.data.filled_home import context, fill, sentences
from benchmarks.harness import Benchmark, Figure, Report
from lodestone.catalog.catalog import Catalog
from lodestone.config.engines import EngineSettings
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import QuerySettings
from lodestone.generators.engine_call import Engine
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.generators.hub import Hub
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.query.weighting.choice import make_weigher
from lodestone.spaces.registry import make_space
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.edge.store import EdgeStore
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_schemas.api import ResultsEvent, SearchRequest


async def ask_all(engine: QueryEngine, queries: Sequence[str]) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Return milliseconds until the text pass and until the complete answer, and of each stage, one value a query."""
    text: list[float] = []
    complete: list[float] = []
    stages: dict[str, list[float]] = {}
    for query in queries:
        start, busy = time.perf_counter(), time.process_time()
        first = None
        async for event in engine.events(SearchRequest(query=query)):
            if first is None and isinstance(event, ResultsEvent):
                first = (time.perf_counter() - start) * 1000
        text.append(first or 0.0)
        complete.append((time.perf_counter() - start) * 1000)
        stages.setdefault("CPU", []).append((time.process_time() - busy) * 1000)
        for stage, spent in event.response.timings_ms.items():  # type: ignore[union-attr]  # the last event is `done`
            stages.setdefault(stage, []).append(spent)
    return text, complete, stages


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a collection, warm the engine up, and ask every query."""
    projections = {name: make_space(name, context()) for name in PROFILES["embedded"].spaces}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        catalog = Catalog.open(home / "catalog.sqlite")
        store = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
        captions = sentences(int(options.points * options.captioned))
        fill(catalog, store, list(projections.values()), points=options.points, captions=captions)
        engine = QueryEngine(
            store=store,
            catalog=catalog,
            encoder=LocalEncoder(
                projections=projections, text_encoders={"minilm": make_text_encoder("minilm", context())}, backbones={}
            ),
            profile=PROFILES["embedded"],
            settings=QuerySettings(),
            hub=Hub({"exemplar": Engine("exemplar", EngineSettings(kind="exemplar"), Exemplar(store, catalog))}),
            weigher=make_weigher(projections),
        )
        asyncio.run(_warm(engine))
        text, complete, stages = asyncio.run(ask_all(engine, sentences(options.queries)))
        store.close()
        catalog.close()
    report.text(f"{options.points} pictures, {len(captions)} captioned, {len(text)} queries, {', '.join(projections)}")
    for name, values in (("text pass", text), ("complete answer", complete)):
        report.record(name, values)
        report.record(f"{name}, p95", float(np.percentile(values, 95)))
    for stage, values in stages.items():
        report.record("stage", values, case=stage)
        report.record("stage, p95", float(np.percentile(values, 95)), case=stage)


async def _warm(engine: QueryEngine) -> None:
    await engine.warm_up()
    for query in sentences(20):
        await engine.answer(SearchRequest(query=query))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")


BENCHMARK = Benchmark(
    name="query_latency",
    about=__doc__,
    figures=(
        Figure("text pass", "ms"),
        Figure("text pass, p95", "ms"),
        Figure("complete answer", "ms"),
        Figure("complete answer, p95", "ms"),
        Figure("stage", "ms"),
        Figure("stage, p95", "ms"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
