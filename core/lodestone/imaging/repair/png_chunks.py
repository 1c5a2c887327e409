"""Chunks of a PNG that its picture needs: everything else in the file is kept from the decoder.

Pillow refuses a whole picture for a text of more than 1 MB, many texts, a wrong checksum in a comment or a short gamma value.
Here a chunk beside the pixels is passed on if it is used (colour profile, transparency, EXIF, XMP, descriptions and dates) and
sound, and dropped if it is not. Nothing is inflated further than the limits below.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

from lodestone.imaging.repair.spliced import Range, size_of, spliced

_SIGNATURE_BYTES: Final = 8
_AROUND_BYTES: Final = 12  # length, name and checksum
_LONGEST: Final = (1 << 31) - 1
_PIXELS: Final = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_END: Final = b"\0\0\0\0IEND\xaeB`\x82"
_USED: Final = frozenset({b"iCCP", b"tRNS", b"eXIf", b"tEXt", b"zTXt", b"iTXt"})
_READ_AT_ONCE: Final = 1 << 16
_INFLATED_AT_ONCE: Final = 1 << 20
_METADATA_KEYS: Final = frozenset({b"XML:com.adobe.xmp", b"Raw profile type exif"})
TEXT_KEYS: Final = ("Creation Time", "Title", "Description", "Comment")
"""Keywords of the texts that are read for what people wrote and for the day."""
_TEXT_KEYS: Final = frozenset(key.encode() for key in TEXT_KEYS)
_TRANSPARENCY_BYTES: Final = {0: 2, 2: 6}  # by colour type; a palette has one byte for each of its first colours
_PALETTE: Final = 3
_PALETTE_COLOURS: Final = 256
MAX_METADATA_BYTES: Final = 1 << 20
"""Largest EXIF block or XMP packet that is read, in bytes; Pillow refuses larger texts."""
MAX_PROFILE_BYTES: Final = 4 << 20
"""Largest colour profile that is applied, in bytes."""
_PILLOW_PROFILE_BYTES: Final = 1 << 20
_MAX_METADATA_CHUNKS: Final = 8  # a picture has one of each kind
_MAX_TEXT_CHUNKS: Final = 16  # one of each kind, in a few languages; counted apart, so that texts cost no EXIF and no XMP


@dataclass(frozen=True, slots=True)
class PngParts:
    """What a PNG is decoded from.

    Attributes:
        stream: The chunks that matter: the file itself if there are no others.
        profile: Colour profile that is too large for Pillow, or None.
    """

    stream: IO[bytes]
    profile: bytes | None


def needed_parts(stream: IO[bytes], *, with_pixels: bool = True) -> PngParts:
    """Return what a PNG, given at its beginning, is decoded from; without pixels, what its metadata are read from.

    Chunks that hold pixels, the header, the palette and the end are passed on as they are, damaged or not.
    """
    size = size_of(stream)
    parts: list[Range | bytes] = [Range(0, _SIGNATURE_BYTES)]
    choice = _Choice()
    name = b""
    for position, length, name in _chunks(stream, size):
        whole = Range(position, min(length + _AROUND_BYTES, size - position))
        if name in _PIXELS:
            if name != b"IDAT" or with_pixels:
                parts.append(whole)
            if name == b"IHDR":
                choice.colour_type = int.from_bytes(stream.read(10)[9:], "big")
        elif whole.length == length + _AROUND_BYTES and name in _USED and choice.wants(stream, name, length):
            parts.append(whole)
    if not with_pixels and name != b"IEND":
        parts.append(_END)
    stream.seek(0)
    covered = sum(part.length for part in parts if isinstance(part, Range))
    return PngParts(stream if covered == size and with_pixels else spliced(stream, parts), choice.large_profile)


class _Choice:
    """Chooses among the chunks beside the pixels of one file.

    Attributes:
        colour_type: The file's colour type, -1 until its header was seen.
        large_profile: Colour profile that is too large for Pillow, or None.
    """

    def __init__(self) -> None:
        self.colour_type = -1
        self.large_profile: bytes | None = None
        self._metadata = 0
        self._texts = 0

    def wants(self, stream: IO[bytes], name: bytes, length: int) -> bool:
        """Return whether the decoder gets the chunk behind whose name the stream stands."""
        content = _sound(stream, name, length)
        if content is None:
            return False
        if name == b"iCCP":
            profile = _profile(content)
            is_large = profile is not None and len(profile) > _PILLOW_PROFILE_BYTES
            self.large_profile = profile if is_large else self.large_profile
            return profile is not None and not is_large
        if name == b"tRNS":
            return _is_transparency(content, self.colour_type)
        if name != b"eXIf" and _is_text(name, content, _TEXT_KEYS):
            self._texts += 1
            return self._texts <= _MAX_TEXT_CHUNKS
        if self._metadata >= _MAX_METADATA_CHUNKS or (name != b"eXIf" and not _is_text(name, content, _METADATA_KEYS)):
            return False
        self._metadata += 1
        return True


def _chunks(stream: IO[bytes], size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the position, length and name of each chunk, with the stream behind the name; ends at what is no chunk."""
    position = _SIGNATURE_BYTES
    name = b""
    while name != b"IEND" and position + 8 <= size:
        stream.seek(position)
        head = stream.read(8)
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        if length > _LONGEST or not name.isalpha():
            return
        yield position, length, name
        position += length + _AROUND_BYTES


