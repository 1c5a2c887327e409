"""How busy eight fast GPUs are kept by one driver: a dataset on a local Ray, each of whose actors has a pretended GPU.

Everything between the catalog and the GPU's pass is real: slices and pictures of a catalog (SQLite), attempts, tasks, feed,
ledger, Ray Data, receipts, `meta` files and the recording of every picture. Two things are pretended in two ways:

- `timed`: an actor finishes its slices at the rate of its GPU, one after the other, writes their `meta` files and does nothing
  else. The figure is what the driver and Ray Data can keep up with, since actors share the cores with them here.
- `unrecorded`: the same with tasks that were made before, and nothing recorded: what is left to the driver by the machine.
- `pipeline`: actors run the real pipeline over a pretended bucket, GPU and decoder (see feed.py), at a lower rate, because its
  Python needs about a third of a millisecond of a core for each picture.

The busy share is the rate of recorded pictures, divided by that of all GPUs. It is taken over the middle eight tenths of the
receipts, when all actors are there. The driver's processor time tells at what rate one core of it would be the limit; that of
the actors and Ray's processes, what they take from the same cores here.

    python -m benchmarks.indexing.cluster_feed
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import psutil

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.indexing.feed import Bucket, Latency, NoTexts, PretendedArea, PretendedGpu, PretendedReader, PretendedStages
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import mint_image_id
from lodestone.catalog.records import ImageRecord, ImageState, Receipt
from lodestone.embeddings.slices import write_part
from lodestone.embeddings.tables import meta_table
from lodestone.files.opening import open_area
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.embed.slice_batches import SliceBatches, SliceBatchLimits
from lodestone.indexing.embed.slicing import plan_slices
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import silent
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.tasks import (
    META_PART,
    EmbedSettings,
    SliceProgressCallback,
    SliceReceipt,
    SliceRow,
    SliceTask,
    ignore_progress,
    this_worker,
)
from lodestone_jobs.embedding import RayExecutor

TIMED, UNRECORDED, PIPELINE = "slices by the clock", "the same, nothing recorded", "the real pipeline"
_SLICE = 256
_BATCH = 5_000
_PICTURE = bytes(64)
_LOADS = "loads"
_READ_S, _DECODE_S, _DECODERS, _READS = 0.01, 0.002, 8, 64


def note_load(settings: EmbedSettings) -> None:
    """Note that an actor loads its models, in a file that all of them append to."""
    with (settings.models / _LOADS).open("a") as file:
        file.write("loaded\n")


@dataclass(frozen=True, slots=True)
class LoadPipeline:
    """Makes the real pipeline with a pretended GPU of so many images a second."""

    rate: float
    side: int

    def __call__(self, settings: EmbedSettings) -> SlicePipeline:
        """Return the pipeline with its pretended models."""
        note_load(settings)
        bucket = Bucket(Latency(_READ_S, 0.0, 1e9, 10_000))
        settings = replace(settings, thumbnails=PretendedArea(bucket))
        gpu = PretendedGpu(self.rate, self.side)
        stages = PretendedStages(settings, gpu, PretendedReader(bucket, _PICTURE), _DECODE_S)
        limits = PipelineLimits(slices=16, batch_size=256, remote_reads=_READS, decoders=_DECODERS, writers=4)
        return SlicePipeline(settings, work=stages, limits=limits)


@dataclass(frozen=True, slots=True)
class LoadTimed:
    """Makes a `TimedPipeline` of so many images a second."""

    rate: float

    def __call__(self, settings: EmbedSettings) -> TimedPipeline:
        """Return the pipeline with its pretended models."""
        note_load(settings)
        return TimedPipeline(settings, self.rate)


class TimedPipeline:
    """Stands for a pipeline and its only flow: one slice after the other takes as long as the GPU would need.

    Args:
        settings: Area of the files.
        rate: Images a second.
    """

    def __init__(self, settings: EmbedSettings, rate: float) -> None:
        self._settings = settings
        self._rate = rate
        self._tasks: queue.SimpleQueue[SliceTask] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[SliceReceipt] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def flow(self) -> AbstractContextManager[TimedPipeline]:
        """Return the pipeline itself, which is its only flow."""
        return nullcontext(self)

    def admit(self, task: SliceTask) -> None:
        """Take a task to be finished by the clock."""
        self._tasks.put(task)

    def take(self) -> SliceReceipt:
        """Wait for the next receipt, and return it."""
        return self._done.get()

    def _work(self) -> None:
        free = time.perf_counter()
        while True:
            task = self._tasks.get()
            free = max(free, time.perf_counter()) + len(task.rows) / self._rate
            receipt = self._receipt(task)
            time.sleep(max(free - time.perf_counter(), 0.0))
            self._done.put(receipt)

    def _receipt(self, task: SliceTask) -> SliceReceipt:
        rows = [
            {"image_id": row.image_id, "uri": row.uri, "hash": row.hash, "size": row.size, "mtime_ns": row.mtime_ns}
            | {"width": 500, "height": 375, "format": "JPEG", "metadata_version": METADATA_VERSION}
            for row in task.rows
        ]
        meta = write_part(self._settings.embeddings, task.corpus_id, task.fingerprint, META_PART, meta_table(rows))
        receipts = [Receipt(task.slice_id, part, meta.path, meta.rows, meta.size, meta.checksum, 0.0) for part in task.parts]
        return SliceReceipt(task.slice_id, tuple(receipts), embedded=len(rows), worker=this_worker())


class Mark(NamedTuple):
    """Moment of a receipt: seconds on the clock, and seconds of processor time of the driver and of its child processes."""

    clock: float
    driver: float
    others: float


class Middle(NamedTuple):
    """Figures of a run.

    Attributes:
        rate: Images a second over the middle eight tenths.
        driver: Milliseconds of the driver's processor time a picture, over the same.
        others: Those of its child processes.
        first: Seconds from the start of Ray to the first receipt.
        loads: Times that models were loaded.
    """

    rate: float
    driver: float
    others: float
    first: float
    loads: int


class Watched:
    """An executor that notes the time, and the processor time, at the first and the ninth tenth of the receipts.

    Args:
        executor: The executor.
        slices: Number of receipts.
        scratch: Folder in which actors note that they load their models.
    """

    def __init__(self, executor: RayExecutor, slices: int, scratch: Path) -> None:
        self._executor = executor
        self._scratch = scratch
        self._started = self._first = 0.0
        self._between = slices // 10, slices - slices // 10 - 1
        self._marks: list[Mark] = []

    def start(self) -> None:
        """Start the executor that is watched."""
        self._executor.start()

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Pass the receipts of the executor on.

        Raises:
            SystemExit: a slice failed.
        """
        self._started = self._started or time.perf_counter()
        for number, receipt in enumerate(self._executor.run(tasks, report_progress)):
            self._first = self._first or time.perf_counter()
            if receipt.error is not None:
                raise SystemExit(f"a slice failed: {receipt.error}")
            yield receipt
            if number in self._between:
                self._marks.append(Mark(time.perf_counter(), time.process_time(), _seconds_of_children()))

    def close(self) -> None:
        """Close the executor that is watched."""
        self._executor.close()

    def middle(self) -> Middle:
        """Return the figures without the first and last tenths."""
        began, ended = self._marks
        pictures = (self._between[1] - self._between[0]) * _SLICE
        driver, others = (1000 * (after - before) / pictures for before, after in zip(began[1:], ended[1:], strict=True))
        loads = len((self._scratch / _LOADS).read_text().splitlines())
        return Middle(pictures / (ended.clock - began.clock), driver, others, self._first - self._started, loads)


