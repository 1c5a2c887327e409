"""Does the planner predict what a run takes? It measures a sample, predicts a larger run, and the run is made.

python -m benchmarks.planner --pictures 4000 --models FOLDER
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.pictures import generate
from lodestone.config.settings import load_settings
from lodestone.planner.calibrate import calibrate
from lodestone.runtime import Runtime
from lodestone_jobs.index import run_index

GOAL = 0.25


def main() -> None:
    """Print prediction, measurement and their difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=4000)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-bench" / "pictures")
    parser.add_argument("--models", type=Path, help="cache of converted models")
    chosen = parser.parse_args()
    folder = chosen.cache / f"planner-{chosen.pictures}"
    generate(folder, chosen.pictures)
    flags = {"models": {"cache": str(chosen.models)}} if chosen.models else {}
    with tempfile.TemporaryDirectory(prefix="lodestone-planner-") as scratch:
        settings = load_settings({**flags, "home": str(Path(scratch) / "home")}).settings
        measured = calibrate(settings, folder, run=run_index)
        predicted = measured.seconds(chosen.pictures)
        started = time.perf_counter()
        with Runtime.open(settings, purpose="lodestone plan") as runtime:
            run_index(runtime, [folder])
        seconds = time.perf_counter() - started
    off = predicted / seconds - 1
    runs = ", ".join(f"{count:,} pictures in {took:.1f} s" for count, took in measured.runs)
    print("| | seconds |\n|---|---|")
    print(f"| predicted for {chosen.pictures:,} pictures | {predicted:.1f} |")
    print(f"| measured | {seconds:.1f} |")
    print(
        f"\nPredicted from {runs} ({measured.executor}): {off:+.1%}; within {GOAL:.0%}: {'yes' if abs(off) <= GOAL else 'no'}."
    )


if __name__ == "__main__":
    main()
