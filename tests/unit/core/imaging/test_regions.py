"""Regions of pictures: whole pixels, at least one, and never beyond the edge."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from lodestone.imaging.regions import cropped

PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [
        ((0, 0, 1, 1), slice(0, 4), slice(0, 6)),
        ((0.5, 0.25, 0.5, 0.5), slice(1, 3), slice(3, 6)),
        ((0.999, 0.999, 0.001, 0.001), slice(3, 4), slice(5, 6)),
        ((0, 0, 1e-9, 1e-9), slice(0, 1), slice(0, 1)),
    ],
)
def test_a_region_is_cut_in_shares_of_the_picture(box: tuple[float, ...], rows: slice, columns: slice) -> None:
    np.testing.assert_array_equal(cropped(Image.fromarray(PIXELS), box), PIXELS[rows, columns])  # type: ignore[arg-type]