def _seconds_of_children() -> float:
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended meanwhile
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def fill(catalog: Catalog, corpus_id: str, pictures: int) -> None:
    """Write pictures of a bucket that wait to be embedded, in slices."""
    root = catalog.ensure_root(corpus_id, "s3://bucket/pictures")
    uris = (f"{number // 1000:06d}/{number:09d}.jpg" for number in range(pictures))
    while batch := list(islice(uris, _BATCH)):
        catalog.add_images(
            [
                ImageRecord(
                    image_id=mint_image_id(corpus_id, root.name, uri),
                    corpus_id=corpus_id,
                    root_id=root.root_id,
                    uri=uri,
                    hash=hash_bytes(uri.encode()),
                    size=len(_PICTURE),
                    mtime_ns=1,
                    state=ImageState.PENDING,
                )
                for uri in batch
            ]
        )


def run_once(load: LoadPipeline | LoadTimed, actors: int, pictures: int) -> Middle:
    """Embed so many pretended pictures, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        settings = _settings(Path(scratch))
        parts = SliceParts.of([PretendedGpu(1.0, 1)], NoTexts())
        with Catalog.open(Path(scratch) / "catalog.sqlite") as catalog:
            corpus = catalog.ensure_corpus("pretended")
            fill(catalog, corpus.corpus_id, pictures)
            run = catalog.start_run("index", corpus.corpus_id)
            slices = plan_slices(catalog, corpus.corpus_id, size=_SLICE, workers=1, again=(), run_id=run.run_id)
            watched = Watched(RayExecutor(settings, actors, load=load), slices, Path(scratch))  # type: ignore[arg-type]
            limits = SliceBatchLimits()
            with Heartbeat(catalog, run.run_id) as heartbeat:
                batches = SliceBatches(
                    catalog, settings.embeddings, corpus.corpus_id, run.run_id, parts, heartbeat, silent, limits
                )
                try:
                    batches.run(watched, rows=pictures, after_batch=lambda: None)
                finally:
                    watched.close()
        return watched.middle()


def run_unrecorded(load: LoadTimed, actors: int, pictures: int) -> Middle:
    """Hand out so many pretended pictures whose tasks are made already, drop the receipts, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        parts = SliceParts.of([PretendedGpu(1.0, 1)], NoTexts()).names()
        token, corpus_id = hash_bytes(_PICTURE), str(UUID(int=0))
        names = [f"{number // 1000:06d}/{number:09d}.jpg" for number in range(_SLICE)]
        rows = tuple(
            SliceRow(mint_image_id(corpus_id, "pictures", name), token, f"s3://bucket/pictures/{name}", name, len(_PICTURE), 1)
            for name in names
        )
        slices = pictures // _SLICE
        tasks = [SliceTask(str(UUID(int=number)), corpus_id, f"{number:032x}", rows, parts) for number in range(slices)]
        executor = RayExecutor(_settings(Path(scratch)), actors, load=load)  # type: ignore[arg-type]
        watched = Watched(executor, slices, Path(scratch))
        try:
            for _ in watched.run(tasks):
                pass
        finally:
            watched.close()
        return watched.middle()


