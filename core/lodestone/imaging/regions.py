"""Regions of pictures, in shares of their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image


def cropped(image: Image.Image, box: tuple[float, float, float, float]) -> NDArray[np.uint8]:
    """Return the pixels of a region, at least one: (h, w, 3) uint8 RGB.

    Args:
        image: The picture.
        box: Left edge, upper edge, width and height of the region, in shares of the picture's size.
    """
    pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[:2]
    left, upper = (min(int(at * size), size - 1) for at, size in ((box[0], width), (box[1], height)))
    right, lower = (
        max(start + 1, min(round((at + length) * size), size))
        for start, at, length, size in ((left, box[0], box[2], width), (upper, box[1], box[3], height))
    )
    return np.ascontiguousarray(pixels[upper:lower, left:right])
