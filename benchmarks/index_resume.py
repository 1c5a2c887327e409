"""What does resuming a killed index run cost over the work that it had left?

A run is killed (SIGKILL, the whole process group) when about half of its slices are finished, and resumed by a new process. The
peer is a run over as many new pictures as the resumed run embedded, in a home of its own: the same pictures, the same models,
nothing to resume. Both load what they must: the resumed run everything, because the killed one loaded nothing yet.

    python -m benchmarks.index_resume --pictures 2000 --models FOLDER
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

from benchmarks.machine import describe_machine, verdict
from benchmarks.pictures import generate

GOAL = 0.1
_POLL_S = 0.05
_SLICE = 64


def job_once(home: Path, models: Path, folder: Path | None) -> None:
    """The program that is measured: index `folder`, or resume; prints the report and the processor seconds of all."""
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
    return [sys.executable, "-m", "benchmarks.index_resume", *options]


def _finish(home: Path, models: Path, folder: Path | None) -> dict[str, Any]:
    done = subprocess.run(_command(home, models, folder), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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


def main() -> None:
    """Kill, resume, compare."""
    from lodestone.config.settings import load_settings

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--models", type=Path, default=load_settings().settings.models.cache.expanduser())
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.home:
        job_once(arguments.home, arguments.models, arguments.folder)
        return
    print(describe_machine())
    folder = arguments.cache / f"{arguments.pictures}"
    paths = generate(folder, arguments.pictures)
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as name:
        scratch = Path(name)
        _kill_half_way(scratch / "killed", arguments.models, folder, arguments.pictures // _SLICE)
        resumed = _finish(scratch / "killed", arguments.models, None)
        fresh = scratch / "fresh-pictures"
        fresh.mkdir()
        for path in paths[-resumed["embedded"] :]:
            shutil.copy(path, fresh / path.name)
        peer = _finish(scratch / "fresh", arguments.models, fresh)
    print("| |pictures embedded|pictures loaded|seconds|processor seconds|")
    print("|---|---|---|---|---|")
    for name, one in (("new run over as many (peer)", peer), ("resumed run", resumed)):
        print(f"|{name}|{one['embedded']:,}|{one['images']:,}|{one['seconds']:.1f}|{one['processor_seconds']:.1f}|")
    by_clock = resumed["seconds"] / peer["seconds"] - 1
    by_work = resumed["processor_seconds"] / peer["processor_seconds"] - 1
    print(f"resuming adds {by_clock:+.1%} by the clock, {by_work:+.1%} by processor seconds")
    print(f"goal: by the clock at most {GOAL:.0%}: {verdict(met=by_clock <= GOAL)}")


if __name__ == "__main__":
    main()
