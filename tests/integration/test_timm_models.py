"""Models of timm: a picture's vector is what timm gives it, and a model that does not fit is refused.

The models are tiny and random: this proves loading and running, no quality.
"""

import importlib.util
import json
import shutil

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.tiny_models import TIMM_DIM, as_hub_copy, tiny_models, write_tiny_timm

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.preprocess import Preprocessing
from lodestone.backbones.registry import make_backbone
from lodestone.errors import InvalidRequestError, ModelUnavailableError, UnknownNameError
from lodestone.spaces.registry import make_space


@pytest.fixture(scope="module")
def name():
    return f"timm:{tiny_models().timm}"


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(tiny_models().timm, tmp_path / "copy")


def _edit(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        (config if key in config else config["pretrained_cfg"])[key] = value
    path.write_text(json.dumps(config))


def _ready(source):
    made = make_backbone(source, model_context())
    made.warm_up(threads=1)
    return made


def test_pictures_have_the_features_that_timm_gives_them(name):
    import timm
    import torch

    model = timm.create_model(f"local-dir:{tiny_models().timm}", pretrained=True, num_classes=0).eval()
    preprocess = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    pictures = [photo(each) for each in (CAT, COFFEE, PERSON, ROCKET)]
    with torch.inference_mode():
        expected = model(torch.stack([preprocess(each) for each in pictures])).numpy()
    backbone = _ready(name)
    got = backbone.embed(np.stack([backbone.prepare(each) for each in pictures]))["features"].astype(np.float32)
    cosines = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.995  # the crop is cut before it is resized, not after


def test_a_hub_copy_under_timms_own_name_is_used_without_the_network(name, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    as_hub_copy(tmp_path, "timm/tiny.random", tiny_models().timm, weights="model.safetensors")
    pixels = _ready(name).prepare(photo(CAT))[None]
    for source in ("timm:tiny.random", "timm:hf-hub:timm/tiny.random", "timm:timm/tiny.random@main"):
        np.testing.assert_array_equal(_ready(source).embed(pixels)["features"], _ready(name).embed(pixels)["features"])


def test_another_hub_commit_with_other_weights_is_another_version(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    versions = []
    for seed in (0, 1):
        weights = write_tiny_timm(tmp_path / str(seed), seed=seed)
        as_hub_copy(tmp_path / "hub", "timm/tiny.random", weights, commit=f"{seed}" * 40, weights="model.safetensors")
        versions.append(make_backbone("timm:tiny.random", model_context()).version)
    assert versions[0] != versions[1]


def test_a_model_without_a_text_tower_makes_a_space_that_takes_no_text(name):
    space = make_space("look", model_context(), direct={"look": name})
    assert (space.dim, space.text_encoder) == (TIMM_DIM, None)
    rows = np.random.default_rng(0).normal(0, 5, (3, TIMM_DIM)).astype(np.float16)
    vectors = space.project(BackboneOutputs({OutputKey(name, "features"): rows}))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert space.project(BackboneOutputs({OutputKey(name, "features"): rows[:0]})).shape == (0, TIMM_DIM)
    assert np.isfinite(space.project(BackboneOutputs({OutputKey(name, "features"): 0 * rows}))).all()
    with pytest.raises(InvalidRequestError, match="'look' takes no text"):
        space.project_texts(vectors)


def test_a_space_of_a_backbone_with_several_outputs_must_say_which():
    assert make_space("x", model_context(), direct={"x": "efficientnet-lite0#features"}).dim == 1280
    for source in ("efficientnet-lite0", "efficientnet-lite0#nose"):
        with pytest.raises(UnknownNameError) as caught:
            _ = make_space("x", model_context(), direct={"x": source}).dim
        assert "features, probabilities" in caught.value.hint


def test_no_profile_can_take_the_name_of_a_space_that_ships(name):
    assert type(make_space("labels", model_context(), direct={"labels": name})).__name__ == "LabelSpace"


def test_a_config_that_contradicts_the_weights_is_refused(copy):
    _edit(copy, num_features=TIMM_DIM + 1)
    with pytest.raises(ModelUnavailableError, match="gives 48 values a picture, but its config says 49"):
        _ready(f"timm:{copy}")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_features": None}, "how many features"),
        ({"input_size": [3, 64, 96]}, "only square ones"),
        ({"interpolation": "telepathy"}, "telepathy"),
        ({"architecture": "no_such_net"}, "cannot load"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_reason(copy, changes, says):
    _edit(copy, **changes)
    with pytest.raises(ModelUnavailableError, match=says):
        _ready(f"timm:{copy}")


def test_without_the_package_the_extra_is_named(name, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "timm" else found(package))
    with pytest.raises(ModelUnavailableError, match="timm") as caught:
        make_backbone(name, model_context()).warm_up()
    assert caught.value.hint == "pip install 'lodestone-search[clip]'"


def test_the_fits_differ_in_what_they_keep_of_a_wide_picture():
    from PIL import Image

    wide = Image.new("RGB", (600, 200), (255, 0, 0))
    wide.paste((0, 255, 0), (200, 0, 400, 200))
    edges = {
        (fit, keep): Preprocessing(60, fit=fit, keep=keep, fill=7).prepare(wide)[0, 2].tolist()
        for fit, keep in [("squash", 1.0), ("squash", 0.3), ("crop", 1.0), ("pad", 1.0)]
    }
    red, green, grey = [255, 0, 0], [0, 255, 0], [7, 7, 7]
    assert edges == {("squash", 1.0): red, ("squash", 0.3): green, ("crop", 1.0): green, ("pad", 1.0): grey}
