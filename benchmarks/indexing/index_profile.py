"""Processor time of an index run, stage by stage, beside the plain loop.

Both run in one process with one thread a model pass, which is what one of their workers does, over the same pictures, in turns.
A stage's time is the processor time of the thread that it runs in (for loading: of the process, because the store has threads
of its own). A stage inside another counts for itself alone. `everything else` is what the process spent outside of all stages.
Times an image are the slope of the straight line through a small and a large run. Its value at no picture is the fixed cost:
imports, models, opening the home.

    python -m benchmarks.indexing.index_throughput --profile --pictures 1000 --models FOLDER
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.data.pictures import generate
from benchmarks.harness import Report

ELSE: Final = "everything else"
TOTAL: Final = "all"
_ROOT: Final = Path(__file__).resolve().parents[2]
_SMALL_SHARE: Final = 4  # the small run has a quarter of the pictures

# Stage -> functions that are timed for it, `module:name`; {} stands for the name of the model whose method it is.
_MODELS: Final = {
    "resize for {}": ("lodestone.backbones.efficientnet_lite:EfficientNetLite.prepare",),
    "model {}": ("lodestone.backbones.onnx_backbone:OnnxBackbone.embed",),
    "open the models": ("lodestone.backbones.onnx_backbone:OnnxBackbone.warm_up",),
}
JOB: Final[Mapping[str, tuple[str, ...]]] = {
    "list and compare": ("lodestone.indexing.scan.changes:ChangeFinder.update",),
    "read and hash, to compare": ("lodestone.sources.content:hash_file",),
    "plan slices": ("lodestone.indexing.run.index_run:plan_slices",),
    "read": ("lodestone.sources.reading:_read_file",),
    "hash": ("lodestone.sources.reading:hash_bytes",),
    "decode": ("lodestone.indexing.slices.picture_inputs:decode",),
    "metadata": (
        "lodestone.imaging.decode:read_embedded",
        "lodestone.indexing.parts.metadata:read_metadata",
        "lodestone.indexing.parts.contract:embedded_captions",
    ),
    **_MODELS,
    "thumbnails": (
        "lodestone.imaging.thumbnails:ThumbnailStore.encode_missing",
        "lodestone.imaging.thumbnails:ThumbnailStore.put",
    ),
    "write": tuple(f"lodestone.indexing.slices.files:PartFiles.{name}" for name in ("adopt", "write")),
    "record": (
        "lodestone.indexing.embed.slice_batches:SliceBatches._receive",
        "lodestone.indexing.embed.slice_batches:SliceBatches._task",
    ),
    "load": ("lodestone.indexing.sync.catching_up:sync",),
    "verify": ("lodestone.indexing.sync.collections:verify",),
}
PEER: Final[Mapping[str, tuple[str, ...]]] = {
    "decode": ("benchmarks.indexing.peer_loop:_decoded",),
    **_MODELS,
    "write": ("benchmarks.indexing.peer_loop:_write",),
}
_BY_PROCESS: Final = frozenset({"load", "verify"})  # nothing else runs meanwhile


class Stages:
    """Processor seconds of functions, by stage. Instances are thread-safe."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._inside = threading.local()

    def watch(self, stages: Mapping[str, Sequence[str]]) -> None:
        """Time functions from now on, in a process that does nothing else.

        Args:
            stages: Stage -> functions and methods, `module:name`.

        Raises:
            AttributeError: there is no such function.
        """
        for stage, places in stages.items():
            for place in places:
                owner, name = locate(place)
                setattr(owner, name, self.timed(stage, getattr(owner, name)))

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function: its processor time counts for `stage`, without the time of other stages inside it."""
        clock = time.process_time if stage in _BY_PROCESS else time.thread_time

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the function takes
            inside: list[float] = self._inside.__dict__.setdefault("seconds", [])
            inside.append(0.0)
            started = clock()
            try:
                return function(*args, **kwargs)
            finally:
                spent = clock() - started
                own = spent - inside.pop()
                if inside:
                    inside[-1] += spent
                with self._lock:
                    self.seconds[stage.format(getattr(args[0], "name", "")) if "{}" in stage else stage] += own

        return call


def locate(place: str) -> tuple[Any, str]:
    """Return the module or class that holds `module:name` or `module:Class.name`, and the name in it."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def once(program: str, pictures: Path, out: Path, models: Path) -> dict[str, float]:
    """Run one program in this process; return stage -> processor seconds. `TOTAL` counts from the start of the process."""
    stages = Stages()
    stages.watch(JOB if program == "job" else PEER)
    if program == "job":
        from lodestone.config.settings import IndexSettings, ModelSettings, Settings
        from lodestone.home.runtime import Runtime
        from lodestone.indexing.run.index_run import index_paths
        from lodestone.indexing.run.report import IndexRequest

        # One batch of slices: between two of them, loading runs beside embedding, and a process has only one clock.
        index = IndexSettings(executor="inline", batch_slices=100_000, batch_s=86_400)
        settings = Settings(home=out, models=ModelSettings(cache=models, threads=1), index=index)
        with Runtime.open(settings, purpose="benchmark") as runtime:
            index_paths(runtime, IndexRequest((pictures,)))
    else:
        from benchmarks.indexing import peer_loop

        peer_loop.run_here(sorted(pictures.rglob("*.jpg")), out, models=models)
    total = time.process_time()
    return {**stages.seconds, ELSE: total - sum(stages.seconds.values()), TOTAL: total}


