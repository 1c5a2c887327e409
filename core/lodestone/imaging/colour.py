"""Conversion of a decoded picture of any mode to plain 8-bit sRGB.

Alpha is composited on white, deep samples are scaled (never clipped), and an embedded ICC profile is honoured.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHITE = (255, 255, 255)

# Bytes that Pillow stores per pixel in each mode (RGB takes four).
_STORED_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
_OTHER_STORED_BYTES = 4
_RGB_BYTES = 4
# What conversion holds beside its input and its output: float32 copies of samples without a declared range.
_CONVERSION_BYTES = {"F": 12, "I": 12}
# What the decoder holds beside Pillow's pixels (measured on 20 megapixels): its own canvas, planes or copies. That of JP2 is a
# bound, not a measure: OpenJPEG may hold up to four samples of 32 bits and the bytes that they become.
_DECODER_BYTES = {"WEBP": 12, "AVIF": 6, "HEIF": 4, "JP2": 20}


def decoding_bytes(mode: str, width: int, height: int, *, kind: str = "") -> int:
    """Return the memory, in bytes, that decoding a picture and converting it to RGB takes.

    Args:
        mode: Pillow's mode of the picture.
        width: Width in pixels.
        height: Height in pixels.
        kind: Format, e.g. "WEBP"; some decoders hold copies of their own.
    """
    per_pixel = _STORED_BYTES.get(mode, _OTHER_STORED_BYTES) + _DECODER_BYTES.get(kind, 0)
    if mode != "RGB":
        per_pixel += _RGB_BYTES + _CONVERSION_BYTES.get(mode, 0)
    return width * height * per_pixel


def to_srgb(image: Image.Image) -> Image.Image:
    """Convert a loaded picture of any mode to mode "RGB"; the same object is returned when nothing needs to change."""
    profile = image.info.get("icc_profile")
    if image.mode == "CMYK":
        return _managed(image, profile, space="CMYK") or image.convert("RGB")
    if image.mode == "LAB":
        return _from_lab(image)
    rgb = _to_rgb(image)
    if not profile:
        return rgb
    return _managed(rgb, profile, space="RGB ") or rgb


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        return _on_white(image)
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        return _scaled_16_bit(image).convert("RGB")
    if image.mode in {"I", "F"}:
        return Image.fromarray(scaled_by_range(np.asarray(image), may_be_unit=image.mode == "F")).convert("RGB")
    return image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):  # a 16-bit grey PNG with one transparent level: Pillow cannot mask it
        return _scaled_16_bit(image).convert("RGB")
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    alpha = rgba.getchannel("A")
    if alpha.getextrema() == (255, 255):
        return rgba.convert("RGB")
    flat = Image.new("RGB", rgba.size, _WHITE)
    flat.paste(rgba, mask=alpha)
    return flat


def _scaled_16_bit(image: Image.Image) -> Image.Image:
    """Keep the top eight of the declared bits: a TIFF may declare 12 of the 16."""
    declared = getattr(image, "tag_v2", {}).get(258, (16,))  # 258: BitsPerSample
    bits = int(declared[0] if isinstance(declared, tuple) else declared)
    samples: NDArray[Any] = np.asarray(image)
    return Image.fromarray((samples >> max(bits - 8, 0)).astype(np.uint8))


def scaled_by_range(samples: NDArray[Any], *, may_be_unit: bool) -> NDArray[np.uint8]:
    """Scale samples of no declared range: within 0..1, 0..255 or 0..65535 from that, anything else from lowest to highest.

    Args:
        samples: Samples of any numeric type; those that are not finite count as the lowest.
        may_be_unit: Whether samples up to 1 are taken for the range 0..1: those of floating point are, integers are not.
    """
    samples = np.asarray(samples, dtype=np.float32)
    finite = np.isfinite(samples)
    if not finite.any():
        return np.zeros(samples.shape, np.uint8)
    low, high = float(samples[finite].min()), float(samples[finite].max())
    if low >= 0:
        fits = [top for top in (1.0, 255.0, 65535.0) if high <= top and (may_be_unit or top != 1.0)]
        if fits:
            low, high = 0.0, fits[0]
    span = (high - low) or 1.0
    clean = np.where(finite, samples, low)
    return np.round((clean - low) * (255.0 / span)).clip(0, 255).astype(np.uint8)


def _managed(image: Image.Image, profile: bytes | None, *, space: str) -> Image.Image | None:
    """Convert the picture to sRGB by its profile, or return None.

    None means that there is no profile, or that it describes sRGB, is broken, or belongs to another colour space.
    """
    if not profile:
        return None
    from PIL import ImageCms  # only pictures with a profile pay for it

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if source.profile.xcolor_space != space or _is_srgb(source.profile.profile_description):
            return None
        target = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(image, source, target, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None  # a broken profile is no reason to lose the picture


def _is_srgb(description: str | None) -> bool:
    text = (description or "").lower()
    return ("srgb" in text or text == "c2") and "linear" not in text


def _from_lab(image: Image.Image) -> Image.Image:
    from PIL import ImageCms

    converted = ImageCms.profileToProfile(
        image, ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), outputMode="RGB"
    )
    if converted is None:  # only with inPlace=True
        raise ValueError("LAB conversion gave no picture")
    return converted
