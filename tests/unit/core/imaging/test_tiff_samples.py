"""Levels of TIFF pictures of every layout: those that the file means, or a refusal with a reason."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.support.photos import CAT, photo
from tests.support.tiffs import CMYK, GREY, GREY_WHITE_ZERO, PALETTE, RGB, YCBCR, tiff

from lodestone.errors import ImageError
from lodestone.imaging.decode import decode

COLOURS: NDArray[np.uint8] = np.asarray(photo(CAT).resize((48, 32)))
LUMA: NDArray[np.uint8] = COLOURS[:, :, 1].copy()
GREYS: NDArray[np.uint8] = np.dstack([LUMA] * 3)
ALPHA: NDArray[np.uint8] = np.where(np.arange(48) < 24, 128, 255).astype(np.uint8)[None].repeat(32, axis=0)
ORDERS = pytest.mark.parametrize("order", ["<", ">"])
DEFLATED = pytest.mark.parametrize("deflate", [False, True])


def _as(levels: NDArray[np.uint8], kind: str) -> NDArray[Any]:
    """The same picture in samples of another type, over the whole range of that type."""
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return (levels / 255).astype(dtype)
    wide = levels.astype(np.int64) * ((256**dtype.itemsize - 1) // 255)
    return (wide - (256**dtype.itemsize // 2 if dtype.kind == "i" else 0)).astype(dtype)


def _pixels(file: bytes) -> NDArray[np.float64]:
    return np.asarray(decode(file, min_side=1).image, dtype=np.float64)


def _assert_same(file: bytes, expected: NDArray[Any], within: float = 1.0) -> None:
    assert np.abs(_pixels(file) - expected).max() <= within


def _on_white(colours: NDArray[np.uint8], alpha: NDArray[np.uint8]) -> NDArray[np.float64]:
    share = alpha[..., None] / 255
    return colours * share + 255 * (1 - share)


@ORDERS
@DEFLATED
@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("kind", ["u1", "u2"])
def test_colours_are_the_same_in_planes_and_pixels_of_8_and_16_bits(kind: str, planes: bool, deflate: bool, order: str) -> None:
    _assert_same(tiff(_as(COLOURS, kind), RGB, planes=planes, deflate=deflate, order=order), COLOURS)


@ORDERS
@DEFLATED
@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("kind", ["u1", "u2"])
def test_alpha_is_laid_on_white_premultiplied_or_not(kind: str, planes: bool, deflate: bool, order: str) -> None:
    premultiplied = np.round(COLOURS * (ALPHA[..., None] / 255)).astype(np.uint8)
    expected = _on_white(COLOURS, ALPHA)
    for colours, extra in ((COLOURS, 2), (premultiplied, 1)):
        file = tiff(_as(np.dstack([colours, ALPHA]), kind), RGB, planes=planes, deflate=deflate, order=order, extra=extra)
        _assert_same(file, expected, within=2.5)


@ORDERS
@DEFLATED
def test_a_fourth_plane_without_meaning_is_ignored(deflate: bool, order: str) -> None:
    file = tiff(_as(np.dstack([COLOURS, ALPHA]), "u2"), RGB, planes=True, deflate=deflate, order=order, extra=0)
    _assert_same(file, COLOURS)


@ORDERS
@pytest.mark.parametrize("planes", [False, True])
def test_inks_of_16_bits_are_read(planes: bool, order: str) -> None:
    inks = _as(np.dstack([255 - COLOURS, np.zeros_like(LUMA)]), "u2")
    _assert_same(tiff(inks, CMYK, planes=planes, order=order), COLOURS, within=2)


@ORDERS
@DEFLATED
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "f4"])
def test_grey_levels_of_every_type_are_right_or_refused(kind: str, deflate: bool, order: str) -> None:
    file = tiff(_as(LUMA, kind), GREY, deflate=deflate, order=order)
    if (kind, order) == ("u4", ">"):
        with pytest.raises(ImageError, match="unknown pixel mode") as caught:
            decode(file, min_side=1)
        assert caught.value.details["reason"] == "unsupported"
    else:
        _assert_same(file, GREYS)


@DEFLATED
@pytest.mark.parametrize("kind", ["u1", "u2", "f4"])
def test_a_picture_whose_zero_is_white_is_no_negative(kind: str, deflate: bool) -> None:
    _assert_same(tiff(_as(255 - LUMA, kind), GREY_WHITE_ZERO, deflate=deflate), GREYS)


@pytest.mark.parametrize(("bits", "kind"), [(8, "u2"), (10, "u2"), (12, "u2"), (8, "i2"), (8, "u4"), (16, "u4"), (16, "i4")])
def test_levels_of_a_narrow_camera_in_wide_samples_are_not_black(bits: int, kind: str) -> None:
    ramp = np.linspace(0, (1 << bits) - 1, 64, dtype=np.int64).astype(kind)[None].repeat(8, axis=0)
    pixels = _pixels(tiff(ramp, GREY))[0, :, 0]
    assert (pixels[0], pixels[-1]) == (0, 255)
    assert np.abs(pixels - np.linspace(0, 255, 64)).max() <= 1


@pytest.mark.parametrize("top", [256, 1024, 4096])
def test_one_level_above_a_narrow_camera_widens_the_range(top: int) -> None:
    bits = top.bit_length() + 1 if top < 4096 else 16
    pixels = _pixels(tiff(np.array([[0, top] * 8] * 8, np.uint16), GREY))
    assert pixels.max() == top >> (bits - 8)


def test_levels_from_zero_of_signed_samples_have_half_the_range() -> None:
    pixels = _pixels(tiff(np.array([[0, 256, 32767] * 4] * 8, np.int16), GREY))
    assert pixels[0, :3, 0].tolist() == [0, 2, 255]


def test_a_colour_map_of_8_bits_is_not_black() -> None:
    colours = np.array([np.arange(256), 255 - np.arange(256), np.arange(256) // 2])
    for scale in (1, 257):
        file = tiff(LUMA, PALETTE, more_tags={320: tuple((colours * scale).ravel().tolist())})
        _assert_same(file, colours.T[LUMA])


def test_chroma_at_half_the_resolution_is_no_other_picture() -> None:
    smooth = np.asarray(Image.linear_gradient("L").resize((48, 32)).convert("L"))
    blocks = smooth.reshape(16, 2, 24, 2).transpose(0, 2, 1, 3).reshape(16, 24, 4)
    units = np.dstack([blocks, np.full((16, 24, 2), 128, np.uint8)])  # four of luma, one each of chroma
    file = tiff(np.dstack([smooth] * 3), YCBCR, more_tags={530: (2, 2)}, strip=units.tobytes())
    _assert_same(file, np.dstack([smooth] * 3), within=2)


def test_lab_written_by_a_colour_management_is_read_as_it_was_written() -> None:
    from PIL import ImageCms

    written = io.BytesIO()
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    converted = ImageCms.profileToProfile(Image.fromarray(COLOURS), srgb, lab, outputMode="LAB")
    assert converted is not None
    converted.save(written, format="TIFF")
    assert np.abs(_pixels(written.getvalue()) - COLOURS).mean() < 3
