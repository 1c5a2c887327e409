"""How much memory does the driver of a run take when its manifest has a million rows, and what does resuming such a run cost?

The rows are synthetic: pictures in the catalog that wait to be embedded, in slices of 256. The driver is the real one (waves,
tries, recording, heartbeat) in a process of its own; only the workers are pretended: they write each slice's `meta` file, as
real ones do, and make up the rest. Then ten slices are declared unfinished and the run is resumed: that must cost what ten
slices cost, not what a million rows do. The peer is the same with a hundredth of the rows.

    python -m benchmarks.driver_memory --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.machine import describe_machine

GOAL_MB = 500
_BATCH = 5_000
_LEFT = 10  # slices that the resumed run has to do


class Pretend:
    """An executor whose workers know every answer. The pool of a run whose `index.executor` is `ray`."""

    def __init__(self) -> None:
        self.slices = 0
        self._embeddings: Any = None

    def __call__(self, settings: Any, _workers: int) -> Pretend:  # noqa: ANN401 - EmbedSettings, imported late
        """Take the settings of a run."""
        self._embeddings = settings.embeddings
        return self

    def start(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to stop."""

    def run(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Receipts as from real workers."""
        from lodestone.catalog.records import Receipt
        from lodestone.embeddings.slices import write_part
        from lodestone.embeddings.tables import meta_table
        from lodestone.indexing.tasks import META_PART, SliceReceipt

        for task in tasks:
            self.slices += 1
            rows = [
                {"image_id": row.image_id, "uri": row.uri, "hash": row.hash, "size": row.size, "mtime_ns": row.mtime_ns}
                | {"width": 500, "height": 375, "format": "JPEG"}
                for row in task.rows
            ]
            meta = write_part(self._embeddings, task.corpus_id, task.fingerprint, META_PART, meta_table(rows))
            receipts = [
                Receipt(task.slice_id, part, meta.path, meta.rows, meta.size, meta.checksum, 0.0) for part in task.parts
            ]
            yield SliceReceipt(task.slice_id, tuple(receipts), embedded=len(rows), worker="pretended:1")


def _open(home: Path, models: Path) -> Any:  # noqa: ANN401 - Runtime, imported late
    from lodestone.config.settings import IndexSettings, ModelSettings, Settings
    from lodestone.runtime import Runtime

    return Runtime.open(Settings(home=home, models=ModelSettings(cache=models), index=IndexSettings(executor="ray")))


def fill(home: Path, models: Path, rows: int) -> None:
    """Write the manifest: `rows` pending pictures of one root, in a run that was cut short before it embedded any."""
    from lodestone.catalog.identity import mint_image_id
    from lodestone.catalog.records import ImageRecord, ImageState, RunState
    from lodestone.indexing.history import KIND
    from lodestone.indexing.plan import plan_slices
    from lodestone.indexing.report import IndexRequest

    with _open(home, models) as runtime:
        catalog = runtime.catalog
        corpus = catalog.ensure_corpus("million")
        root = catalog.ensure_root(corpus.corpus_id, "/nowhere/pictures")
        uris = (f"{number // 1000:06d}/{number:09d}.jpg" for number in range(rows))
        while batch := list(islice(uris, _BATCH)):
            catalog.add_images(
                [
                    ImageRecord(
                        image_id=mint_image_id(corpus.corpus_id, root.name, uri),
                        corpus_id=corpus.corpus_id,
                        root_id=root.root_id,
                        uri=uri,
                        hash=uuid4().hex * 2,
                        size=60_000,
                        mtime_ns=1,
                        state=ImageState.PENDING,
                    )
                    for uri in batch
                ]
            )
        request = IndexRequest((Path(root.path),), corpus=corpus.name)
        run = catalog.start_run(KIND, corpus.corpus_id, request=request.as_dict())
        plan_slices(catalog, corpus.corpus_id, size=256, workers=2, again=(), run_id=run.run_id)
        catalog.update_run(run.run_id, stage="embed")
        catalog.finish_run(run.run_id, RunState.INTERRUPTED, "a benchmark")


def forget(home: Path, models: Path) -> None:
    """Declare some slices unfinished."""
    from lodestone.indexing.tasks import META_PART

    with _open(home, models) as runtime:
        slices = list(islice(runtime.catalog.slices(), _LEFT))
        for record in slices:
            runtime.catalog.forget_receipts(record.slice_id, [META_PART])


def drive(home: Path, models: Path) -> None:
    """The program that is measured: resume the last run; prints seconds, slices and peak memory as JSON."""
    from lodestone.indexing.report import IndexRequest
    from lodestone.indexing.run import index_paths

    pretend = Pretend()
    started = time.perf_counter()
    with _open(home, models) as runtime:
        before = _peak_mb()
        request = IndexRequest(corpus="million", resume="")
        report = index_paths(runtime, request, pool=pretend, synchronise=lambda *_, **__: None)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "slices": pretend.slices,
                "embedded": report.counts.get("embedded", 0),
                "images": report.images,
                "start_mb": before,
                "peak_mb": _peak_mb(),
            }
        )
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(rows: int, models: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the run over everything, the resumed run over a few slices) of a manifest of so many rows."""
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        home = Path(scratch) / "home"
        fill(home, models, rows)
        whole = _child(home, models)
        forget(home, models)
        return whole, _child(home, models)


def _child(home: Path, models: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.driver_memory", "--drive", str(home), "--models", str(models)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure a manifest of `--rows` rows, and one of a hundredth."""
    from lodestone.config.settings import load_settings

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--models", type=Path, default=load_settings().settings.models.cache.expanduser())
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        drive(arguments.drive, arguments.models)
        return
    print(describe_machine())
    print("|rows|slices|driver's peak MB|of which at start|ms a slice|resumed: slices|resumed: s|resumed: peak MB|")
    print("|---|---|---|---|---|---|---|---|")
    for rows in (arguments.rows // 100, arguments.rows):
        whole, resumed = measure(rows, arguments.models)
        print(
            f"|{rows:,}|{whole['slices']:,}|{whole['peak_mb']:.0f}|{whole['start_mb']:.0f}"
            f"|{1000 * whole['seconds'] / max(whole['slices'], 1):.0f}"
            f"|{resumed['slices']}|{resumed['seconds']:.1f}|{resumed['peak_mb']:.0f}|",
            flush=True,
        )
    print(f"goal: below {GOAL_MB} MB at {arguments.rows:,} rows: {'yes' if whole['peak_mb'] < GOAL_MB else 'no'}")


if __name__ == "__main__":
    main()
