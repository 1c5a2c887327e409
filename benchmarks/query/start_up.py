"""Start-up time of `import lodestone`, `lodestone --help` and a cold `lodestone search`.

Each runs in new processes, beside bare Python. The search is over the pictures of the demonstration.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import Benchmark, Figure, Report

PEER = "python -c pass"


def seconds(words: list[str], *, repeats: int, environment: dict[str, str]) -> list[float]:
    """Return the wall-clock seconds of several runs; the first, which fills the file cache, does not count."""
    taken = []
    for number in range(repeats + 1):
        begin = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, env=environment)
        if number:
            taken.append(time.perf_counter() - begin)
    return taken


def measure(options: argparse.Namespace, report: Report) -> None:
    """Start each program several times; the search only where a home with pictures is given."""
    home = options.home
    if options.scratch:
        home = options.scratch / "demo-home"
        subprocess.run([sys.executable, "-m", "lodestone_cli", "demo", "--home", home], check=True, capture_output=True)
    environment = {**os.environ, **({"LODESTONE_HOME": str(home)} if home else {})}
    cli = [sys.executable, "-m", "lodestone_cli"]
    programs = {
        PEER: [sys.executable, "-c", "pass"],
        "import lodestone": [sys.executable, "-c", "import lodestone"],
        "lodestone --help": [*cli, "--help"],
    }
    if home:
        programs["lodestone search, cold, in-process"] = [*cli, "search", "a red bus", "--local"]
    bare = 0.0
    for name, words in programs.items():
        taken = seconds(words, repeats=options.repeats, environment=environment)
        report.record("start", taken, case=name)
        if name == PEER:
            bare = statistics.median(taken)
        else:
            report.record("start / bare Python", statistics.median(taken) / bare, case=name)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--home", type=Path, help="a home with pictures, for the cold search")
    parser.add_argument("--scratch", type=Path, help="use the home that the demonstration left below it, making it first")
    parser.add_argument("--repeats", type=int, default=7)


BENCHMARK = Benchmark(
    name="start_up",
    about=__doc__,
    figures=(Figure("start", "s"), Figure("start / bare Python", "ratio", peer=PEER)),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
