"""How long does indexing take when nothing has changed? A folder of many small files that the catalog knows already.

The run is the real one: it walks the folder, compares every file's size and time with the catalog, looks for vanished pictures,
captions beside pictures, unplanned pictures and unfinished slices. (The collections are not opened: with nothing to load a sync
costs no more for many pictures than for few.) The peer walks the same folder and asks for each file's size and time, nothing
else.

    python -m benchmarks.unchanged --files 100000
    python -m benchmarks.unchanged --files 100000 --profile
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

import blake3

from benchmarks.machine import describe_machine, spread, table, verdict
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, Root, SliceRecord
from lodestone.config.settings import IndexSettings, ModelSettings, Settings, load_settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.tasks import SliceParts

GOAL_SECONDS: Final = 60.0  # for up to 100,000 files
_FOLDER_FILES: Final = 1000
_SLICE: Final = 256


def write_files(folder: Path, count: int) -> None:
    """`count` files of different content, a thousand a folder."""
    for number in range(count):
        path = folder / f"{number // _FOLDER_FILES:04}" / f"{number:07}.jpg"
        if number % _FOLDER_FILES == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"picture {number}".encode())


def remember(runtime: Runtime, folder: Path, corpus: str) -> None:
    """Enter all files in the catalog as if they had been embedded."""
    catalog = runtime.catalog
    corpus_id = catalog.ensure_corpus(corpus).corpus_id
    root = catalog.ensure_root(corpus_id, str(folder))
    parts = SliceParts.of(runtime.backbones(), runtime.text_encoder).names()
    images = _images(folder, root, catalog.mint_image_ids)
    while some := list(islice(images, _SLICE)):
        catalog.add_images(some)
        record = SliceRecord(str(uuid4()), corpus_id, uuid4().hex, len(some), datetime.now(UTC))
        catalog.add_slices([(record, [image.image_id for image in some])])
        catalog.record_receipts(
            [Receipt(record.slice_id, part, f"{part}.parquet", len(some), 1, "0" * 64, 0.0) for part in parts]
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
            )


def walk(folder: Path) -> tuple[int, float]:
    """The peer: how many files, in how many seconds."""
    started = time.perf_counter()
    count = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            os.stat(f"{parent}/{name}")  # noqa: PTH116
            count += 1
    return count, time.perf_counter() - started


def again(runtime: Runtime, folder: Path) -> float:
    """Seconds of an index run that finds nothing to do."""
    started = time.perf_counter()
    report = index_paths(runtime, IndexRequest((folder,)), synchronise=lambda *_, **__: None)
    seconds = time.perf_counter() - started
    if report.counts["unchanged"] != report.counts["found"]:
        raise RuntimeError(f"something had changed: {dict(report.counts)}")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figure beside its peer's; with --profile, also where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args(arguments)
    models = load_settings().settings.models.cache
    with tempfile.TemporaryDirectory(prefix="lodestone-unchanged-") as scratch:
        folder = Path(scratch) / "photos"
        write_files(folder, chosen.files)
        settings = Settings(
            home=Path(scratch) / "home", models=ModelSettings(cache=models), index=IndexSettings(executor="inline")
        )
        with Runtime.open(settings, purpose="a benchmark") as runtime:
            remember(runtime, folder, "default")
            peer = [walk(folder)[1] for _ in range(chosen.runs)]
            ours = [again(runtime, folder) for _ in range(chosen.runs)]
            if chosen.profile:
                profile = cProfile.Profile()
                profile.runcall(again, runtime, folder)
                pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(18)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(describe_machine())
    print()
    rows = [
        ("what", "seconds", "files a second"),
        (
            f"`lodestone index` over {chosen.files:,} unchanged files",
            spread(ours),
            f"{chosen.files / statistics.median(ours):,.0f}",
        ),
        ("peer: os.walk and os.stat of the same files", spread(peer), f"{chosen.files / statistics.median(peer):,.0f}"),
    ]
    print(table(rows))
    most = GOAL_SECONDS * max(chosen.files / 100_000, 1)
    print(f"\nGoal: under {most:.0f} s: {verdict(met=statistics.median(ours) < most)}.")
    print(f"Peak memory of the process: {memory:.0f} MB.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
