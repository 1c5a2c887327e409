"""Duration of an index run over a folder of many small files that the catalog knows already and that have not changed.

The run is the real one: it walks the folder, compares every file's size and time with the catalog, looks for vanished pictures,
captions beside pictures, unplanned pictures and unfinished slices. The collections are not opened, because the synchronisation
of nothing costs the same for many pictures as for few. The peer walks the same folder and asks for each file's size and time.

    python -m benchmarks.indexing.unchanged --files 100000
    python -m benchmarks.indexing.unchanged --files 100000 --profile
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

import blake3

from benchmarks.harness import Benchmark, Figure, Report
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, Root, SliceRecord
from lodestone.config.settings import IndexSettings, ModelSettings, Settings, load_settings
from lodestone.home.runtime import Runtime
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

_GOAL_FILES: Final = 100_000  # the goal was stated for so many, and for any smaller number
PEER: Final = "os.walk and os.stat of the same files"
_FOLDER_FILES: Final = 1000
_SLICE: Final = 256


def write_files(folder: Path, count: int) -> None:
    """Write `count` files of different content, a thousand a folder."""
    for number in range(count):
        path = folder / f"{number // _FOLDER_FILES:04}" / f"{number:07}.jpg"
        if number % _FOLDER_FILES == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"picture {number}".encode())


def remember(runtime: Runtime, folder: Path, corpus: str) -> None:
    """Enter all files into the catalog as if they had been embedded."""
    catalog = runtime.catalog
    corpus_id = catalog.ensure_corpus(corpus).corpus_id
    root = catalog.ensure_root(corpus_id, str(folder))
    parts = SliceParts.of(runtime.backbones(), runtime.text_encoder).names()
    images = _images(folder, root, catalog.mint_image_ids)
    while batch := list(islice(images, _SLICE)):
        catalog.add_images(batch)
        record = SliceRecord(str(uuid4()), corpus_id, uuid4().hex, len(batch), datetime.now(UTC))
        catalog.add_slices([(record, [image.image_id for image in batch])])
        catalog.record_receipts(
            [Receipt(record.slice_id, part, f"{part}.parquet", len(batch), 1, "0" * 64, 0.0) for part in parts]
        )


def _images(folder: Path, root: Root, mint: object) -> Iterator[ImageRecord]:
    for parent in sorted(folder.iterdir()):
        files = sorted(parent.iterdir())
        uris = [f"{parent.name}/{file.name}" for file in files]
        ids: dict[str, str] = mint(root.corpus_id, root.name, uris)  # type: ignore[operator]
        for uri, file in zip(uris, files, strict=True):
            status = file.stat()
            yield ImageRecord(
                image_id=ids[uri],
                corpus_id=root.corpus_id,
                root_id=root.root_id,
                uri=uri,
                hash=blake3.blake3(file.read_bytes()).hexdigest(),
                size=status.st_size,
                mtime_ns=status.st_mtime_ns,
                state=ImageState.ACTIVE,
                width=1,
                height=1,
                format="JPEG",
                metadata_version=METADATA_VERSION,  # its header is not to be read
            )


def walk(folder: Path) -> tuple[int, float]:
    """Walk a folder as the peer does; return the number of files and the seconds that it took."""
    started = time.perf_counter()
    count = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            os.stat(f"{parent}/{name}")  # noqa: PTH116
            count += 1
    return count, time.perf_counter() - started


def again(runtime: Runtime, folder: Path) -> float:
    """Return the seconds of an index run that finds nothing to do.

    Raises:
        RuntimeError: the run found a change.
    """
    started = time.perf_counter()
    report = index_paths(runtime, IndexRequest((folder,)), synchronise=lambda *_, **__: None)
    seconds = time.perf_counter() - started
    if report.counts["unchanged"] != report.counts["found"]:
        raise RuntimeError(f"something had changed: {dict(report.counts)}")
    return seconds


def measure(options: argparse.Namespace, report: Report) -> None:
    """Index the folder again several times, and walk it as often."""
    models = load_settings().settings.models.cache
    with tempfile.TemporaryDirectory(prefix="lodestone-unchanged-") as scratch:
        folder = Path(scratch) / "photos"
        write_files(folder, options.files)
        settings = Settings(
            home=Path(scratch) / "home", models=ModelSettings(cache=models), index=IndexSettings(executor="inline")
        )
        with Runtime.open(settings, purpose="a benchmark") as runtime:
            remember(runtime, folder, "default")
            walks = [walk(folder)[1] for _ in range(options.runs)]
            runs = [again(runtime, folder) for _ in range(options.runs)]
            if options.profile:
                report.text(_profiled(runtime, folder))
    report.text(f"{options.files:,} unchanged files.")
    for case, seconds in (("index run", runs), (PEER, walks)):
        report.record("seconds", seconds, case=case)
        report.record("files a second", [options.files / value for value in seconds], case=case)
    report.record("index run, for up to 100,000 files", [value / max(options.files / _GOAL_FILES, 1) for value in runs])
    report.record("index run / peer", statistics.median(runs) / statistics.median(walks))
    report.record("peak memory of the process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _profiled(runtime: Runtime, folder: Path) -> str:
    profile, output = cProfile.Profile(), io.StringIO()
    profile.runcall(again, runtime, folder)
    pstats.Stats(profile, stream=output).sort_stats("tottime").print_stats(18)
    return f"```\n{output.getvalue().strip()}\n```"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")


BENCHMARK = Benchmark(
    name="unchanged",
    about=__doc__,
    figures=(
        Figure("seconds", "s"),
        Figure("files a second", "files/s"),
        Figure("index run, for up to 100,000 files", "s"),
        Figure("index run / peer", "ratio", peer=PEER),
        Figure("peak memory of the process", "MB"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
