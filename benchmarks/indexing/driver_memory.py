"""Memory of a run's driver when its manifest has a million rows, and the cost of resuming such a run.

The rows are synthetic: pictures in the catalog that wait to be embedded, in slices of 256. The driver is the real one (batches
of slices, attempts, recording, heartbeat) in a process of its own. The workers are simulated: they write each slice's `meta`
file, as real ones do, and make up the rest. Then ten slices are declared unfinished and the run is resumed. That must cost what
ten slices cost, not what a million rows cost. The peer is the same with a hundredth of the rows.

    python -m benchmarks.indexing.driver_memory --rows 1000000

With `--slices` the benchmark instead measures how long it takes to count and list ten unfinished slices among so many (one
picture each, two parts). `--catalog` names an empty database of PostgreSQL for it; without the option it is SQLite.

    python -m benchmarks.indexing.driver_memory --slices 1000000
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
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.harness import Benchmark, Figure, Report

_BATCH = 5_000
_LEFT = 10  # slices that the resumed run has to do


class Pretend:
    """Executor with simulated workers: the pool of a run whose `index.executor` is `ray`."""

    def __init__(self) -> None:
        self.slices = 0
        self._embeddings: Any = None

    def __call__(self, settings: Any, _workers: int) -> Pretend:  # noqa: ANN401 - EmbedSettings, imported late
        """Take the settings of a run and return the pool."""
        self._embeddings = settings.embeddings
        return self

    def start(self) -> None:
        """Start nothing: there are no processes."""

    def close(self) -> None:
        """Stop nothing: there are no processes."""

    def run(self, tasks: Iterable[Any], report_progress: object = None) -> Iterator[Any]:  # noqa: ARG002 - receipts alone
        """Return receipts as real workers do."""
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
    from lodestone.home.runtime import Runtime

    return Runtime.open(Settings(home=home, models=ModelSettings(cache=models), index=IndexSettings(executor="ray")))


def fill(home: Path, models: Path, rows: int) -> None:
    """Write the manifest: `rows` pending pictures of one root, in a run that was interrupted before it embedded any."""
    from lodestone.catalog.identity import mint_image_id
    from lodestone.catalog.records import ImageRecord, ImageState, RunState
    from lodestone.indexing.embed.slicing import plan_slices
    from lodestone.indexing.run.report import IndexRequest
    from lodestone.indexing.scan.interrupted_runs import KIND

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
    """Declare `_LEFT` slices unfinished."""
    from lodestone.indexing.tasks import META_PART

    with _open(home, models) as runtime:
        slices = list(islice(runtime.catalog.slices(), _LEFT))
        for record in slices:
            runtime.catalog.forget_receipts(record.slice_id, [META_PART])


def drive(home: Path, models: Path) -> None:
    """Resume the last run: the program that is measured. Prints seconds, slices and peak memory as JSON."""
    from lodestone.indexing.run.index_run import index_paths
    from lodestone.indexing.run.report import IndexRequest

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


class _Ids:
    """Identifiers in ascending order, which fill a database many times as fast as random ones."""

    def __init__(self, first: str) -> None:
        self._first = first

    def __getitem__(self, place: int) -> str:
        return f"{self._first}{place:035d}"


def fill_slices(location: str | Path, slices: int) -> None:
    """Fill a catalog with slices, all finished but ten that are spread among them."""
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.tables import corpora, images, receipts, roots
    from lodestone.catalog.tables import slices as slice_rows

    now, corpus, root = datetime.now(UTC), str(uuid4()), str(uuid4())
    image_ids, slice_ids = _Ids("a"), _Ids("b")
    every = max(slices // _LEFT, 1)
    common: dict[str, dict[str, Any]] = {
        "slices": {"corpus_id": corpus, "rows": 1, "created_at": now},
        "images": {"corpus_id": corpus, "root_id": root, "size": 1, "mtime_ns": 1, "state": "active"}
        | {"width": 1, "height": 1, "format": "JPEG"},
        "receipts": {"rows": 1, "size": 1, "checksum": "0" * 64, "seconds": 0.0},
    }

    def pages() -> Iterator[tuple[Any, list[dict[str, Any]]]]:
        yield corpora, [{"corpus_id": corpus, "name": "million", "created_at": now}]
        yield roots, [{"root_id": root, "corpus_id": corpus, "name": "pictures", "path": "/nowhere/pictures"}]
        for table, rows_of in ((slice_rows, slice_row), (images, image_row), (receipts, receipt_rows)):
            for start in range(0, slices, _BATCH):
                places = range(start, min(start + _BATCH, slices))
                yield table, [common[table.name] | row for place in places for row in rows_of(place)]

    def slice_row(place: int) -> list[dict[str, Any]]:
        return [{"slice_id": slice_ids[place], "fingerprint": slice_ids[place], "seq": place + 1}]

    def image_row(place: int) -> list[dict[str, Any]]:
        ids = {"image_id": image_ids[place], "slice_id": slice_ids[place], "hash": image_ids[place]}
        return [{**ids, "uri": f"{place:09d}.jpg"}]

    def receipt_rows(place: int) -> list[dict[str, Any]]:
        parts = ("meta",) if place % every == 0 and place // every < _LEFT else ("lite0-v1", "meta")
        return [{"slice_id": slice_ids[place], "part": part, "path": f"{place}.{part}"} for part in parts]

    with Catalog.open(location) as catalog:
        catalog.import_rows(pages())


def look(location: str | Path) -> None:
    """Count and list unfinished slices: the program that is measured. Prints seconds and peak memory as JSON."""
    from lodestone.catalog.catalog import Catalog

    with Catalog.open(location) as catalog:
        corpus = catalog.corpus("million")
        before = _peak_mb()
        counting, listing = [], []
        for _ in range(3):
            started = time.perf_counter()
            count, _rows = catalog.count_unfinished(("lite0-v1", "meta"), corpus.corpus_id)
            counting.append(time.perf_counter() - started)
            started = time.perf_counter()
            listed = sum(1 for _ in catalog.unfinished_slices(("lite0-v1", "meta"), corpus.corpus_id))
            listing.append(time.perf_counter() - started)
    measured = {"count": count, "listed": listed, "count_s": min(counting), "list_s": min(listing)}
    print(json.dumps({**measured, "more_mb": _peak_mb() - before}))


def measure_slices(slices: int, location: str, report: Report) -> None:
    """Measure counting and listing of unfinished slices; `location` is empty for SQLite."""
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        url = location or f"sqlite:///{scratch}/catalog.sqlite"
        fill_slices(url, slices)
        measured = _run("--look", url)
    case = f"{measured['listed']} of {slices:,} slices, {url.partition('+')[0].partition(':')[0]}"
    report.record("counting unfinished slices", 1000 * measured["count_s"], case=case)
    report.record("listing unfinished slices", 1000 * measured["list_s"], case=case)
    report.record("memory for counting and listing", measured["more_mb"], case=case)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_rows(rows: int, models: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the run over a manifest of `rows` and the resumed run over a few slices cost."""
    with tempfile.TemporaryDirectory(prefix="lodestone-benchmark-") as scratch:
        home = Path(scratch) / "home"
        fill(home, models, rows)
        first = _child(home, models)
        forget(home, models)
        return first, _child(home, models)


