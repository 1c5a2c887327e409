"""Headers: the metadata of a picture without its pixels is what decoding gives, in every format and from part of the file."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image
from PIL.ImageFile import ImageFile
from tests.support import pictures

from lodestone.errors import ImageError
from lodestone.imaging.decode import decode
from lodestone.imaging.headers import BEGINNING_BYTES, is_enough, read_header
from lodestone.imaging.metadata import PhotoMetadata, read_metadata


def _exif() -> bytes:
    exif = Image.Exif()
    exif.update({0x010F: "Lodecam", 0x0110: "One"})
    exif.get_ifd(0x8769).update({0x9003: "2021:07:04 18:30:15", 0x9011: "+02:00", 0x9291: "25"})
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 52.0, 10.5), 3: "E", 4: (151.0, 12.0, 30.0)})
    return exif.tobytes()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@pytest.fixture
def no_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ImageFile) -> None:
        raise AssertionError("a pixel was decoded")

    monkeypatch.setattr(ImageFile, "load", refuse)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.usefixtures("no_pixels")
def test_header_says_what_decoding_says(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packet = pictures.xmp_packet(description="a dog")
    save = {} if format_name in {"PNG", "TIFF"} else {"xmp": packet}
    data = pictures.encoded(pictures.photo((64, 48)), format_name, exif=_exif(), **save)
    header = read_header(data)
    monkeypatch.undo()
    embedded = decode(data, min_side=8).embedded
    assert read_metadata(header) == read_metadata(embedded)
    assert (header.xmp, header.iptc) == (embedded.xmp, embedded.iptc)
    assert read_metadata(header).camera_make == "Lodecam"


def test_every_kind_of_picture_has_a_header_and_every_kind_of_nonsense_an_error(tmp_path: Path) -> None:
    for path in pictures.write_every_format(tmp_path / "good").values():
        assert read_metadata(read_header(path)) == read_metadata(decode(path, min_side=8).embedded), path.name
    bad = pictures.write_bad_files(tmp_path / "bad")
    for kind in ("empty", "text", "header_only", "unsupported", "missing"):
        with pytest.raises(ImageError):
            read_header(bad[kind][0])


def test_picture_that_is_too_large_to_decode_has_a_header() -> None:
    assert read_metadata(read_header(pictures.huge_png_bytes(5_000))) == PhotoMetadata()


def test_metadata_behind_the_pixels_of_a_png_is_found() -> None:
    plain = pictures.encoded(pictures.photo((64, 48)), "PNG")
    assert plain.endswith(b"IEND\xaeB`\x82")
    data = plain[:-12] + _chunk(b"eXIf", _exif().removeprefix(b"Exif\0\0")) + plain[-12:]
    assert read_metadata(read_header(data)) == read_metadata(decode(data, min_side=8).embedded)
    assert read_metadata(read_header(data)).utc_offset_minutes == 120


def test_beginning_of_a_file_is_enough_for_formats_that_put_metadata_there() -> None:
    for format_name, enough in (("JPEG", True), ("PNG", True), ("WEBP", False), ("TIFF", False), ("AVIF", False)):
        data = pictures.encoded(pictures.photo((64, 48)), format_name, exif=_exif())
        assert is_enough(data[:500]) is enough
    large = pictures.encoded(Image.effect_noise((1500, 1500), 200).convert("RGB"), "JPEG", exif=_exif(), quality=98)
    assert len(large) > BEGINNING_BYTES
    assert read_metadata(read_header(large[:BEGINNING_BYTES])) == read_metadata(read_header(large))
    with pytest.raises(ImageError):
        read_header(large[:200])


def test_damaged_header_gives_metadata_or_an_image_error() -> None:
    for format_name in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "AVIF"):
        whole = pictures.encoded(pictures.photo((32, 24)), format_name, **({} if format_name == "GIF" else {"exif": _exif()}))
        for seed in range(60):
            damaged = pictures.flip_bytes(whole, seed=seed, count=20, keep_head=12)[: len(whole) - seed * 3]
            try:
                read_metadata(read_header(damaged))
            except ImageError as error:
                assert error.details["reason"]  # noqa: PT017 - either is fine
