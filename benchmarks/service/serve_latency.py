"""Latency of a warm query through the service, and how much of it HTTP and Serve add.

    python -m benchmarks.service.serve_latency [--points 10000] [--queries 200] [--captioned 0.1] [--clients 16]

A real service (its own process) over a home filled as in `benchmarks.query.query_latency`. First one client asks: time to the
text pass (the first `results` event) and to the complete answer, the engine's own stages, and the rest, which is the way
through front, routes and JSON; and the same words with a picture. Then several clients ask at once: queries a second, and how
many texts shared a model pass.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np

from benchmarks.data.filled_home import fill, sentences
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import percentile_line
from lodestone.config.home import Home
from lodestone.config.settings import load_settings
from lodestone.home.running_service.address import ServiceAddress, read_address
from lodestone.home.running_service.client import ServiceClient
from lodestone.home.runtime import Runtime
from lodestone_schemas.api import DoneEvent, SearchRequest

_WARM = 30
_SERVE = """
import sys
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
settings = load_settings({"home": sys.argv[1], "serve": {"port": 0}}).settings
serve_forever(settings, ready_callback=lambda url: print(url, flush=True))
"""


def prepare(home: Path, *, points: int, captioned: float) -> None:
    """Fill a home with pictures that do not exist."""
    with Runtime.open(load_settings({"home": home}).settings) as runtime:
        captions = sentences(int(points * captioned))
        fill(runtime.catalog, runtime.store, list(runtime.projections().values()), points=points, captions=captions)


def one_client(address: ServiceAddress, queries: Sequence[str]) -> dict[str, list[float]]:
    """Ask queries one after the other; return the milliseconds of each part, one value a query."""
    spent: dict[str, list[float]] = {}
    with ServiceClient(address) as client, httpx.Client(base_url=address.url, trust_env=False) as plain:
        for query in queries:
            started = time.perf_counter()
            first = 0.0
            for event in client.stream(SearchRequest(query=query)):
                if event.type == "results" and not first:
                    first = (time.perf_counter() - started) * 1000
            complete = (time.perf_counter() - started) * 1000
            if not isinstance(event, DoneEvent):
                raise RuntimeError(f"the answer to {query!r} ended with an event of the type {event.type}")
            response = event.response
            again = time.perf_counter()
            client.search(SearchRequest(query=query))
            plain_answer = (time.perf_counter() - again) * 1000
            again = time.perf_counter()
            client.search(SearchRequest(query=query, guides=0))
            words_answer = (time.perf_counter() - again) * 1000
            again = time.perf_counter()
            client.search(SearchRequest(query=query, like=[response.hits[0].image_id]))
            composed_answer = (time.perf_counter() - again) * 1000
            again = time.perf_counter()
            plain.get("/healthz")
            parts = {
                "text pass": first,
                "complete": complete,
                "complete, unstreamed": plain_answer,
                "text pass, unstreamed": words_answer,
                "words and a picture, unstreamed": composed_answer,
                "no-op route": (time.perf_counter() - again) * 1000,
                "around the engine": complete - response.timings_ms["total"],
            }
            for name, value in {**parts, **{f"  {stage}": ms for stage, ms in response.timings_ms.items()}}.items():
                spent.setdefault(name, []).append(value)
    return spent


def many_clients(address: ServiceAddress, queries: Sequence[str], clients: int) -> tuple[float, float]:
    """Ask with several clients at once; return queries a second, and texts a pass of the encoder."""
    before = _passes(address)
    with ServiceClient(address) as client, ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(lambda query: client.search(SearchRequest(query=query)), queries))
        seconds = time.perf_counter() - started
    passes, texts = (after - first for after, first in zip(_passes(address), before, strict=True))
    return len(queries) / seconds, texts / passes


def _passes(address: ServiceAddress) -> tuple[float, float]:
    lines = httpx.get(f"{address.url}/metrics", trust_env=False).text.splitlines()
    values = dict(line.split(" ") for line in lines if line.startswith("lodestone_text_batch_size"))
    return float(values["lodestone_text_batch_size_count"]), float(values["lodestone_text_batch_size_sum"])


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home, serve it, and ask with one client and with several."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home, points=options.points, captioned=options.captioned)
        process = subprocess.Popen([sys.executable, "-c", _SERVE, str(home)], stdout=subprocess.PIPE, text=True)
        try:
            if process.stdout is not None:
                process.stdout.readline()
            address = read_address(Home(home))
            if address is None:
                sys.exit("the service did not come up")
            queries = sentences(options.queries)
            one_client(address, sentences(_WARM))
            spent = one_client(address, queries)
            rate, texts = many_clients(address, queries, options.clients)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    report.text(f"{options.points} pictures, {options.queries} queries through Serve, {options.clients} clients at once.")
    report.text("```\n" + "\n".join(percentile_line(name, values) for name, values in spent.items()) + "\n```")
    for name, values in spent.items():
        report.record("stage" if name.startswith(" ") else "latency", values, case=name.strip())
        if not name.startswith(" "):
            report.record("latency, p95", float(np.percentile(values, 95)), case=name)
    pairs = zip(spent["words and a picture, unstreamed"], spent["text pass, unstreamed"], strict=True)
    report.record("words and a picture / words alone", float(np.median([composed / words for composed, words in pairs])))
    report.record("queries a second, several clients", rate)
    report.record("texts a pass of the encoder, several clients", texts)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--clients", type=int, default=16)


BENCHMARK = Benchmark(
    name="serve_latency",
    about=__doc__,
    figures=(
        Figure("latency", "ms", peer="a route that does nothing"),
        Figure("latency, p95", "ms"),
        Figure("stage", "ms"),
        Figure("words and a picture / words alone", "x", peer="the same words alone without guides, asked just before"),
        Figure("queries a second, several clients", "queries/s"),
        Figure("texts a pass of the encoder, several clients", "texts"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
