"""What do Serve and its hops add to a query, one at a time?

    python -m benchmarks.graph_overhead [--points 10000] [--queries 100] [--rounds 2] [--variants app graph]
                                          [--write docs/graph.md]

The same home is asked by the engine in this process, by the service as one deployment (`app`), and by the service as a graph
(`graph`: the models in one process, the guide engine `prior` in another), the latter two with and without
RAY_SERVE_THROUGHPUT_OPTIMIZED. Three kinds of queries: words alone, words with two guides, a picture. Rounds alternate, so that
a change of the machine's load meets all of them. What Serve adds is the difference of the medians.
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

from benchmarks.loading.pages import publish, report
from benchmarks.machine import spread, table
from benchmarks.query_latency import sentences
from benchmarks.serve_latency import prepare
from lodestone.config.settings import load_settings
from lodestone_schemas.api import SearchOptions, SearchRequest
from lodestone_serve.use_cases.home_services import HomeServices

ADDED_MS = 15.0  # what Serve may add to the engine on two cores
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
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
serve_forever(load_settings(json.loads(sys.argv[1])).settings, ready_callback=lambda url: print(url, flush=True))
"""
_GUIDES = {"guides": 2, "generators": ["prior"], "gate": False}
Spent = dict[str, dict[str, list[float]]]


def picture() -> bytes:
    """A small photo-like JPEG."""
    pixels = np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((640, 480)).save(buffer, "JPEG")
    return buffer.getvalue()


def bodies(queries: int) -> list[tuple[str, dict[str, Any]]]:
    """(kind, request) in the order of asking."""
    words: list[tuple[str, dict[str, Any]]] = []
    for query in sentences(queries):
        words += [("words", {"query": query, "guides": 0}), ("guides", {"query": query, **_GUIDES}), ("picture", {})]
    return words


async def in_this_process(flags: Mapping[str, Any], queries: int) -> dict[str, list[float]]:
    """Kind -> milliseconds of each query, by the engine itself."""
    services = HomeServices(load_settings(flags).settings)
    await services.open()
    data = picture()

    async def ask(kind: str, body: dict[str, Any]) -> None:
        if kind == "picture":
            await services.by_picture(data, SearchOptions(limit=10))
        else:
            await services.answer(SearchRequest(**body))

    try:
        return await _timed(ask, queries)
    finally:
        await services.close()


async def through_serve(url: str, queries: int) -> dict[str, list[float]]:
    """Kind -> milliseconds of each query, by one HTTP client."""
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
    """A service of its own process; yields its URL."""
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


def measure(home: Path, *, queries: int, rounds: int, variants: Sequence[str] = tuple(VARIANTS)) -> Spent:
    """Variant -> kind -> milliseconds of each query."""
    spent: Spent = {}
    for _ in range(rounds):
        flags: dict[str, Any] = {
            "home": str(home),
            "serve": {"port": 0, "upkeep": False},
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


def _add(spent: Spent, variant: str, found: Mapping[str, list[float]]) -> None:
    for kind, values in found.items():
        spent.setdefault(variant, {}).setdefault(kind, []).extend(values)


def main() -> None:
    """Fill a home, ask it in every way, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--write", type=Path, help="a page with a section `overhead`")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lodestone-graph-") as folder:
        prepare(Path(folder), points=arguments.points, captioned=0.1)
        spent = measure(Path(folder), queries=arguments.queries, rounds=arguments.rounds, variants=arguments.variants)
    medians = {name: {kind: float(np.median(values)) for kind, values in kinds.items()} for name, kinds in spent.items()}
    added = {name: {kind: ms - medians[IN_PROCESS][kind] for kind, ms in kinds.items()} for name, kinds in medians.items()}
    if arguments.json:
        print(json.dumps({"p50_ms": medians, "added_ms": added}))
        return
    rows = [["p50 [quartiles], ms", *KINDS]]
    for name, kinds in spent.items():
        rows.append([name, *(f"{spread(kinds[kind])} ({added[name][kind]:+.1f})" for kind in KINDS)])
    load = os.getloadavg()[0]
    each = f"{arguments.rounds} rounds of {arguments.queries} queries of each kind"
    head = f"{arguments.points:,} pictures, one client, {each}; load {load:.1f}. In brackets: more than in process."
    goals = [
        f"- `app` adds at most {ADDED_MS:g} ms to {kind}: {'yes' if added['app'][kind] <= ADDED_MS else 'NO'}"
        for kind in KINDS
        if "app" in added
    ]
    publish(arguments.write, "overhead", report(head, table(rows), "\n".join(goals)))


if __name__ == "__main__":
    main()
