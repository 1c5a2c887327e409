"""Versions of a picture file that failed to decode, in the order in which they are tried.

The first ones lack what pixels do not need. What is left out costs what it says (a description, a date) and not the picture.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from lodestone.imaging.repair import jpeg_segments, riff_chunks
from lodestone.imaging.repair.spliced import Range, size_of, spliced

LEAST_SHARE: Final = 0.5
"""Least share of a picture's rows that must be decoded, in [0, 1].

With less than half, the grey or black that fills the rest decides what the picture looks like to a model.
"""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a damaged file.

    Attributes:
        stream: The version's content.
        is_cut: Whether pixels may be missing at its end, so that the share of decoded rows has to be measured.
        share: Share of the picture that it holds, in [0, 1]; None where it is measured, or nothing is missing.
        is_lean: Whether only the tags that pixels need are read (TIFF).
    """

    stream: IO[bytes]
    is_cut: bool = False
    share: float | None = None
    is_lean: bool = False


def versions_of(stream: IO[bytes], kind: str, *, max_bytes: int) -> Iterator[Version]:
    """Yield the versions of a damaged file of format `kind`; files that have to be copied are at most `max_bytes` large."""
    make = _VERSIONS.get(kind)
    if make is not None and not stream.closed:
        yield from make(stream, max_bytes)


def _of_jpeg(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    for with_metadata in (True, False):
        parts = jpeg_segments.needed_parts(stream, with_metadata=with_metadata)
        if parts is None:
            return
        yield Version(parts.stream, is_cut=parts.is_cut)


def _as_it_is(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    stream.seek(0)
    yield Version(stream, is_cut=True)


def _of_gif(stream: IO[bytes], max_bytes: int) -> Iterator[Version]:
    yield from _as_it_is(stream, max_bytes)
    parts = gif_parts(stream)
    if parts is not None:
        yield Version(parts, is_cut=True)


def _of_webp(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    parts = riff_chunks.needed_parts(stream, LEAST_SHARE)
    if parts is not None:
        yield Version(parts.stream, share=parts.share if parts.share < 1 else None)


def _of_boxes(stream: IO[bytes], max_bytes: int) -> Iterator[Version]:
    copy = without_metadata(stream, max_bytes)
    if copy is not None:
        yield Version(copy)


def _of_tiff(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    stream.seek(0)
    yield Version(stream, is_lean=True)


_VERSIONS: Final[dict[str, Callable[[IO[bytes], int], Iterator[Version]]]] = {
    "JPEG": _of_jpeg,
    "PNG": _as_it_is,
    "GIF": _of_gif,
    "BMP": _as_it_is,
    "WEBP": _of_webp,
    "AVIF": _of_boxes,
    "HEIF": _of_boxes,
    "TIFF": _of_tiff,
}


_MAX_DIRECTORY_BYTES: Final = 4 << 20
_MAX_BOXES: Final = 64
_UNREAD: Final = b"skip"
_METADATA_ITEMS: Final = (b"Exif", b"mime")


def without_metadata(stream: IO[bytes], max_bytes: int) -> IO[bytes] | None:
    """Return a copy of the file whose EXIF and XMP items have an unknown type, so that no decoder reads them.

    Args:
        stream: The file.
        max_bytes: Largest file that is copied.

    Returns:
        The copy; None where the file has no such items, or is too large.
    """
    size, position = size_of(stream), 0
    if size > max_bytes:
        return None
    for _ in range(_MAX_BOXES):
        stream.seek(position)
        head = stream.read(8)
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        if len(head) < 8 or length < 8:
            return None
        if name == b"meta":
            break
        position += length
    else:
        return None
    stream.seek(position)
    box = stream.read(min(length, _MAX_DIRECTORY_BYTES))
    start = box.find(b"iinf")
    if start < 4:
        return None
    end = start - 4 + int.from_bytes(box[start - 4 : start], "big")
    listing = box[start:end]
    for item in _METADATA_ITEMS:
        listing = listing.replace(item, _UNREAD)
    if listing == box[start:end]:
        return None
    stream.seek(0)
    content = bytearray(stream.read())
    content[position + start : position + start + len(listing)] = listing
    return io.BytesIO(bytes(content))


_HEADER_BYTES: Final = 13
_EXTENSION, _PICTURE = b"!", b","
_CONTROL: Final = 0xF9  # delay and transparent colour
_CONTROL_BYTES: Final = 4
_MAX_BLOCKS: Final = 100_000


def gif_parts(stream: IO[bytes]) -> IO[bytes] | None:
    """Return a GIF without the extensions that its first picture does not need; None when no picture is found."""
    stream.seek(0)
    header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return None
    position = _HEADER_BYTES + (3 << ((header[10] & 7) + 1) if header[10] & 0x80 else 0)
    parts: list[Range | bytes] = [Range(0, position)]
    size = size_of(stream)
    for _ in range(_MAX_BLOCKS):
        stream.seek(position)
        kind = stream.read(1)
        if kind == _PICTURE:
            return spliced(stream, [*parts, Range(position, size - position)])
        if kind != _EXTENSION:
            return None
        label, length = stream.read(1), stream.read(1)
        if label == bytes([_CONTROL]) and length == bytes([_CONTROL_BYTES]):
            parts.append(Range(position, 3 + _CONTROL_BYTES + 1))
        position += 2
        while length and length[0]:
            position += 1 + length[0]
            stream.seek(position)
            length = stream.read(1)
        position += 1
    return None
