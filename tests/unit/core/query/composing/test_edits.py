"""What counts as the picture that a generator made of a part."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.query.composing.edits import _is_picture


@pytest.mark.parametrize(
    ("pixels", "is_picture"),
    [
        (np.zeros((4, 5, 3), np.uint8), True),
        (None, False),
        ([[[0, 0, 0]]], False),
        (np.zeros((4, 5, 3), np.float32), False),
        (np.zeros((4, 5), np.uint8), False),
        (np.zeros((4, 5, 4), np.uint8), False),
        (np.zeros((0, 5, 3), np.uint8), False),
        (np.zeros((4, 0, 3), np.uint8), False),
    ],
)
def test_only_rgb_pixels_are_a_picture(pixels: object, is_picture: bool) -> None:
    assert _is_picture(pixels) is is_picture  # type: ignore[arg-type]
