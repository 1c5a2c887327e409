"""Decoder of picture files: from bytes to upright RGB pixels, in bounded memory.

The format is found by content. JPEGs are decoded at reduced size where the caller needs less (see jpeg.py); every other picture
whose pixels would take more than `max_decoded_bytes` is refused from its header, before a pixel is decoded.

Pillow's own limit (`Image.MAX_IMAGE_PIXELS`) is global and lives in `Image.open`. We open with the format's own class, so
`Image.open`, its limit and its registry of plug-ins are neither used nor changed. Pillow checks the limit once more inside TIFF
loading (above 179 million pixels) and when a GIF frame leaves its canvas: that refusal too becomes `ImageTooLargeError`.
"""

from __future__ import annotations

import io
import logging
import os
import struct
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from PIL import Image

from lodestone.errors import LodestoneError
from lodestone.imaging.colour import decoding_bytes, to_srgb
from lodestone.imaging.exif import EmbeddedMetadata, read_embedded, read_embedded_of_tiff
from lodestone.imaging.failures import FailureReason, image_error, too_large, unreadable
from lodestone.imaging.gpu_jpeg import GpuJpegs, JpegFile
from lodestone.imaging.jpeg import DRAFT_MARGIN, apply_draft, coefficient_bytes, is_ordinary
from lodestone.imaging.older_formats import alpha_bits_of, as_meant, refuse_unmeant
from lodestone.imaging.opening import explain_failure, open_image
from lodestone.imaging.repair.shares import (
    comes_in_passes,
    load_as_far_as_possible,
    share_of_jpeg,
    share_of_png,
    share_of_rows,
    without_frames,
)
from lodestone.imaging.repair.spliced import Range, size_of, spliced
from lodestone.imaging.repair.versions import LEAST_SHARE, Version, versions_of
from lodestone.imaging.sniff import HEAD_BYTES, JPEG_START, name_unsupported, sniff_format

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.TiffImagePlugin import TiffImageFile

    from lodestone.imaging.budget import DecodingBudget

_log = logging.getLogger(__name__)

DECODER_VERSION = "1"  # part of a slice's fingerprint: raise it when the same file would give visibly other pixels
DEFAULT_MAX_DECODED_BYTES = 512 * 2**20
REDUCED_FROM_PIXELS = 4 << 20
"""Pictures that share memory are kept as they are up to this size."""

_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_OLDER = frozenset({"JP2", "PSD", "TGA", "PNM"})
_TURNS = frozenset({5, 6, 7, 8})  # orientations that swap width and height


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """Holds one decoded picture and facts about its file.

    Attributes:
        image: The pixels: mode "RGB", upright, at most as large as the original.
        width: Width of the upright original, in pixels.
        height: Height of the upright original, in pixels.
        format: Format of the content: "JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF", "RAW", "JP2",
            "PSD", "TGA" or "PNM".
        draft_scale: 1, 2, 4 or 8: the JPEG (for RAW: its preview) was decoded at 1/draft_scale of its size.
        orientation: EXIF orientation that was applied, 1 to 8.
        embedded: EXIF, XMP and IPTC blocks as they are in the file.
        decoded_share: Share of the rows that could be decoded, in [0, 1]; None for a picture that is complete.
    """

    image: Image.Image
    width: int
    height: int
    format: str
    draft_scale: int = 1
    orientation: int = 1
    embedded: EmbeddedMetadata = field(default_factory=EmbeddedMetadata)
    decoded_share: float | None = None


class _TooLittleError(Exception):
    """Raised when too few rows of a damaged picture can be decoded; the first error of the picture is reported with it."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Says that a picture shares the memory of its process with others that are decoded at the same time.

    Attributes:
        budget: The memory of all of them.
        until: When waiting for room ends, on the clock of `time.monotonic()`; None for the budget's own patience.
    """

    budget: DecodingBudget
    until: float | None = None


