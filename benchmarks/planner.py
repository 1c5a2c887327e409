"""Does the planner predict what a run takes? It measures a sample, predicts larger runs, and the runs are made.

python -m benchmarks.planner --pictures 500 3000 --models FOLDER
python -m benchmarks.planner --pictures 500 --folder MY_PICTURES      # of another shape; used again where they are too few

On a machine that others use, compare processor time: it is predicted in the same way, from the same two runs.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from benchmarks.machine import describe_machine, table
from benchmarks.pictures import generate
from lodestone.config.settings import Settings, load_settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.report import IndexReport
from lodestone.planner.calibrate import MachineCalibration, calibrate
from lodestone.sources.folders import discover
from lodestone_jobs.index import run_index

GOAL = 0.25


@dataclass(slots=True)
class Costs:
    """Processor seconds of runs: (pictures, seconds)."""

    runs: list[tuple[int, float]] = field(default_factory=list)

    def run(self, runtime: Runtime, folders: Sequence[Path]) -> IndexReport:
        """Index, and remember what it cost."""
        before = _processor_seconds()
        report = run_index(runtime, folders)
        self.runs.append((report.counts.get("embedded", 0), _processor_seconds() - before))
        return report

    def predict(self, images: int) -> float:
        """Processor seconds of a run, by the straight line through the first two."""
        (few, fast), (many, slow) = self.runs[:2]
        return slow + (images - many) * (slow - fast) / (many - few)


def main() -> None:
    """Print predictions, measurements and their differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, nargs="+", default=[4000])
    parser.add_argument("--folder", type=Path, help="pictures of your own; default: generated ones of 500 pixels")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-bench" / "pictures")
    parser.add_argument("--models", type=Path, help="cache of converted models")
    chosen = parser.parse_args()
    folder = chosen.folder or chosen.cache / f"planner-{max(chosen.pictures)}"
    if chosen.folder is None:
        generate(folder, max(chosen.pictures))
    flags = {"models": {"cache": str(chosen.models)}} if chosen.models else {}
    with tempfile.TemporaryDirectory(prefix="lodestone-planner-") as scratch:
        settings = load_settings({**flags, "home": str(Path(scratch) / "home")}).settings
        costs = Costs()
        measured = calibrate(settings, folder, run=costs.run)
        rows = [
            _compare(settings, folder, count, scratch=Path(scratch), measured=measured, costs=costs)
            for count in chosen.pictures
        ]
    print(describe_machine())
    print(f"\nPictures of {measured.megapixels:.2f} megapixels and {measured.megabytes:.3f} MB, {measured.executor}.\n")
    head = ("pictures", "predicted, s", "measured, s", "off", "predicted, processor s", "measured, processor s", "off")
    print(table([head, *(row for row, _ in rows)]))
    runs = ", ".join(f"{count:,} pictures in {took:.1f} s" for count, took in measured.runs)
    print(f"\nPredicted from {runs}. Within {GOAL:.0%}: {'yes' if all(near for _, near in rows) else 'no'}.")


def _compare(
    settings: Settings, folder: Path, count: int, *, scratch: Path, measured: MachineCalibration, costs: Costs
) -> tuple[tuple[str, ...], bool]:
    """One run in a home of its own: its row of the table, and whether it was predicted well."""
    pictures = scratch / f"{count}-pictures"
    pictures.mkdir()
    files = [found.path for found in discover(folder, follow_symlinks=True)]
    for number, path in enumerate(islice(cycle(files), count)):
        (pictures / f"{number:06d}{path.suffix}").symlink_to(path)
    own = settings.model_copy(update={"home": scratch / f"{count}-home"})
    started = time.perf_counter()
    with Runtime.open(own, purpose="lodestone plan") as runtime:
        costs.run(runtime, [pictures])
    seconds, processor = time.perf_counter() - started, costs.runs[-1][1]
    predicted, cost = measured.seconds(count), costs.predict(count)
    off = predicted / seconds - 1
    clock = (f"{predicted:.1f}", f"{seconds:.1f}", f"{off:+.1%}")
    return (f"{count:,}", *clock, f"{cost:.1f}", f"{processor:.1f}", f"{cost / processor - 1:+.1%}"), abs(off) <= GOAL


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
