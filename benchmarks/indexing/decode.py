"""Speed of decoding and resizing large JPEGs, beside plain Pillow: one core, the same files, in turns.

python -m benchmarks.decode --pictures 12
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns
from lodestone.imaging.decode import decode

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


def measure(options: argparse.Namespace, report: Report) -> None:
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
    parser.add_argument("--pictures", type=int, default=12)


BENCHMARK = Benchmark(
    name="decode",
    about=__doc__,
    figures=(Figure("processor time a picture", "processor ms"), Figure("speed-up", "ratio", peer=PILLOW)),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
