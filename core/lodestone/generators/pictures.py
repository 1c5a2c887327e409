"""Checks and conversions of the pictures that engines send.

Engines send anything: HTML pages, truncated pictures, other sizes, a few bytes that expand to gigabytes. Only the usual formats
of the web are opened, nothing is decoded beyond a limit, and larger pictures are reduced to the size that was asked for (their
shape is kept; smaller ones are not enlarged). A picture of a single colour is rejected: services send one in place of a picture
that they withhold.
"""

from __future__ import annotations

import base64
import binascii
import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.errors import ImageError
from lodestone.imaging.decode import decode, supported_format
from lodestone.imaging.failures import FailureReason
from lodestone.imaging.sniff import HEAD_BYTES

Pixels = NDArray[np.uint8]
PICTURE_MEDIA_TYPE: Final = "image/jpeg"  # media type of stored pictures

_FORMATS: Final = frozenset({"JPEG", "PNG", "WEBP", "GIF", "AVIF"})
_MAX_DECODED_BYTES: Final = 128 * 2**20  # 5,000 x 5,000 pixels: more than any engine draws
_WHOLE: Final = 2**16  # no side is this long: never decoded at reduced size
_SMALLEST_SIDE: Final = 16
_LONGEST_SHAPE: Final = 4.0  # longest side / shortest side: a guide is no banner
# JPEG without chroma subsampling: on 256-pixel photos 0.5 ms and 24 kB; WebP of like quality takes 9 ms and 19 kB.
_JPEG: Final = {"quality": 92, "subsampling": 0}


@dataclass(frozen=True, slots=True)
class Received:
    """A usable picture that an engine sent.

    Attributes:
        pixels: (h, w, 3) uint8 RGB, no side above the size asked for.
        width: Width as sent, pixels.
        height: Height as sent, pixels.
    """

    pixels: Pixels
    width: int
    height: int


def read_picture(data: bytes, *, size: int) -> Received:
    """Decode a picture that an engine sent.

    Args:
        data: The file.
        size: Largest longer side of the result, pixels.

    Raises:
        ImageError: the picture is not usable; `reason` says why.
    """
    try:
        kind = supported_format(data[:HEAD_BYTES])
        if kind not in _FORMATS:
            raise _unusable(f"a {kind} file is no picture of the web", FailureReason.UNSUPPORTED)
        picture = decode(data, min_side=size, max_decoded_bytes=_MAX_DECODED_BYTES)
    except ImageError as error:
        raise _unusable(error.message, error.details.get("reason", FailureReason.CORRUPT)) from error
    if picture.decoded_share is not None:
        raise _unusable(f"it ends early: {picture.decoded_share:.0%} of it is there", FailureReason.TRUNCATED)
    width, height = picture.width, picture.height
    if min(width, height) < _SMALLEST_SIDE or max(width, height) > _LONGEST_SHAPE * min(width, height):
        raise _unusable(f"it is {width} x {height} pixels", FailureReason.UNSUPPORTED)
    pixels = reduced(np.asarray(picture.image), size)
    if not (pixels != pixels[0, 0]).any():
        raise _unusable(f"it is blank, one colour all over ({width} x {height} pixels)", FailureReason.NOT_AN_IMAGE)
    return Received(pixels, width, height)


def from_base64(text: str) -> bytes:
    """Return the bytes of base64, or of a `data:` URL with base64.

    Raises:
        ImageError: it is not base64.
    """
    payload = text.partition(",")[2] if text.startswith("data:") else text
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unusable(f"it is not base64: {error}", FailureReason.NOT_AN_IMAGE) from error


def reduced(pixels: Pixels, size: int) -> Pixels:
    """Return the same picture with its longer side reduced to `size` pixels; never enlarged."""
    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    if scale >= 1:
        return pixels
    small = Image.fromarray(pixels).resize(
        (max(1, round(width * scale)), max(1, round(height * scale))), Image.Resampling.LANCZOS, reducing_gap=3.0
    )
    return np.asarray(small)


def kept_picture(pixels: Pixels, size: int) -> bytes:
    """Return a small JPEG of a picture, its longer side at most `size` pixels."""
    buffer = io.BytesIO()
    Image.fromarray(reduced(pixels, size)).save(buffer, "JPEG", **_JPEG)
    return buffer.getvalue()


def png_of(pixels: Pixels, size: int) -> bytes:
    """Return a PNG of a picture, its longer side at most `size` pixels: what a service is sent to edit."""
    buffer = io.BytesIO()
    Image.fromarray(reduced(pixels, size)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def pixels_of(kept: bytes) -> Pixels:
    """Return (h, w, 3) uint8 RGB of a stored picture.

    Raises:
        ImageError: it is damaged.
    """
    return np.asarray(decode(kept, min_side=_WHOLE, max_decoded_bytes=_MAX_DECODED_BYTES).image)


def _unusable(what: str, reason: str) -> ImageError:
    return ImageError(
        f"the picture that came cannot be used: {what}",
        hint="look at what the engine sends: `lodestone generator test NAME`",
        reason=str(reason),
    )
