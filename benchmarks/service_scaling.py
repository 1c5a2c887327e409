"""How soon does a step in load have its second replica, and is a request lost when that one goes again?

    python -m benchmarks.service_scaling [--stage ingress|encoders] [--low 1] [--high 8] [--write docs/load.md]

The shape `graph` on Ray Serve, one stage of which may have one replica or two. A light load, a step to a heavy one, and back
to the light one until the added replica is gone. Prints seconds from the step until Serve decides (its interval of reports and
the stage's `upscale_delay_s`), until the replica answers (a process, imports, models), and what became of every request,
those sent while the replica was drained in particular. The ingress scales by its busy queries, and so has Qdrant nodes and
PostgreSQL behind it; the encoders scale by ongoing calls. The peer is the same load with a single replica all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loading import plots
from benchmarks.loading.generator import Generator
from benchmarks.loading.outcomes import Outcome, Verdict
from benchmarks.loading.pages import publish, report
from benchmarks.loading.questions import request_context
from benchmarks.loading.schedule import Phase, arrivals
from benchmarks.loading.service import fill_home, flags_for, running
from benchmarks.loading.stand import run_stand
from benchmarks.loading.steps import milliseconds, rows, share
from benchmarks.loading.summary import Summary, by_phase, errors, reasons

DEPLOYMENTS = {"ingress": "Ingress", "encoders": "Encoders"}
LIGHT, HEAVY, AGAIN = "light", "heavy", "light again"
Seen = tuple[float, int, int]  # seconds of the load, replicas of any state, those that serve


@dataclass(frozen=True)
class Scaled:
    """One run."""

    summaries: list[Summary]
    outcomes: list[Outcome]
    seen: list[Seen]
    step: float
    calm: float

    def added(self, place: int) -> float | None:
        """Seconds from the step until there were two replicas: of any state (`place` 1), or serving (2)."""
        return next((one[0] - self.step for one in self.seen if one[0] >= self.step and one[place] > 1), None)

    def removed(self, place: int) -> float | None:
        """Seconds from the end of the load, or from the coming of the second replica if later, until there was one again."""
        there = self.added(place)
        begin = None if there is None else max(self.calm, self.step + there)
        return next((one[0] - begin for one in self.seen if begin is not None and one[0] > begin and one[place] == 1), None)

    @property
    def lost(self) -> list[Outcome]:
        """Requests that failed."""
        return errors(self.outcomes)


def scale(chosen: argparse.Namespace, *, most: int) -> Scaled:
    """The load, with up to `most` replicas of the stage."""
    with tempfile.TemporaryDirectory() as folder, _behind(Path(folder), chosen.stage) as sections:
        small = {"cpus": 0.25, "min_replicas": 1, "max_replicas": 1}
        delays = {"upscale_delay_s": chosen.upscale_delay, "downscale_delay_s": chosen.downscale_delay}
        stages: dict[str, Any] = {"ingress": small, "encoders": small}
        stages[chosen.stage] = {**small, **delays, "max_replicas": most, "target_ongoing": chosen.target}
        flags = flags_for(Path(folder) / "home", serve={"graph": {"shape": "graph", **stages}}, **sections)
        fill_home(flags, points=chosen.points, captioned=chosen.captioned)
        phases = [
            Phase(chosen.low, chosen.light, LIGHT),
            Phase(chosen.high, chosen.heavy, HEAVY),
            Phase(chosen.low, chosen.again, AGAIN),
        ]
        with running(flags, host="watched") as service:
            ask = request_context(deadline=chosen.deadline, seed=chosen.seed, streams=0.25)
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
    """Several replicas of the ingress need a store and a catalog that they share."""
    if stage == "encoders":
        yield {}
        return
    with run_stand(folder) as stand:
        yield dict(stand.sections)


def cells(summary: Summary) -> list[str]:
    """Columns of a phase."""
    return [
        f"{summary.goodput:.1f}",
        milliseconds(summary.p50),
        milliseconds(summary.p99),
        share(summary.share(Verdict.SHED)),
        str(sum(summary.verdicts[one] for one in (Verdict.FAILED, Verdict.HUNG, Verdict.EXPIRED, Verdict.LATE))),
    ]


HEADING = ("answered in time/s", "p50, ms", "p99, ms", "429", "failed or late")


def explained(run: Scaled, *, upscale_delay: float, downscale_delay: float) -> list[str]:
    """The moments of scaling, in sentences."""

    def seconds(value: float | None) -> str:
        return "never" if value is None else f"{value:.1f} s"

    decided, serving = run.added(1), run.added(2)
    stopping, gone = run.removed(2), run.removed(1)
    started = None if serving is None or decided is None else serving - decided
    during = [one for one in run.outcomes if one.due >= run.calm]
    return [
        f"From the step to the decision {seconds(decided)} (reports every 2 s, `upscale_delay_s` {upscale_delay:g}).",
        f"From the decision to the added replica serving {seconds(started)}: a process, imports, models, warm-up.",
        f"From the step to the added replica serving {seconds(serving)}.",
        f"From the end of the load until it got no new requests {seconds(stopping)} (`downscale_delay_s` {downscale_delay:g}).",
        f"From the end of the load until it was gone {seconds(gone)}.",
        f"Requests lost: {len(run.lost)} of {len(run.outcomes)}; {len(errors(during))} of the {len(during)} after it ended.",
        *([f"Why: {reasons(run.lost)}."] if run.lost else []),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if a request was lost, or no replica was added and taken away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=tuple(DEPLOYMENTS), default="ingress")
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--low", type=float, default=1.0, help="requests a second of the light load")
    parser.add_argument("--high", type=float, default=8.0, help="of the heavy one")
    parser.add_argument("--light", type=float, default=15.0, help="seconds of light load before the step")
    parser.add_argument("--heavy", type=float, default=90.0, help="seconds of heavy load")
    parser.add_argument("--again", type=float, default=90.0, help="seconds of light load afterwards")
    parser.add_argument("--target", type=float, default=0.5, help="calls that a replica should have: more of them add one")
    parser.add_argument("--upscale-delay", type=float, default=2.0)
    parser.add_argument("--downscale-delay", type=float, default=10.0)
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that each request allows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--write", type=Path, help="a page with a section `scaling`; the plot goes beside it")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    found = scale(chosen, most=2)
    peer = None if chosen.no_peer else scale(chosen, most=1)
    said = explained(found, upscale_delay=chosen.upscale_delay, downscale_delay=chosen.downscale_delay)
    went = found.added(2), found.removed(1)
    if chosen.json:
        print(json.dumps({"phases": [one.as_json() for one in found.summaries], "serving_s": went[0], "gone_s": went[1]}))
    else:
        _publish(found, peer, said, chosen)
    return 0 if None not in went and not found.lost else 1


def _publish(found: Scaled, peer: Scaled | None, said: Sequence[str], chosen: argparse.Namespace) -> None:
    steps = f"{chosen.low:g}, {chosen.high:g} and again {chosen.low:g} requests/s"
    head = f"Stage `{chosen.stage}`, {steps}, {chosen.points:,} pictures, `target_ongoing` {chosen.target:g}."
    tables = ["Up to two replicas:\n\n" + rows(HEADING, found.summaries, cells)]
    if peer is not None:
        tables.append("Peer, one replica all the time:\n\n" + rows(HEADING, peer.summaries, cells))
    image = ""
    if chosen.write:
        path = chosen.write.with_name("load-scaling.png")
        moments = [(found.step, "more load"), (found.calm, "less load")]
        plots.steps(moments, found.outcomes, found.seen, path, title=head)
        image = f"![Latency and replicas]({path.name})"
    publish(chosen.write, "scaling", report(head, "\n".join(f"- {one}" for one in said), *tables, image))


if __name__ == "__main__":
    sys.exit(main())
