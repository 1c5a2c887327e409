"""Latency of the service against the offered rate, over HTTP, in an open loop.

    python -m benchmarks.service.service_load [--points 10000] [--seconds 30] [--streams 0.25] [--write docs/load.md]

A real service runs in one process, and then on Ray Serve, over a home filled as in `benchmarks.query.query_latency`. Its peer
is the same app and home on uvicorn alone, without what stands in front of it. All get the same rates, shares of what saturates
the service. Requests are sent at moments drawn beforehand, and latency counts from when a request was due. The report gives
percentiles, what was dropped, and how late the generator was.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import ERRORS, Verdict
from benchmarks.loading.questions import query_mix
from benchmarks.loading.service import Host, fill_home, flags_for, running
from benchmarks.loading.steps import Measured, milliseconds, offer_steps, rows, saturation, share
from benchmarks.loading.summary import Summary

STEPS = (0.1, 0.25, 0.5, 0.75, 0.9)
HOSTS: Sequence[tuple[Host, str]] = (
    ("serve", "Lodestone"),
    ("ray", "Lodestone on Ray Serve"),
    ("uvicorn", "peer: the same app on uvicorn alone"),
)


async def load(url: str, chosen: argparse.Namespace, peak: float | None) -> tuple[float, Measured]:
    """Return what saturates the service at `url`, and its latencies at shares of `peak` (None: of that saturation)."""
    ask = query_mix(deadline=chosen.deadline, seed=chosen.seed, streams=chosen.streams)
    generator = Generator(url)
    saturating = await saturation(generator, ask, seconds=chosen.seconds / 2)
    rates = [(f"{step:g} x", step * (peak or saturating)) for step in STEPS]
    return saturating, await offer_steps(generator, ask, rates, seconds=chosen.seconds, pause=chosen.pause, seed=chosen.seed)


def cells(summary: Summary) -> list[str]:
    """Return the columns of a step."""
    return [
        *(milliseconds(value) for value in (summary.first_p50, summary.p50, summary.p95, summary.p99, summary.longest)),
        share(summary.share(Verdict.COMPLETE)),
        share(summary.share(*ERRORS)),
        milliseconds(summary.lateness_p99),
    ]


HEADING = ("first results p50, ms", "p50", "p95", "p99", "longest", "complete", "failed", "generator late p99")


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home and offer load to it on every host."""
    results: dict[str, tuple[float, Measured]] = {}
    with tempfile.TemporaryDirectory() as folder:
        flags = flags_for(Path(folder))
        fill_home(flags, points=options.points, captioned=options.captioned)
        peak = None
        for host, name in HOSTS:
            with running(flags, host=host) as service:
                results[name] = asyncio.run(load(service.url, options, peak))
            peak = peak or results[name][0]
    head = f"{options.points:,} pictures, {share(options.streams)} of the requests streamed, {options.seconds:g} s a step."
    report.text(head)
    for name, (rate, measured) in results.items():
        report.text(f"{name}: {rate:.1f} answers/s to 16 clients in a closed loop.", rows(HEADING, measured.summaries, cells))
        report.record("saturation", rate, case=name)
        for summary in measured.summaries:
            report.record("p50", summary.p50, case=f"{name}, {summary.name}")
            report.record("p99", summary.p99, case=f"{name}, {summary.name}")
    report.detail("phases", {name: [summary.as_json() for summary in run.summaries] for name, (_, run) in results.items()})
    if options.write:
        path = options.write.with_name("load-latency.png")
        plots.latency_against_load({name: measured.summaries for name, (_, measured) in results.items()}, path, title=head)
        report.text(f"![Latency against load]({path.name})")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each step")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds without load after each step")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that each request allows")
    parser.add_argument("--streams", type=float, default=0.25, help="share of requests that are streamed")
    parser.add_argument("--seed", type=int, default=0)


BENCHMARK = Benchmark(
    name="service_load",
    about=__doc__,
    figures=(
        Figure("saturation", "answers/s", peer="the same app on uvicorn alone"),
        Figure("p50", "ms", peer="the same app on uvicorn alone"),
        Figure("p99", "ms", peer="the same app on uvicorn alone"),
    ),
    options=add_options,
    measure=measure,
    section="load",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
