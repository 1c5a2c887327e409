"""Technical quality of a picture, by five plain measures of its luma: no model, no judgement of taste.

- sharpness: variance of the Laplacian (Pech-Pacheco et al., 2000), of the picture reduced to `SIDE_PX`, so that pictures of
  different sizes can be compared. Blurred photos have a low one, and so have pictures with little detail.
- exposure: mean luma, its standard deviation (RMS contrast), and the shares of pixels that are nearly black or white.

Luma is ITU-R BT.601's, from 0 (black) to 1 (white).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE_PX: Final = 512
"""Longer side of the picture that is measured; a smaller picture is measured as it is."""
_SHADOW: Final = 2
_HIGHLIGHT: Final = 253


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of one picture.

    Attributes:
        sharpness: Variance of the Laplacian of 8-bit luma, >= 0.
        brightness: Mean luma, in [0, 1].
        contrast: Standard deviation of luma, in [0, 0.5].
        shadows: Share of pixels that are nearly black, in [0, 1].
        highlights: Share of pixels that are nearly white, in [0, 1].
    """

    sharpness: float
    brightness: float
    contrast: float
    shadows: float
    highlights: float


def measure_quality(image: Image.Image) -> Quality:
    """Return the measures of an upright RGB picture."""
    luma = image.convert("L")
    luma.thumbnail((SIDE_PX, SIDE_PX), Image.Resampling.BOX)  # the mean of what it covers, which adds no ringing
    pixels = np.asarray(luma)
    return Quality(
        sharpness=float(_laplacian(pixels).var()),
        brightness=float(pixels.mean() / 255),
        contrast=float(pixels.std() / 255),
        shadows=float((pixels <= _SHADOW).mean()),
        highlights=float((pixels >= _HIGHLIGHT).mean()),
    )


def _laplacian(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the (h, w) Laplacian with four neighbours; the border repeats its last pixels."""
    padded = np.pad(pixels.astype(np.float32), 1, mode="edge")
    centre = padded[1:-1, 1:-1]
    laplacian: NDArray[np.float32] = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * centre
    return laplacian
