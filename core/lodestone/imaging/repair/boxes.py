"""Items of a HEIC or AVIF file that are no picture, taken from the decoder's sight."""

from __future__ import annotations

import io
from typing import IO, Final

from lodestone.imaging.repair.spliced import size_of

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
