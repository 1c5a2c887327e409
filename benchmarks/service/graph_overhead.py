"""Latency that Serve and its hops add to a query, with one client.

    python -m benchmarks.service.graph_overhead [--points 10000] [--queries 100] [--rounds 2] [--variants app graph]
                                          [--write docs/graph.md]

The same home is asked by the engine in this process, by the service as one deployment (`app`), and by the service as a graph
(`graph`: the models in one process, the guide engine `prior` in another), the latter two with and without
RAY_SERVE_THROUGHPUT_OPTIMIZED. There are three kinds of queries: words alone, words with two guides, a picture. Rounds
alternate, so that a change of the machine's load meets all of them. What Serve adds is the difference of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from benchmarks.data.filled_home import sentences
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread
from benchmarks.service.serve_latency import prepare
from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.settings import load_settings
from lodestone_schemas.api import SearchOptions, SearchRequest
from lodestone_serve.inference.home import home_services

IN_PROCESS, WARM = "in process", 10
VARIANTS: Mapping[str, tuple[str, str]] = {  # name -> shape, RAY_SERVE_THROUGHPUT_OPTIMIZED
    "app": ("app", "1"),
    "app, not optimised": ("app", "0"),
    "graph": ("graph", "1"),
    "graph, not optimised": ("graph", "0"),
}
KINDS = ("words", "guides", "picture")
_SERVE = """
import json, sys
from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
serve_forever(load_settings(json.loads(sys.argv[1])).settings, ready_callback=lambda url: print(url, flush=True))
"""
_GUIDES = {"guides": 2, "generators": ["prior"], "gate": False}
Spent = dict[str, dict[str, list[float]]]


def picture() -> bytes:
    """Return a small photo-like JPEG."""
    pixels = np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((640, 480)).save(buffer, "JPEG")
    return buffer.getvalue()


def bodies(queries: int) -> list[tuple[str, dict[str, Any]]]:
    """Return (kind, request) in the order of asking."""
    words: list[tuple[str, dict[str, Any]]] = []
    for query in sentences(queries):
        words += [("words", {"query": query, "guides": 0}), ("guides", {"query": query, **_GUIDES}), ("picture", {})]
    return words


async def in_this_process(flags: Mapping[str, Any], queries: int) -> dict[str, list[float]]:
    """Ask the engine itself; return kind -> milliseconds of each query."""
    services = home_services(load_settings(flags).settings)
    await services.session.open()
    data = picture()

    async def ask(kind: str, body: dict[str, Any]) -> None:
        if kind == "picture":
            await services.search.by_picture(data, SearchOptions(limit=10), LOCAL_CALLER)
        else:
            await services.search.answer(SearchRequest(**body), LOCAL_CALLER)

    try:
        return await _timed(ask, queries)
    finally:
        await services.session.close()


async def through_serve(url: str, queries: int) -> dict[str, list[float]]:
    """Ask with one HTTP client; return kind -> milliseconds of each query."""
    data = picture()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as client:

        async def ask(kind: str, body: dict[str, Any]) -> None:
            if kind == "picture":
                files = {"image": ("p.jpg", data, "image/jpeg")}
                answer = await client.post("/v1/search/image", files=files, data={"options": '{"limit": 10}'})
            else:
                answer = await client.post("/v1/search", json=body)
            answer.raise_for_status()

        return await _timed(ask, queries)


async def _timed(ask: Callable[[str, dict[str, Any]], Awaitable[None]], queries: int) -> dict[str, list[float]]:
    for kind, body in bodies(WARM):
        await ask(kind, body)
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, body in bodies(queries):
        started = time.perf_counter()
        await ask(kind, body)
        spent[kind].append((time.perf_counter() - started) * 1000)
    return spent


@contextmanager
def service(flags: Mapping[str, Any], *, optimised: str) -> Iterator[str]:
    """Run a service in a process of its own; yield its URL."""
    environment = {**os.environ, "RAY_SERVE_THROUGHPUT_OPTIMIZED": optimised}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, json.dumps(flags)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        url = process.stdout.readline().strip() if process.stdout is not None else ""
        if not url.startswith("http"):
            sys.exit("the service did not come up")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def measure_variants(home: Path, *, queries: int, rounds: int, variants: Sequence[str] = tuple(VARIANTS)) -> Spent:
    """Return variant -> kind -> milliseconds of each query."""
    spent: Spent = {}
    for _ in range(rounds):
        flags: dict[str, Any] = {
            "home": str(home),
            "serve": {"port": 0, "upkeep": False, "engine": "ray"},
            "query": {"history": 100},
            "generators": {"prior": {"kind": "prior"}},
        }
        _add(spent, IN_PROCESS, asyncio.run(in_this_process(flags, queries)))
        for name in variants:
            shape, optimised = VARIANTS[name]
            graph: dict[str, Any] = {"shape": shape}
            if shape == "graph":
                graph["generators"] = {"prior": {"cpus": 0.5}}
            with service({**flags, "serve": {**flags["serve"], "graph": graph}}, optimised=optimised) as url:
                _add(spent, name, asyncio.run(through_serve(url, queries)))
    return spent


def _add(spent: Spent, variant: str, milliseconds: Mapping[str, list[float]]) -> None:
    for kind, values in milliseconds.items():
        spent.setdefault(variant, {}).setdefault(kind, []).extend(values)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home and ask it in every way."""
    with tempfile.TemporaryDirectory(prefix="lodestone-graph-") as folder:
        prepare(Path(folder), points=options.points, captioned=0.1)
        spent = measure_variants(Path(folder), queries=options.queries, rounds=options.rounds, variants=options.variants)
    medians = {name: {kind: float(np.median(values)) for kind, values in kinds.items()} for name, kinds in spent.items()}
    rows = [["p50 [quartiles], ms", *KINDS]]
    for name, kinds in spent.items():
        added = {kind: medians[name][kind] - medians[IN_PROCESS][kind] for kind in KINDS}
        rows.append([name, *(f"{spread(kinds[kind])} ({added[kind]:+.1f})" for kind in KINDS)])
        for kind in KINDS:
            report.record("p50", medians[name][kind], case=f"{name}, {kind}")
            if name != IN_PROCESS:
                report.record("added to the engine", added[kind], case=f"{name}, {kind}")
    each = f"{options.rounds} rounds of {options.queries} queries of each kind"
    report.text(f"{options.points:,} pictures, one client, {each}. In brackets: more than in process.")
    report.table(rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="NAME")


BENCHMARK = Benchmark(
    name="graph_overhead",
    about=__doc__,
    figures=(Figure("p50", "ms"), Figure("added to the engine", "ms", peer="the engine in this process")),
    options=add_options,
    measure=measure,
    section="overhead",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
