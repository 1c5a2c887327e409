"""How fast are large JPEGs decoded and resized, beside plain Pillow? One core, in turns, the same files.

python -m benchmarks.decode --pictures 12
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.machine import describe_machine, spread, table, verdict
from lodestone.imaging.decode import decode

GOAL = 1.3
SIDE = 260
MEGAPIXELS_12 = (4000, 3000)


def photo_like(seed: int) -> bytes:
    """A 12-megapixel JPEG with structure at every scale: smooth noise of many octaves."""
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
    """Open and resize, as a plain loop does."""
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def with_ours(data: bytes) -> None:
    """Decode at a reduced size, then resize."""
    decode(data, min_side=SIDE).image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def timed(work: Callable[[bytes], None], data: bytes) -> float:
    """Processor seconds."""
    started = time.process_time()
    work(data)
    return time.process_time() - started


def main() -> None:
    """Print medians and quartiles of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=12)
    count = parser.parse_args().pictures
    files = [photo_like(seed) for seed in range(count)]
    times: dict[str, list[float]] = {"Pillow, open and resize": [], "Lodestone": []}
    programs = {"Pillow, open and resize": with_pillow, "Lodestone": with_ours}
    for work in programs.values():
        work(files[0])  # what is imported at the first picture does not count
    for number, data in enumerate(files):
        for name in list(programs) if number % 2 == 0 else reversed(programs):
            times[name].append(1000 * timed(programs[name], data))
    print(describe_machine())
    size = sum(map(len, files)) / count / 1e6
    print(f"\n{count} JPEGs of 12 megapixels, {size:.1f} MB each, to {SIDE} pixels; processor ms.\n")
    print(table([("", "median [quartiles]"), *((name, spread(taken)) for name, taken in times.items())]))
    pillow, ours = (statistics.median(taken) for taken in times.values())
    print(f"\n{pillow / ours:.1f} times as fast; goal {GOAL}: {verdict(met=pillow / ours >= GOAL)}.")


if __name__ == "__main__":
    main()
