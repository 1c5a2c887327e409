"""JPEG 2000, Photoshop, Targa and PNM files: found by content, with the pixels that are meant, within the same bounds."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.support import pictures
from tests.support.photos import CAT, photo

from lodestone.errors import ImageError, ImageTooLargeError
from lodestone.imaging.decode import decode
from lodestone.imaging.headers import read_header
from lodestone.imaging.sniff import sniff_format

SMALL = Image.fromarray(np.asarray(photo(CAT).resize((60, 40))))
COLOURS: NDArray[np.uint8] = np.asarray(SMALL)


def _pixels(file: bytes, kind: str) -> NDArray[np.int16]:
    assert sniff_format(file[:64]) == kind
    picture = decode(file, min_side=FULL)
    assert picture.format == kind
    return np.asarray(picture.image).astype(np.int16)


FULL = 40


def photoshop(channels: NDArray[np.uint8], mode: int, *, merged: bool | None = True, version: int = 1) -> bytes:
    """A Photoshop file of (count, h, w) channels, not compressed."""
    count, height, width = channels.shape
    resource = b""
    if merged is not None:
        data = struct.pack(">IBIIII", 1, merged, 0, 0, 1, 0)[:18]
        resource = b"8BIM" + struct.pack(">HH", 1057, 0) + struct.pack(">I", len(data)) + data
    head = b"8BPS" + struct.pack(">H6xHIIHH", version, count, height, width, 8, mode)
    return (
        head
        + struct.pack(">I", 0)
        + struct.pack(">I", len(resource))
        + resource
        + struct.pack(">IH", 0, 0)
        + channels.tobytes()
    )


def targa(image: Image.Image, *, alpha_bits: int, run_length: bool = False) -> bytes:
    file = bytearray(pictures.encoded(image, "TGA", compression="tga_rle" if run_length else None))
    file[17] = file[17] & 0xF0 | alpha_bits
    return bytes(file)


def pnm(kind: str, samples: NDArray[Any], top: int) -> bytes:
    head = f"{kind}\n# by a scanner\n{samples.shape[1]} {samples.shape[0]}\n{top}\n"
    return head.encode() + samples.tobytes()


@pytest.mark.parametrize("options", [{}, {"no_jp2": True}])
def test_jpeg_2000_is_read_in_its_file_and_as_a_bare_stream(options: dict[str, Any]) -> None:
    assert np.array_equal(_pixels(pictures.encoded(SMALL, "JPEG2000", irreversible=False, **options), "JP2"), COLOURS)


def test_grey_and_deep_jpeg_2000_is_read() -> None:
    deep = Image.fromarray(COLOURS[:, :, 1].astype(np.uint16) * 257)
    for image in (SMALL.getchannel("G"), deep):
        pixels = _pixels(pictures.encoded(image, "JPEG2000", irreversible=False), "JP2")
        assert np.abs(pixels - COLOURS[:, :, 1:2]).max() <= 1


def test_the_merged_picture_of_a_photoshop_file_is_read_and_a_mask_is_no_transparency() -> None:
    planes = np.moveaxis(COLOURS, 2, 0)
    mask = np.zeros_like(planes[:1])
    for merged in (True, None):
        assert np.array_equal(_pixels(photoshop(planes, 3, merged=merged), "PSD"), COLOURS)
    assert np.array_equal(_pixels(photoshop(np.concatenate([planes, mask]), 3), "PSD"), COLOURS)
    assert np.array_equal(_pixels(photoshop(planes[:1], 1), "PSD"), COLOURS[:, :, [0] * 3])
    inks = np.concatenate([planes, np.full_like(planes[:1], 255)])  # 255 is no ink
    assert np.abs(_pixels(photoshop(inks, 4), "PSD") - COLOURS).max() <= 1


def test_a_photoshop_file_whose_picture_is_not_known_is_refused() -> None:
    planes = np.moveaxis(COLOURS, 2, 0)
    for file, words in (
        (photoshop(planes, 3, merged=False), "no merged picture"),
        (photoshop(planes, 7), "colour mode"),
        (photoshop(planes, 9), "colour mode"),
        (photoshop(planes, 3, version=2), "Photoshop Big files are not supported"),
    ):
        with pytest.raises(ImageError, match=words) as caught:
            decode(file, min_side=FULL)
        assert caught.value.details["reason"] == "unsupported"


@pytest.mark.parametrize("run_length", [False, True])
def test_targa_padding_is_no_transparency_and_alpha_is(run_length: bool) -> None:
    assert np.array_equal(_pixels(targa(SMALL, alpha_bits=0, run_length=run_length), "TGA"), COLOURS)
    padded = SMALL.convert("RGBA")
    padded.putalpha(0)
    assert np.array_equal(_pixels(targa(padded, alpha_bits=0, run_length=run_length), "TGA"), COLOURS)
    assert (_pixels(targa(padded, alpha_bits=8, run_length=run_length), "TGA") == 255).all()
    palette = SMALL.quantize(64)
    assert np.array_equal(_pixels(targa(palette, alpha_bits=0), "TGA"), np.asarray(palette.convert("RGB")))


def test_pnm_of_every_depth_fills_the_range_that_it_states() -> None:
    grey = COLOURS[:, :, 1]
    assert np.array_equal(_pixels(pnm("P6", COLOURS, 255), "PNM"), COLOURS)
    assert np.array_equal(_pixels(pnm("P5", grey, 255), "PNM"), np.dstack([grey] * 3))
    dark = grey.astype(">u2")  # of 65,535: nearly black, as it says
    assert _pixels(pnm("P5", dark, 65_535), "PNM").max() == 0
    deep = grey.astype(">u2") * 257
    assert np.abs(_pixels(pnm("P5", deep, 65_535), "PNM") - grey[:, :, None].astype(int)).max() <= 1
    narrow = (grey.astype(">u2") * 16).astype(">u2")
    assert np.abs(_pixels(pnm("P5", narrow, 4_095), "PNM") - grey[:, :, None].astype(int)).max() <= 1
    bits = np.packbits(np.arange(64).reshape(1, 64) % 2 == 1, axis=1)
    file = b"P4\n64 1\n" + bits.tobytes()
    assert _pixels(file, "PNM")[0, :4, 0].tolist() == [255, 0, 255, 0]
    assert _pixels(b"P3 1 1 255 10 20 30\n", "PNM")[0, 0].tolist() == [10, 20, 30]


def test_what_only_looks_like_these_is_no_picture() -> None:
    for head in (b"P3 is the third paragraph", b"P9\n1 1\n", b"\0" * 64, b"\0\0\2" + b"\0" * 61, b"\0\0\1\xba" + b"\0" * 60):
        assert sniff_format(head) is None
    targa_head = targa(SMALL, alpha_bits=0)[:64]
    assert sniff_format(targa_head) == "TGA"
    for at, value in ((1, 2), (2, 0), (2, 4), (3, 1), (7, 1), (16, 7), (17, 0x40)):
        changed = bytearray(targa_head)
        changed[at] = value
        assert sniff_format(bytes(changed)) is None


@pytest.mark.parametrize("kind", ["JPEG2000", "TGA", "PPM"])
def test_size_is_checked_before_pixels_and_headers_are_read_alone(kind: str) -> None:
    file = pictures.encoded(SMALL, kind)
    with pytest.raises(ImageTooLargeError):
        decode(file, min_side=FULL, max_decoded_bytes=60 * 40 * 4 - 1)
    assert read_header(file).base == {}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cut_files_are_refused(share: float) -> None:
    for file in (
        pictures.encoded(SMALL, "JPEG2000"),
        photoshop(np.moveaxis(COLOURS, 2, 0), 3),
        targa(SMALL, alpha_bits=0),
        pnm("P6", COLOURS, 255),
    ):
        with pytest.raises(ImageError):
            decode(file[: int(len(file) * share)], min_side=FULL)