def _child(home: Path, models: Path) -> dict[str, Any]:
    return _run("--drive", str(home), "--models", str(models))


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.indexing.driver_memory", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure a manifest of `--rows` rows and one of a hundredth of them, or counting among `--slices` slices."""
    if options.slices:
        measure_slices(options.slices, options.catalog, report)
        return
    for rows in (options.rows // 100, options.rows):
        first, resumed = measure_rows(rows, options.models)
        case = f"{rows:,} rows"
        report.record("slices", first["slices"], case=case)
        report.record("peak memory of the driver", first["peak_mb"], case=case)
        report.record("memory at the start", first["start_mb"], case=case)
        report.record("driver's time a slice", 1000 * first["seconds"] / max(first["slices"], 1), case=case)
        report.record("resumed: slices", resumed["slices"], case=case)
        report.record("resumed: time", resumed["seconds"], case=case)
        report.record("resumed: peak memory", resumed["peak_mb"], case=case)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    from lodestone.config.settings import load_settings

    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--models", type=Path, default=load_settings().settings.models.cache.expanduser())
    parser.add_argument("--slices", type=int, default=0)
    parser.add_argument("--catalog", default="", help="URL of an empty database, for --slices")
    parser.add_argument("--look", default="", help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)


def run_child(options: argparse.Namespace) -> bool:
    """Run the measured program that the options ask for; return whether they ask for one."""
    if options.drive:
        drive(options.drive, options.models)
    elif options.look:
        look(options.look)
    return bool(options.drive or options.look)


BENCHMARK = Benchmark(
    name="driver_memory",
    about=__doc__,
    figures=(
        Figure("slices", "count"),
        Figure("peak memory of the driver", "MB", peer="a hundredth of the rows"),
        Figure("memory at the start", "MB"),
        Figure("driver's time a slice", "ms"),
        Figure("resumed: slices", "count"),
        Figure("resumed: time", "s", peer="a hundredth of the rows"),
        Figure("resumed: peak memory", "MB"),
        Figure("counting unfinished slices", "ms"),
        Figure("listing unfinished slices", "ms"),
        Figure("memory for counting and listing", "MB"),
    ),
    options=add_options,
    measure=measure,
    child=run_child,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
