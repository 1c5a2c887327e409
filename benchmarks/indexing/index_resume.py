"""Cost of resuming a killed index run, beyond the work that the run had left.

A run is killed (SIGKILL, the whole process group) when about half of its slices are finished, and resumed by a new process. The
peer is a run over as many new pictures as the resumed run embedded, in a home of its own: the same pictures, the same models,
nothing to resume. The resumed run loads all pictures into the collections, because the killed run had loaded none.

    python -m benchmarks.indexing.index_resume --pictures 2000 --models FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.data.pictures import generate
from benchmarks.harness import Benchmark, Figure, Report

RESUMED, PEER = "resumed run", "a new run over as many pictures"
_POLL_S = 0.05
_SLICE = 64


def job_once(home: Path, models: Path, folder: Path | None) -> None:
    """Index `folder`, or resume: the program that is measured. Prints counts and the seconds of all processes."""
    from lodestone.config.settings import IndexSettings, ModelSettings, Settings
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.index import run_index

    index = IndexSettings(slice_size=_SLICE, executor="processes")
    settings = Settings(home=home, models=ModelSettings(cache=models), index=index)
    started = time.perf_counter()
    with Runtime.open(settings, purpose="benchmark") as runtime:
        report = run_index(runtime, [folder]) if folder else run_index(runtime, resume="")
    spent = os.times()
    print(
        json.dumps(
            {
                "embedded": report.counts.get("embedded", 0),
                "images": report.images,
                "seconds": time.perf_counter() - started,
                "processor_seconds": sum(spent[:4]),
            }
        )
    )


def _command(home: Path, models: Path, folder: Path | None) -> list[str]:
    options = ["--home", str(home), "--models", str(models), *(["--folder", str(folder)] if folder else ["--resume"])]
    return [sys.executable, "-m", "benchmarks.indexing.index_resume", *options]


def _finish(home: Path, models: Path, folder: Path | None) -> dict[str, Any]:
    done = subprocess.run(_command(home, models, folder), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts


def _kill_half_way(home: Path, models: Path, folder: Path, slices: int) -> None:
    process = subprocess.Popen(
        _command(home, models, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(list(home.glob("embeddings/*/*/*.meta.parquet"))) < slices // 2:
        if process.poll() is not None:
            raise SystemExit("the run ended before it could be killed: give it more --pictures")
        time.sleep(_POLL_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def measure(options: argparse.Namespace, report: Report) -> None:
    """Kill a run, resume it, and index as many new pictures as the resumed run embedded."""
    folder = options.cache / f"{options.pictures}"
    paths = generate(folder, options.pictures)
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as name:
        scratch = Path(name)
        _kill_half_way(scratch / "killed", options.models, folder, options.pictures // _SLICE)
        resumed = _finish(scratch / "killed", options.models, None)
        fresh = scratch / "fresh-pictures"
        fresh.mkdir()
        for path in paths[-resumed["embedded"] :]:
            shutil.copy(path, fresh / path.name)
        peer = _finish(scratch / "fresh", options.models, fresh)
    for case, run in ((PEER, peer), (RESUMED, resumed)):
        report.record("pictures embedded", run["embedded"], case=case)
        report.record("pictures loaded", run["images"], case=case)
        report.record("seconds of a run", run["seconds"], case=case)
        report.record("processor seconds of a run", run["processor_seconds"], case=case)
    report.record("added by resuming, by the clock", resumed["seconds"] / peer["seconds"] - 1)
    report.record("added by resuming, by processor time", resumed["processor_seconds"] / peer["processor_seconds"] - 1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    from lodestone.config.settings import load_settings

    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--models", type=Path, default=load_settings().settings.models.cache.expanduser())
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)


def run_child(options: argparse.Namespace) -> bool:
    """Run the measured program if the options name a home; return whether they do."""
    if options.home:
        job_once(options.home, options.models, options.folder)
    return bool(options.home)


BENCHMARK = Benchmark(
    name="index_resume",
    about=__doc__,
    figures=(
        Figure("pictures embedded", "count"),
        Figure("pictures loaded", "count"),
        Figure("seconds of a run", "s"),
        Figure("processor seconds of a run", "processor s"),
        Figure("added by resuming, by the clock", "share", peer=PEER),
        Figure("added by resuming, by processor time", "share", peer=PEER),
    ),
    options=add_options,
    measure=measure,
    child=run_child,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
