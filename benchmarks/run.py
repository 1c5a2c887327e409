"""`make bench`: every figure of the documentation, beside its peer from the same run.

Each part runs in a process of its own, one after the other, so that none shares memory or threads with the next. The report
goes to standard output; `--write FILE` keeps it. Nothing here asserts a time (machines differ, and these are shared), but the
last lines name every part that missed its goal or failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import MISSED, describe_machine
from lodestone.config.settings import load_settings

_MISSED = re.compile(rf"\b(?:{MISSED}|not met)\b")


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark: its heading, its module and its arguments."""

    title: str
    module: str
    arguments: tuple[str, ...] = ()


def parts(scratch: Path) -> tuple[Part, ...]:
    """All parts, in order; `scratch` holds generated pictures and homes."""
    index = ("--models", str(load_settings().settings.models.cache), "--cache", str(scratch / "pictures"))
    return (
        Part("Starting up", "benchmarks.start_up", ("--scratch", str(scratch))),
        Part("Indexing beside a plain multi-process loop", "benchmarks.index_throughput", (*index, "--pictures", "10000")),
        Part("Where an index run's time goes", "benchmarks.index_throughput", (*index, "--profile", "--pictures", "1000")),
        Part("Resuming an index run", "benchmarks.index_resume", index),
        Part("Memory of the driver", "benchmarks.driver_memory", index[:2]),
        Part("Running again over 100,000 unchanged files", "benchmarks.unchanged"),
        Part("One percent added, changed, moved and deleted", "benchmarks.incremental", (*index, "--rounds", "1")),
        Part("Loading a Qdrant server beside a bare client", "benchmarks.load"),
        Part("Loading the embedded store beside bare upserts", "benchmarks.load", ("--edge",)),
        Part("Decoding beside plain Pillow", "benchmarks.decode"),
        Part("The planner's prediction beside a run", "benchmarks.planner", (*index, "--pictures", "3000")),
        Part("Memory of the index job", "benchmarks.index_throughput", (*index, "--memory", "1000", "10000")),
        Part("A warm query in this process", "benchmarks.query_latency"),
        Part("A warm query through the service", "benchmarks.serve_latency"),
        Part("What Serve's hops add, as one deployment and as a graph", "benchmarks.graph_overhead"),
        Part("The service at a given load", "benchmarks.service_load"),
        Part("The service at three times what saturates it", "benchmarks.service_overload"),
        Part("Model passes that callers share", "benchmarks.service_batching"),
        Part("From a step in load to a second replica", "benchmarks.service_scaling"),
        Part("Kills under load, one replica of the service", "benchmarks.service_disturbed"),
        Part("Kills under load, two replicas of each stage", "benchmarks.service_disturbed", ("--shape", "graph")),
    )


def run(part: Part) -> str:
    """The part's output, or what went wrong: one failing part does not hide the others."""
    done = subprocess.run(
        [sys.executable, "-m", part.module, *part.arguments], capture_output=True, text=True, check=False, env=os.environ
    )
    if done.returncode:
        return f"failed with exit code {done.returncode}:\n\n```\n{done.stderr[-2000:]}\n```"
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts; returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="also write the report here")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-bench")
    parser.add_argument("--only", help="part of a title")
    chosen = parser.parse_args(arguments)
    chosen.scratch.mkdir(parents=True, exist_ok=True)
    report = [f"{describe_machine()}; {datetime.now(UTC):%Y-%m-%d}\n"]
    failed: list[str] = []
    missed: list[str] = []
    print(report[0], flush=True)
    for part in parts(chosen.scratch):
        if chosen.only and chosen.only.lower() not in part.title.lower():
            continue
        started = time.perf_counter()
        output = run(part)
        if output.startswith("failed"):
            failed.append(part.title)
        elif _MISSED.search(output):
            missed.append(part.title)
        section = f"## {part.title}\n\n{output}\n\nThis took {time.perf_counter() - started:.0f} s.\n"
        print(section, flush=True)
        report.append(section)
    for what, titles in (("Missed a goal", missed), ("Failed", failed)):
        report.append(f"{what}: {'; '.join(titles) or 'none'}.\n")
        print(report[-1], flush=True)
    if chosen.write:
        chosen.write.write_text("\n".join(report), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
