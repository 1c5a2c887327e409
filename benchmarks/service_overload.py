"""What is still answered when far more is asked than can be? Goodput at up to three times saturation.

    python -m benchmarks.service_overload [--deadline 2] [--seconds 20] [--write docs/load.md]

Goodput is the number of answers a second that came within their deadline, which counts from when a request was due. The
service is first saturated by 16 clients in a closed loop, then offered .5 to 3 times that, open loop. Its peer, in the same
run, is the same service with admission wide open: everything is let in, as by a server that knows no shedding. What is asked
for: goodput at 3 x is at least .9 of its peak, and p99 of what is answered is within the deadline.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import Verdict
from benchmarks.loading.pages import publish, report
from benchmarks.loading.questions import request_context
from benchmarks.loading.service import fill_home, flags_for, running, settings_of
from benchmarks.loading.steps import Measured, measure, milliseconds, rows, saturation, share
from benchmarks.loading.summary import Summary, reasons

STEPS = (0.5, 1.0, 1.5, 2.0, 3.0)
KEPT, WITHIN = 0.9, 1.0  # of the peak at the last step; p99 of answers, of the deadline
OURS, PEER = "Lodestone", "peer: everything let in"
_OPEN: Mapping[str, Any] = {"max_ongoing": 4_096, "max_queued": 0, "load": {"text_only_from": 1.0, "adaptive": False}}


async def overload(url: str, chosen: argparse.Namespace, peak: float | None) -> tuple[float, Measured]:
    """Goodput at multiples of `peak`, or of what saturates the service at `url`."""
    ask = request_context(deadline=chosen.deadline, seed=chosen.seed)
    generator = Generator(url)
    # Found with a deadline that nobody misses: saturation is what the machine can do, not what a client waits for.
    found = peak or await saturation(generator, request_context(deadline=30.0, seed=chosen.seed), seconds=chosen.seconds)
    if peak is not None:
        await generator.saturate(ask, clients=4, seconds=min(5.0, chosen.seconds))
    rates = [(f"{step:g} x", step * found) for step in chosen.steps]
    return found, await measure(generator, ask, rates, seconds=chosen.seconds, pause=chosen.deadline, seed=chosen.seed)


def cells(summary: Summary) -> list[str]:
    """Columns of a step."""
    return [
        f"{summary.goodput:.1f}",
        milliseconds(summary.p50),
        milliseconds(summary.p99),
        share(summary.share_of_answers(Verdict.TEXT_ONLY)),
        share(summary.share(Verdict.SHED)),
        share(summary.share(Verdict.EXPIRED)),
        share(summary.share(Verdict.LATE)),
        share(summary.share(Verdict.FAILED, Verdict.HUNG, Verdict.UNSENT)),
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
    "told to wait, s",
    "generator late p99, ms",
)


def verdict(summaries: Sequence[Summary], *, deadline: float) -> str:
    """Whether the goals are met, in a sentence each."""
    peak = max(one.goodput for one in summaries)
    kept = summaries[-1].goodput / peak if peak else 0.0
    slowest = max(one.p99 for one in summaries if one.p99 == one.p99) / 1000
    return (
        f"goodput at {summaries[-1].name} is {kept:.2f} of its peak ({KEPT:g} asked for: {'yes' if kept >= KEPT else 'NO'}); "
        f"p99 of answers is at most {slowest:.2f} s of {deadline:g} s ({'yes' if slowest <= WITHIN * deadline else 'NO'})"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a home, overload the service and its peer, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each step")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds that each request allows")
    parser.add_argument("--ongoing", type=int, help="serve.max_ongoing; default: the service's")
    parser.add_argument("--queued", type=int, help="serve.max_queued; default: the service's")
    parser.add_argument("--steps", type=float, nargs="+", default=STEPS, help="multiples of saturation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--write", type=Path, help="a page with a section `overload`; the plot goes beside it")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    own = {name: value for name, value in (("max_ongoing", chosen.ongoing), ("max_queued", chosen.queued)) if value is not None}
    found: dict[str, Measured] = {}
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fill_home(flags_for(home), points=chosen.points, captioned=chosen.captioned)
        peak = None
        for name, limits in ((OURS, own), (PEER, _OPEN)):
            if name == PEER and chosen.no_peer:
                continue
            flags = flags_for(home, serve=limits)
            serve = settings_of(flags).serve
            notes.append(f"{name}: `serve.max_ongoing` {serve.max_ongoing}, `serve.max_queued` {serve.max_queued}.")
            with running(flags) as service:
                peak, found[name] = asyncio.run(overload(service.url, chosen, peak))
            notes.append(f"{name}: {verdict(found[name].summaries, deadline=chosen.deadline)}.")
            if why := reasons([one for one in found[name].outcomes if one.verdict == Verdict.FAILED]):
                notes.append(f"{name}, failed: {why}.")
    if chosen.json:
        print(json.dumps({name: [one.as_json() for one in it.summaries] for name, it in found.items()}))
        return
    said = f"{chosen.points:,} pictures, {peak:.1f} answers/s saturate"
    head = f"{said}, deadline {chosen.deadline:g} s, steps of {chosen.seconds:g} s."
    tables = [f"{name}:\n\n" + rows(HEADING, it.summaries, cells) for name, it in found.items()]
    image = ""
    if chosen.write:
        path = chosen.write.with_name("load-overload.png")
        series = {name: it.summaries for name, it in found.items()}
        plots.goodput_against_load(series, path, deadline=chosen.deadline, title=head)
        image = f"![Goodput against offered load]({path.name})"
    publish(chosen.write, "overload", report(head, *tables, "\n".join(f"- {note}" for note in notes), image))


if __name__ == "__main__":
    main()
