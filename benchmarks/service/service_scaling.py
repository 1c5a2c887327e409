"""Time from a step in load to the second replica, and requests lost while that replica is drained again.

    python -m benchmarks.service.service_scaling [--stage ingress|encoders] [--low 1] [--high 8] [--write docs/load.md]

The service has the shape `graph` on Ray Serve; one stage may have one replica or two. A light load is followed by a heavy one,
and by the light one again until the added replica is gone. The report gives the seconds from the step until Serve decides (its
interval of reports and the stage's `upscale_delay_s`) and until the replica answers (a process, imports, models), and how every
request ended, in particular those sent while the replica was drained. The ingress scales by its busy queries, and so has Qdrant
nodes and PostgreSQL behind it; the encoders scale by the occupancy of their passes. The peer is the same load with a single
replica throughout.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import Outcome, Verdict
from benchmarks.loading.questions import query_mix
from benchmarks.loading.schedule import Phase, arrivals
from benchmarks.loading.service import fill_home, flags_for, running
from benchmarks.loading.stand import run_stand
from benchmarks.loading.steps import milliseconds, rows, share
from benchmarks.loading.summary import Summary, by_phase, errors, reasons

DEPLOYMENTS = {"ingress": "Ingress", "encoders": "Encoders"}
TARGETS = {"ingress": "target_ongoing", "encoders": "target_occupancy"}
LIGHT, HEAVY, AGAIN = "light", "heavy", "light again"
Seen = tuple[float, int, int]  # seconds of the load, replicas of any state, those that serve


@dataclass(frozen=True)
class Scaled:
    """Requests and replicas of one run.

    Attributes:
        summaries: One for each phase.
        outcomes: All requests.
        seen: Numbers of replicas at every change.
        step: When the heavy load began, seconds of the load.
        calm: When it ended, seconds of the load.
    """

    summaries: list[Summary]
    outcomes: list[Outcome]
    seen: list[Seen]
    step: float
    calm: float

    def added(self, place: int) -> float | None:
        """Return the seconds from the step until there were two replicas: of any state (`place` 1), or serving (2)."""
        return next((counts[0] - self.step for counts in self.seen if counts[0] >= self.step and counts[place] > 1), None)

    def removed(self, place: int) -> float | None:
        """Return the seconds from the end of the load, or from the second replica if that came later, until there was one."""
        added = self.added(place)
        if added is None:
            return None
        begin = max(self.calm, self.step + added)
        return next((counts[0] - begin for counts in self.seen if counts[0] > begin and counts[place] == 1), None)

    @property
    def lost(self) -> list[Outcome]:
        """Return the requests that failed."""
        return errors(self.outcomes)


def scale(chosen: argparse.Namespace, *, most: int) -> Scaled:
    """Offer the load, with up to `most` replicas of the stage."""
    with tempfile.TemporaryDirectory() as folder, _behind(Path(folder), chosen.stage) as sections:
        small = {"cpus": 0.25, "min_replicas": 1, "max_replicas": 1}
        delays = {"upscale_delay_s": chosen.upscale_delay, "downscale_delay_s": chosen.downscale_delay}
        stages: dict[str, Any] = {"ingress": small, "encoders": small}
        stages[chosen.stage] = {**small, **delays, "max_replicas": most, TARGETS[chosen.stage]: chosen.target}
        flags = flags_for(Path(folder) / "home", serve={"graph": {"shape": "graph", **stages}}, **sections)
        fill_home(flags, points=chosen.points, captioned=chosen.captioned)
        phases = [
            Phase(chosen.low, chosen.light, LIGHT),
            Phase(chosen.high, chosen.heavy, HEAVY),
            Phase(chosen.low, chosen.again, AGAIN),
        ]
        with running(flags, host="watched") as service:
            ask = query_mix(deadline=chosen.deadline, seed=chosen.seed, streams=0.25)
            began = time.time()  # the load's clock and the watcher's differ by less than a look of the watcher
            outcomes = asyncio.run(Generator(service.url).offer(arrivals(phases, seed=chosen.seed), ask))
            name = DEPLOYMENTS[chosen.stage]
            seen = [(at - began, *_counts(states.get(name, {}))) for at, states in service.replicas()]
    step = chosen.light
    return Scaled(by_phase(outcomes, phases), outcomes, seen, step, step + chosen.heavy)


def _counts(states: dict[str, int]) -> tuple[int, int]:
    return sum(states.values()), states.get("RUNNING", 0)


@contextmanager
def _behind(folder: Path, stage: str) -> Iterator[dict[str, Any]]:
    """Run the servers that several replicas of the ingress must share: a store and a catalog."""
    if stage == "encoders":
        yield {}
        return
    with run_stand(folder) as stand:
        yield dict(stand.sections)


def cells(summary: Summary) -> list[str]:
    """Return the columns of a phase."""
    return [
        f"{summary.goodput:.1f}",
        milliseconds(summary.p50),
        milliseconds(summary.p99),
        share(summary.share(Verdict.SHED)),
        str(sum(summary.verdicts[verdict] for verdict in (Verdict.FAILED, Verdict.HUNG, Verdict.EXPIRED, Verdict.LATE))),
    ]


HEADING = ("answered in time/s", "p50, ms", "p99, ms", "429", "failed or late")


def explained(run: Scaled, *, upscale_delay: float, downscale_delay: float) -> list[str]:
    """Return the moments of scaling, in sentences."""

    def seconds(value: float | None) -> str:
        return "never" if value is None else f"{value:.1f} s"

    decided, serving = run.added(1), run.added(2)
    stopping, gone = run.removed(2), run.removed(1)
    started = None if serving is None or decided is None else serving - decided
    during = [outcome for outcome in run.outcomes if outcome.due >= run.calm]
    return [
        f"From the step to the decision {seconds(decided)} (reports every 2 s, `upscale_delay_s` {upscale_delay:g}).",
        f"From the decision to the added replica serving {seconds(started)}: a process, imports, models, warm-up.",
        f"From the step to the added replica serving {seconds(serving)}.",
        f"From the end of the load until it got no new requests {seconds(stopping)} (`downscale_delay_s` {downscale_delay:g}).",
        f"From the end of the load until it was gone {seconds(gone)}.",
        f"Requests lost: {len(run.lost)} of {len(run.outcomes)}; {len(errors(during))} of the {len(during)} after it ended.",
        *([f"Why: {reasons(run.lost)}."] if run.lost else []),
    ]


def measure(options: argparse.Namespace, report: Report) -> int:
    """Run with up to two replicas, then with one; return 1 if a request was lost, or no replica was added and removed."""
    scaled = scale(options, most=2)
    peer = None if options.no_peer else scale(options, most=1)
    steps = f"{options.low:g}, {options.high:g} and again {options.low:g} requests/s"
    head = f"Stage `{options.stage}`, {steps}, {options.points:,} pictures, `{TARGETS[options.stage]}` {options.target:g}."
    sentences = explained(scaled, upscale_delay=options.upscale_delay, downscale_delay=options.downscale_delay)
    report.text(head, "\n".join(f"- {sentence}" for sentence in sentences))
    report.text("Up to two replicas:", rows(HEADING, scaled.summaries, cells))
    if peer is not None:
        report.text("Peer, one replica all the time:", rows(HEADING, peer.summaries, cells))
    serving, gone = scaled.added(2), scaled.removed(1)
    report.record("requests lost", len(scaled.lost))
    report.record("replica added and removed again", int(serving is not None and gone is not None))
    if serving is not None:
        report.record("from the step to the added replica serving", serving)
    if gone is not None:
        report.record("from the end of the load until the replica was gone", gone)
    report.detail("phases", [summary.as_json() for summary in scaled.summaries])
    if options.write:
        path = options.write.with_name("load-scaling.png")
        moments = [(scaled.step, "more load"), (scaled.calm, "less load")]
        plots.steps(moments, scaled.outcomes, scaled.seen, path, title=head)
        report.text(f"![Latency and replicas]({path.name})")
    return 0 if None not in {serving, gone} and not scaled.lost else 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--stage", choices=tuple(DEPLOYMENTS), default="ingress")
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--low", type=float, default=1.0, help="requests a second of the light load")
    parser.add_argument("--high", type=float, default=8.0, help="requests a second of the heavy load")
    parser.add_argument("--light", type=float, default=15.0, help="seconds of light load before the step")
    parser.add_argument("--heavy", type=float, default=90.0, help="seconds of heavy load")
    parser.add_argument("--again", type=float, default=90.0, help="seconds of light load afterwards")
    parser.add_argument("--target", type=float, default=0.5, help="calls that a replica should have: more of them add one")
    parser.add_argument("--upscale-delay", type=float, default=2.0)
    parser.add_argument("--downscale-delay", type=float, default=10.0)
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that each request allows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")


BENCHMARK = Benchmark(
    name="service_scaling",
    about=__doc__,
    figures=(
        Figure("requests lost", "count"),
        Figure("replica added and removed again", "count"),
        Figure("from the step to the added replica serving", "s"),
        Figure("from the end of the load until the replica was gone", "s"),
    ),
    options=add_options,
    measure=measure,
    section="scaling",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
