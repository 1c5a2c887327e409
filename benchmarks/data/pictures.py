"""Generated pictures for benchmarks of indexing: seeded, photo-like JPEGs of about 500 pixels, made once and kept.

A picture is a sum of smooth random fields with edges and grain. It compresses to about the size of a photo (40 to 80 KB) and
costs as much to decode.
"""

from __future__ import annotations

import io
import multiprocessing as mp
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

_LONG_SIDE, _SHORT_SIDE = 500, 375
_FOLDER = 500  # pictures a folder


def generate(folder: Path, count: int, *, seed: int = 7) -> list[Path]:
    """Make sure that `folder` holds pictures 0 to count - 1 and return their paths. Existing ones are kept.

    Folders beside each other share their pictures by hard links, so each picture is made once. Do not write into one.
    """
    shared = folder.parent / f"made-{seed}"
    paths = [folder / f"{number // _FOLDER:03d}" / f"{number:06d}.jpg" for number in range(count)]
    missing = [(number, path) for number, path in enumerate(paths) if not path.exists()]
    made = [shared / path.relative_to(folder) for _, path in missing]
    for parent in {path.parent for path in (*made, *(path for _, path in missing))}:
        parent.mkdir(parents=True, exist_ok=True)
    if jobs := [(number, path, seed) for (number, _), path in zip(missing, made, strict=True) if not path.exists()]:
        with mp.get_context("spawn").Pool(os.cpu_count()) as pool:
            for _ in pool.imap_unordered(_write, jobs, chunksize=32):
                pass
    for (_, path), source in zip(missing, made, strict=True):
        with suppress(FileExistsError):  # another process has made it meanwhile
            path.hardlink_to(source)
    return paths


def _write(job: tuple[int, Path, int]) -> None:
    number, path, seed = job
    draw = np.random.default_rng([seed, number])
    width, height = (_LONG_SIDE, _SHORT_SIDE) if draw.random() < 0.7 else (_SHORT_SIDE, _LONG_SIDE)
    picture = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((3, 1.0), (9, 0.6), (31, 0.3), (110, 0.14)):
        small = Image.fromarray(draw.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        picture += weight * np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    picture *= 255.0 / picture.max()
    grain = draw.normal(0, 4, (height, width, 1)).astype(np.float32)
    image = Image.fromarray(np.clip(picture + grain, 0, 255).astype(np.uint8))
    _shapes(image, draw)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=88)
    temporary = path.with_suffix(".part")
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(path)


def _shapes(image: Image.Image, draw: np.random.Generator) -> None:
    """Draw sharp-edged objects into a picture, as photos have them."""
    for _ in range(int(draw.integers(3, 9))):
        side = int(draw.integers(30, 200))
        mask = Image.new("L", (side, side), 0)
        mask.paste(255, (side // 6, side // 6, side - side // 6, side - side // 6))
        mask = mask.rotate(float(draw.uniform(0, 90))).filter(ImageFilter.GaussianBlur(float(draw.uniform(0, 2))))
        colour = tuple(int(value) for value in draw.integers(0, 256, 3))
        image.paste(colour, (int(draw.integers(-50, image.width)), int(draw.integers(-50, image.height))), mask)
