"""Fake of a GPU that decodes JPEGs: Pillow on the CPU, with the limits and failures of a GPU. It measures nothing."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.imaging.gpu_jpeg import JpegFile


class OutOfMemoryError(RuntimeError):
    """What torch raises, by its name."""


@dataclass
class FakeGpu:
    """A `BatchDecoder`.

    Attributes:
        room: Most pictures of a batch that it has memory for.
        broken: Files that it refuses.
        batches: Numbers of pictures that it was called with.
        pause: Waited for in each call, if there is one.
    """

    room: int = 1_000
    broken: frozenset[bytes] = frozenset()
    batches: list[int] = field(default_factory=list)
    pause: threading.Event | None = None

    def decode(self, files: Sequence[JpegFile]) -> list[NDArray[np.uint8]]:
        self.batches.append(len(files))
        if self.pause is not None:
            self.pause.wait(180)
        if len(files) > self.room:
            raise OutOfMemoryError("this is a fake: CUDA out of memory")
        if any(file.data in self.broken for file in files):
            raise RuntimeError("this is a fake: nvJPEG refuses the file")
        return [_pixels(file) for file in files]


def _pixels(file: JpegFile) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(file.data)) as image:
        pixels = np.asarray(image, np.float32)
    rows, columns, _ = file.shape
    short = (rows * file.scale - pixels.shape[0], columns * file.scale - pixels.shape[1])
    squares = np.pad(pixels, ((0, short[0]), (0, short[1]), (0, 0)), mode="edge")
    squares = squares.reshape(rows, file.scale, columns, file.scale, 3)
    return squares.mean((1, 3)).round().astype(np.uint8)
