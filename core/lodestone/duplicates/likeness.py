"""Do two pictures show the same thing in the same place? Their thumbnails are laid over each other.

Vectors tell what is in a picture: two moments of one match are closer there than a picture and its smaller version. Grey values
tell copies: 32 by 32 of them, without what any evenly lit surface has (mean, contrast, a slope of brightness), are correlated,
also mirrored and with a margin cut off. docs/duplicates.md has the measurements behind `ALIKE`.
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
_FULL_SIDE: Final = 64  # before a margin is cut off
_MARGINS: Final = (0.0, 0.03, 0.05, 0.08)
_FLAT: Final = 1.5  # grey values of 255: a picture with less to it cannot be recognised
_REMEMBERED: Final = 8_192  # pictures, of 8 KB
Forms = NDArray[np.float16]


class Likeness:
    """Compares thumbnails; remembers some.

    Args:
        thumbnails: Where they lie, by content.
        least: Correlation of copies, at least.
    """

    def __init__(self, thumbnails: ThumbnailStore, *, least: float = ALIKE) -> None:
        self._thumbnails = thumbnails
        self._least = least
        self._remembered: OrderedDict[str, Forms | None] = OrderedDict()

    def alike(self, first: str, second: str) -> bool:
        """Whether two contents are copies; without thumbnails of both, or with nothing to see on one, they are not.

        Args:
            first: Content hash.
            second: Another.
        """
        if first == second:
            return True
        one, other = self._forms(first), self._forms(second)
        return one is not None and other is not None and correlation(one, other) >= self._least

    def _forms(self, content: str) -> Forms | None:
        if content in self._remembered:
            self._remembered.move_to_end(content)
            return self._remembered[content]
        try:
            with Image.open(io.BytesIO(self._thumbnails.read(content))) as image:
                image.draft("L", (2 * _FULL_SIDE, 2 * _FULL_SIDE))
                forms: Forms | None = forms_of(image)
        except (OSError, ValueError):  # deleted or damaged: it is made again when it is asked for, and compared the next time
            forms = None
        self._remembered[content] = forms
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        return forms


def forms_of(image: Image.Image) -> Forms:
    """A picture's grey values, of the whole and of the middles that are left when a margin is cut off.

    Returns:
        (4, 1024) float16, the whole first, each of length 1; 0 where nothing is left to see.
    """
    grey = image.convert("L").resize((_FULL_SIDE, _FULL_SIDE), Image.Resampling.BOX)
    boxes = [(_FULL_SIDE * m, _FULL_SIDE * m, _FULL_SIDE * (1 - m), _FULL_SIDE * (1 - m)) for m in _MARGINS]
    cut = [np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.BOX, box=box), np.float32).ravel() for box in boxes]
    values = np.stack(cut)
    left = values - (values @ _SLOPES) @ _SLOPES.T
    lengths = np.linalg.norm(left, axis=1, keepdims=True)
    forms: Forms = np.where(lengths >= _FLAT * _SIDE, left / np.maximum(lengths, 1e-6), 0).astype(np.float16)
    return forms


def correlation(one: Forms, other: Forms) -> float:
    """The highest correlation of one's whole with the other's whole or a middle of it, either way round, also mirrored."""
    first, second = one.astype(np.float32), other.astype(np.float32)
    mirrored = second.reshape(-1, _SIDE, _SIDE)[:, :, ::-1].reshape(len(second), -1)
    return float(max(max((forms @ first[0]).max(), (first @ forms[0]).max()) for forms in (second, mirrored)))


def _slopes() -> NDArray[np.float32]:
    """Orthonormal: even brightness, and brightness that rises along one side or the other. (1024, 3)."""
    line = np.linspace(-1, 1, _SIDE)
    planes = np.stack([np.ones((_SIDE, _SIDE)), *np.meshgrid(line, line)]).reshape(3, -1).T
    return np.asarray(planes / np.linalg.norm(planes, axis=0), np.float32)


_SLOPES: Final = _slopes()
