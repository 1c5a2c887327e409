"""The bridge space: shipped weights, files, and NumPy inference equal to torch's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.support.pairs import make_pairs

from lodestone.config.profiles import PROFILES
from lodestone.errors import ConfigurationError
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.models.weights_file import WeightsFile, digest_of, from_bytes
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_arrays import BridgeInputs, Tower
from lodestone.spaces.bridge_weights import FILE, HUB_NEIGHBOURS, HUB_SHARE, BridgeWeights

# What the version of a file of format 1 is computed from, and the beginnings of the names of what it is not.
OLD_PARAMETERS = ("ridge_share", "text_gain", "members", "backbones", "text_encoder")
FOR_UPDATES = ("statistics.", "residual", "rehearsal.picture", "rehearsal.text_spread", "rehearsal.counts", "seen")


@pytest.fixture(scope="module")
def shipped():
    return BridgeWeights.shipped()


def test_vectors_are_unit_float32_and_rows_do_not_depend_on_each_other(tmp_path):
    space = BridgeSpace(ModelContext(cache=ModelCache(tmp_path)))
    outputs, texts, _ = make_pairs(7)
    space.warm_up()
    pictures, queries = space.project(outputs), space.project_texts(texts)
    assert pictures.shape == (7, space.dim) and queries.shape == (14, space.dim)
    assert pictures.dtype == queries.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(np.vstack([pictures, queries]), axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(space.project(outputs.take(np.array([4]))), pictures[4:5], atol=1e-5)
    assert space.project(outputs.take(np.array([], np.intp))).shape == (0, space.dim)
    assert space.requires == BridgeInputs().required


def test_inner_product_orders_by_the_weighted_mean_of_both_heads_cosines_less_a_share_of_the_closeness_to_all_texts(shipped):
    outputs, texts, _ = make_pairs(5)
    ridge, tower = (
        t @ p.T for t, p in zip(shipped.text_parts(texts), shipped.picture_parts(shipped.components(outputs)), strict=True)
    )
    taught = [
        t @ p.T
        for t, p in zip(
            shipped.text_parts(shipped.rehearsal.texts), shipped.picture_parts(shipped.components(outputs)), strict=True
        )
    ]
    mean = shipped.ridge_share * ridge + (1 - shipped.ridge_share) * tower
    closeness = shipped.ridge_share * taught[0] + (1 - shipped.ridge_share) * taught[1]
    penalty = HUB_SHARE * np.sort(closeness, axis=0)[-HUB_NEIGHBOURS:].mean(0).clip(0, 1)
    length = np.sqrt(2 * (1 + HUB_SHARE**2))
    joint = shipped.texts(texts) @ shipped.pictures(outputs).T
    np.testing.assert_allclose(joint, (mean - penalty) / length, atol=1e-5)


def test_saved_weights_load_with_the_same_version_and_the_same_vectors(shipped, tmp_path):
    path = shipped.save(tmp_path / "new" / "folder")
    assert path.name == f"bridge-{shipped.version}.safetensors"
    again = BridgeWeights.load(path)
    outputs, _, _ = make_pairs(20)
    assert again.version == shipped.version
    assert dict(again.query_weights) == dict(shipped.query_weights)
    np.testing.assert_array_equal(again.pictures(outputs), shipped.pictures(outputs))
    np.testing.assert_allclose(again.statistics.gram, shipped.statistics.gram, rtol=2e-3, atol=1)
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # no temporary file is left


def test_a_file_of_format_1_is_read_with_its_own_version_and_becomes_one_of_today(shipped, tmp_path):
    """All its arrays are float16, it knows no single words, and collections of homes bear its version."""
    plain = replace(shipped, words=None)
    path = plain.save(tmp_path / "now")
    header, stored = FILE.header(path), load_file(path)
    halves = {
        name: (from_bytes(array, stored[f"{name}.scale"]) if array.dtype == np.int8 else array).astype(np.float16)
        for name, array in stored.items()
        if name != "seen" and not name.endswith(".scale")
    }
    written = {**halves, "seen": stored["seen"]}
    WeightsFile("bridge", format=1).save_as(tmp_path / "old", written, {k: v for k, v in header.items() if k != "format"})
    old = BridgeWeights.load(tmp_path / "old")
    named = [1, HUB_NEIGHBOURS, HUB_SHARE, *(header[key] for key in OLD_PARAMETERS)]
    assert old.version == digest_of(named, halves, except_for=FOR_UPDATES) != plain.version
    assert old.words is None
    outputs, texts, _ = make_pairs(20)
    np.testing.assert_allclose(old.pictures(outputs), plain.pictures(outputs), atol=2e-3)
    np.testing.assert_allclose(old.texts(texts), plain.texts(texts), atol=2e-3)
    again = BridgeWeights.load(old.save(tmp_path / "again"))
    np.testing.assert_allclose(again.pictures(outputs), old.pictures(outputs), atol=5e-3)


def test_a_query_that_is_a_learnt_word_is_moved_towards_it_and_any_other_one_stays(shipped):
    without, words = replace(shipped, words=None), shipped.words
    assert len(words) > 1_000
    _, texts, _ = make_pairs(6)
    np.testing.assert_allclose(shipped.texts(texts), without.texts(texts), atol=1e-6)
    word = words.texts[:, [7]].T
    moved, before = shipped.texts(word), without.texts(word)
    added = before + words.vectors[:, [7]].T
    np.testing.assert_allclose(moved, added / np.linalg.norm(added), atol=1e-5)
    assert (moved @ before.T).item() < 0.99


def test_statistics_of_pictures_unlike_any_other_survive_half_precision(shipped, tmp_path):
    huge = replace(shipped.statistics, gram=shipped.statistics.gram * 1e4)
    again = BridgeWeights.load(replace(shipped, statistics=huge).save(tmp_path)).statistics
    assert np.isfinite(again.gram).all()
    np.testing.assert_allclose(np.diag(again.gram), np.diag(huge.gram), rtol=2e-3)


@pytest.mark.parametrize("name", sorted({profile.bridge for profile in PROFILES.values()}))
def test_the_version_of_a_file_is_that_of_its_weights_and_needs_no_conversion_back(name, monkeypatch):
    read = BridgeWeights.shipped(name)
    computed = replace(read).version  # a copy knows nothing about the file
    monkeypatch.setattr(BridgeWeights, "_arrays", lambda _: pytest.fail("the arrays were converted back"))
    assert read.version == computed


def test_version_follows_what_vectors_depend_on(shipped):
    assert replace(shipped, provenance={"note": "x"}).version == shipped.version
    assert replace(shipped, ridge_share=0.1).version != shipped.version
    assert replace(shipped, ridge=shipped.ridge * 1.01).version != shipped.version


def test_damaged_missing_and_newer_files_are_named_with_a_way_out(shipped, tmp_path):
    for content in (b"", b"not a bridge at all", shipped.save(tmp_path).read_bytes()[:5000]):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ConfigurationError, match="bad") as caught:
            BridgeWeights.load(tmp_path / "bad")
        assert "train bridge" in caught.value.hint
    with pytest.raises(ConfigurationError, match="missing"):
        BridgeWeights.load(tmp_path / "missing")
    newer = shipped.save(tmp_path).read_bytes().replace(b'\\"format\\": 2', b'\\"format\\": 9')
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(ConfigurationError, match="format 9"):
        BridgeWeights.load(tmp_path / "newer")


def test_a_file_whose_arrays_are_of_another_layout_is_named_with_a_way_out(shipped, tmp_path):
    import json

    from safetensors.numpy import load, save

    content = shipped.save(tmp_path).read_bytes()
    arrays = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    lacking = {name: array for name, array in arrays.items() if name != "residual"}
    more = arrays | {"whitening": arrays["mean"]}
    for other in (lacking, more):
        (tmp_path / "other").write_bytes(save(other, header))
        with pytest.raises(ConfigurationError, match="arrays") as caught:
            BridgeWeights.load(tmp_path / "other")
        assert caught.value.hint == "train it again: lodestone train bridge"


def test_numpy_tower_equals_torch():
    import torch

    rng = np.random.default_rng(0)
    shapes = ((9, 4), (9, 16), (16,), (16, 4), (4,))
    tower = Tower(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    rows = rng.normal(size=(6, 9)).astype(np.float32)
    line, up, up_bias, down, bias = (torch.from_numpy(getattr(tower, name)) for name in Tower.__slots__)
    x = torch.from_numpy(rows)
    expected = torch.nn.functional.normalize(x @ line + torch.relu(x @ up + up_bias) @ down + bias, dim=1)
    np.testing.assert_allclose(tower(rows), expected.numpy(), atol=1e-6)


def test_shipped_file_is_small_and_carries_its_card_licence_notice_and_fitted_weights(shipped):
    from importlib.resources import files

    folder = Path(str(files("lodestone"))) / "data" / "bridge"
    assert (folder / "bridge.safetensors").stat().st_size < 9_000_000
    assert (folder / "embedded-large.safetensors").stat().st_size < 11_000_000
    assert "research" in str(BridgeWeights.shipped("embedded-large.safetensors").provenance["licence_notice"])
    assert "Flickr8k" in (folder / "MODEL_CARD.md").read_text("utf8")
    assert "research" in str(shipped.provenance["licence_notice"])
    assert set(SpaceWeights.from_header(shipped.query_weights).scales) == {"labels", "bridge"}


def test_what_is_attainable_is_the_cosine_to_the_best_mean_picture_of_the_training(shipped):
    texts = shipped.rehearsal.texts[:5] / np.linalg.norm(shipped.rehearsal.texts[:5], axis=1, keepdims=True)
    best = (shipped.texts(texts) @ shipped.from_components(shipped.rehearsal.pictures).T).max(1)
    np.testing.assert_allclose(shipped.attainable(texts), best, atol=1e-6)
    assert (best > 0.1).all()


def test_search_needs_no_torch(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, numpy as np; from lodestone.spaces.bridge_weights import BridgeWeights; w = BridgeWeights.shipped();"
        "w.texts(np.ones((1, 384), np.float32)); assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
