"""Reading of a picture's metadata from its header, without decoding a pixel.

The result is what decoding the same file gives as `DecodedImage.embedded`. JPEG, PNG, TIFF and RAW files are read in part,
however large they are; WebP, HEIC and AVIF files are read whole, because their libraries take nothing less.
"""

from __future__ import annotations

import io
import os
from typing import IO, BinaryIO, Final

from PIL import Image

from lodestone.errors import LodestoneError
from lodestone.imaging.decode import is_raw, supported_format
from lodestone.imaging.exif import EmbeddedMetadata, read_embedded, read_embedded_of_tiff
from lodestone.imaging.failures import FailureReason, image_error, unreadable
from lodestone.imaging.opening import open_image
from lodestone.imaging.sniff import HEAD_BYTES

BEGINNING_BYTES: Final = 256 << 10
"""Bytes from a file's beginning that hold the metadata of nearly every JPEG: a block has at most 64 KB, and previews follow."""

# Formats whose metadata lies at the beginning of the file, if there is any; others may have it at the end.
_AT_BEGINNING: Final = frozenset({"JPEG", "PNG", "GIF", "BMP"})
_PNG_SIGNATURE_BYTES: Final = 8
_PNG_CHUNKS: Final = frozenset({b"IHDR", b"PLTE", b"eXIf", b"iTXt", b"tEXt", b"zTXt", b"IEND"})
_PNG_END: Final = b"\0\0\0\0IEND\xaeB`\x82"
_PNG_MAX_CHUNK: Final = 1 << 20  # Pillow refuses larger texts


def read_header(data: bytes | str | os.PathLike[str] | BinaryIO) -> EmbeddedMetadata:
    """Return the metadata of a picture, given its content, its path, or the open file, which is closed. Thread-safe.

    Raises:
        ImageError: the file cannot be read, is no supported picture, or its header is damaged or incomplete.
    """
    if isinstance(data, bytes):
        return _read(io.BytesIO(data))
    try:
        # A str path may hold surrogates (names that are not UTF-8).
        with open(data, "rb") if isinstance(data, (str, os.PathLike)) else data as stream:  # noqa: PTH123
            return _read(stream)
    except OSError as error:
        raise unreadable(error) from error


def is_enough(beginning: bytes) -> bool:
    """Return whether the beginning of a file is worth reading alone: its format keeps metadata there.

    Metadata that a PNG keeps behind its pixels is not found in the beginning.

    Raises:
        ImageError: the file is empty, no picture, or of a format that is not decoded.
    """
    return supported_format(beginning[:HEAD_BYTES]) in _AT_BEGINNING


def _read(stream: IO[bytes]) -> EmbeddedMetadata:
    kind = supported_format(stream.read(HEAD_BYTES))
    stream.seek(0)
    try:
        if kind == "RAW" or (kind == "TIFF" and is_raw(stream)):
            return _of_raw(stream)
        with open_image(_without_pixels(stream) if kind == "PNG" else stream, kind) as image:
            return read_embedded(image)
    except LodestoneError:
        raise
    except (MemoryError, Image.DecompressionBombError) as error:
        raise image_error(FailureReason.TOO_LARGE, f"the {kind} picture is too large: {error}", format=kind) from error
    except Exception as error:  # parsers raise anything on broken files
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(error) from error
        raise image_error(FailureReason.CORRUPT, f"the header of the {kind} picture cannot be read: {error}") from error


def _of_raw(stream: IO[bytes]) -> EmbeddedMetadata:
    from lodestone.imaging.raw import read_preview

    container = read_embedded_of_tiff(stream)
    if container.base:
        return container
    jpeg = read_preview(stream).jpeg  # no TIFF container: the preview has the metadata
    return container if jpeg is None else _read(io.BytesIO(jpeg))


def _without_pixels(stream: IO[bytes]) -> IO[bytes]:
    """Return a PNG of the same header and metadata without pixels, which are skipped: metadata may lie behind them.

    A file that ends early gives what comes before its end.
    """
    short = io.BytesIO()
    short.write(stream.read(_PNG_SIGNATURE_BYTES))
    while len(head := stream.read(8)) == 8:
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        if name in _PNG_CHUNKS and length <= _PNG_MAX_CHUNK:
            chunk = stream.read(length + 4)  # with its checksum
            if len(chunk) == length + 4:
                short.write(head + chunk)
        else:
            stream.seek(length + 4, os.SEEK_CUR)
        if name == b"IEND":
            break
    else:
        short.write(_PNG_END)
    short.seek(0)
    return short
