"""Answers a second of the service over a small collection, beside the smallest server that could be written.

    python -m benchmarks.service.service_peer [--points 10000] [--captioned 0.1] [--clients 16] [--seconds 8] [--rounds 3]
        [--host serve] [--processes 1] [--home HOME]

A real service (a process of its own; `--host ray`: on Ray Serve) over a home filled as in `benchmarks.query.query_latency`, and
`bare_peer.py` over as many vectors of the same lengths. Both run all the time and are asked in turns: by one client, then by
all of them at once, for words alone and for complete answers. An answer that says that something was left out does not count.
Processor time is that of all processes of a server. The load generator shares the machine with both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread, table
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import Verdict
from benchmarks.loading.questions import query_mix
from benchmarks.loading.service import Running, fill_home, flags_for, running, settings_of, started_url
from benchmarks.loading.summary import reasons
from lodestone.home.runtime import Runtime

SERVICE, PEER = "the service", "the peer"
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {"words alone": {"guides": 0}, "complete answers": {}}
_WARM_S, _DEADLINE_S, _WORKERS_S, _POLL_S = 3.0, 20.0, 120.0, 0.2


@dataclass
class Rounds:
    """What the rounds measured of one server and one kind of answer, one value a round."""

    rate: list[float] = field(default_factory=list)  # complete answers a second, all clients
    alone_ms: list[float] = field(default_factory=list)  # median latency of one client
    processor_ms: list[float] = field(default_factory=list)  # an answer, all clients


@contextmanager
def peer(folder: Path, *, points: int, dims: list[int]) -> Iterator[Running]:
    """Run the peer inside the block."""
    log = folder / "peer.log"
    with log.open("w", encoding="utf-8") as output:
        command = [sys.executable, "-m", "benchmarks.service.bare_peer", str(points), *map(str, dims)]
        # One thread a multiplication: with more, sixteen callers' threads wait for each other, and it is five times slower.
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True, env=alone)
        try:
            yield Running(process, started_url(process, log), log)
        finally:
            process.terminate()
            process.wait(60)


def processor_s(server: Running) -> float:
    """Return the processor seconds that all processes of a server have used."""
    main = psutil.Process(server.process.pid)
    total = 0.0
    for process in [main, *main.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has ended meanwhile
            continue
        total += times.user + times.system
    return total


async def measure_round(server: Running, body: Mapping[str, Any], rounds: Rounds, *, clients: int, seconds: float) -> None:
    """Ask with one client, then with all, and add what was measured.

    Raises:
        SystemExit: no answer was complete, so that there is nothing to compare.
    """
    generator, ask = Generator(server.url), query_mix(deadline=_DEADLINE_S, body=body)
    await generator.saturate(ask, clients=clients, seconds=_WARM_S)
    alone = await generator.saturate(ask, clients=1, seconds=seconds / 2)
    before = processor_s(server)
    answered = await generator.saturate(ask, clients=clients, seconds=seconds)
    processor = processor_s(server) - before
    complete = [outcome for outcome in answered if outcome.verdict is Verdict.COMPLETE]
    if not complete:
        raise SystemExit(f"no answer of {server.url} is complete: {reasons(answered) or 'something is left out of each'}")
    took = max(outcome.ended for outcome in answered) - min(outcome.sent for outcome in answered)
    rounds.rate.append(len(complete) / took)
    rounds.alone_ms.append(statistics.median(outcome.latency for outcome in alone) * 1000)
    rounds.processor_ms.append(processor / max(1, len(answered)) * 1000)


def _wait_for(service: Running, processes: int) -> None:
    """Return when so many processes answer searches.

    Raises:
        SystemExit: they do not within two minutes.
    """
    until = time.monotonic() + _WORKERS_S
    while time.monotonic() < until:
        if f"\nlodestone_answering_processes {processes}.0" in httpx.get(f"{service.url}/metrics").text or processes == 1:
            return
        time.sleep(_POLL_S)
    raise SystemExit(f"{processes} processes do not answer searches: see {service.log}")


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home, run both servers, and ask them in turns."""
    with tempfile.TemporaryDirectory() as folder:
        flags = flags_for(options.home or Path(folder) / "home", serve={"processes": options.processes})
        if options.home is None:
            fill_home(flags, points=options.points, captioned=options.captioned)
        with Runtime.open(settings_of(flags)) as runtime:
            dims = [projection.dim for projection in runtime.projections().values()]
        measured = {(server, kind): Rounds() for server in (SERVICE, PEER) for kind in KINDS}
        with peer(Path(folder), points=options.points, dims=dims) as bare, running(flags, host=options.host) as service:
            _wait_for(service, options.processes)
            for _ in range(options.rounds):
                for kind, body in KINDS.items():
                    for name, server in ((PEER, bare), (SERVICE, service)):
                        work = measure_round(
                            server, body, measured[name, kind], clients=options.clients, seconds=options.seconds
                        )
                        asyncio.run(work)
    report.text(f"{options.points} pictures in {len(dims)} spaces of {dims} numbers, {options.clients} clients at once.")
    rows = [["", "answers/s", "p50 of one client, ms", "processor ms an answer"]]
    for (asked, kind), rounds in measured.items():
        rows.append([f"{kind}, {asked}", spread(rounds.rate), spread(rounds.alone_ms), spread(rounds.processor_ms)])
    report.text(table(rows))
    for kind in KINDS:
        own, bare_rounds = measured[SERVICE, kind], measured[PEER, kind]
        report.record("answers a second", own.rate, case=kind)
        report.record("answers a second of the peer", bare_rounds.rate, case=kind)
        shares = [one / other for one, other in zip(own.rate, bare_rounds.rate, strict=True)]
        report.record("share of the peer", shares, case=kind)
        report.record("latency of one client", own.alone_ms, case=kind)
        report.record("processor time an answer", own.processor_ms, case=kind)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0, help="of all clients at once, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--host", choices=("serve", "ray"), default="serve", help="ray: Lodestone on Ray Serve")
    parser.add_argument("--processes", type=int, default=1, help="processes of the service that answer")
    parser.add_argument("--home", type=Path, help="a home that is filled already")


BENCHMARK = Benchmark(
    name="service_peer",
    about=__doc__,
    figures=(
        Figure("answers a second", "answers/s", peer="the bare server"),
        Figure("answers a second of the peer", "answers/s"),
        Figure("share of the peer", "share", peer="the bare server"),
        Figure("latency of one client", "ms"),
        Figure("processor time an answer", "ms"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
