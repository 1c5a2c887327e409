"""Reading of a picture's metadata from its header, without decoding a pixel.

The result is what decoding the same file gives as `DecodedImage.embedded`. JPEG, PNG, TIFF and RAW files are read in part,
however large they are; WebP, HEIC and AVIF files are read whole, because their libraries take nothing less.
"""

from __future__ import annotations

import io
import logging
import os
from typing import IO, BinaryIO, Final

from PIL import Image

from lodestone.errors import LodestoneError
from lodestone.imaging.decode import from_its_start, is_raw, supported_format
from lodestone.imaging.exif import EmbeddedMetadata, read_embedded, read_embedded_of_tiff
from lodestone.imaging.failures import FailureReason, image_error, unreadable
from lodestone.imaging.opening import open_image
from lodestone.imaging.repair.versions import versions_of
from lodestone.imaging.sniff import HEAD_BYTES

_log = logging.getLogger(__name__)

BEGINNING_BYTES: Final = 256 << 10
"""Bytes from a file's beginning that hold the metadata of nearly every JPEG: a block has at most 64 KB, and previews follow."""

# Formats whose metadata lies at the beginning of the file, if there is any; others may have it at the end.
_AT_BEGINNING: Final = frozenset({"JPEG", "PNG", "GIF", "BMP"})
_MAX_COPY_BYTES: Final = 256 << 20


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
    kind = supported_format(head := stream.read(HEAD_BYTES))
    stream = from_its_start(stream, head, kind)
    try:
        if kind == "RAW" or (kind == "TIFF" and is_raw(stream)):
            return _of_raw(stream)
        with open_image(stream, kind, with_pixels=False) as image:
            return read_embedded(image)
    except LodestoneError:
        raise
    except (MemoryError, Image.DecompressionBombError) as error:
        raise image_error(FailureReason.TOO_LARGE, f"the {kind} picture is too large: {error}", format=kind) from error
    except Exception as error:  # parsers raise anything on broken files
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(error) from error
        repaired = _read_damaged(stream, kind)
        if repaired is not None:
            return repaired
        raise image_error(FailureReason.CORRUPT, f"the header of the {kind} picture cannot be read: {error}") from error


def _read_damaged(stream: IO[bytes], kind: str) -> EmbeddedMetadata | None:
    """Return the metadata that is left of a damaged file, or None."""
    for version in versions_of(stream, kind, max_bytes=_MAX_COPY_BYTES):
        try:
            with open_image(version.stream, kind, with_pixels=False, is_lean=version.is_lean) as image:
                return read_embedded(image)
        except Exception as error:  # noqa: BLE001 - as above; the first error is reported
            _log.debug("a repaired version of the header cannot be read either: %r", error)
    return None


def _of_raw(stream: IO[bytes]) -> EmbeddedMetadata:
    from lodestone.imaging.raw import read_preview

    container = read_embedded_of_tiff(stream)
    if container.base:
        return container
    jpeg = read_preview(stream).jpeg  # no TIFF container: the preview has the metadata
    return container if jpeg is None else _read(io.BytesIO(jpeg))
