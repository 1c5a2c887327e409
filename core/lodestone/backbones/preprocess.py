"""Preprocessing of a picture of any shape into the square of bytes that a model was trained on.

This step does only the geometry, on bytes; normalisation follows on the model's device, so that only uint8 crosses threads and
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from PIL import Image, ImageOps

from lodestone.backbones.base import Pixels
from lodestone.errors import ModelUnavailableError

Fit = Literal["squash", "crop", "pad"]
REDUCING_GAP: Final = 3.0  # Pillow: shrink coarsely first above 2 x 3 times the size; indistinguishable from the full filter
IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)

_RESAMPLING: Final = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
    "random": Image.Resampling.BICUBIC,  # timm picks a random filter in training only
}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Preprocessing that a model was trained with.

    Attributes:
        size: Side of the square, pixels.
        fit: `squash` changes the proportions, `crop` keeps the centre, `pad` adds bars.
        keep: Share of the side that the centre crop keeps, in (0, 1].
        interpolation: Name of one of Pillow's filters.
        mean: Means of the channels, in [0, 1].
        std: Standard deviations of the channels.
        fill: Grey value of the bars.
    """

    size: int
    fit: Fit = "crop"
    keep: float = 1.0
    interpolation: str = "bicubic"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    fill: int = 0

    def prepare(self, image: Image.Image) -> Pixels:
        """Convert one picture to (size, size, 3) uint8. Pure and thread-safe."""
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        return np.asarray(_FITS[self.fit](rgb, self), dtype=np.uint8)

    def key(self) -> str:
        """Return a key that changes whenever `prepare` or the normalisation would give another result."""
        return repr((self.size, self.fit, round(self.keep, 6), self.interpolation, self.mean, self.std, self.fill))


def square_side(size: Any, model: str) -> int:  # noqa: ANN401 - out of a JSON file
    """Return the side of a model's input, which is given as 224, [224, 224] or [3, 224, 224].

    Raises:
        ModelUnavailableError: The input is not square.
    """
    sides = [int(side) for side in size][-2:] if isinstance(size, Sequence) else [int(size)]
    if len(set(sides)) != 1 or sides[0] < 1:
        raise ModelUnavailableError(
            f"{model} takes pictures of {size}; only square ones are supported", hint="use another model"
        )
    return sides[0]


def three(values: Any, default: tuple[float, float, float]) -> tuple[float, float, float]:  # noqa: ANN401 - out of a JSON file
    """Return one number for each of three channels; a single number stands for all three, any other count for the default."""
    numbers = [float(value) for value in values or ()]
    if len(numbers) == 1:
        numbers *= 3
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else default


def resampling(config: Mapping[str, Any], model: str) -> str:
    """Return the name of the interpolation filter in a config.

    Raises:
        ModelUnavailableError: Pillow has no such filter.
    """
    name = str(config.get("interpolation") or "bicubic")
    if name not in _RESAMPLING:
        raise ModelUnavailableError(
            f"{model} resizes pictures by {name!r}, which is not supported", hint=f"supported: {', '.join(sorted(_RESAMPLING))}"
        )
    return name


def _resize(
    image: Image.Image, preprocessing: Preprocessing, box: tuple[float, float, float, float] | None = None
) -> Image.Image:
    side = (preprocessing.size, preprocessing.size)
    return image.resize(side, _RESAMPLING[preprocessing.interpolation], box=box, reducing_gap=REDUCING_GAP)


def _squash(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    # with a share below 1 the edges are cut off, each side in its own proportion
    left, top = image.width * (1 - preprocessing.keep) / 2, image.height * (1 - preprocessing.keep) / 2
    return _resize(image, preprocessing, (left, top, image.width - left, image.height - top))


def _crop(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    side = min(image.size) * preprocessing.keep
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return _resize(image, preprocessing, (left, top, left + side, top + side))


def _pad(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    side = (preprocessing.size, preprocessing.size)
    return ImageOps.pad(
        image,
        side,
        _RESAMPLING[preprocessing.interpolation],
        color=(preprocessing.fill, preprocessing.fill, preprocessing.fill),
    )


_FITS: Final[dict[Fit, Callable[[Image.Image, Preprocessing], Image.Image]]] = {"squash": _squash, "crop": _crop, "pad": _pad}
