"""Builder of small TIFF files of any layout of samples, which Pillow's own writer does not offer."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

GREY_WHITE_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
_FORMATS = {"u": 1, "i": 2, "f": 3}
_SHORT, _LONG = 3, 4


def tiff(
    samples: NDArray[Any],
    photometric: int,
    *,
    order: str = "<",
    planes: bool = False,
    deflate: bool = False,
    extra: int | None = None,
    more_tags: dict[int, tuple[int, ...]] | None = None,
    strip: bytes | None = None,
) -> bytes:
    """Return a TIFF of (h, w) or (h, w, channels) samples, in one strip, or one for each plane.

    Args:
        samples: The samples; their type becomes that of the file.
        photometric: TIFF's number of the colour space.
        order: "<" for little-endian, ">" for big-endian.
        planes: Whether each channel has a strip of its own.
        deflate: Whether strips are compressed.
        extra: Meaning of the last channel: 0 none, 1 premultiplied alpha, 2 alpha.
        more_tags: Other tags of 16-bit numbers.
        strip: Content of the only strip, in place of the samples.
    """
    cube = samples.reshape(*samples.shape[:2], -1).astype(samples.dtype.newbyteorder(order))
    height, width, channels = cube.shape
    strips = [cube[:, :, i].tobytes() for i in range(channels)] if planes else [strip or cube.tobytes()]
    strips = [zlib.compress(part) if deflate else part for part in strips]
    shorts: dict[int, tuple[int, ...]] = {
        258: (samples.dtype.itemsize * 8,) * channels,
        259: (8 if deflate else 1,),
        262: (photometric,),
        277: (channels,),
        284: (2 if planes else 1,),
        339: (_FORMATS[samples.dtype.kind],) * channels,
        **({} if extra is None else {338: (extra,)}),
        **(more_tags or {}),
    }
    ends = np.cumsum([8, *(len(part) for part in strips)]).tolist()
    longs = {256: (width,), 257: (height,), 273: tuple(ends[:-1]), 278: (height,), 279: tuple(len(part) for part in strips)}
    tags = sorted(
        [(tag, _SHORT, value) for tag, value in shorts.items()] + [(tag, _LONG, value) for tag, value in longs.items()]
    )
    directory = ends[-1]
    behind = directory + 2 + 12 * len(tags) + 4
    entries, values = b"", b""
    for tag, kind, numbers in tags:
        packed = struct.pack(f"{order}{len(numbers)}{'H' if kind == _SHORT else 'L'}", *numbers)
        entries += struct.pack(f"{order}HHL", tag, kind, len(numbers))
        if len(packed) <= 4:
            entries += packed.ljust(4, b"\0")
        else:
            entries += struct.pack(f"{order}L", behind + len(values))
            values += packed
    header = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HL", 42, directory)
    return header + b"".join(strips) + struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + values
