"""Accuracy of the planner: it measures a sample and predicts larger runs, which are then made.

    python -m benchmarks.indexing.planner --pictures 500 3000 --models FOLDER
    python -m benchmarks.indexing.planner --pictures 500 --folder MY_PICTURES      # repeated where there are too few

On a machine that others use, compare processor time: it is predicted in the same way, from the same two runs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from benchmarks.data.pictures import generate
from benchmarks.harness import Benchmark, Figure, Report
from lodestone.capacity.calibrate import MachineCalibration, calibrate
from lodestone.config.settings import Settings, load_settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.report import IndexReport
from lodestone.sources.folders import discover
from lodestone_jobs.index import run_index


@dataclass(slots=True)
class Costs:
    """Processor seconds that several index runs took.

    Attributes:
        runs: (pictures, seconds) of each run.
    """

    runs: list[tuple[int, float]] = field(default_factory=list)

    def run(self, runtime: Runtime, folders: Sequence[Path]) -> IndexReport:
        """Index the folders and note the processor seconds."""
        before = _processor_seconds()
        report = run_index(runtime, folders)
        self.runs.append((report.counts.get("embedded", 0), _processor_seconds() - before))
        return report

    def predict(self, images: int) -> float:
        """Return the processor seconds of a run, by the straight line through the first two."""
        (few, few_seconds), (many, many_seconds) = self.runs[:2]
        return many_seconds + (images - many) * (many_seconds - few_seconds) / (many - few)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure a sample, then predict and make every run."""
    folder = options.folder or options.cache / f"planner-{max(options.pictures)}"
    if options.folder is None:
        generate(folder, max(options.pictures))
    flags = {"models": {"cache": str(options.models)}} if options.models else {}
    with tempfile.TemporaryDirectory(prefix="lodestone-planner-") as scratch:
        settings = load_settings({**flags, "home": str(Path(scratch) / "home")}).settings
        costs = Costs()
        sample = calibrate(settings, folder, run=costs.run)
        rows = [
            _compare(settings, folder, count, scratch=Path(scratch), sample=sample, costs=costs, report=report)
            for count in options.pictures
        ]
    report.text(f"Pictures of {sample.megapixels:.2f} megapixels and {sample.megabytes:.3f} MB, {sample.executor}.")
    head = ("pictures", "predicted, s", "measured, s", "off", "predicted, processor s", "measured, processor s", "off")
    report.table([head, *rows])
    report.text("Predicted from " + ", ".join(f"{count:,} pictures in {took:.1f} s" for count, took in sample.runs) + ".")


def _compare(
    settings: Settings, folder: Path, count: int, *, scratch: Path, sample: MachineCalibration, costs: Costs, report: Report
) -> tuple[str, ...]:
    """Make one run in a home of its own; record how far off the prediction was, and return the row of the table."""
    pictures = scratch / f"{count}-pictures"
    pictures.mkdir()
    files = [picture.path for picture in discover(folder, follow_symlinks=True)]
    for number, path in enumerate(islice(cycle(files), count)):
        (pictures / f"{number:06d}{path.suffix}").symlink_to(path)
    own = settings.model_copy(update={"home": scratch / f"{count}-home"})
    started = time.perf_counter()
    with Runtime.open(own, purpose="lodestone plan") as runtime:
        costs.run(runtime, [pictures])
    seconds, processor = time.perf_counter() - started, costs.runs[-1][1]
    predicted, predicted_processor = sample.seconds(count), costs.predict(count)
    off, off_processor = predicted / seconds - 1, predicted_processor / processor - 1
    report.record("prediction off, by the clock", abs(off), case=f"{count:,} pictures")
    report.record("prediction off, by processor time", abs(off_processor), case=f"{count:,} pictures")
    clock = (f"{predicted:.1f}", f"{seconds:.1f}", f"{off:+.1%}")
    return (f"{count:,}", *clock, f"{predicted_processor:.1f}", f"{processor:.1f}", f"{off_processor:+.1%}")


def _processor_seconds() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, nargs="+", default=[4000])
    parser.add_argument("--folder", type=Path, help="pictures of your own; default: generated ones of 500 pixels")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-bench" / "pictures")
    parser.add_argument("--models", type=Path, help="cache of converted models")


BENCHMARK = Benchmark(
    name="planner",
    about=__doc__,
    figures=(
        Figure("prediction off, by the clock", "share", peer="the run that was predicted"),
        Figure("prediction off, by processor time", "share", peer="the run that was predicted"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
