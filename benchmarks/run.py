"""Regular run of the benchmarks (`make bench`): every figure of the documentation, beside its peer from the same run.

Each part runs in a process of its own, one after the other, so that none shares memory or threads with the next. The report
goes to standard output; `--write FILE` keeps it, and `--json FILE` keeps the figures. A missed floor does not fail the run
unless `--enforce` is given, but the last lines name every floor and goal that was missed, and every part that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import describe_machine
from benchmarks.registry import BENCHMARKS
from lodestone.config.settings import load_settings


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the report: its heading, its benchmark and the arguments of that benchmark."""

    title: str
    name: str
    arguments: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Return the module of the benchmark."""
        return BENCHMARKS[self.name]


def parts(scratch: Path) -> tuple[Part, ...]:
    """Return all parts in order; `scratch` holds generated pictures and homes."""
    index = ("--models", str(load_settings().settings.models.cache), "--cache", str(scratch / "pictures"))
    return (
        Part("Starting up", "start_up", ("--scratch", str(scratch))),
        Part(
            "Indexing beside a plain multi-process loop",
            "index_throughput",
            (*index, "--pictures", "10000"),
        ),
        Part(
            "Where an index run's time goes",
            "index_throughput",
            (*index, "--profile", "--pictures", "1000"),
        ),
        Part("Feeding a fast GPU from an object store, pretended", "feed", ("--single",)),
        Part("One driver and eight fast GPUs, pretended", "cluster_feed"),
        Part("Resuming an index run", "index_resume", index),
        Part("Memory of the driver", "driver_memory", index[:2]),
        Part("Running again over 100,000 unchanged files", "unchanged"),
        Part("One percent added, changed, moved and deleted", "incremental", (*index, "--rounds", "1")),
        Part("Loading a Qdrant server beside a bare client", "load"),
        Part("Loading the embedded store beside bare upserts", "load", ("--edge",)),
        Part("Decoding beside plain Pillow", "decode"),
        Part("The planner's prediction beside a run", "planner", (*index, "--pictures", "3000")),
        Part("Memory of the index job", "index_throughput", (*index, "--memory", "1000", "10000")),
        Part("A warm query in this process", "query_latency"),
        Part("Composed queries in one fused graph and by other methods", "composed_search"),
        Part("A warm query through the service", "serve_latency"),
        Part("The search page in a browser", "search_page"),
        Part("Sixteen clients, beside the smallest server that could be written", "service_peer"),
        Part("What Serve's hops add, as one deployment and as a graph", "graph_overhead"),
        Part("Fusion and tagging in the ingress and as deployments", "graph_stages"),
        Part("The service at a given load", "service_load"),
        Part("The service at three times what saturates it", "service_overload"),
        Part("Model passes that callers share", "service_batching"),
        Part("From a step in load to a second replica", "service_scaling"),
        Part("Kills under load, one replica of the service", "service_disturbed"),
        Part("Kills under load, two replicas of each stage", "service_disturbed", ("--shape", "graph")),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one part.

    Attributes:
        part: The part.
        text: Its report, or the end of its error output.
        values: Its figures and floors as JSON values; empty if it failed.
    """

    part: Part
    text: str
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Return whether the part ended with an error before it reported figures, or with a status other than 0."""
        return not self.values

    def missed(self, kind: str) -> list[str]:
        """Return a line for each `floor` or `goal` that was missed."""
        return [
            f"{self.part.title}: {floor['figure']}{floor['case'] and ': '}{floor['case']}"
            f" is {floor['value']:.3g}, not {floor['comparison']} {floor['bound']:g}"
            for floor in self.values.get("floors", ())
            if floor["kind"] == kind and not floor["held"]
        ]


def run(part: Part) -> Outcome:
    """Run one part; one that fails does not end the run."""
    with tempfile.TemporaryDirectory(prefix="lodestone-bench-") as folder:
        figures = Path(folder) / "figures.json"
        command = [sys.executable, "-m", part.module, *part.arguments, "--figures", str(figures)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        if done.returncode:
            text = f"{done.stdout.strip()}\n\nfailed with exit code {done.returncode}:\n\n```\n{done.stderr[-2000:]}\n```"
            return Outcome(part, text.strip())
        return Outcome(part, done.stdout.strip(), json.loads(figures.read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts; return 1 if one of them failed, or missed a floor with `--enforce`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="also write the report here")
    parser.add_argument("--json", type=Path, help="also write all figures and floors here")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-bench")
    parser.add_argument("--only", help="part of a title")
    parser.add_argument("--enforce", action="store_true", help="end with status 1 if a floor is missed")
    options = parser.parse_args(arguments)
    options.scratch.mkdir(parents=True, exist_ok=True)
    report = [f"{describe_machine()}; {datetime.now(UTC):%Y-%m-%d}\n"]
    outcomes: list[Outcome] = []
    print(report[0], flush=True)
    for part in parts(options.scratch):
        if options.only and options.only.lower() not in part.title.lower():
            continue
        started = time.perf_counter()
        outcomes.append(run(part))
        section = f"## {part.title}\n\n{outcomes[-1].text}\n\nThis took {time.perf_counter() - started:.0f} s.\n"
        print(section, flush=True)
        report.append(section)
    failed = [outcome.part.title for outcome in outcomes if outcome.failed]
    floors = [line for outcome in outcomes for line in outcome.missed("floor")]
    goals = [line for outcome in outcomes for line in outcome.missed("goal")]
    for heading, lines in (("Floors missed", floors), ("Goals missed", goals), ("Failed", failed)):
        report.append(f"{heading}: {'; '.join(lines) or 'none'}.\n")
        print(report[-1], flush=True)
    if options.write:
        options.write.write_text("\n".join(report), encoding="utf-8")
    if options.json:
        values = [{"title": outcome.part.title, **outcome.values} for outcome in outcomes]
        options.json.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return 1 if failed or (options.enforce and floors) else 0


if __name__ == "__main__":
    sys.exit(main())
