"""Choice of the fraction at which a JPEG is decoded, and limits on its memory and scans.

libjpeg can scale by 1/2, 1/4 and 1/8 inside the DCT, so pixels that are not needed are never made: a 20,000 x 20,000 baseline
JPEG decodes in 25 MB. A progressive one is different: all its coefficients are held until the last scan is read.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Final

from lodestone.imaging.colour import decoding_bytes
from lodestone.imaging.failures import FailureReason, image_error, too_large

if TYPE_CHECKING:
    from PIL.JpegImagePlugin import JpegImageFile

# A reduced JPEG keeps both sides at least this many times `min_side`, so that the resize that follows still uses a good filter.
# Mean difference of a 224-pixel model's inputs from full decoding, on a 12-megapixel mosaic of photos: 1.7 grey levels with a
# margin of 1 (1/8 of the size), 0.4 with 1.5 (1/4); re-saving at quality 85 costs 0.24. Decoding and resizing take 26 ms and
# 33 ms, and 162 ms at full size.
DRAFT_MARGIN = 1.5

_SCALES = (8, 4, 2)
_COEFFICIENT_BYTES = 2  # one int16 a sample
# Encoders write about ten scans. The decoder walks over the whole picture for each, however few bytes it has: a file of 200 kB
# with 4,000 scans kept a core busy for a minute and a half.
MAX_SCANS: Final = 100
# A scan's header: marker, length, number of components. It cannot occur in a scan's data, where 0xff is stuffed, and it hardly
# ever occurs by chance in what programs append to a picture. libjpeg refuses headers of any other length.
_SCAN: Final = re.compile(rb"\xff\xda\x00(?:\x08\x01|\x0a\x02|\x0c\x03|\x0e\x04)")
_SCAN_BYTES: Final = 5
_CHUNK: Final = 1 << 20
_COMPONENTS: Final = 3
_TAIL_BYTES: Final = 256  # some writers pad the end with zeros


def apply_draft(image: JpegImageFile, stream: IO[bytes], *, min_side: int, max_decoded_bytes: int) -> int:
    """Set an opened JPEG to be decoded at 1/scale of its size, and return the scale (1, 2, 4 or 8).

    Both sides stay at least `DRAFT_MARGIN * min_side`, or at least `min_side` where memory demands the next smaller size.

    Raises:
        ImageTooLargeError: a JPEG of several scans whose coefficients alone exceed `max_decoded_bytes`.
        ImageError: the JPEG has more than `MAX_SCANS` scans.
    """
    width, height = image.size
    scale = _largest_scale(min(width, height), DRAFT_MARGIN * min_side)
    if decoding_bytes(image.mode, -(-width // scale), -(-height // scale)) > max_decoded_bytes:
        scale = _largest_scale(min(width, height), min_side)
    coefficients = coefficient_bytes(image, stream, width, height)
    if coefficients:
        if coefficients > max_decoded_bytes:
            raise too_large((width, height), "progressive JPEG", coefficients, max_decoded_bytes)
        if _scans_behind(stream) >= MAX_SCANS:
            raise image_error(FailureReason.UNSUPPORTED, f"the JPEG picture has more than {MAX_SCANS} scans", format="JPEG")
    if scale > 1:
        image.draft(None, (width // scale, height // scale))
    return scale


def is_ordinary(image: JpegImageFile, stream: IO[bytes], data: bytes) -> bool:
    """Return whether every decoder reads an opened JPEG alike: complete, of one scan, of three components in YCbCr.

    Grey, CMYK and progressive files are left to libjpeg, and so are those that end early: others fill up what is missing.

    Args:
        image: The opened file.
        stream: Its stream, where opening has left it.
        data: The whole file.
    """
    info = image.info
    named_ycbcr = "jfif" in info or info.get("adobe_transform") == 1 or [row[0] for row in image.layer] == [1, 2, 3]
    return (
        image.mode == "RGB"
        and image.layers == _COMPONENTS
        and info.get("adobe_transform", 1) == 1
        and named_ycbcr
        and not _comes_in_several_scans(image, stream)
        and data[-_TAIL_BYTES:].rstrip(b"\0").endswith(b"\xff\xd9")
    )


def _largest_scale(shorter: int, wanted: float) -> int:
    return next((scale for scale in _SCALES if shorter >= scale * wanted), 1)


def _comes_in_several_scans(image: JpegImageFile, stream: IO[bytes]) -> bool:
    """Return whether libjpeg must hold all coefficients.

    It must for progressive files, and for baseline files with one scan for each component.
    """
    if image.info.get("progressive"):
        return True
    # Opening stopped right behind the first scan's header: marker, length, count, two bytes a component, three more.
    position = stream.tell()
    stream.seek(max(position - (8 + 2 * image.layers), 0))
    start = stream.read(5)
    stream.seek(position)
    return not (start[:2] == b"\xff\xda" and start[4:] == bytes([image.layers]))


def _scans_behind(stream: IO[bytes]) -> int:
    """Count the scans after the first one, up to `MAX_SCANS`; the stream stands behind the first scan's header."""
    position, count, last = stream.tell(), 0, b""
    while count < MAX_SCANS and (chunk := stream.read(_CHUNK)):
        count += len(_SCAN.findall(last + chunk))
        last = (last + chunk)[1 - _SCAN_BYTES :]
    stream.seek(position)
    return count


def coefficient_bytes(image: JpegImageFile, stream: IO[bytes], width: int, height: int) -> int:
    """Return the bytes of coefficients that libjpeg holds for an opened JPEG of this size; 0 for one of a single scan."""
    if not _comes_in_several_scans(image, stream):
        return 0
    samplings = [(max(h, 1), max(v, 1)) for _, h, v, _ in image.layer] or [(1, 1)]
    densest = max(h for h, _ in samplings) * max(v for _, v in samplings)
    samples = sum(h * v for h, v in samplings) / densest
    return int(width * height * samples * _COEFFICIENT_BYTES)
