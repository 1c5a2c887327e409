"""What do clients see while parts of the service are killed? Errors, seconds until all is well, wrong answers, hangs.

    python -m benchmarks.service_disturbed [--rate 4] [--shape app|graph] [--rounds 1] [--write docs/load.md]

A real service on Ray Serve, a Qdrant cluster of three nodes (two copies of everything) and PostgreSQL. While requests arrive
at a steady rate, a replica of each deployment, Serve's proxy, one Qdrant node and PostgreSQL are killed (SIGKILL) in an order
drawn from the seed; the servers are started again after a while, replicas and proxy by Ray Serve. Every answer is compared
with what the undisturbed service said to the same question. Nobody retries: what a client that does would hide is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.loading import plots
from benchmarks.loading.disturbing import Disturbed, disturbed_load, plan, service_faults
from benchmarks.loading.pages import publish, report
from benchmarks.loading.recovery import Aftermath, aftermaths
from benchmarks.loading.service import fill_home, flags_for, running
from benchmarks.loading.stand import run_stand
from benchmarks.loading.steps import share
from benchmarks.loading.summary import reasons, summarise
from benchmarks.machine import table
from benchmarks.query_latency import sentences

QUESTIONS = 12
_GRAPH = {
    "shape": "graph",
    "ingress": {"min_replicas": 2, "max_replicas": 2, "cpus": 0.25},
    "encoders": {"min_replicas": 2, "max_replicas": 2, "cpus": 0.25},
}


def measure(folder: Path, chosen: argparse.Namespace, *, seed: int) -> tuple[Disturbed, list[Aftermath]]:
    """One round on servers and a service of its own."""
    with run_stand(folder) as stand:
        graph = {"graph": _GRAPH} if chosen.shape == "graph" else {}
        flags = flags_for(folder / "home", serve=graph, **stand.sections)
        fill_home(flags, points=chosen.points, captioned=chosen.captioned)
        with running(flags) as service:
            faults = [*service_faults(service, seed=seed), *stand.faults(seed=seed)]
            planned = plan(faults, seed=seed, rest=chosen.rest, down=chosen.down)
            load = disturbed_load(
                service.url,
                sentences(QUESTIONS),
                planned,
                rate=chosen.rate,
                deadline=chosen.deadline,
                patience=chosen.patience,
                seed=seed,
            )
            found = asyncio.run(load)
    return found, aftermaths(found.outcomes, found.struck, end=found.seconds, reference=found.reference)


def cells(row: Aftermath) -> list[str]:
    """A row of the table."""
    return [
        row.fault.name,
        "-" if row.fault.mended is None else f"{row.fault.mended - row.fault.at:.1f}",
        str(row.requests),
        str(row.failed),
        share(row.error_rate),
        f"{row.recovery:.1f}" if row.recovered else "not until the end",
        f"{row.silence:.1f}",
        str(row.shed),
        str(row.wrong),
        str(row.hung),
    ]


HEADING = (
    "killed",
    "started again after, s",
    "requests until the next",
    "failed",
    "error rate",
    "recovered after, s",
    "longest without an answer, s",
    "429",
    "wrong answers",
    "hangs past the deadline",
)


def as_json(row: Aftermath) -> dict[str, Any]:
    """For machines."""
    return {**asdict(row), "error_rate": round(row.error_rate, 4)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if an answer was wrong, a request hung, or something did not recover."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second; well below what the machine can do")
    parser.add_argument("--deadline", type=float, default=5.0, help="seconds that each request allows")
    parser.add_argument("--rest", type=float, default=8.0, help="seconds before each fault in which all is well")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that a fault may last before the next one comes")
    parser.add_argument("--down", type=float, default=8.0, help="seconds until a killed server is started again")
    parser.add_argument("--shape", choices=("app", "graph"), default="app", help="graph: two replicas of each stage")
    parser.add_argument("--rounds", type=int, default=1, help="each with a seed of its own, and in another order")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="a page with a section `disturbed` (graph: `disturbed-graph`)")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    found: list[tuple[Disturbed, list[Aftermath]]] = []
    for seed in range(chosen.seed, chosen.seed + chosen.rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder), chosen, seed=seed))
    every = [row for _, several in found for row in several]
    if chosen.json:
        print(json.dumps([as_json(row) for row in every], default=str))
    else:
        _publish(found, every, chosen)
    return 0 if not any(row.wrong or row.hung or not row.recovered for row in every) else 1


def _publish(
    found: Sequence[tuple[Disturbed, list[Aftermath]]], every: Sequence[Aftermath], chosen: argparse.Namespace
) -> None:
    section = "disturbed" if chosen.shape == "app" else "disturbed-graph"
    outcomes = [one for disturbed, _ in found for one in disturbed.outcomes]
    whole = summarise(outcomes, name="all", seconds=sum(disturbed.seconds for disturbed, _ in found))
    head = f"{chosen.rate:g} requests/s, deadline {chosen.deadline:g} s, shape `{chosen.shape}`, {chosen.points:,} pictures."
    counts = ", ".join(f"{count} {verdict}" for verdict, count in whole.verdicts.most_common())
    image = ""
    if chosen.write:
        path = chosen.write.with_name(f"load-{section}.png")
        first, _ = found[0]
        plots.timeline(first.outcomes, first.struck, path, title=head)
        image = f"![Requests while parts are killed]({path.name})"
    rows = table([HEADING, *(cells(row) for row in every)])
    said = f"{whole.requests} requests: {counts}. Without an answer: {reasons(outcomes) or 'none'}."
    wrong = [
        f"- wrong: {disturbed.reference.difference(one)}"
        for disturbed, _ in found
        for one in disturbed.outcomes
        if disturbed.reference.contradicted_by(one)
    ]
    publish(chosen.write, section, report(head, rows, said, "\n".join(wrong), image))


if __name__ == "__main__":
    sys.exit(main())
