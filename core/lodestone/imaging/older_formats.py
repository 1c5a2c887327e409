"""Pixels of JPEG 2000, Photoshop, Targa and PNM files as their programs mean them, where Pillow gives others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image

from lodestone.imaging.failures import FailureReason, image_error

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

_MERGED_RESOURCE: Final = 1057  # Photoshop: a version of four bytes, then whether there is a merged picture
_MERGED_AT: Final = 4
_PHOTOSHOP_MODES: Final = frozenset({"1", "L", "P", "RGB", "RGBA", "CMYK"})
_MODE_AT, _MULTICHANNEL = 24, 7
_ALPHA_BITS_AT, _ALPHA_BITS = 17, 0x0F
_WIDE_SHIFT: Final = 8


def refuse_unmeant(image: ImageFile, kind: str) -> None:
    """Refuse an opened Photoshop file without a merged picture, or of a kind whose colours Pillow does not know.

    Raises:
        ImageError: the file is such a file; the reason is "unsupported".
    """
    if kind != "PSD":
        return
    resources: list[Any] = getattr(image, "resources", [])
    merged = next((data for number, _, data in resources if number == _MERGED_RESOURCE), b"")
    if merged[_MERGED_AT : _MERGED_AT + 1] == b"\0":
        message = "the Photoshop file holds layers and no merged picture: save it with maximum compatibility"
        raise image_error(FailureReason.UNSUPPORTED, message, format=kind)
    if image.mode not in _PHOTOSHOP_MODES or _byte(image, _MODE_AT + 1) == _MULTICHANNEL:
        raise image_error(FailureReason.UNSUPPORTED, "Photoshop files of this colour mode are not supported", format=kind)


def as_meant(image: ImageFile, kind: str, *, alpha_bits: int) -> Image.Image:
    """Return a loaded picture with the pixels that are meant; the same object where Pillow gives them.

    A merged Photoshop picture lies on white already, and its fourth channel may be any mask. A Targa file without bits of alpha
    has padding in their place. Levels of a PNM file fill the range that it states.

    Args:
        image: The picture.
        kind: Its format.
        alpha_bits: What `alpha_bits_of` has returned before it was loaded.
    """
    if image.mode == "RGBA" and (kind == "PSD" or (kind == "TGA" and not alpha_bits)):
        opaque = Image.merge("RGB", image.split()[:3])
        opaque.info.update({name: value for name, value in image.info.items() if name != "transparency"})
        return opaque
    if kind == "PNM" and image.mode == "I":  # Pillow has scaled it to 16 bits
        return Image.fromarray((np.asarray(image) >> _WIDE_SHIFT).clip(0, 255).astype(np.uint8))
    return image


def alpha_bits_of(image: ImageFile, kind: str) -> int:
    """Return the bits of alpha that the header of an opened Targa file states; 0 for other formats."""
    return _byte(image, _ALPHA_BITS_AT) & _ALPHA_BITS if kind == "TGA" else 0


def _byte(image: ImageFile, position: int) -> int:
    stream = image.fp
    if stream is None:
        return 0
    before = stream.tell()
    stream.seek(position)
    value = stream.read(1)
    stream.seek(before)
    return value[0] if value else 0
