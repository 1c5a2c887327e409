"""Comparison of two pictures by their thumbnails: whether both show the same content in the same place.

Vectors describe what is in a picture: two moments of one match are closer there than a picture and its smaller version. Grey
values identify copies: 32 by 32 of them are correlated after removing what any evenly lit surface has (mean, contrast, a slope
of brightness). Mirrored copies and copies with a margin cut off are compared too. docs/duplicates.md has the measurements
behind `ALIKE`.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.imaging.thumbnails import ThumbnailStore

ALIKE: Final = 0.9  # correlation from which on two pictures are copies
_SIDE: Final = 32
_FULL_SIDE: Final = 64  # side before a margin is cut off
_MARGINS: Final = (0.0, 0.03, 0.05, 0.08)
_FLAT: Final = 1.5  # standard deviation in grey values (0 to 255) below which a picture cannot be recognised
_CACHED: Final = 8_192  # pictures, of 8 KB
Forms = NDArray[np.float16]


class Likeness:
    """Compares pictures by their thumbnails, and caches the grey values of recent ones.

    Args:
        thumbnails: Thumbnails by content hash.
        least: Lowest correlation of copies.
    """

    def __init__(self, thumbnails: ThumbnailStore, *, least: float = ALIKE) -> None:
        self._thumbnails = thumbnails
        self._least = least
        self._cache: OrderedDict[str, Forms | None] = OrderedDict()

    def alike(self, first: str, second: str) -> bool:
        """Return True if two contents are copies; False if a thumbnail is missing or too uniform to be recognised.

        Args:
            first: Content hash of one picture.
            second: Content hash of the other picture.
        """
        if first == second:
            return True
        first_forms, second_forms = self._forms(first), self._forms(second)
        return first_forms is not None and second_forms is not None and correlation(first_forms, second_forms) >= self._least

    def _forms(self, content: str) -> Forms | None:
        if content in self._cache:
            self._cache.move_to_end(content)
            return self._cache[content]
        try:
            with Image.open(io.BytesIO(self._thumbnails.read(content))) as image:
                image.draft("L", (2 * _FULL_SIDE, 2 * _FULL_SIDE))
                forms: Forms | None = forms_of(image)
        except (OSError, ValueError):  # deleted or damaged: it is made again on its next request, and compared the next time
            forms = None
        self._cache[content] = forms
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return forms


def forms_of(image: Image.Image) -> Forms:
    """Compute the normalised grey values of a picture, and of its centre after each margin is cut off.

    Returns:
        (4, 1024) float16, the uncropped picture first, each row of length 1; 0 for rows without structure.
    """
    grey = image.convert("L").resize((_FULL_SIDE, _FULL_SIDE), Image.Resampling.BOX)
    boxes = [(_FULL_SIDE * m, _FULL_SIDE * m, _FULL_SIDE * (1 - m), _FULL_SIDE * (1 - m)) for m in _MARGINS]
    crops = [np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.BOX, box=box), np.float32).ravel() for box in boxes]
    values = np.stack(crops)
    residual = values - (values @ _SLOPES) @ _SLOPES.T
    lengths = np.linalg.norm(residual, axis=1, keepdims=True)
    forms: Forms = np.where(lengths >= _FLAT * _SIDE, residual / np.maximum(lengths, 1e-6), 0).astype(np.float16)
    return forms


def correlation(one: Forms, other: Forms) -> float:
    """Return the highest correlation of one uncropped picture with any crop of the other, in both directions and mirrored."""
    first, second = one.astype(np.float32), other.astype(np.float32)
    mirrored = second.reshape(-1, _SIDE, _SIDE)[:, :, ::-1].reshape(len(second), -1)
    return float(max(max((forms @ first[0]).max(), (first @ forms[0]).max()) for forms in (second, mirrored)))


def _slopes() -> NDArray[np.float32]:
    """Return an orthonormal basis, (1024, 3), of even brightness and of brightness that rises along either side."""
    line = np.linspace(-1, 1, _SIDE)
    planes = np.stack([np.ones((_SIDE, _SIDE)), *np.meshgrid(line, line)]).reshape(3, -1).T
    return np.asarray(planes / np.linalg.norm(planes, axis=0), np.float32)


_SLOPES: Final = _slopes()
