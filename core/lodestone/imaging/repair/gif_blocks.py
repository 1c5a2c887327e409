"""Blocks of a GIF that its first picture needs: comments, notes of programs and extensions of a wrong length are left out."""

from __future__ import annotations

from typing import IO, Final

from lodestone.imaging.repair.spliced import Range, size_of, spliced

_HEADER_BYTES: Final = 13
_EXTENSION, _PICTURE = b"!", b","
_CONTROL: Final = 0xF9  # delay and transparent colour
_CONTROL_BYTES: Final = 4
_MAX_BLOCKS: Final = 100_000


def needed_parts(stream: IO[bytes]) -> IO[bytes] | None:
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
