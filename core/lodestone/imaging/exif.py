"""Readers of a file's EXIF, XMP and IPTC blocks; broken metadata never costs the picture."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any, TypeVar

from PIL import ExifTags, Image

from lodestone.imaging.repair.png_chunks import TEXT_KEYS

_log = logging.getLogger(__name__)
_EMPTY: Mapping[int, Any] = MappingProxyType({})
_IPTC_RESOURCE = 0x0404  # Photoshop image resource that holds the IPTC record
_IPTC_TIFF_TAG = 33723
_XMP_TIFF_TAG = 700
_TEXTS = (*TEXT_KEYS, "comment")  # the last is Pillow's name of the comment of a JPEG or a GIF
_T = TypeVar("_T")


def _no_tags() -> Mapping[int, Any]:
    return _EMPTY


def _no_texts() -> Mapping[str, str | bytes]:
    return {}


@dataclass(frozen=True, slots=True)
class EmbeddedMetadata:
    """Holds the metadata blocks of one file, parsed no further than tag numbers to values; nothing here is trusted.

    Attributes:
        base: Tags of EXIF IFD0.
        photo: Tags of the Exif sub-IFD (times, lens, …).
        gps: Tags of the GPS sub-IFD.
        xmp: The XMP packet, usually XML in UTF-8.
        iptc: The IPTC-IIM record.
        texts: Texts that formats without such blocks keep by a keyword ("Creation Time", "Description", "comment").
    """

    base: Mapping[int, Any] = field(default_factory=_no_tags)
    photo: Mapping[int, Any] = field(default_factory=_no_tags)
    gps: Mapping[int, Any] = field(default_factory=_no_tags)
    xmp: bytes | None = None
    iptc: bytes | None = None
    texts: Mapping[str, str | bytes] = field(default_factory=_no_texts)

    @property
    def orientation(self) -> int:
        """Return the EXIF orientation, 1 to 8; any other value counts as 1 (upright)."""
        value = self.base.get(ExifTags.Base.Orientation, 1)
        return value if isinstance(value, int) and 1 <= value <= 8 else 1


def read_embedded(image: Image.Image) -> EmbeddedMetadata:
    """Collect the metadata blocks of an opened picture; whatever they contain, nothing is raised."""
    info = image.info
    # Image's own method: that of PNG decodes the pixels first.
    exif = _safely(lambda: Image.Image.getexif(image), Image.Exif()) if _may_have_exif(image) else None
    return EmbeddedMetadata(
        base=_EMPTY if exif is None else _safely(lambda: dict(exif), {}),
        photo=_sub_ifd(exif, ExifTags.IFD.Exif),
        gps=_sub_ifd(exif, ExifTags.IFD.GPSInfo),
        xmp=_safely(lambda: _xmp(image, info), None),
        iptc=_safely(lambda: _iptc(image, info), None),
        texts=_safely(lambda: _texts(info), {}),
    )


def read_embedded_of_tiff(stream: IO[bytes]) -> EmbeddedMetadata:
    """Read the EXIF tags of a TIFF container that Pillow cannot open as a picture, such as a RAW file.

    Whatever the file contains, nothing is raised.
    """
    exif = Image.Exif()
    stream.seek(0)
    _safely(lambda: exif.load_from_fp(stream, None), None)
    photo, gps = _sub_ifd(exif, ExifTags.IFD.Exif), _sub_ifd(exif, ExifTags.IFD.GPSInfo)
    return EmbeddedMetadata(base=_safely(lambda: dict(exif), {}), photo=photo, gps=gps)


def read_tiff_tags(stream: IO[bytes]) -> Mapping[int, Any]:
    """Return the tags of a TIFF's first directory, or none when it cannot be read; the stream is left at its beginning."""
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    def read() -> Mapping[int, Any]:
        stream.seek(0)
        header = stream.read(8)
        directory = ImageFileDirectory_v2(header if header[2:4] != b"+\0" else header + stream.read(8))
        stream.seek(directory.next or 0)
        directory.load(stream)
        return dict(directory)

    tags = _safely(read, _EMPTY)
    stream.seek(0)
    return tags


def _may_have_exif(image: Image.Image) -> bool:
    keys = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
    return hasattr(image, "tag_v2") or any(key in image.info for key in keys)


def _sub_ifd(exif: Image.Exif | None, pointer: int) -> Mapping[int, Any]:
    if exif is None or pointer not in exif:
        return _EMPTY
    return _safely(lambda: dict(exif.get_ifd(pointer)), {})


def _xmp(image: Image.Image, info: Mapping[Any, Any]) -> bytes | None:
    packet = info.get("xmp") or info.get("XML:com.adobe.xmp")
    if packet is None and hasattr(image, "tag_v2"):
        packet = image.tag_v2.get(_XMP_TIFF_TAG)
    if isinstance(packet, str):
        return packet.encode()
    return packet if isinstance(packet, bytes) and packet else None


def _iptc(image: Image.Image, info: Mapping[Any, Any]) -> bytes | None:
    photoshop = info.get("photoshop")
    record = photoshop.get(_IPTC_RESOURCE) if isinstance(photoshop, dict) else None
    if record is None and hasattr(image, "tag_v2"):
        record = image.tag_v2.get(_IPTC_TIFF_TAG)
    return record if isinstance(record, bytes) and record else None


def _texts(info: Mapping[Any, Any]) -> dict[str, str | bytes]:
    return {str(name): info[name] for name in _TEXTS if isinstance(info.get(name), str | bytes) and info[name]}


def _safely(read: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - Pillow's parsers raise anything on broken metadata, and the picture must survive it
        _log.debug("unusable metadata ignored: %r", error)
        return otherwise
