"""Speed of the index job beside a plain multi-process loop, and its memory at several numbers of pictures.

Both embed the same generated pictures with the same models, batches and threads on the same cores, in turns; the order changes,
and the files are in memory before. Each is a program of its own from start to exit: the job with discovery, hashing,
thumbnails, catalog, workers' start, loading and verification of collections; the peer (peer_loop.py) with decoding, models and
Parquet alone. Processor seconds stand beside the wall clock: on a busy machine they say more.

The fixed cost is the value at no picture of the straight line through the seconds of a small and a large run; the peer's own
fixed cost is recorded beside it.

    python -m benchmarks.indexing.index_throughput --pictures 10000 --models FOLDER
    python -m benchmarks.indexing.index_throughput --pictures 10000 --executor ray --models FOLDER
    python -m benchmarks.indexing.index_throughput --memory 1000 10000 --models FOLDER
    python -m benchmarks.indexing.index_throughput --profile --pictures 1000 --models FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data.pictures import generate
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns
from benchmarks.indexing.index_profile import profile
from lodestone.models.hardware import cores

_ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.1
PEER = "a plain multi-process loop"
_SMALL_SHARE = 8  # the small run has one eighth of the pictures


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a program: wall seconds, processor seconds and peak unshared memory (MB) of all its processes."""

    pictures: int
    seconds: float
    processor_seconds: float
    peak_mb: float

    @property
    def rate(self) -> float:
        """Return the number of pictures a second."""
        return self.pictures / self.seconds


class _Tree(threading.Thread):
    """Thread that follows the processor time and the memory of a process and of all processes that it starts."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self._seconds: dict[int, float] = {}
        self.peak = 0
        self.over = threading.Event()

    @property
    def processor_seconds(self) -> float:
        """Return the processor seconds of all processes seen so far."""
        return sum(self._seconds.values())

    def run(self) -> None:
        """Read times and memory of all processes every tenth of a second."""
        while not self.over.wait(_POLL_S):
            try:
                processes = [self._root, *self._root.children(recursive=True)]
            except psutil.Error:
                return
            memory = 0
            for process in processes:
                try:
                    times = process.cpu_times()
                    self._seconds[process.pid] = times.user + times.system
                    memory += process.memory_full_info().uss
                except (psutil.Error, ProcessLookupError):  # it has ended meanwhile
                    continue
            self.peak = max(self.peak, memory)


def measure_program(command: list[str], pictures: int) -> Measured:
    """Run a program to its end and return what it cost.

    Raises:
        SystemExit: the program failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=_ROOT, env={**os.environ, "PYTHONPATH": _python_path()}, stdout=subprocess.DEVNULL)
    tree = _Tree(process.pid)
    tree.start()
    code = process.wait()
    seconds = time.perf_counter() - started
    tree.over.set()
    tree.join()
    if code != 0:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return Measured(pictures, seconds, tree.processor_seconds, tree.peak / 2**20)


def _python_path() -> str:
    return os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH", "")) if part)


def job_once(folder: Path, home: Path, models: Path, executor: str) -> None:
    """Index `folder` into a new home: the program that is measured."""
    from lodestone.config.settings import IndexSettings, ModelSettings, Settings
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.index import run_index

    settings = Settings(home=home, models=ModelSettings(cache=models), index=IndexSettings(executor=executor))
    with Runtime.open(settings, purpose="benchmark") as runtime:
        report = run_index(runtime, [folder])
    print(json.dumps(report.as_dict()), file=sys.stderr)


def _job(pictures: Path, count: int, scratch: Path, options: Any) -> Measured:  # noqa: ANN401 - argparse
    home = scratch / "home"
    shutil.rmtree(home, ignore_errors=True)
    flags = ["--job", str(pictures), "--home", str(home), "--models", str(options.models), "--executor", options.executor]
    return measure_program([sys.executable, "-m", "benchmarks.indexing.index_throughput", *flags], count)


def _peer(pictures: Path, count: int, scratch: Path, options: Any) -> Measured:  # noqa: ANN401 - argparse
    out = scratch / "peer"
    shutil.rmtree(out, ignore_errors=True)
    flags = ["--pictures", str(pictures), "--out", str(out), "--models", str(options.models), "--processes", str(cores())]
    return measure_program([sys.executable, "-m", "benchmarks.indexing.peer_loop", *flags], count)


