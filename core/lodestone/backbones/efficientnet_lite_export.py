"""Conversion of EfficientNet-Lite's torch weights to an ONNX graph; imported only for a conversion, because it imports torch.

The graph maps `pixels` (n, size, size, 3) uint8 to `features` (n, 1280) and `probabilities` (n, 1000), float16. Its
normalisation, (x - 127) / 128, is the one that the weights were trained with; the exporter folds batch normalisation into the
convolutions.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from efficientnet_lite_pytorch import EfficientNet
from torch import Tensor, nn

OPSET = 17
_MEAN, _SCALE = 127.0, 128.0


class Heads(nn.Module):
    """Torch module that maps bytes to the network's two outputs."""

    def __init__(self, net: Any) -> None:  # noqa: ANN401 - the package is untyped
        super().__init__()
        self.net = net

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features (n, 1280) and probabilities (n, 1000), float16, from (n, size, size, 3) uint8."""
        # transposed as bytes: a quarter of the memory traffic of transposing floats
        planes = pixels.permute(0, 3, 1, 2).to(torch.float32)
        features = self.net.extract_features((planes - _MEAN) * (1 / _SCALE)).mean((2, 3))
        probabilities = torch.softmax(self.net._fc(features), -1)  # noqa: SLF001 - the package gives it no other name
        return features.to(torch.float16), probabilities.to(torch.float16)


def load(name: str, weights: Path) -> Heads:
    """Return the torch model in evaluation mode. `from_pretrained` is not used: it prints, and may try to download."""
    net = EfficientNet.from_name(name)
    net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return Heads(net.eval()).eval()


def export(name: str, weights: Path, target: Path, *, size: int) -> None:
    """Write the ONNX graph to `target`."""
    names = ["features", "probabilities"]
    axes = {label: {0: "n"} for label in ["pixels", *names]}
    with warnings.catch_warnings(), torch.no_grad():
        # the tracing exporter is deprecated, but needs no onnxscript and gives the graph that ONNX Runtime fuses best
        warnings.simplefilter("ignore")
        torch.onnx.export(
            load(name, weights),
            (torch.zeros(1, size, size, 3, dtype=torch.uint8),),
            str(target),
            input_names=["pixels"],
            output_names=names,
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