def _sound(stream: IO[bytes], name: bytes, length: int) -> bytes | None:
    """Return the content of a chunk behind whose name the stream stands; None where it is too long or its checksum is wrong."""
    if length > (MAX_PROFILE_BYTES if name == b"iCCP" else MAX_METADATA_BYTES):
        return None
    content, checksum = stream.read(length), stream.read(4)
    return content if zlib.crc32(content, zlib.crc32(name)) == int.from_bytes(checksum, "big") else None


def _profile(content: bytes) -> bytes | None:
    name, nul, rest = content.partition(b"\0")
    return _inflated(rest[1:], MAX_PROFILE_BYTES) if name and nul and rest[:1] == b"\0" else None


def _is_transparency(content: bytes, colour_type: int) -> bool:
    if colour_type == _PALETTE:
        return 0 < len(content) <= _PALETTE_COLOURS
    return len(content) == _TRANSPARENCY_BYTES.get(colour_type)


def _is_text(name: bytes, content: bytes, keys: frozenset[bytes]) -> bool:
    """Return whether a text chunk has one of the keywords and a text that can be read and is not too long."""
    key, nul, rest = content.partition(b"\0")
    if not nul or key not in keys:
        return False
    if name == b"zTXt":
        return rest[:1] == b"\0" and _inflated(rest[1:], MAX_METADATA_BYTES) is not None
    if name == b"iTXt":
        words = rest[2:].split(b"\0", 2)  # language, translated key, text
        is_compressed = rest[:1] == b"\1"
        return len(words) == 3 and (not is_compressed or _inflated(words[2], MAX_METADATA_BYTES) is not None)
    return True


def _inflated(data: bytes, limit: int) -> bytes | None:
    """Return what `data` inflates to; None where it is broken, or larger than `limit`."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(data, limit + 1)
    except zlib.error:
        return None
    return content if inflater.eof and len(content) <= limit else None


def decoded_share(stream: IO[bytes], row_bytes: int, rows: int) -> float:
    """Return the share of the rows of a PNG, not interlaced, that its pixel chunks hold, in [0, 1].

    Args:
        stream: The file.
        row_bytes: Bytes of one row of pixels, without the byte of its filter.
        rows: Number of rows.
    """
    inflater, inflated = zlib.decompressobj(), 0
    wanted = rows * (row_bytes + 1)
    try:
        for data in _pixel_data(stream):
            left = data
            while left and inflated < wanted:
                inflated += len(inflater.decompress(left, _INFLATED_AT_ONCE))
                left = inflater.unconsumed_tail
            if inflated >= wanted or inflater.eof:
                break
    except zlib.error:
        pass  # what came before the damage counts
    stream.seek(0)
    return min(inflated // (row_bytes + 1), rows) / rows


def _pixel_data(stream: IO[bytes]) -> Iterator[bytes]:
    for _, length, name in _chunks(stream, size_of(stream)):
        left = length if name == b"IDAT" else 0
        while left > 0 and (data := stream.read(min(left, _READ_AT_ONCE))):
            left -= len(data)
            yield data
