"""Copies of a picture are told from other pictures that have much in common with it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.duplicates.likeness import ALIKE, Likeness, correlation, forms_of
from lodestone.files.opening import open_area
from lodestone.imaging.thumbnails import ThumbnailStore, make_thumbnail


def _saved(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def _cropped(image: Image.Image) -> Image.Image:
    width, height = image.size
    return image.crop((width // 20, height // 20, width - width // 20, height - height // 20))


def _sky(seed: int, top: tuple[int, int, int]) -> Image.Image:
    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 1, 240)[:, None, None]
    colours = np.array(top) * (1 - slope) + np.array([190, 210, 250]) * slope
    pixels = np.broadcast_to(colours, (240, 320, 3)) + rng.normal(0, 3, (240, 320, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def likeness(first: Image.Image, second: Image.Image) -> float:
    return correlation(*(forms_of(Image.open(io.BytesIO(make_thumbnail(one, size_px=320)))) for one in (first, second)))


@pytest.mark.parametrize("name", [CAT, COFFEE, ROCKET])
@pytest.mark.parametrize(
    "change",
    [
        lambda image: _saved(image, 40),
        lambda image: image.resize((image.width // 2, image.height // 2)),
        lambda image: image.resize((image.width // 3, image.height // 4)),  # out of shape
        _cropped,
        ImageOps.mirror,
        lambda image: ImageEnhance.Brightness(image).enhance(1.2),
        lambda image: image.convert("L").convert("RGB"),
    ],
)
def test_a_copy_that_was_changed_a_little_is_alike(name: str, change: Callable[[Image.Image], Image.Image]) -> None:
    original = photo(name).convert("RGB")
    copy = change(original).convert("RGB")
    assert likeness(original, copy) >= ALIKE
    assert likeness(copy, original) >= ALIKE


def test_other_pictures_are_not_alike_and_neither_are_two_skies() -> None:
    photos = [photo(name).convert("RGB") for name in (CAT, COFFEE, ROCKET)]
    skies = [_sky(1, (40, 80, 200)), _sky(2, (90, 130, 210)), Image.new("RGB", (320, 240), (80, 120, 220))]
    pictures = [*photos, *skies]
    for number, first in enumerate(pictures):
        assert all(likeness(first, second) < ALIKE - 0.1 for second in pictures[:number])


def test_without_a_thumbnail_nothing_is_alike_but_the_same_content(tmp_path: Path) -> None:
    thumbnails = ThumbnailStore(open_area(tmp_path), size=320)
    here, damaged, missing = "a" * 64, "b" * 64, "c" * 64
    thumbnails.ensure(here, photo(CAT).convert("RGB"))
    thumbnails.area.write(thumbnails.key(damaged), b"not a JPEG", durable=False)
    compared = Likeness(thumbnails)
    assert [compared.alike(here, other) for other in (here, damaged, missing)] == [True, False, False]
    assert compared.alike(missing, missing)
