"""Share of a cut picture that was decoded, measured on its rows.

Errors that are kept without the frames that raised them. A traceback holds the frames that an error passed, and those hold the
pixels of the picture that failed, as long as the error lives. Each frame also holds the one that called it. So an error that a
caller keeps in a variable is part of a cycle, and its pixels stay until the garbage collector comes to old objects, which may
be minutes later.
"""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from PIL import Image

from lodestone.imaging.repair.png_chunks import decoded_share

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.ImageFile import ImageFile

ErrorT = TypeVar("ErrorT", bound=BaseException)


def without_frames(error: ErrorT) -> ErrorT:
    """Return the error after taking away its traceback and those of the errors behind it."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        current = left.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = None
            left.extend((current.__cause__, current.__context__))
    return error


_GREY: Final = (127, 129)  # what libjpeg fills with: no coefficients, which is 128 and a rounding
_BLOCK_ROWS: Final = 16  # of a JPEG, at most
_HEADER_BYTES: Final = 26
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by a PNG's colour type


def load_as_far_as_possible(image: ImageFile) -> Exception | None:
    """Load a picture, and return the error that ended it early; the rows before it are in the picture then.

    Raises:
        Exception: no row could be decoded.
    """
    try:
        image.load()
    except (OSError, EOFError, SyntaxError, ValueError, IndexError, struct.error) as error:
        if image._im is None or (isinstance(error, OSError) and error.errno is not None):  # noqa: SLF001 - `im` raises without one
            raise
        image.tile = []
        return without_frames(error)
    return None


def comes_in_passes(image: ImageFile) -> bool:
    """Return whether the rows of an opened GIF or PNG are not stored from the first to the last."""
    if image.format == "GIF":
        arguments = image.tile[0].args if image.tile else None
        return isinstance(arguments, tuple) and len(arguments) > 1 and bool(arguments[1])
    return bool(image.info.get("interlace"))


def share_of_jpeg(image: Image.Image, scale: int) -> float:
    """Return the share of the rows of a JPEG, decoded at 1/scale of its size, above the grey that fills what is missing."""
    pixels: NDArray[np.uint8] = np.asarray(image).reshape(image.height, image.width, -1)
    is_fill: NDArray[np.bool_] = np.all((pixels >= _GREY[0]) & (pixels <= _GREY[1]), axis=2)
    last = round(_above(np.all(is_fill, axis=1)) * image.height)
    begin = max(last - max(_BLOCK_ROWS // scale, 1), 0)
    # Blocks come from left to right: the last ones of a row may be missing.
    whole = np.flatnonzero(~is_fill[begin:last, -1])
    return (begin + (int(whole[-1]) + 1 if whole.size else 0)) / image.height


def share_of_png(stream: IO[bytes]) -> float:
    """Return the share of the rows of a PNG, not interlaced, that its data hold, in [0, 1]."""
    stream.seek(0)
    head = stream.read(_HEADER_BYTES)
    width, height = (int.from_bytes(head[at : at + 4], "big") for at in (16, 20))
    depth, colour_type = head[24], head[25]
    return decoded_share(stream, -(-width * depth * _CHANNELS.get(colour_type, 1) // 8), height)


def share_of_rows(image: Image.Image) -> float:
    """Return the share of the rows of a partly loaded picture that are not blank at its end or beginning, in [0, 1]."""
    rows: NDArray[Any] = np.asarray(image).reshape(image.height, -1)
    is_blank = (rows == rows[-1:, -1:]).all(axis=1)
    below = _above(is_blank)
    is_blank = (rows == rows[:1, :1]).all(axis=1)
    return min(below, _above(is_blank[::-1]))  # a BMP is written from its last row up


def _above(is_fill: NDArray[np.bool_]) -> float:
    last = np.flatnonzero(~is_fill)
    return float((last[-1] + 1) / len(is_fill)) if last.size else 0.0
