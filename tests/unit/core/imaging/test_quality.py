"""The measures of a picture's quality say what they are called, whatever the picture's size."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter
from tests.support.photos import CAT, COFFEE, photo

from lodestone.imaging.quality import SIDE_PX, measure_quality


def test_the_measures_of_known_pictures():
    black, white = (measure_quality(Image.new("RGB", (60, 40), colour)) for colour in ("black", "white"))
    assert (black.sharpness, black.brightness, black.contrast, black.shadows, black.highlights) == (0, 0, 0, 1, 0)
    assert (white.sharpness, white.brightness, white.contrast, white.shadows, white.highlights) == (0, 1, 0, 0, 1)
    halves = np.zeros((4, 4, 3), np.uint8)
    halves[:, 2:] = 255
    measured = measure_quality(Image.fromarray(halves))
    assert (measured.brightness, measured.contrast, measured.shadows, measured.highlights) == (0.5, 0.5, 0.5, 0.5)
    assert measured.sharpness == 255**2 / 2  # of the columns 0, 255, -255 and 0


@pytest.mark.parametrize("name", [CAT, COFFEE])
def test_a_blurred_photo_is_less_sharp_and_a_dark_one_darker(name: str):
    image = photo(name)
    sharp, soft, softer = (
        measure_quality(image.filter(ImageFilter.GaussianBlur(radius)) if radius else image).sharpness for radius in (0, 2, 5)
    )
    assert sharp > 3 * soft > 3 * softer
    dark = measure_quality(ImageEnhance.Brightness(image).enhance(0.3))
    assert dark.brightness == pytest.approx(0.3 * measure_quality(image).brightness, rel=0.05)
    assert dark.contrast < measure_quality(image).contrast


def test_a_picture_and_its_enlargement_are_measured_alike():
    image = photo(CAT).crop((0, 0, 300, 300)).resize((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS)
    large = image.resize((4 * SIDE_PX, 4 * SIDE_PX), Image.Resampling.NEAREST)
    assert measure_quality(large) == measure_quality(image)
