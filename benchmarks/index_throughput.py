"""How fast does the index job run beside a plain multi-process loop, and does its memory stay flat?

Both embed the same generated pictures with the same models, batches and threads on the same cores, in turns (who is first
changes, and the files are in memory before), each as a program of its own from start to exit: the job with discovery, hashing,
thumbnails, catalog, workers' start, loading and verification of collections; the peer (peer_loop.py) with nothing but decoding,
models and Parquet. Processor seconds stand beside the wall clock: on a busy machine they say more.

The fixed cost is what is left of the seconds of a small and a large run when their pictures are taken off (the straight line
through both, at no picture); the peer's own is printed beside it.

    python -m benchmarks.index_throughput --pictures 10000 --models FOLDER
    python -m benchmarks.index_throughput --pictures 10000 --executor ray --models FOLDER
    python -m benchmarks.index_throughput --memory 1000 10000 --models FOLDER
    python -m benchmarks.index_throughput --profile --pictures 1000 --models FOLDER
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

from benchmarks.index_profile import profile
from benchmarks.machine import describe_machine, verdict
from benchmarks.pictures import generate
from lodestone.models.hardware import cores

_ROOT = Path(__file__).resolve().parent.parent
_POLL_S = 0.1
GOAL = 0.9
FIXED_GOAL_S = 5.0
_SMALL_SHARE = 8  # the small run has one eighth of the pictures


@dataclass(frozen=True, slots=True)
class Measured:
    """One program's run: wall seconds, processor seconds and peak memory (unshared) of its whole tree."""

    pictures: int
    seconds: float
    processor_seconds: float
    peak_mb: float

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return self.pictures / self.seconds


class _Tree(threading.Thread):
    """Follows the processor time and the memory of a process and all that it starts."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(pid)
        self._seconds: dict[int, float] = {}
        self.peak = 0
        self.over = threading.Event()

    @property
    def processor_seconds(self) -> float:
        """Of all processes seen."""
        return sum(self._seconds.values())

    def run(self) -> None:
        """Look around every tenth of a second."""
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
                except (psutil.Error, ProcessLookupError):  # gone meanwhile
                    continue
            self.peak = max(self.peak, memory)


def measure(command: list[str], pictures: int) -> Measured:
    """Run a program to its end."""
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
    """The program that is measured: index `folder` into a new home."""
    from lodestone.config.settings import IndexSettings, ModelSettings, Settings
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.index import run_index

    settings = Settings(home=home, models=ModelSettings(cache=models), index=IndexSettings(executor=executor))
    with Runtime.open(settings, purpose="benchmark") as runtime:
        report = run_index(runtime, [folder])
    print(json.dumps(report.as_dict()), file=sys.stderr)


def _job(pictures: Path, count: int, scratch: Path, arguments: Any) -> Measured:  # noqa: ANN401 - argparse
    home = scratch / "home"
    shutil.rmtree(home, ignore_errors=True)
    options = ["--job", str(pictures), "--home", str(home), "--models", str(arguments.models), "--executor", arguments.executor]
    return measure([sys.executable, "-m", "benchmarks.index_throughput", *options], count)


def _peer(pictures: Path, count: int, scratch: Path, arguments: Any) -> Measured:  # noqa: ANN401 - argparse
    out = scratch / "peer"
    shutil.rmtree(out, ignore_errors=True)
    options = ["--pictures", str(pictures), "--out", str(out), "--models", str(arguments.models), "--processes", str(cores())]
    return measure([sys.executable, "-m", "benchmarks.peer_loop", *options], count)


def _show(name: str, one: Measured) -> None:
    print(
        f"{name:8} {one.pictures:6} pictures {one.seconds:7.1f} s {one.rate:7.1f} images/s"
        f" {1000 * one.processor_seconds / one.pictures:7.1f} processor ms an image {one.peak_mb:7.0f} MB",
        flush=True,
    )


def main() -> None:
    """Compare, or measure memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1, help="turns of peer and job")
    parser.add_argument("--memory", type=int, nargs="*", help="only the job, at these numbers of pictures")
    parser.add_argument("--profile", action="store_true", help="where the processor time goes, stage by stage; twice the work")
    parser.add_argument("--models", type=Path, required=True, help="the shared model cache")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--executor", default="auto")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        job_once(arguments.job, arguments.home, arguments.models, arguments.executor)
        return
    if arguments.profile:
        print(profile(arguments.pictures, rounds=arguments.rounds, models=arguments.models, cache=arguments.cache))
        return
    print(f"{describe_machine()}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        for count in arguments.memory or ():
            folder = arguments.cache / f"{count}"
            generate(folder, count)
            _show("job", _job(folder, count, Path(scratch), arguments))
        if arguments.memory:
            return
        large = _compare(arguments.pictures, Path(scratch), arguments)
        small = _compare(max(arguments.pictures // _SMALL_SHARE, 1), Path(scratch), arguments)
    share = _mean(large["peer"], "seconds") / _mean(large["job"], "seconds")
    work = _mean(large["peer"], "processor_seconds") / _mean(large["job"], "processor_seconds")
    print(f"job / peer: {share:.2f} by the clock, {work:.2f} by processor seconds")
    print(f"goal: {GOAL} by the clock: {verdict(met=share >= GOAL)}")
    fixed = {name: _fixed(small[name], large[name], "seconds") for name in large}
    work_fixed = {name: _fixed(small[name], large[name], "processor_seconds") for name in large}
    print(f"fixed cost: job {fixed['job']:.1f} s ({work_fixed['job']:.1f} processor s),", end=" ")
    print(f"peer {fixed['peer']:.1f} s ({work_fixed['peer']:.1f} processor s)")
    print(f"goal: at most {FIXED_GOAL_S:.0f} s by the clock: {verdict(met=fixed['job'] <= FIXED_GOAL_S)}")


def _compare(count: int, scratch: Path, arguments: Any) -> dict[str, list[Measured]]:  # noqa: ANN401 - argparse
    """Both programs over `count` pictures, in turns."""
    folder = arguments.cache / f"{count}"
    for path in generate(folder, count):
        path.read_bytes()  # in memory for both, whoever is first
    found: dict[str, list[Measured]] = {"peer": [], "job": []}
    for number in range(arguments.rounds):
        for name in list(found) if number % 2 == 0 else reversed(found):
            found[name].append({"peer": _peer, "job": _job}[name](folder, count, scratch, arguments))
            _show(name, found[name][-1])
    return found


def _mean(runs: Sequence[Measured], what: str) -> float:
    return float(sum(getattr(one, what) for one in runs) / len(runs))


def _fixed(small: Sequence[Measured], large: Sequence[Measured], what: str) -> float:
    """Seconds at no picture, on the line through the means of small and of large runs."""
    low, high = _mean(small, what), _mean(large, what)
    slope = (high - low) / (large[0].pictures - small[0].pictures)
    return low - slope * small[0].pictures


if __name__ == "__main__":
    main()
