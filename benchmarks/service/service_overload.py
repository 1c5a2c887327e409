"""Goodput of the service at up to eight times the rate that saturates it.

    python -m benchmarks.service.service_overload [--deadline 2] [--seconds 20] [--write docs/load.md]

Goodput is the number of answers a second that came within their deadline, which counts from when a request was due. The
service is first saturated by 16 clients in a closed loop, then offered .5 to 8 times that rate in an open loop. Its peer in the
same run is the same service with admission wide open, up to 3 times: it lets everything in, as a server without load shedding
does. The floors: goodput at 3 x and at 8 x is at least .9 of its peak, p99 of what is answered is within the deadline, and half
of the refusals are there within 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import Verdict
from benchmarks.loading.questions import query_mix
from benchmarks.loading.service import fill_home, flags_for, running, settings_of
from benchmarks.loading.steps import Measured, milliseconds, offer_steps, rows, saturation, share
from benchmarks.loading.summary import Summary, reasons

STEPS = (0.5, 1.0, 1.5, 2.0, 3.0, 8.0)
MIDDLE = 3.0
"""Multiple of saturation whose goodput is a figure of its own, and the last one at which everything is let in."""

LODESTONE, PEER = "Lodestone", "peer: everything let in"
_OPEN: Mapping[str, Any] = {"max_ongoing": 4_096, "max_queued": 0, "load": {"text_only_from": 1.0, "adaptive": False}}


async def overload(url: str, chosen: argparse.Namespace, peak: float | None, steps: Sequence[float]) -> tuple[float, Measured]:
    """Return the rate that saturates the service at `url` (or `peak`, if given), and goodput at multiples of it."""
    ask = query_mix(deadline=chosen.deadline, seed=chosen.seed)
    generator = Generator(url)
    # With a deadline that no request misses: saturation is what the machine can do, not what a client waits for.
    saturating = peak or await saturation(generator, query_mix(deadline=30.0, seed=chosen.seed), seconds=chosen.seconds)
    if peak is not None:
        await generator.saturate(ask, clients=4, seconds=min(5.0, chosen.seconds))
    rates = [(f"{step:g} x", step * saturating) for step in steps]
    return saturating, await offer_steps(generator, ask, rates, seconds=chosen.seconds, pause=chosen.deadline, seed=chosen.seed)


def cells(summary: Summary) -> list[str]:
    """Return the columns of a step."""
    return [
        f"{summary.goodput:.1f}",
        milliseconds(summary.p50),
        milliseconds(summary.p99),
        share(summary.share_of_answers(Verdict.TEXT_ONLY)),
        share(summary.share(Verdict.SHED)),
        share(summary.share(Verdict.EXPIRED)),
        share(summary.share(Verdict.LATE)),
        share(summary.share(Verdict.FAILED, Verdict.HUNG, Verdict.UNSENT)),
        milliseconds(summary.refused_p50),
        "-" if summary.retry_after != summary.retry_after else f"{summary.retry_after:.0f}",
        milliseconds(summary.lateness_p99),
    ]


HEADING = (
    "goodput/s",
    "p50, ms",
    "p99, ms",
    "without guides, of answers",
    "429",
    "504",
    "late",
    "failed or silent",
    "429 p50, ms",
    "told to wait, s",
    "generator late p99, ms",
)


def goodput_kept(summaries: Sequence[Summary], *, place: int = -1) -> float:
    """Return the goodput of one step, by default the last one, as a share of the highest goodput of any step."""
    peak = max(summary.goodput for summary in summaries)
    return summaries[place].goodput / peak if peak else 0.0


def slowest_p99(summaries: Sequence[Summary]) -> float:
    """Return the highest p99 of all steps, seconds."""
    return max(summary.p99 for summary in summaries if not math.isnan(summary.p99)) / 1000


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home, and overload the service and its peer."""
    own = {"max_ongoing": options.ongoing, "max_queued": options.queued}
    configurations: list[tuple[str, Mapping[str, Any]]] = [(LODESTONE, {k: v for k, v in own.items() if v is not None})]
    configurations += [] if options.no_peer else [(PEER, _OPEN)]
    results: dict[str, Measured] = {}
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fill_home(flags_for(home), points=options.points, captioned=options.captioned)
        peak = None
        for name, limits in configurations:
            flags = flags_for(home, serve=limits)
            serve = settings_of(flags).serve
            notes.append(f"{name}: `serve.max_ongoing` {serve.max_ongoing}, `serve.max_queued` {serve.max_queued}.")
            with running(flags) as service:
                steps = options.steps if name == LODESTONE else [step for step in options.steps if step <= MIDDLE]
                peak, results[name] = asyncio.run(overload(service.url, options, peak, steps))
            if why := reasons([outcome for outcome in results[name].outcomes if outcome.verdict == Verdict.FAILED]):
                notes.append(f"{name}, failed: {why}.")
    saturating = f"{options.points:,} pictures, {peak:.1f} answers/s saturate"
    head = f"{saturating}, deadline {options.deadline:g} s, steps of {options.seconds:g} s."
    report.text(head)
    for name, measured in results.items():
        report.text(f"{name}:", rows(HEADING, measured.summaries, cells))
        report.record("goodput at the last step / at its peak", goodput_kept(measured.summaries), case=name)
        if name == LODESTONE and MIDDLE in options.steps:
            kept = goodput_kept(measured.summaries, place=list(options.steps).index(MIDDLE))
            report.record("goodput at 3 x / at its peak", kept, case=name)
        if refused := [one.refused_p50 for one in measured.summaries if not math.isnan(one.refused_p50)]:
            report.record("slowest p50 of refusals", max(refused), case=name)
        report.record("slowest p99 / deadline", slowest_p99(measured.summaries) / options.deadline, case=name)
    report.text("\n".join(f"- {note}" for note in notes))
    report.detail("phases", {name: [summary.as_json() for summary in run.summaries] for name, run in results.items()})
    if options.write:
        path = options.write.with_name("load-overload.png")
        series = {name: measured.summaries for name, measured in results.items()}
        plots.goodput_against_load(series, path, deadline=options.deadline, title=head)
        report.text(f"![Goodput against offered load]({path.name})")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each step")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds that each request allows")
    parser.add_argument("--ongoing", type=int, help="serve.max_ongoing; default: the service's")
    parser.add_argument("--queued", type=int, help="serve.max_queued; default: the service's")
    parser.add_argument("--steps", type=float, nargs="+", default=STEPS, help="multiples of saturation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")


BENCHMARK = Benchmark(
    name="service_overload",
    about=__doc__,
    figures=(
        Figure("goodput at the last step / at its peak", "ratio", peer="the highest goodput of any step"),
        Figure("goodput at 3 x / at its peak", "ratio", peer="the highest goodput of any step"),
        Figure("slowest p50 of refusals", "ms", peer="the deadline of each request"),
        Figure("slowest p99 / deadline", "ratio", peer="the deadline of each request"),
    ),
    options=add_options,
    measure=measure,
    section="overload",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