def _line(name: str, run: Measured) -> str:
    return (
        f"{name:8} {run.pictures:6} pictures {run.seconds:7.1f} s {run.rate:7.1f} images/s"
        f" {1000 * run.processor_seconds / run.pictures:7.1f} processor ms an image {run.peak_mb:7.0f} MB"
    )


def measure(options: argparse.Namespace, report: Report) -> None:
    """Compare the job with its peer, or profile both, or measure the job's memory."""
    if options.profile:
        profile(options.pictures, rounds=options.rounds, models=options.models, cache=options.cache, report=report)
        return
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        for count in options.memory or ():
            folder = options.cache / f"{count}"
            generate(folder, count)
            _record("job", [_job(folder, count, Path(scratch), options)], report)
        if options.memory:
            return
        large = _compare(options.pictures, Path(scratch), options, report)
        small = _compare(max(options.pictures // _SMALL_SHARE, 1), Path(scratch), options, report)
    report.record("job / peer, by the clock", _mean(large["peer"], "seconds") / _mean(large["job"], "seconds"))
    work = _mean(large["peer"], "processor_seconds") / _mean(large["job"], "processor_seconds")
    report.record("job / peer, by processor time", work)
    for name in large:
        report.record("fixed cost, by the clock", _fixed(small[name], large[name], "seconds"), case=name)
        report.record("fixed cost, by processor time", _fixed(small[name], large[name], "processor_seconds"), case=name)


def _compare(
    count: int,
    scratch: Path,
    options: Any,  # noqa: ANN401 - argparse
    report: Report,
) -> dict[str, list[Measured]]:
    """Run both programs over `count` pictures, in turns."""
    folder = options.cache / f"{count}"
    for path in generate(folder, count):
        path.read_bytes()  # both programs then find the files in memory
    programs = {"peer": lambda: _peer(folder, count, scratch, options), "job": lambda: _job(folder, count, scratch, options)}
    runs = take_turns(programs, options.rounds, alternate=True)
    for name, measured in runs.items():
        _record(name, measured, report)
    return runs


def _record(name: str, runs: Sequence[Measured], report: Report) -> None:
    for run in runs:
        report.progress(_line(name, run))
    case = f"{name}, {runs[0].pictures:,} pictures"
    report.record("seconds", [run.seconds for run in runs], case=case)
    report.record("images a second", [run.rate for run in runs], case=case)
    report.record("processor time an image", [1000 * run.processor_seconds / run.pictures for run in runs], case=case)
    report.record("peak memory of all processes", [run.peak_mb for run in runs], case=case)


def _mean(runs: Sequence[Measured], attribute: str) -> float:
    return float(sum(getattr(run, attribute) for run in runs) / len(runs))


def _fixed(small: Sequence[Measured], large: Sequence[Measured], attribute: str) -> float:
    """Return the seconds at no picture, on the line through the means of small and of large runs."""
    low, high = _mean(small, attribute), _mean(large, attribute)
    slope = (high - low) / (large[0].pictures - small[0].pictures)
    return low - slope * small[0].pictures


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1, help="turns of peer and job")
    parser.add_argument("--memory", type=int, nargs="*", help="only the job, at these numbers of pictures")
    parser.add_argument("--profile", action="store_true", help="where the processor time goes, stage by stage; twice the work")
    parser.add_argument("--models", type=Path, required=True, help="the shared model cache")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--executor", default="auto")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)


def run_child(options: argparse.Namespace) -> bool:
    """Run the job if the options name its pictures; return whether they do."""
    if options.job:
        job_once(options.job, options.home, options.models, options.executor)
    return bool(options.job)


BENCHMARK = Benchmark(
    name="index_throughput",
    about=__doc__,
    figures=(
        Figure("seconds", "s"),
        Figure("images a second", "images/s"),
        Figure("processor time an image", "processor ms"),
        Figure("peak memory of all processes", "MB"),
        Figure("job / peer, by the clock", "ratio", peer=PEER),
        Figure("job / peer, by processor time", "ratio", peer=PEER),
        Figure("fixed cost, by the clock", "s"),
        Figure("fixed cost, by processor time", "processor s"),
        Figure("share of the job's time that stages explain", "share"),
        Figure("peer / job, processor time an image", "ratio", peer=PEER),
    ),
    options=add_options,
    measure=measure,
    child=run_child,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
