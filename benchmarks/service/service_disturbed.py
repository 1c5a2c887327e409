"""Errors, recovery, wrong answers and hangs that clients see while parts of the service are killed.

    python -m benchmarks.service.service_disturbed [--rate 4] [--shape app|graph] [--rounds 1] [--write docs/load.md]

A real service runs on Ray Serve, with a Qdrant cluster of three nodes (two copies of everything) and PostgreSQL. While requests
arrive at a steady rate, a replica of each deployment, Serve's proxy, one Qdrant node and PostgreSQL are killed (SIGKILL) in an
order drawn from the seed. The benchmark starts the servers again after a while; Ray Serve restarts replicas and proxy. Every
answer is compared with the answer of the undisturbed service to the same question. Requests are not retried, because retries
would hide errors.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.data.filled_home import sentences
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import table
from benchmarks.loading import plots
from benchmarks.loading.disturbing import Disturbed, disturbed_load, plan, service_faults
from benchmarks.loading.recovery import Aftermath, aftermaths
from benchmarks.loading.service import fill_home, flags_for, running
from benchmarks.loading.stand import run_stand
from benchmarks.loading.steps import share
from benchmarks.loading.summary import reasons, summarise

QUESTIONS = 12
_GRAPH = {
    "shape": "graph",
    "ingress": {"min_replicas": 2, "max_replicas": 2, "cpus": 0.25},
    "encoders": {"min_replicas": 2, "max_replicas": 2, "cpus": 0.25},
}


def disturb_once(folder: Path, chosen: argparse.Namespace, *, seed: int) -> tuple[Disturbed, list[Aftermath]]:
    """Run one round on servers and a service of its own."""
    with run_stand(folder) as stand:
        graph = {"graph": _GRAPH} if chosen.shape == "graph" else {}
        flags = flags_for(folder / "home", serve=graph, **stand.sections)
        fill_home(flags, points=chosen.points, captioned=chosen.captioned)
        with running(flags, host="ray") as service:
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
            disturbed = asyncio.run(load)
    return disturbed, aftermaths(disturbed.outcomes, disturbed.struck, end=disturbed.seconds, reference=disturbed.reference)


def cells(row: Aftermath) -> list[str]:
    """Return the columns of a fault."""
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
    """Return a fault and what followed as JSON values."""
    return {**asdict(row), "error_rate": round(row.error_rate, 4)}


def measure(options: argparse.Namespace, report: Report) -> int:
    """Run every round; return 1 if an answer was wrong, a request hung, or the service did not recover from a fault."""
    report.section = "disturbed" if options.shape == "app" else "disturbed-graph"
    rounds: list[tuple[Disturbed, list[Aftermath]]] = []
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(disturb_once(Path(folder), options, seed=seed))
    faults = [fault for _, several in rounds for fault in several]
    outcomes = [outcome for disturbed, _ in rounds for outcome in disturbed.outcomes]
    summary = summarise(outcomes, name="all", seconds=sum(disturbed.seconds for disturbed, _ in rounds))
    head = (
        f"{options.rate:g} requests/s, deadline {options.deadline:g} s, shape `{options.shape}`, {options.points:,} pictures."
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary.verdicts.most_common())
    differences = [
        f"- wrong: {disturbed.reference.difference(outcome)}"
        for disturbed, _ in rounds
        for outcome in disturbed.outcomes
        if disturbed.reference.contradicted_by(outcome)
    ]
    report.text(head, table([HEADING, *(cells(fault) for fault in faults)]))
    report.text(f"{summary.requests} requests: {counts}. Without an answer: {reasons(outcomes) or 'none'}.")
    report.text("\n".join(differences))
    report.record("wrong answers", sum(fault.wrong for fault in faults))
    report.record("hangs past the deadline", sum(fault.hung for fault in faults))
    report.record("faults without recovery", sum(not fault.recovered for fault in faults))
    report.record("requests that failed", sum(fault.failed for fault in faults))
    report.record("recovery after a fault", [fault.recovery for fault in faults])
    report.detail("faults", [as_json(fault) for fault in faults])
    if options.write:
        path = options.write.with_name(f"load-{report.section}.png")
        first, _ = rounds[0]
        plots.timeline(first.outcomes, first.struck, path, title=head)
        report.text(f"![Requests while parts are killed]({path.name})")
    return 0 if not any(fault.wrong or fault.hung or not fault.recovered for fault in faults) else 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second; well below what the machine can do")
    parser.add_argument("--deadline", type=float, default=5.0, help="seconds that each request allows")
    parser.add_argument("--rest", type=float, default=8.0, help="seconds without a fault before each fault")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that a fault may last before the next one comes")
    parser.add_argument("--down", type=float, default=8.0, help="seconds until a killed server is started again")
    parser.add_argument("--shape", choices=("app", "graph"), default="app", help="graph: two replicas of each stage")
    parser.add_argument("--rounds", type=int, default=1, help="each with a seed of its own, and in another order")
    parser.add_argument("--seed", type=int, default=0)


BENCHMARK = Benchmark(
    name="service_disturbed",
    about=__doc__,
    figures=(
        Figure("wrong answers", "count", peer="answers of the undisturbed service"),
        Figure("hangs past the deadline", "count"),
        Figure("faults without recovery", "count"),
        Figure("requests that failed", "count"),
        Figure("recovery after a fault", "s"),
    ),
    options=add_options,
    measure=measure,
    section="disturbed",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
