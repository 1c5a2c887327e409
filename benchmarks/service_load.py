"""How long do answers take at a given load? Latency against offered rate, over HTTP, open loop.

    python -m benchmarks.service_load [--points 10000] [--seconds 30] [--streams 0.25] [--write docs/load.md]

A real service on Ray Serve over a home filled as in `benchmarks.query_latency`, and as its peer the same app over the same
home on uvicorn alone, at the same rates: shares of what saturates the service. Requests are sent at moments drawn beforehand,
and latency counts from when a request was due. Prints percentiles, what was dropped, and how late the generator itself was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import ERRORS, Verdict
from benchmarks.loading.pages import publish, report
from benchmarks.loading.questions import request_context
from benchmarks.loading.service import Host, fill_home, flags_for, running
from benchmarks.loading.steps import Measured, measure, milliseconds, rows, saturation, share
from benchmarks.loading.summary import Summary

STEPS = (0.1, 0.25, 0.5, 0.75, 0.9)
HOSTS: Sequence[tuple[Host, str]] = (("serve", "Lodestone (Ray Serve)"), ("uvicorn", "peer: the same app on uvicorn alone"))


async def load(url: str, chosen: argparse.Namespace, peak: float | None) -> tuple[float, Measured]:
    """What saturates the service at `url` (unless it is known), and its latencies at shares of `peak`."""
    ask = request_context(deadline=chosen.deadline, seed=chosen.seed, streams=chosen.streams)
    generator = Generator(url)
    found = await saturation(generator, ask, seconds=chosen.seconds / 2)
    rates = [(f"{step:g} x", step * (peak or found)) for step in STEPS]
    return found, await measure(generator, ask, rates, seconds=chosen.seconds, pause=chosen.pause, seed=chosen.seed)


def cells(summary: Summary) -> list[str]:
    """Columns of a step."""
    return [
        *(milliseconds(value) for value in (summary.first_p50, summary.p50, summary.p95, summary.p99, summary.longest)),
        share(summary.share(Verdict.COMPLETE)),
        share(summary.share(*ERRORS)),
        milliseconds(summary.lateness_p99),
    ]


HEADING = ("first results p50, ms", "p50", "p95", "p99", "longest", "complete", "failed", "generator late p99")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a home, load it on both hosts, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each step")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds without load after each step")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that each request allows")
    parser.add_argument("--streams", type=float, default=0.25, help="share of requests that are streamed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="a page with a section `load`; the plot goes beside it")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    found: dict[str, tuple[float, Measured]] = {}
    with tempfile.TemporaryDirectory() as folder:
        flags = flags_for(Path(folder))
        fill_home(flags, points=chosen.points, captioned=chosen.captioned)
        peak = None
        for host, name in HOSTS:
            with running(flags, host=host) as service:
                found[name] = asyncio.run(load(service.url, chosen, peak))
            peak = peak or found[name][0]
    if chosen.json:
        print(json.dumps({name: [one.as_json() for one in it.summaries] for name, (_, it) in found.items()}))
        return
    tables = [
        f"{name}: {rate:.1f} answers/s to 16 clients in a closed loop.\n\n" + rows(HEADING, it.summaries, cells)
        for name, (rate, it) in found.items()
    ]
    head = f"{chosen.points:,} pictures, {share(chosen.streams)} of the requests streamed, {chosen.seconds:g} s a step."
    image = ""
    if chosen.write:
        path = chosen.write.with_name("load-latency.png")
        plots.latency_against_load({name: it.summaries for name, (_, it) in found.items()}, path, title=head)
        image = f"![Latency against load]({path.name})"
    publish(chosen.write, "load", report(head, *tables, image))


if __name__ == "__main__":
    main()