def profile(count: int, *, rounds: int, models: Path, cache: Path, report: Report) -> None:
    """Profile both programs over `count` generated pictures and over a quarter of them."""
    sizes = (max(count // _SMALL_SHARE, 1), count)
    for size in sizes:
        for path in generate(cache / f"{size}", size):
            path.read_bytes()  # both programs then find the files in memory
    runs: defaultdict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for number in range(rounds):
        for size in sizes:
            for program in ("peer", "job") if number % 2 == 0 else ("job", "peer"):
                runs[program, size].append(_apart(program, cache / f"{size}", models))
    job, peer = (_line(runs[program, sizes[0]], runs[program, sizes[1]], sizes) for program in ("job", "peer"))
    rows = [("stage", "job, ms an image", "peer, ms an image", "job, fixed s", "peer, fixed s")]
    for stage in [*(stage for stage in job if stage not in {ELSE, TOTAL}), ELSE, TOTAL]:
        (job_image, job_fixed), peer_costs = job[stage], peer.get(stage)
        peer_image, peer_fixed = ("", "") if peer_costs is None else (f"{1000 * peer_costs[0]:.2f}", f"{peer_costs[1]:.2f}")
        rows.append((stage, f"{1000 * job_image:.2f}", peer_image, f"{job_fixed:.2f}", peer_fixed))
    report.text(f"Processor time of one process over {sizes[0]:,} and {count:,} pictures; median of {rounds} rounds in turns.")
    report.table(rows)
    report.record("share of the job's time that stages explain", 1 - abs(job[ELSE][0]) / job[TOTAL][0])
    report.record("peer / job, processor time an image", peer[TOTAL][0] / job[TOTAL][0])


def _apart(program: str, pictures: Path, models: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        options = [program, str(pictures), f"{scratch}/out", str(models)]
        path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH", "")) if part)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.indexing.index_profile", *options]
        done = subprocess.run(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _line(
    small: Sequence[dict[str, float]], large: Sequence[dict[str, float]], sizes: tuple[int, int]
) -> dict[str, tuple[float, float]]:
    """Return stage -> (seconds an image, seconds at no image), in the order in which stages ran."""
    lines = {}
    for stage in large[0]:
        low, high = (statistics.median(seconds.get(stage, 0.0) for seconds in runs) for runs in (small, large))
        slope = (high - low) / (sizes[1] - sizes[0])
        lines[stage] = slope, low - slope * sizes[0]
    return lines


def main(arguments: Sequence[str]) -> None:
    """Profile one program in this process and print its seconds as JSON; `_apart` starts it."""
    program, pictures, out, models = arguments
    print(json.dumps(once(program, Path(pictures), Path(out), Path(models))))


if __name__ == "__main__":
    main(sys.argv[1:])