@dataclass(frozen=True, slots=True)
class _Limits:
    min_side: int
    max_decoded_bytes: int
    sharing: Sharing | None
    held: ExitStack

    def take(self, needed: int) -> None:
        """Take room for a picture that needs `needed` bytes, in place of what this picture has taken before."""
        if self.sharing is not None:
            self.held.close()
            self.held.enter_context(self.sharing.budget.room(needed, until=self.sharing.until))


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A decoder of JPEGs beside Pillow's, and the whole file for it."""

    data: bytes
    jpegs: GpuJpegs

    def pixels(self, image: JpegImageFile, stream: IO[bytes], file: JpegFile) -> Image.Image | None:
        """Return the pixels of an opened JPEG with its colour profile; None where Pillow has to decode it."""
        found = self.jpegs.decode(file) if is_ordinary(image, stream, self.data) else None
        if found is not None and "icc_profile" in image.info:
            found.info["icc_profile"] = image.info["icc_profile"]
        return found


def decode(
    data: bytes | str | os.PathLike[str] | BinaryIO,
    *,
    min_side: int,
    max_decoded_bytes: int = DEFAULT_MAX_DECODED_BYTES,
    jpegs: GpuJpegs | None = None,
    sharing: Sharing | None = None,
) -> DecodedImage:
    """Decode a picture from its bytes or its path. Thread-safe; Pillow's decoders release the GIL.

    Args:
        data: The file's content, its path, or the file, open at its beginning and closed afterwards. Animated files give their
            first frame, RAW files their embedded preview. A file that ends early gives what can be decoded.
        min_side: Shortest side that the caller needs, in pixels; larger JPEGs may be returned at reduced size.
        max_decoded_bytes: Memory limit in bytes for the pixels and their conversion to RGB; larger pictures are refused.
        jpegs: Decodes ordinary JPEGs that are given as bytes; None for the CPU.
        sharing: The memory that pictures share which are decoded at once; with it, large pictures of every format are reduced
            before it is given back. None where the caller bounds how many are decoded at once.

    Raises:
        OverloadedError: no room was left in the shared memory in time.
        ImageTooLargeError: the picture needs more than `max_decoded_bytes`.
        ImageError: the file is empty, missing, unreadable, truncated, corrupt, unsupported or no picture; `details["reason"]`
            is the `FailureReason`.
    """
    with ExitStack() as held:  # left when the pixels that are not returned are gone
        limits = _Limits(min_side, max_decoded_bytes, sharing, held)
        if isinstance(data, bytes):
            elsewhere = _Elsewhere(data, jpegs) if jpegs is not None else None
            return _reduced(_decode_stream(io.BytesIO(data), len(data), limits, elsewhere), limits)
        try:
            # A str path may hold surrogates (names that are not UTF-8).
            with open(data, "rb") if isinstance(data, (str, os.PathLike)) else data as stream:  # noqa: PTH123
                return _reduced(_decode_stream(stream, os.fstat(stream.fileno()).st_size, limits), limits)
        except OSError as error:
            raise unreadable(error) from error