def _settings(scratch: Path) -> EmbedSettings:
    return EmbedSettings((), "", scratch, open_area(scratch / "embeddings"), open_area(scratch / "thumbnails"))


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure the driver with slices by the clock, recorded and not, and with the real pipeline; the cases take turns."""
    timed, pipeline = LoadTimed(options.rate), LoadPipeline(options.pipeline_rate, options.side)
    cases: dict[str, tuple[Callable[[], Middle], float]] = {}
    if options.pictures:
        cases[TIMED] = partial(run_once, timed, options.actors, options.pictures), options.rate
        cases[UNRECORDED] = partial(run_unrecorded, timed, options.actors, options.pictures), options.rate
    if options.pipeline_pictures:
        cases[PIPELINE] = partial(run_once, pipeline, options.actors, options.pipeline_pictures), options.pipeline_rate
    found: dict[str, list[Middle]] = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case, (run, rate) in cases.items():
            middle = run()
            found[case].append(middle)
            report.progress(
                f"{case}: {middle.rate:,.0f} of {options.actors * rate:,.0f} images/s; the driver takes {middle.driver:.4f} ms "
                f"a picture, the others {middle.others:.4f}; first receipt after {middle.first:.1f} s, {middle.loads} loads"
            )
    for case, (_, rate) in cases.items():
        report.record("images a second", [middle.rate for middle in found[case]], case=case)
        report.record("GPUs busy", [middle.rate / (options.actors * rate) for middle in found[case]], case=case)
        report.record("driver's processor time a picture", [middle.driver for middle in found[case]], case=case)
        report.record("others' processor time a picture", [middle.others for middle in found[case]], case=case)
        report.record("seconds to the first receipt", [middle.first for middle in found[case]], case=case)
        report.record("models loaded", [float(middle.loads) for middle in found[case]], case=case)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--actors", type=int, default=8)
    parser.add_argument("--pictures", type=int, default=102_400, help="by the clock; 0 leaves it out")
    parser.add_argument("--rate", type=float, default=2500.0, help="images a second of each GPU, by the clock")
    parser.add_argument("--pipeline-pictures", type=int, default=20_480, help="through the real pipeline; 0 leaves it out")
    parser.add_argument("--pipeline-rate", type=float, default=250.0, help="images a second of each GPU, with the pipeline")
    parser.add_argument("--side", type=int, default=16, help="pixels on a side of the model's input")
    parser.add_argument("--rounds", type=int, default=1)


BENCHMARK = Benchmark(
    name="cluster_feed",
    about=__doc__,
    figures=(
        Figure("images a second", "images/s"),
        Figure("GPUs busy", "share"),
        Figure("driver's processor time a picture", "ms"),
        Figure("others' processor time a picture", "ms"),
        Figure("seconds to the first receipt", "s"),
        Figure("models loaded", "count"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
