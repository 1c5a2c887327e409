"""Speed of decoding: large JPEGs beside plain Pillow on one core, and small ones in child processes beside threads.

    python -m benchmarks.indexing.decode [--pictures 12] [--small 400] [--rounds 3]

Large ones are decoded and resized from the same files, in turns. Small ones (500 x 375) get everything that an index run does
to them before the models: decoding, inputs of two models, thumbnail, metadata; on all cores, by as many threads or children.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache, partial
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns
from lodestone.config.settings import ModelSettings
from lodestone.files.opening import open_area
from lodestone.imaging.decode import decode
from lodestone.indexing.slices.isolation import DecodingChildren
from lodestone.indexing.slices.preparing import Decode, decoder
from lodestone.indexing.tasks import EmbedSettings, SliceRow
from lodestone.models.hardware import cores

SIDE = 260
MEGAPIXELS_12 = (4000, 3000)
PILLOW, LODESTONE = "Pillow, open and resize", "Lodestone"


def photo_like(seed: int) -> bytes:
    """Return a 12-megapixel JPEG with structure at every scale: smooth noise of many octaves."""
    random = np.random.default_rng(seed)
    width, height = MEGAPIXELS_12
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(2, 9):
        small = random.random((height >> octave, width >> octave, 3), np.float32) * 255
        total += (
            np.asarray(Image.fromarray(small.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC), np.float32)
            / 7
        )
    buffer = io.BytesIO()
    Image.fromarray(total.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def with_pillow(data: bytes) -> None:
    """Open and resize a picture as a plain loop does."""
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def with_lodestone(data: bytes) -> None:
    """Decode a picture at a reduced size, then resize it."""
    decode(data, min_side=SIDE).image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def processor_ms(work: Callable[[bytes], None], data: bytes) -> float:
    """Return the processor time of one call, milliseconds."""
    started = time.process_time()
    work(data)
    return 1000 * (time.process_time() - started)


def small_rows(folder: Path, count: int) -> list[tuple[SliceRow, bytes]]:
    """Return planned rows with the content of small photo-like JPEGs."""
    rows = []
    for number in range(count):
        data = small_photo(number % 16)
        rows.append(
            (SliceRow(f"{number:032x}", f"{number:064x}", str(folder / f"{number}.jpg"), f"{number}.jpg", len(data), 0), data)
        )
    return rows


@cache
def small_photo(seed: int) -> bytes:
    """Return a JPEG of 500 x 375 pixels."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(photo_like(seed % 2))) as image:
        image.rotate(seed).resize((500, 375)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def measure_small(options: argparse.Namespace, report: Report) -> None:
    """Decode small pictures in threads and in children, which take turns."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, names = Path(scratch), ("efficientnet-lite0", "efficientnet-lite2")
        area = open_area(folder / "thumbnails")
        settings = EmbedSettings(
            names, "minilm", Path(ModelSettings().cache).expanduser(), open_area(folder / "embeddings"), area
        )
        rows = small_rows(folder, options.small)
        workers = cores()
        with closing(DecodingChildren(settings, workers)) as children, ThreadPoolExecutor(workers) as pool:
            here: Decode = decoder(settings, names)
            there: Decode = partial(children.decode, parts=names)

            def rate(decode: Decode) -> float:
                started = time.perf_counter()
                list(pool.map(lambda row: decode(*row), rows))
                return len(rows) / (time.perf_counter() - started)

            ways = {f"{workers} threads": here, f"{workers} children": there}
            for decode in ways.values():
                rate(decode)  # what is imported at the first picture does not count
            rates = take_turns({name: partial(rate, decode) for name, decode in ways.items()}, options.rounds)
    for name, values in rates.items():
        report.record("small pictures a second", values, case=name)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure large pictures, then small ones."""
    measure_large(options, report)
    measure_small(options, report)


def measure_large(options: argparse.Namespace, report: Report) -> None:
    """Decode every file with both programs, which take turns in being first."""
    files = [photo_like(seed) for seed in range(options.pictures)]
    programs = {PILLOW: with_pillow, LODESTONE: with_lodestone}
    for work in programs.values():
        work(files[0])  # what is imported at the first picture does not count

    def next_file(work: Callable[[bytes], None]) -> Callable[[], float]:
        remaining = iter(files)
        return lambda: processor_ms(work, next(remaining))

    times = take_turns({name: next_file(work) for name, work in programs.items()}, len(files), alternate=True)
    size = sum(map(len, files)) / len(files) / 1e6
    report.text(f"{len(files)} JPEGs of 12 megapixels, {size:.1f} MB each, to {SIDE} pixels.")
    for name, taken in times.items():
        report.record("processor time a picture", taken, case=name)
    report.record("speed-up", statistics.median(times[PILLOW]) / statistics.median(times[LODESTONE]))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, default=12, help="large ones")
    parser.add_argument("--small", type=int, default=400, help="small ones")
    parser.add_argument("--rounds", type=int, default=3)


BENCHMARK = Benchmark(
    name="decode",
    about=__doc__,
    figures=(
        Figure("processor time a picture", "processor ms"),
        Figure("speed-up", "ratio", peer=PILLOW),
        Figure("small pictures a second", "pictures/s", peer="as many threads"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