def _reduced(picture: DecodedImage, limits: _Limits) -> DecodedImage:
    """Return a large picture that shares memory at 1/n of its size, with the margin that reduced JPEGs have."""
    image = picture.image
    if limits.sharing is None or image.width * image.height <= REDUCED_FROM_PIXELS:
        return picture
    factor = int(min(image.size) // max(DRAFT_MARGIN * limits.min_side, 1))
    return picture if factor <= 1 else replace(picture, image=image.reduce(factor))


def _decode_stream(stream: IO[bytes], size: int, limits: _Limits, elsewhere: _Elsewhere | None = None) -> DecodedImage:
    head = stream.read(HEAD_BYTES)
    kind = supported_format(head)
    whole = from_its_start(stream, head, kind)
    try:
        if kind == "RAW" or (kind == "TIFF" and is_raw(whole)):
            return _decode_raw(whole, limits)
        return _decode_version(Version(whole), kind, limits, elsewhere if whole is stream else None)
    except LodestoneError:
        raise
    except (MemoryError, Image.DecompressionBombError) as error:
        message = f"the {kind} picture is too large: {error}"
        raise image_error(FailureReason.TOO_LARGE, message, format=kind) from without_frames(error)
    except Exception as error:  # decoders raise anything on broken files, which must fail one picture and never the job
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(error) from error
        return _decode_damaged(whole, kind, limits, without_frames(error), size)


def _decode_damaged(stream: IO[bytes], kind: str, limits: _Limits, error: Exception, size: int) -> DecodedImage:
    """Decode what can be decoded of a file that failed with `error`.

    Raises:
        ImageError: too little of the picture can be decoded; the message has the first error.
    """
    problem = first = "its data end early" if isinstance(error, struct.error) else str(error)
    for version in versions_of(stream, kind, max_bytes=limits.max_decoded_bytes):
        try:
            return _decode_version(version, kind, limits, None)
        except LodestoneError:
            raise
        except _TooLittleError as too_little:
            problem = f"{first}; {without_frames(too_little)}"
        except Exception as again:  # noqa: BLE001 - as for the whole file, whose error is reported
            _log.debug("a repaired version of a %s picture failed too: %r", kind, without_frames(again))
    reason = explain_failure(error, stream, size, kind)
    raise image_error(reason, f"the {kind} picture cannot be decoded: {problem}", format=kind) from error


def _decode_version(version: Version, kind: str, limits: _Limits, elsewhere: _Elsewhere | None) -> DecodedImage:
    with open_image(version.stream, kind, is_lean=version.is_lean) as image:
        if kind == "TIFF":
            return _decode_tiff(cast("TiffImageFile", image), version, limits)
        return _decode_opened(image, version, kind, limits, elsewhere)


def from_its_start(stream: IO[bytes], head: bytes, kind: str) -> IO[bytes]:
    """Return the stream of a picture, at its beginning, without the blank bytes that may stand before a JPEG."""
    blank = head.find(JPEG_START) if kind == "JPEG" else 0
    stream.seek(0)
    return stream if blank <= 0 else spliced(stream, [Range(blank, size_of(stream) - blank)])


def supported_format(head: bytes) -> str:
    """Return the format of a file that begins with `head`, as `sniff_format` names it.

    Raises:
        ImageError: the file is empty, no picture, or of a format that is not decoded.
    """
    if not head:
        raise image_error(FailureReason.EMPTY_FILE, "the file is empty (0 bytes)")
    kind = sniff_format(head)
    if kind is not None:
        return kind
    unsupported = name_unsupported(head)
    if unsupported:
        raise image_error(FailureReason.UNSUPPORTED, f"{unsupported} files are not supported", format=unsupported)
    raise image_error(FailureReason.NOT_AN_IMAGE, f"not a picture: the file begins with {_shown(head[:8])}")


def _shown(head: bytes) -> str:
    """Return the beginning of a file for a message: its text in quotes, or its bytes in hexadecimal."""
    text = head.decode("latin-1")
    return repr(text) if text.isascii() and text.replace("\n", " ").replace("\r", " ").isprintable() else f"0x{head.hex()}"


def _decode_opened(
    image: ImageFile, version: Version, kind: str, limits: _Limits, elsewhere: _Elsewhere | None
) -> DecodedImage:
    stream = version.stream
    width, height = image.size
    scale, held = 1, 0
    pixels: Image.Image | None = None
    if kind == "JPEG":
        jpeg = cast("JpegImageFile", image)
        scale = apply_draft(jpeg, stream, min_side=limits.min_side, max_decoded_bytes=limits.max_decoded_bytes)
        held = coefficient_bytes(jpeg, stream, width, height)
    _take_room(image, (width, height), kind, limits, held_by_scans=held)
    if elsewhere is not None and kind == "JPEG":
        pixels = elsewhere.pixels(cast("JpegImageFile", image), stream, JpegFile(elsewhere.data, width, height, scale))
    share = version.share
    alpha_bits = 0
    if kind in _OLDER:
        refuse_unmeant(image, kind)
        alpha_bits = alpha_bits_of(image, kind)
    if pixels is None:
        if version.is_cut:
            share = _load_cut(image, stream, kind, scale)
        else:
            image.load()
        pixels = image
    if kind in _OLDER:
        pixels = as_meant(image, kind, alpha_bits=alpha_bits)
    embedded = read_embedded(image)  # after loading: a PNG may keep metadata behind its pixels
    picture = DecodedImage(to_srgb(pixels), width, height, kind, draft_scale=scale, embedded=embedded, decoded_share=share)
    return _turned(picture, embedded.orientation)


def _load_cut(image: ImageFile, stream: IO[bytes], kind: str, scale: int) -> float | None:
    """Load a picture whose end is missing, and return the share of its rows that was decoded; None if nothing is missing.

    Raises:
        _TooLittleError: the share is less than `LEAST_SHARE`.
    """
    in_passes = comes_in_passes(image)
    error = load_as_far_as_possible(image)
    if error is not None and in_passes:
        raise _TooLittleError("its rows come in several passes, of which the last ones are missing")
    if kind == "JPEG":
        share = share_of_jpeg(image, scale)
    elif error is None:
        return None
    else:
        share = share_of_png(stream) if kind == "PNG" else share_of_rows(image)
    if share < LEAST_SHARE:
        raise _TooLittleError(f"{share:.0%} of its rows can be read, and {LEAST_SHARE:.0%} are needed")
    return share


def _decode_tiff(image: TiffImageFile, version: Version, limits: _Limits) -> DecodedImage:
    from lodestone.imaging.tiff_samples import choose_decoder, with_meant_levels  # imported for TIFF files only

    # Before loading: the tags are read from the file, which loading closes.
    embedded = read_embedded_of_tiff(version.stream) if version.is_lean else read_embedded(image)
    width, height = image.size
    _take_room(image, (width, height), "TIFF", limits)
    choose_decoder(image)
    image.load()  # Pillow applies a TIFF's orientation itself, to the size too
    picture = to_srgb(with_meant_levels(image))
    return DecodedImage(picture, width, height, "TIFF", orientation=embedded.orientation, embedded=embedded)


def is_raw(stream: IO[bytes]) -> bool:
    """Return whether a TIFF container is a camera's RAW file, as `raw.is_raw_container` does."""
    from lodestone.imaging.raw import is_raw_container  # imported for TIFF containers only

    return is_raw_container(stream)


def _decode_raw(stream: IO[bytes], limits: _Limits) -> DecodedImage:
    from lodestone.imaging.raw import read_preview

    container = read_embedded_of_tiff(stream)
    preview = read_preview(stream)
    if preview.image is not None:
        picture = DecodedImage(preview.image, preview.image.width, preview.image.height, "RAW", embedded=container)
    else:
        picture = _decode_stream(io.BytesIO(preview.jpeg or b""), len(preview.jpeg or b""), limits)
    if picture.orientation == 1:  # a preview without an orientation of its own is turned like the sensor
        picture = _turned(picture, preview.orientation)
    embedded = container if container.base else picture.embedded
    return replace(picture, width=preview.width, height=preview.height, format="RAW", embedded=embedded)


def _take_room(image: Image.Image, original: tuple[int, int], kind: str, limits: _Limits, *, held_by_scans: int = 0) -> None:
    """Refuse an opened picture that is too large, or take room for it."""
    if min(image.size) < 1:
        raise image_error(
            FailureReason.CORRUPT, f"the {kind} picture says it is {original[0]} x {original[1]} pixels", format=kind
        )
    needed = decoding_bytes(image.mode, *image.size, kind=kind)
    if needed > limits.max_decoded_bytes:
        raise too_large(original, kind, needed, limits.max_decoded_bytes)
    limits.take(needed + held_by_scans)


def _turned(picture: DecodedImage, orientation: int) -> DecodedImage:
    if orientation == 1:
        return picture
    width, height = (picture.height, picture.width) if orientation in _TURNS else (picture.width, picture.height)
    upright = picture.image.transpose(_TRANSPOSE[orientation])
    return replace(picture, image=upright, width=width, height=height, orientation=orientation)
