"""Samples of TIFF pictures that Pillow would read with other levels than the file means.

Pillow reads planes of 16-bit samples as bytes, ignores that zero is white in deep samples, takes unsigned samples for signed
ones and signed bytes for unsigned ones, and swaps the bytes of samples that libtiff has swapped already. Such files are read by
libtiff where that is right, and their samples are scaled here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from PIL import Image

from lodestone.imaging.colour import scaled_by_range

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.TiffImagePlugin import TiffImageFile

_WIDTH, _HEIGHT = 256, 257
_BITS, _PHOTOMETRIC, _PLANAR, _COLOUR_MAP, _EXTRA, _SAMPLE_FORMAT, _SUBSAMPLING = 258, 262, 284, 320, 338, 339, 530
_WHITE_IS_ZERO, _YCBCR = 0, 6
_SEPARATE_PLANES: Final = 2
_UNSIGNED, _SIGNED = 1, 2
_PREMULTIPLIED: Final = (1,)
_BYTE: Final = 8
_TOP_BYTE: Final = 255
# Cameras and scanners of 8, 10 and 12 bits write 16-bit samples and do not say so. A grey picture without any level above these
# would be nearly black as it is declared.
_NARROW_TOPS: Final = (255, 1023, 4095)
# Samples come from libtiff in the machine's own order, whatever the order of the file is.
_NATIVE: Final = {
    "I;16S": "I;16NS",
    "I;16BS": "I;16NS",
    "I;32S": "I;32NS",
    "I;32BS": "I;32NS",
    "F;32F": "F;32NF",
    "F;32BF": "F;32NF",
}
_COLOURS: Final = ("RGB", "RGBA", "CMYK")


def choose_decoder(image: TiffImageFile) -> None:
    """Set an opened TIFF, before it is loaded, to be read by the decoder that understands its layout."""
    tags = image.tag_v2
    if image.use_load_libtiff:
        _read_by_libtiff(image, *cast("tuple[Any, ...]", image.tile[0].args))
        return
    if tags.get(_PHOTOMETRIC) == _YCBCR:
        if _numbers(tags.get(_SUBSAMPLING, (2, 2))) != (1, 1):  # Pillow takes each sample for a pixel
            image._mode = "RGB"  # noqa: SLF001 - as Pillow does for libtiff, which converts the colours
            _read_by_libtiff(image, "RGBX", False, tags.offset)
    elif tags.get(_PLANAR, 1) == _SEPARATE_PLANES and image.mode in _COLOURS:
        is_premultiplied = image.mode == "RGBA" and _numbers(tags.get(_EXTRA, (0,))) == _PREMULTIPLIED
        depth = ";16N" if max(_numbers(tags.get(_BITS, (1,)))) > _BYTE else ""
        if depth or is_premultiplied:
            _read_by_libtiff(image, ("RGBa" if is_premultiplied else image.mode) + depth, False, tags.offset)


def with_meant_levels(image: TiffImageFile) -> Image.Image:
    """Return a loaded TIFF with the levels that its tags state; the same object where Pillow has read them rightly.

    Grey pictures of deep or signed samples become mode "L". Integers of 32 bits and signed ones are scaled from 0..255 or
    0..65535 where they fit, and else from the range of their type; floating-point ones as `scaled_by_range` does.
    """
    tags = image.tag_v2
    bits = _numbers(tags.get(_BITS, (1,)))[0]
    is_signed = _numbers(tags.get(_SAMPLE_FORMAT, (_UNSIGNED,)))[0] == _SIGNED
    levels: NDArray[np.uint8]
    if image.mode in {"P", "PA"}:
        return _with_wide_colour_map(image)
    if image.mode == "L" and is_signed and bits == _BYTE:
        levels = np.asarray(image) ^ np.uint8(0x80)
    elif image.mode.startswith("I;16"):
        levels = _from_16_bits(np.asarray(image), bits)
    elif image.mode == "I":
        samples = np.asarray(image)
        levels = _from_signed(samples, bits) if is_signed else _from_unsigned(samples.view(np.uint32), bits)
    elif image.mode == "F":
        levels = scaled_by_range(np.asarray(image), may_be_unit=True)
    else:
        return image
    grey = Image.fromarray(_TOP_BYTE - levels if _is_inverted(image) else levels)
    grey.info.update(image.info)
    return grey


def _read_by_libtiff(image: TiffImageFile, raw_mode: str, *others: object) -> None:
    width, height = image.tag_v2[_WIDTH], image.tag_v2[_HEIGHT]  # as they are stored: `image.size` is turned
    image.use_load_libtiff = True
    image.tile = [type(image.tile[0])("libtiff", (0, 0, width, height), 0, (_NATIVE.get(raw_mode, raw_mode), *others))]


def _is_inverted(image: TiffImageFile) -> bool:
    return image.mode != "L" and image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO  # Pillow inverts samples of 8 bits


def _from_16_bits(samples: NDArray[Any], declared: int) -> NDArray[np.uint8]:
    """Keep the top eight of the bits that a file declares, or of those that its levels use."""
    declared_top = (1 << declared) - 1
    highest = int(samples.max(initial=0))
    top = next((narrow for narrow in _NARROW_TOPS if highest <= narrow < declared_top), declared_top)
    return cast("NDArray[np.uint8]", (samples >> max(top.bit_length() - _BYTE, 0)).astype(np.uint8))


def _from_unsigned(samples: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    return _scaled(samples, 0, _top(samples, (1 << bits) - 1))


def _from_signed(samples: NDArray[np.int32], bits: int) -> NDArray[np.uint8]:
    """Scale signed levels: from the lowest that their type has if there is a negative one, else from zero."""
    half = 1 << (bits - 1)
    if int(samples.min(initial=0)) < 0:
        return _scaled(samples, -half, half - 1)
    return _scaled(samples, 0, _top(samples, half - 1))


def _top(samples: NDArray[Any], widest: int) -> int:
    highest = int(samples.max(initial=0))
    return next((top for top in (255, 65535) if highest <= top <= widest), widest)


def _scaled(samples: NDArray[Any], low: int, high: int) -> NDArray[np.uint8]:
    return cast("NDArray[np.uint8]", np.round((samples.astype(np.float32) - low) * (_TOP_BYTE / (high - low))).astype(np.uint8))


def _with_wide_colour_map(image: TiffImageFile) -> TiffImageFile:
    """Mend a colour map whose writer used 8 of the 16 bits: it would be black. Its levels are those of libtiff."""
    colours = _numbers(image.tag_v2.get(_COLOUR_MAP, ()))
    if colours and 0 < max(colours) <= _TOP_BYTE:
        image.putpalette(np.array(colours, np.uint8).reshape(3, -1).T.tobytes())
    return image


def _numbers(value: object) -> tuple[int, ...]:
    """Return the integers of a tag that holds one or several."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(int(number) for number in values if isinstance(number, (int, float))) or (0,)
