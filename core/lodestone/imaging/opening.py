"""Opening of each picture format by its own Pillow class, and diagnosis of files that fail to decode.

A format's class is imported on first use: nothing is registered with Pillow, and a JPEG does not pay for the other formats.
"""

from __future__ import annotations

import importlib
from typing import IO, TYPE_CHECKING, Literal

from PIL import UnidentifiedImageError

from lodestone.imaging.failures import FailureReason
from lodestone.imaging.repair.png_chunks import needed_parts

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

# Format (see sniff.py) -> module, class.
_OPENERS = {
    "JPEG": ("PIL.JpegImagePlugin", "JpegImageFile"),
    "PNG": ("PIL.PngImagePlugin", "PngImageFile"),
    "WEBP": ("PIL.WebPImagePlugin", "WebPImageFile"),
    "GIF": ("PIL.GifImagePlugin", "GifImageFile"),
    "BMP": ("PIL.BmpImagePlugin", "BmpImageFile"),
    "TIFF": ("PIL.TiffImagePlugin", "TiffImageFile"),
    "AVIF": ("PIL.AvifImagePlugin", "AvifImageFile"),
    "HEIF": ("pillow_heif", "HeifImageFile"),
    "JP2": ("PIL.Jpeg2KImagePlugin", "Jpeg2KImageFile"),
    "PSD": ("PIL.PsdImagePlugin", "PsdImageFile"),
    "TGA": ("PIL.TgaImagePlugin", "TgaImageFile"),
    "PNM": ("PIL.PpmImagePlugin", "PpmImageFile"),
}

_LEAN_OPENER = ("lodestone.imaging.repair.lean_tiff", "LeanTiffImageFile")

_TRUNCATION_WORDS = ("truncated", "unexpected end", "end of file", "eof", "too short", "not enough data")
_UNSUPPORTED_WORDS = ("unknown pixel mode", "unsupported", "not supported", "not implemented", "unknown compression")
_ENDINGS = {"JPEG": b"\xff\xd9", "PNG": b"IEND", "GIF": b"\x3b"}
_TAIL_BYTES = 4096  # some writers append a few bytes after the end


def open_image(stream: IO[bytes], kind: str, *, with_pixels: bool = True, is_lean: bool = False) -> ImageFile:
    """Read the header of a picture of format `kind`; no pixel is decoded. Pillow's errors are passed through.

    Args:
        stream: The file, at its beginning.
        kind: The format, as `sniff_format` names it.
        with_pixels: Whether the picture will be loaded. A PNG without pixels is read for the metadata behind them.
        is_lean: Whether only those tags of a TIFF are read that its pixels need.
    """
    module, name = _LEAN_OPENER if is_lean else _OPENERS[kind]
    opener = getattr(importlib.import_module(module), name)
    if kind != "PNG":
        opened: ImageFile = opener(stream)
        return opened
    parts = needed_parts(stream, with_pixels=with_pixels)
    opened = opener(parts.stream)
    if parts.profile is not None:
        opened.info["icc_profile"] = parts.profile
    return opened


def explain_failure(error: Exception, stream: IO[bytes], size: int, kind: str) -> FailureReason:
    """Return why a picture of format `kind` (`size` bytes) failed with `error`: TRUNCATED, UNSUPPORTED or CORRUPT."""
    text = str(error).lower()
    if isinstance(error, EOFError) or any(word in text for word in _TRUNCATION_WORDS) or _ends_early(stream, size, kind):
        return FailureReason.TRUNCATED
    if isinstance(error, (NotImplementedError, UnidentifiedImageError)) or any(word in text for word in _UNSUPPORTED_WORDS):
        return FailureReason.UNSUPPORTED
    return FailureReason.CORRUPT


def _ends_early(stream: IO[bytes], size: int, kind: str) -> bool:
    """Return whether the container states that more bytes should follow; called only for files that failed to decode."""
    if stream.closed:
        return False
    if kind == "WEBP":
        stream.seek(4)
        return int.from_bytes(stream.read(4), "little") + 8 > size
    if kind == "TIFF":  # most writers put the directory of tags last
        stream.seek(0)
        order: Literal["little", "big"] = "little" if stream.read(2) == b"II" else "big"
        stream.seek(4)
        return int.from_bytes(stream.read(4), order) >= size
    if kind in _ENDINGS:
        stream.seek(max(size - _TAIL_BYTES, 0))
        return _ENDINGS[kind] not in stream.read()
    return kind in {"HEIF", "AVIF"} and _boxes_end_early(stream, size)


def _boxes_end_early(stream: IO[bytes], size: int) -> bool:
    position = 0
    while position + 8 <= size:
        stream.seek(position)
        length = int.from_bytes(stream.read(4), "big")
        if length == 1:  # a 64-bit length follows the type
            stream.seek(position + 8)
            length = int.from_bytes(stream.read(8), "big")
        if length < 8:  # 0: up to the end of the file
            return False
        position += length
    return position > size
