"""Damaged picture files: what stands beside the pixels costs nothing but itself, and a cut file is read as far as it goes."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.support import pictures
from tests.support.photos import CAT, photo

from lodestone.errors import ImageError
from lodestone.imaging.decode import DecodedImage, decode
from lodestone.imaging.headers import read_header
from lodestone.imaging.repair.spliced import Range, spliced

SMALL = Image.fromarray(np.asarray(photo(CAT).resize((150, 100))))  # without its file's profile
FULL_SIZE = 100
EXIF = Image.Exif()
EXIF[0x010F] = "Maker"


def _chunk(name: bytes, content: bytes, checksum: int | None = None) -> bytes:
    checksum = zlib.crc32(name + content) if checksum is None else checksum
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def _png(*chunks: bytes, behind: bool = False, image: Image.Image = SMALL) -> bytes:
    whole = pictures.encoded(image, "PNG", exif=EXIF.tobytes())
    at = len(whole) - 12 if behind else 33
    return whole[:at] + b"".join(chunks) + whole[at:]


def _pixels(picture: DecodedImage) -> NDArray[np.int16]:
    return np.asarray(picture.image).astype(np.int16)


def _whole(file: bytes) -> DecodedImage:
    picture = decode(file, min_side=FULL_SIZE)
    assert picture.decoded_share is None
    return picture


LARGE_TEXT = bytes(range(256)) * (3 << 12)
BROKEN_CHUNKS = {
    "large zTXt": _chunk(b"zTXt", b"workflow\0\0" + zlib.compress(LARGE_TEXT)),
    "large iTXt": _chunk(b"iTXt", b"workflow\0\1\0\0\0" + zlib.compress(LARGE_TEXT)),
    "large tEXt": _chunk(b"tEXt", b"workflow\0" + LARGE_TEXT),
    "large XMP": _chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(LARGE_TEXT)),
    "large iCCP": _chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(3_000_000))),
    "iCCP that is no zlib": _chunk(b"iCCP", b"icc\0\0nothing"),
    "80 texts": b"".join(_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1_000_000))) for _ in range(80)),
    "wrong checksum of a text": _chunk(b"tEXt", b"Comment\0hello", checksum=1),
    "wrong checksum of a time": _chunk(b"tIME", bytes(7), checksum=1),
    "wrong checksum of transparency": _chunk(b"tRNS", bytes(6), checksum=1),
    "wrong checksum of a profile": _chunk(b"iCCP", b"icc\0\0" + zlib.compress(b"profile"), checksum=1),
    "short gAMA": _chunk(b"gAMA", b"\0"),
    "short cHRM": _chunk(b"cHRM", b"\0"),
    "short pHYs": _chunk(b"pHYs", b"\0"),
    "short sRGB": _chunk(b"sRGB", b""),
    "short tRNS": _chunk(b"tRNS", b"\0"),
    "text without a key": _chunk(b"tEXt", b"\0nothing"),
    "text of another kind": _chunk(b"zTXt", b"XML:com.adobe.xmp\0\7nothing"),
    "short animation": _chunk(b"acTL", b"\0"),
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", BROKEN_CHUNKS)
def test_a_png_is_not_lost_to_what_stands_beside_its_pixels(name: str, behind: bool) -> None:
    picture = _whole(_png(BROKEN_CHUNKS[name], behind=behind))
    assert np.array_equal(_pixels(picture), np.asarray(SMALL))
    assert picture.embedded.base[0x010F] == "Maker"
    assert read_header(_png(BROKEN_CHUNKS[name], behind=behind)).base[0x010F] == "Maker"


READ_TEXTS = {
    "tEXt": _chunk(b"tEXt", b"Description\0Ottilie"),
    "zTXt": _chunk(b"zTXt", b"Description\0\0" + zlib.compress(b"Ottilie")),
    "iTXt": _chunk(b"iTXt", b"Description\0\0\0\0\0Ottilie"),
    "behind sixteen of a program": _chunk(b"tEXt", b"Software\0x") * 16 + _chunk(b"tEXt", b"Description\0Ottilie"),
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("kind", READ_TEXTS)
def test_the_texts_of_people_in_a_png_are_read(kind: str, behind: bool) -> None:
    file = _png(READ_TEXTS[kind], _chunk(b"tEXt", b"Creation Time\x002019:09:10 11:12:13"), behind=behind)
    texts = {"Description": "Ottilie", "Creation Time": "2019:09:10 11:12:13"}
    assert dict(_whole(file).embedded.texts) == texts
    assert dict(read_header(file).texts) == texts


def test_many_comments_in_a_png_cost_neither_the_picture_nor_its_xmp() -> None:
    packet = _chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>")
    picture = _whole(_png(*[_chunk(b"tEXt", b"Comment\0%d" % number) for number in range(20)], packet))
    assert picture.embedded.xmp == b"<x/>"
    assert picture.embedded.texts == {"Comment": "15"}


def test_a_bomb_in_a_text_is_not_inflated() -> None:
    bombs = [
        _chunk(b"zTXt", b"bomb\0\0" + zlib.compress(bytes(50_000_000), 9)),
        _chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(bytes(50_000_000), 9)),
        _chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(50_000_000), 9)),
    ]
    file = _png(*bombs)
    tracemalloc.start()
    try:
        _whole(file)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_transparency_of_a_png_is_kept_where_it_is_sound() -> None:
    grey = Image.new("L", (8, 8), 7)
    for content, expected in ((b"\0\7", 255), (b"\0\7\0", 7), (b"\7", 7)):
        picture = _whole(_png(_chunk(b"tRNS", content), image=grey))
        assert picture.image.getpixel((0, 0)) == (expected,) * 3
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    whole = pictures.encoded(palette, "PNG")
    at = whole.index(b"IDAT") - 4
    shown = _whole(whole[:at] + _chunk(b"tRNS", b"\xff\0") + whole[at:])
    assert shown.image.getpixel((0, 0)) == (255, 255, 255)


def test_a_profile_larger_than_pillow_reads_is_applied() -> None:
    small = pictures.wide_gamut_profile()
    large = small + np.random.default_rng(0).bytes(1_500_000)
    assert len(large) > 1 << 20
    pictures_ = [_pixels(_whole(_png(_chunk(b"iCCP", b"icc\0\0" + zlib.compress(profile))))) for profile in (small, large)]
    assert np.abs(pictures_[0] - np.asarray(SMALL)).mean() > 1
    assert np.array_equal(*pictures_)


def test_damage_where_the_pixels_are_still_fails() -> None:
    whole = _png()
    for name in (b"IHDR", b"IDAT"):
        at = whole.index(name) + 6
        with pytest.raises(ImageError) as caught:
            decode(whole[:at] + b"\xff\xff" + whole[at + 2 :], min_side=FULL_SIZE)
        assert caught.value.details["reason"] in {"corrupt", "too_large", "truncated"}


def _segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


@pytest.mark.parametrize(
    "segment",
    [
        _segment(0xE0, b"JFIF"),
        _segment(0xE0, b"JFIF\0\1"),
        _segment(0xEE, b"Adobe"),
        _segment(0xEE, b"Adobe\0d"),
        _segment(0xE2, b"ICC_PROFILE\0"),
        _segment(0xED, b"Photoshop 3.0\0008BIM\x03\xed\0\0\0\0\0\4abcd"),
        b"\xff\xe5\0\0",
        b"\xff\xe5\0\1",
    ],
)
def test_a_jpeg_is_not_lost_to_a_short_segment(segment: bytes) -> None:
    whole = pictures.encoded(SMALL, "JPEG", exif=EXIF.tobytes())
    expected = _pixels(_whole(whole))
    for file in (whole[:2] + segment + whole[2:], whole[:2] + segment + whole[20:]):  # beside JFIF's segment, and in its place
        picture = _whole(file)
        assert np.array_equal(_pixels(picture), expected)


def test_a_jpeg_with_a_short_segment_keeps_its_metadata() -> None:
    whole = pictures.encoded(SMALL, "JPEG", exif=EXIF.tobytes())
    file = whole[:2] + _segment(0xE0, b"JFIF") + whole[2:]
    assert _whole(file).embedded.base[0x010F] == "Maker"
    assert read_header(file).base[0x010F] == "Maker"


def test_the_adobe_segment_that_says_how_colours_are_stored_is_kept() -> None:
    inks = Image.fromarray(np.dstack([255 - np.asarray(SMALL), np.zeros((100, 150), np.uint8)]), "CMYK")
    whole = pictures.encoded(inks, "JPEG", quality=95)
    assert b"Adobe" in whole
    expected = _pixels(_whole(whole))
    assert np.array_equal(_pixels(_whole(whole[:2] + _segment(0xE0, b"JFIF") + whole[2:])), expected)


def test_an_avif_or_webp_or_heic_with_a_bad_exif_payload_is_not_lost(tmp_path: Path) -> None:
    for kind in ("AVIF", "WEBP"):
        whole = pictures.encoded(SMALL, kind, exif=EXIF.tobytes())
        at = max(whole.rfind(b"II*\0"), whole.rfind(b"MM\0*"))
        assert at > 0
        picture = _whole(whole[:at] + b"no exif!"[: len(whole) - at] + whole[at + 8 :])
        assert np.abs(_pixels(picture) - np.asarray(SMALL)).mean() < 12


def test_a_webp_is_not_lost_to_metadata_that_its_end_cuts_off() -> None:
    whole = pictures.encoded(SMALL, "WEBP", exif=EXIF.tobytes())
    at = whole.index(b"EXIF")
    for file in (whole[: at + 10], whole[: at + 4] + b"\xff\xff\xff\x7f" + whole[at + 8 :]):
        assert np.array_equal(_pixels(_whole(file)), _pixels(_whole(whole)))


def test_a_gif_is_not_lost_to_an_extension_of_a_wrong_length() -> None:
    whole = pictures.encoded(SMALL.quantize(256), "GIF")
    at = 13 + 3 * 256
    for extension in (b"!\xf9\x01a\0", b"!\xfe\x05hello\0", b"!\xff\x03abc\0", b"!\x33\0"):
        assert np.array_equal(_pixels(_whole(whole[:at] + extension + whole[at:])), _pixels(_whole(whole)))


def test_a_tiff_is_not_lost_to_a_tag_beside_its_pixels() -> None:
    whole = pictures.encoded(SMALL, "TIFF", resolution=72)
    entry = struct.pack("<HHL", 282, 5, 1)
    assert entry in whole
    for kind in (2, 7):  # a text, or bytes, where a resolution is expected
        picture = _whole(whole.replace(entry, struct.pack("<HHL", 282, kind, 1)))
        assert np.array_equal(_pixels(picture), np.asarray(SMALL))


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"\0\0", b" " * 40])
def test_blank_bytes_before_a_jpeg_are_skipped(blank: bytes, tmp_path: Path) -> None:
    whole = pictures.encoded(SMALL, "JPEG", exif=EXIF.tobytes())
    path = tmp_path / "photo.jpg"
    path.write_bytes(blank + whole)
    for file in (blank + whole, path):
        picture = decode(file, min_side=FULL_SIZE)
        assert np.array_equal(_pixels(picture), _pixels(_whole(whole)))
        assert picture.decoded_share is None
    assert read_header(blank + whole).base[0x010F] == "Maker"


CUTTABLE = {
    "jpeg": pictures.encoded(SMALL, "JPEG", quality=90),
    "grey jpeg": pictures.encoded(SMALL.convert("L"), "JPEG", quality=90),
    "png": pictures.encoded(SMALL, "PNG"),
    "palette png": pictures.encoded(SMALL.quantize(64), "PNG"),
    "bit png": pictures.encoded(Image.fromarray(np.random.default_rng(0).random((100, 150)) < 0.5), "PNG"),
    "webp": pictures.encoded(SMALL, "WEBP", quality=90),
    "lossless webp": pictures.encoded(SMALL, "WEBP", lossless=True),
    "gif": pictures.encoded(SMALL.quantize(64), "GIF", interlace=0),
    "bmp": pictures.encoded(SMALL, "BMP"),
}


@pytest.mark.parametrize("kind", CUTTABLE)
def test_a_cut_picture_is_shown_as_far_as_it_goes_and_marked(kind: str) -> None:
    whole = CUTTABLE[kind]
    expected = _pixels(_whole(whole))
    shares = []
    for kept in (0.75, 0.85, 0.95):
        picture = decode(whole[: int(len(whole) * kept)], min_side=FULL_SIZE)
        assert picture.decoded_share is not None
        shares.append(picture.decoded_share)
        rows = int(100 * picture.decoded_share * (0.6 if "webp" in kind else 0.9))
        seen = slice(100 - rows, None) if kind == "bmp" else slice(0, rows)
        assert np.abs(_pixels(picture)[seen] - expected[seen]).mean() < 3
        assert picture.image.size == SMALL.size
    assert shares == sorted(shares)
    assert 0.5 <= shares[0] < 0.95
    assert shares[0] < shares[-1] <= 1


@pytest.mark.parametrize("kind", CUTTABLE)
def test_a_picture_of_which_less_than_half_is_there_is_refused_with_its_share(kind: str) -> None:
    whole = CUTTABLE[kind]
    with pytest.raises(ImageError) as caught:
        decode(whole[: int(len(whole) * 0.3)], min_side=FULL_SIZE)
    assert caught.value.details["reason"] == "truncated"
    if "webp" not in kind:
        assert "50% are needed" in caught.value.message


def test_a_share_of_exactly_half_is_enough() -> None:
    rows = np.random.default_rng(0).integers(0, 255, (100, 16, 3), np.uint8)
    content = b"".join(b"\0" + row.tobytes() for row in rows)
    header = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 100, 8, 2, 0, 0, 0))
    for count, share in ((50, 0.5), (49, None)):
        packer = zlib.compressobj(0)
        data = packer.compress(content[: count * 49]) + packer.flush(zlib.Z_FULL_FLUSH)
        file = header + _chunk(b"IDAT", data)
        if share is None:
            with pytest.raises(ImageError, match="49% of its rows"):
                decode(file, min_side=FULL_SIZE)
        else:
            assert decode(file, min_side=FULL_SIZE).decoded_share == share


@pytest.mark.parametrize("missing", [2, 6])
def test_a_jpeg_without_its_last_bytes_has_all_its_rows(missing: int) -> None:
    whole = CUTTABLE["jpeg"]
    picture = decode(whole[:-missing], min_side=FULL_SIZE)
    assert picture.decoded_share == 1.0
    assert np.abs(_pixels(picture) - _pixels(_whole(whole))).mean() < 0.5


def test_a_jpeg_with_zeros_for_its_tail_is_cut_where_they_begin() -> None:
    whole = CUTTABLE["jpeg"]
    kept = len(whole) * 9 // 10
    zeroed = decode(whole[:kept] + bytes(len(whole) - kept), min_side=FULL_SIZE)
    cut = decode(whole[:kept].rstrip(b"\0"), min_side=FULL_SIZE)
    assert zeroed.decoded_share == cut.decoded_share is not None
    assert np.array_equal(_pixels(zeroed), _pixels(cut))


@pytest.mark.parametrize("min_side", [1, 20, 100])
def test_the_share_of_a_jpeg_is_the_same_at_reduced_size(min_side: int) -> None:
    whole = CUTTABLE["jpeg"]
    picture = decode(whole[: len(whole) * 8 // 10], min_side=min_side)
    full = decode(whole[: len(whole) * 8 // 10], min_side=FULL_SIZE)
    assert picture.decoded_share == pytest.approx(full.decoded_share, abs=0.08)


def test_a_progressive_jpeg_that_ends_early_is_coarse_and_marked() -> None:
    whole = pictures.encoded(SMALL, "JPEG", progressive=True, quality=90)
    picture = decode(whole[: len(whole) * 8 // 10], min_side=FULL_SIZE)
    assert picture.decoded_share == 1.0
    assert np.abs(_pixels(picture) - _pixels(_whole(whole))).mean() < 6


def test_a_cut_picture_whose_rows_come_in_passes_is_refused() -> None:
    for whole in (pictures.encoded(SMALL.quantize(64), "GIF", interlace=1), _interlaced_png()):
        _whole(whole)
        with pytest.raises(ImageError, match="several passes") as caught:
            decode(whole[: len(whole) * 9 // 10], min_side=FULL_SIZE)
        assert caught.value.details["reason"] == "truncated"


def _interlaced_png() -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16), np.uint8)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = [pixels[top + i :: down][0, left::right] for top, left, down, right in passes for i in range(0, 16 - top, down)]
    content = b"".join(b"\0" + row.tobytes() for row in rows)
    header = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 1))
    return header + _chunk(b"IDAT", zlib.compress(content, 0)) + _chunk(b"IEND", b"")


def test_orientation_and_metadata_of_a_cut_picture_are_kept() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    whole = pictures.encoded(SMALL, "JPEG", exif=turned.tobytes())
    picture = decode(whole[:-20], min_side=FULL_SIZE)
    assert (picture.width, picture.height, picture.orientation) == (100, 150, 6)


def test_a_spliced_stream_reads_like_the_bytes_that_it_joins() -> None:
    source = io.BytesIO(bytes(range(200)))
    stream = spliced(source, [Range(10, 5), Range(15, 5), b"", b"between", Range(100, 0), Range(150, 50)])
    expected = bytes(range(10, 20)) + b"between" + bytes(range(150, 200))
    assert stream.read() == expected
    for position in (0, 9, 10, 16, 17, 66, 67, 80):
        stream.seek(position)
        assert stream.read(3) == expected[position : position + 3]
        assert stream.tell() == min(position + 3, max(len(expected), position))
    assert stream.seek(-4, io.SEEK_END) == len(expected) - 4
    with pytest.raises(ValueError, match="begins at 0"):
        stream.raw.seek(-1)  # type: ignore[attr-defined]
