"""How long does a warm query take through the service, and what does the way there cost?

    python -m benchmarks.serve_latency [--points 10000] [--queries 200] [--captioned 0.1] [--clients 16]

A real service (Ray Serve, its own process) over a home filled as in `benchmarks.query_latency`. One client asks first: time to
the text pass (the first `results` event) and to the complete answer, the engine's own stages, and the rest, which is the way
through proxy, ingress and JSON. Then several clients at once: queries a second, and how many texts shared a pass.
"""

from __future__ import annotations

import argparse
import json
import os
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

from benchmarks.machine import describe_machine
from benchmarks.query_latency import fill, line, sentences
from lodestone.config.home import Home
from lodestone.config.settings import load_settings
from lodestone.home.local_client import ServiceClient
from lodestone.home.runtime import Runtime
from lodestone.home.service_address import ServiceAddress, read_address
from lodestone_schemas.api import SearchRequest

TEXT_PASS_MS, COMPLETE_MS = 60.0, 250.0  # what is asked for on two cores
_WARM = 30
_SERVE = """
import sys
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
settings = load_settings({"home": sys.argv[1], "serve": {"port": 0}}).settings
serve_forever(settings, ready_callback=lambda url: print(url, flush=True))
"""


def prepare(home: Path, *, points: int, captioned: float) -> None:
    """Fill a home with pictures that are not there."""
    with Runtime.open(load_settings({"home": home}).settings) as runtime:
        captions = sentences(int(points * captioned))
        fill(runtime.catalog, runtime.store, list(runtime.projections().values()), points=points, captions=captions)


def one_client(address: ServiceAddress, queries: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds of each part of each query, asked one after the other."""
    spent: dict[str, list[float]] = {}
    with ServiceClient(address) as client, httpx.Client(base_url=address.url, trust_env=False) as plain:
        for query in queries:
            started = time.perf_counter()
            first = 0.0
            for event in client.stream(SearchRequest(query=query)):
                if event.type == "results" and not first:
                    first = (time.perf_counter() - started) * 1000
            complete = (time.perf_counter() - started) * 1000
            response = event.response  # the last event is `done`
            again = time.perf_counter()
            client.search(SearchRequest(query=query))
            plain_answer = (time.perf_counter() - again) * 1000
            again = time.perf_counter()
            plain.get("/healthz")
            parts = {
                "text pass": first,
                "complete": complete,
                "complete, unstreamed": plain_answer,
                "no-op route": (time.perf_counter() - again) * 1000,
                "around the engine": complete - response.timings_ms["total"],
            }
            for name, value in {**parts, **{f"  {stage}": ms for stage, ms in response.timings_ms.items()}}.items():
                spent.setdefault(name, []).append(value)
    return spent


def many_clients(address: ServiceAddress, queries: Sequence[str], clients: int) -> tuple[float, float]:
    """Queries a second, and texts a pass of the encoder, with so many clients at once."""
    before = _passes(address)
    with ServiceClient(address) as client, ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(lambda query: client.search(SearchRequest(query=query)), queries))
        seconds = time.perf_counter() - started
    passes, texts = (after - first for after, first in zip(_passes(address), before, strict=True))
    return len(queries) / seconds, texts / passes


def _passes(address: ServiceAddress) -> tuple[float, float]:
    lines = httpx.get(f"{address.url}/metrics", trust_env=False).text.splitlines()
    values = dict(found.split(" ") for found in lines if found.startswith("lodestone_text_batch_size"))
    return float(values["lodestone_text_batch_size_count"]), float(values["lodestone_text_batch_size_sum"])


def main() -> None:
    """Fill a home, serve it, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home, points=arguments.points, captioned=arguments.captioned)
        process = subprocess.Popen([sys.executable, "-c", _SERVE, str(home)], stdout=subprocess.PIPE, text=True)
        try:
            if process.stdout is not None:
                process.stdout.readline()
            address = read_address(Home(home))
            if address is None:
                sys.exit("the service did not come up")
            queries = sentences(arguments.queries)
            one_client(address, sentences(_WARM))
            spent = one_client(address, queries)
            rate, texts = many_clients(address, queries, arguments.clients)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    if arguments.json:
        medians = {name.strip(): round(float(np.median(values)), 2) for name, values in spent.items()}
        print(json.dumps({"p50_ms": medians, "queries_per_s": round(rate, 1), "texts_per_pass": round(texts, 2)}))
        return
    print(f"{arguments.points} pictures, {arguments.queries} queries through Serve")
    for name, values in spent.items():
        print(line(f"{name:<22}", values))
    print(f"{arguments.clients} clients: {rate:.1f} queries/s, {texts:.1f} texts a pass of the encoder")
    for name, limit in (("text pass", TEXT_PASS_MS), ("complete", COMPLETE_MS)):
        met = float(np.median(spent[name])) < limit
        print(f"{name} p50 under {limit:g} ms: {'yes' if met else 'NO'}")
    print(f"{describe_machine()}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
