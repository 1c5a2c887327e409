"""Chunks of a WebP that its picture needs; a chunk that the file's end cuts off is filled up with zeros.

WebP has no checksums: its decoder goes on over zeros, and what it makes of them lies behind the last whole row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Final

from lodestone.imaging.repair.spliced import Range, size_of, spliced

_HEADER_BYTES: Final = 12
_PIXELS: Final = frozenset({b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF"})
_EXTENDED, _FRAME = b"VP8X", b"ANMF"
_EXTENDED_BYTES: Final = 10
_HAS_ALPHA_OR_FRAMES: Final = 0x12
_MAX_CHUNKS: Final = 4096


@dataclass(frozen=True, slots=True)
class WebpParts:
    """What a damaged WebP is decoded from.

    Attributes:
        stream: A file of the chunks that hold pixels.
        share: Share of the bytes of the cut chunk that the file has, in [0, 1]; 1.0 if none is cut.
    """

    stream: IO[bytes]
    share: float


def needed_parts(stream: IO[bytes], least_share: float) -> WebpParts | None:
    """Return what a damaged WebP is decoded from; None when it has no pixels, or less than `least_share` of them."""
    size, position, share = size_of(stream), _HEADER_BYTES, 1.0
    parts: list[Range | bytes] = []
    for _ in range(_MAX_CHUNKS):
        stream.seek(position)
        head = stream.read(8)
        if len(head) < 8 or share < 1.0:
            break
        name, length = head[:4], int.from_bytes(head[4:], "little")
        padded = length + length % 2
        here = min(padded, size - position - 8)
        if name == _EXTENDED and here >= _EXTENDED_BYTES:
            content = stream.read(length)
            parts += [head, bytes([content[0] & _HAS_ALPHA_OR_FRAMES]) + content[1:]]
        elif name in _PIXELS:
            if here < length:
                share = here / length
                if share < least_share:
                    return None
            parts += [head, Range(position + 8, here), bytes(padded - here)]
            if name == _FRAME:
                break  # the first frame of an animation is the picture
        position += 8 + padded
    if not parts:
        return None
    total = 4 + sum(len(part) if isinstance(part, bytes) else part.length for part in parts)
    return WebpParts(spliced(stream, [b"RIFF" + total.to_bytes(4, "little") + b"WEBP", *parts]), share)
