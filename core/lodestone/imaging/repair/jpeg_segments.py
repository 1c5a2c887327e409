"""Segments of a JPEG that its picture needs, and an end for a file that has none.

Used for files that fail as they are: a short JFIF or Adobe segment, broken metadata, bytes between segments, an end that is
missing or full of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Final

from lodestone.imaging.repair.spliced import Range, size_of, spliced

END: Final = b"\xff\xd9"
_START: Final = b"\xff\xd8"
_SCAN: Final = 0xDA
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})  # TEM, RST0 to RST7, SOI
_FRAMES: Final = frozenset(range(0xC0, 0xD0))  # frames, and tables of Huffman and arithmetic coding
_TABLES: Final = frozenset({0xDB, 0xDD})  # quantisation, restart interval
_JFIF, _EXIF, _PROFILE, _PHOTOSHOP, _ADOBE = 0xE0, 0xE1, 0xE2, 0xED, 0xEE
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
_MAX_SEGMENTS: Final = 4096
_MAX_JUNK_BYTES: Final = 1 << 20
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class JpegParts:
    """What a damaged JPEG is decoded from.

    Attributes:
        stream: Its sound segments, its scans, and an end.
        is_cut: Whether the file has no end of its own.
    """

    stream: IO[bytes]
    is_cut: bool


def needed_parts(stream: IO[bytes], *, with_metadata: bool) -> JpegParts | None:
    """Return what a damaged JPEG is decoded from; None when no scan begins in the file.

    Args:
        stream: The file, which begins with the marker of a JPEG.
        with_metadata: Whether EXIF, XMP, IPTC and the colour profile are kept.
    """
    size, position = size_of(stream), 2
    parts: list[Range | bytes] = [_START]
    for _ in range(_MAX_SEGMENTS):
        found = _next_marker(stream, position, size)
        if found is None:
            return None
        position, marker = found
        if marker == _SCAN:
            end, is_cut = _end_of_scans(stream, position, size)
            parts += [Range(position, end - position), END]
            return JpegParts(spliced(stream, parts), is_cut)
        if marker in _WITHOUT_LENGTH:
            position += 2
            continue
        stream.seek(position + 2)
        length = int.from_bytes(stream.read(2), "big")
        begin = stream.read(16)[: max(length - 2, 0)]
        if length >= 2 and _is_needed(marker, begin, length - 2, with_metadata=with_metadata):
            parts.append(Range(position, length + 2))
        position += 2 + max(length, 2)
    return None


def _next_marker(stream: IO[bytes], position: int, size: int) -> tuple[int, int] | None:
    """Return the position and the second byte of the next marker; bytes that stand between segments are skipped."""
    end = min(size, position + _MAX_JUNK_BYTES)
    while position < end:
        stream.seek(position)
        block = stream.read(min(end - position, 4096))
        for i in range(len(block) - 1):
            if block[i] == 0xFF and block[i + 1] not in (0x00, 0xFF):
                return position + i, block[i + 1]
        position += max(len(block) - 1, 1)
    return None


def _is_needed(marker: int, begin: bytes, length: int, *, with_metadata: bool) -> bool:
    if marker in _FRAMES or marker in _TABLES:
        return True
    if marker == _JFIF:
        return begin.startswith(b"JFIF\0") and length >= _JFIF_BYTES
    if marker == _ADOBE:
        return begin.startswith(b"Adobe") and length >= _ADOBE_BYTES
    return with_metadata and marker in {_EXIF, _PROFILE, _PHOTOSHOP}


def _end_of_scans(stream: IO[bytes], position: int, size: int) -> tuple[int, bool]:
    """Return where the data of the scans from `position` on end, and whether the file ends before its picture does.

    The marker of the end cannot occur in a scan's data. Zeros at the end of a file without it are what a copy has not written.
    """
    last = b""
    stream.seek(position)
    while block := stream.read(_BLOCK):
        at = (last + block).find(END)
        if at >= 0:
            return stream.tell() - len(block) - len(last) + at, False
        last = block[-1:]
    end = size
    while end > position:
        begin = max(end - _BLOCK, position)
        stream.seek(begin)
        content = stream.read(end - begin).rstrip(b"\0")
        end = begin + len(content)
        if content:
            break
    return end, True
