"""CLIP models of open_clip: both towers do what open_clip does, and every way of naming them finds the same files.

The models are tiny and random: this proves loading and running, no quality.
"""

import importlib.util
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.tiny_models import CLIP_DIM, as_hub_copy, declare_torchvision_operators, tiny_models, write_tiny_clip

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.open_clip import OpenClipBackbone, repository_of
from lodestone.backbones.registry import make_backbone
from lodestone.errors import ModelUnavailableError, UnknownNameError
from lodestone.files.opening import open_area
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.tasks import EmbedSettings
from lodestone.models import packages
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.spaces.registry import make_space
from lodestone.text_encoders.registry import make_text_encoder

TEXTS = ["a cat on a sofa", "a rocket", ""]


@pytest.fixture(scope="module")
def name():
    return f"open_clip:{tiny_models().clip}"


@pytest.fixture(scope="module")
def reference(name):
    import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{tiny_models().clip}")
    return model.eval(), preprocess, open_clip.get_tokenizer(f"local-dir:{tiny_models().clip}")


@pytest.fixture(scope="module")
def backbone(name):
    made = make_backbone(name, model_context())
    made.warm_up(threads=1)
    return made


@pytest.fixture(scope="module")
def encoder(name):
    made = make_text_encoder(name, model_context())
    made.warm_up(threads=1)
    return made


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(tiny_models().clip, tmp_path / "copy")


def test_pictures_have_the_vectors_that_open_clip_gives_them(backbone, reference):
    import torch

    model, preprocess, _ = reference
    pictures = [photo(each) for each in (CAT, COFFEE, PERSON, ROCKET)]
    with torch.inference_mode():
        expected = model.encode_image(torch.stack([preprocess(each) for each in pictures])).numpy()
    got = backbone.embed(np.stack([backbone.prepare(each) for each in pictures]))["image"].astype(np.float32)
    cosines = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.999


def test_texts_have_the_vectors_that_open_clip_gives_them(encoder, reference):
    import torch

    model, _, tokenizer = reference
    with torch.inference_mode():
        expected = model.encode_text(tokenizer(TEXTS), normalize=True).numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_texts_of_any_number_and_kind_are_encoded(encoder):
    assert encoder.encode([]).shape == (0, CLIP_DIM)
    many = encoder.encode([f"picture {number}" for number in range(70)])
    assert many.shape == (70, CLIP_DIM)
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(many[65], encoder.encode(["picture 65"])[0], atol=1e-5)
    assert np.isfinite(encoder.encode(["\udce9t\udce9", "long " * 500, "🐈"])).all()


def test_a_direct_space_takes_pictures_and_words(name, backbone, encoder):
    space = make_space("words", model_context(), direct={"words": name})
    assert (space.name, space.dim, space.text_encoder) == ("words", CLIP_DIM, name)
    image = backbone.embed(backbone.prepare(photo(CAT))[None])
    vectors = space.project(BackboneOutputs({OutputKey(name, "image"): image["image"]}))
    words = space.project_texts(encoder.encode(["a cat"]))
    assert vectors.shape == words.shape == (1, CLIP_DIM)
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([vectors, words]), axis=1), 1, atol=1e-5)


def test_versions_follow_the_weights_not_the_place(name, copy, tmp_path):
    def versions(folder):
        source = f"open_clip:{folder}"
        space = make_space("words", model_context(), direct={"words": source})
        return make_backbone(source, model_context()).version, make_text_encoder(source, model_context()).version, space.version

    first = versions(tiny_models().clip)
    assert len(set(first)) == 3
    assert versions(copy) == first
    other = versions(write_tiny_clip(tmp_path / "other", seed=1))
    config = json.loads((copy / "open_clip_config.json").read_text())
    config["preprocess_cfg"]["resize_mode"] = "squash"
    (copy / "open_clip_config.json").write_text(json.dumps(config))
    assert len({*first, *other, *versions(copy)}) == 9


def test_a_hub_copy_is_used_without_the_network(name, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    as_hub_copy(tmp_path, "someone/tiny-clip", tiny_models().clip, weights="open_clip_model.safetensors")
    made = make_backbone("open_clip:hf-hub:someone/tiny-clip", model_context())
    made.warm_up(threads=1)
    pixels = made.prepare(photo(CAT))[None]
    local = make_backbone(name, model_context())
    local.warm_up(threads=1)
    np.testing.assert_array_equal(made.embed(pixels)["image"], local.embed(pixels)["image"])


def test_a_model_that_cannot_be_had_says_how_to_get_it(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailableError, match="someone/absent") as caught:
        _ = make_backbone("open_clip:hf-hub:someone/absent", model_context()).version
    assert "local directory" in caught.value.hint


def test_names_of_open_clips_own_table_are_found(tmp_path):
    declare_torchvision_operators()
    cache = ModelCache(tmp_path)
    assert repository_of("ViT-B-32/laion2b_s34b_b79k", cache) == "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
    with pytest.raises(UnknownNameError, match="ViT-B-32/nonsense") as caught:
        repository_of("ViT-B-32/nonsense", cache)
    assert "ViT-B-32/laion2b_s34b_b79k" in caught.value.hint
    with pytest.raises(UnknownNameError, match="ViT-B-32"):
        repository_of("ViT-B-32", cache)


@pytest.mark.parametrize("missing", ["open_clip_config.json", "open_clip_model.safetensors"])
def test_a_directory_without_its_files_is_refused_by_name(copy, missing):
    (copy / missing).unlink()
    with pytest.raises(ModelUnavailableError, match=missing):
        _ = make_backbone(f"open_clip:{copy}", model_context()).version


def test_a_missing_directory_is_refused_by_name(tmp_path):
    with pytest.raises(ModelUnavailableError, match="nowhere"):
        _ = make_text_encoder(f"open_clip:{tmp_path / 'nowhere'}", model_context()).version


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("open_clip_config.json", b"{ not json"),
        ("open_clip_config.json", b"[]"),
        ("open_clip_config.json", b"{}"),
        ("open_clip_model.safetensors", b"\x00" * 64),
    ],
    ids=["no JSON", "a list", "no model", "no weights"],
)
def test_damaged_files_are_an_error_that_says_so(copy, file, content):
    (copy / file).write_bytes(content)
    for make in (make_backbone, make_text_encoder):
        with pytest.raises(ModelUnavailableError):
            make(f"open_clip:{copy}", model_context()).warm_up()


def test_without_the_package_the_extra_is_named(name, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "open_clip" else found(package))
    for make in (make_backbone, make_text_encoder):
        with pytest.raises(ModelUnavailableError, match="open_clip") as caught:
            make(name, model_context()).warm_up()
        assert caught.value.hint == "pip install 'lodestone-search[clip]'"


def test_a_library_that_cannot_be_imported_is_an_error_that_says_why(name, monkeypatch, tmp_path):
    def broken(package):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(packages.importlib, "import_module", broken)
    for make in (make_backbone, make_text_encoder):
        for source in (name, "open_clip:ViT-B-32/laion2b_s34b_b79k"):
            with pytest.raises(ModelUnavailableError, match="torchvision::nms") as caught:
                make(source, ModelContext(ModelCache(tmp_path))).warm_up()
            assert "belong together" in caught.value.hint


def test_encoding_before_warm_up_says_what_to_do(name):
    with pytest.raises(RuntimeError, match="warm_up"):
        make_text_encoder(name, model_context()).encode(["hello"])


def test_hashes_of_local_weights_are_remembered_until_the_file_changes(copy, tmp_path, monkeypatch):
    context = ModelContext(ModelCache(tmp_path / "cache"))
    first = OpenClipBackbone(f"open_clip:{copy}", context).version
    hashed = []
    from lodestone.models import checkpoints

    monkeypatch.setattr(
        checkpoints, "hash_file", lambda path, real=checkpoints.hash_file: hashed.append(path.name) or real(path)
    )
    assert OpenClipBackbone(f"open_clip:{copy}", context).version == first
    assert "open_clip_model.safetensors" not in hashed
    write_tiny_clip(tmp_path / "other", seed=2)
    shutil.copy(tmp_path / "other" / "open_clip_model.safetensors", copy)
    assert OpenClipBackbone(f"open_clip:{copy}", context).version != first


def compiled_by(monkeypatch, compiled, name):
    """The backbone with models compiled by a fake compiler, and what the compiler was asked."""
    import torch

    asked = []

    def compile_(model, *, dynamic):
        asked.append(dynamic)
        return compiled(model)

    monkeypatch.setattr(torch, "compile", compile_)
    made = make_backbone(name, replace(model_context(), compiled=True))
    made.warm_up(threads=1)
    return made, asked


def test_a_compiled_model_gives_the_vectors_of_the_model(name, backbone, monkeypatch):
    passes = []

    def compiled(model):
        return lambda planes: passes.append(len(planes)) or model(planes)

    made, asked = compiled_by(monkeypatch, compiled, name)
    pixels = np.stack([made.prepare(photo(one)) for one in (CAT, COFFEE, ROCKET)])
    (found,), (expected,) = made.embed(pixels).values(), backbone.embed(pixels).values()
    np.testing.assert_array_equal(found, expected)
    assert (asked, passes) == ([True], [2, 3])
    assert made.version == backbone.version


def test_a_model_that_cannot_be_compiled_runs_as_it_is(name, backbone, monkeypatch, caplog):
    def compiled(_):
        def fail(_):
            raise RuntimeError("InvalidCxxCompiler: no C++ compiler")

        return fail

    made, asked = compiled_by(monkeypatch, compiled, name)
    pixels = np.stack([made.prepare(photo(CAT))])
    (found,), (expected,) = made.embed(pixels).values(), backbone.embed(pixels).values()
    np.testing.assert_array_equal(found, expected)
    assert asked == [True]
    assert "is not compiled: InvalidCxxCompiler" in caplog.text


def test_the_workers_of_a_run_compile_where_the_setting_says_so(name, tmp_path):
    area = open_area(tmp_path)
    for compiled in (False, True):
        settings = EmbedSettings((name,), "minilm", tmp_path, area, area, compile_models=compiled)
        (made, *_) = SliceWork(settings).parts
        assert made._backbone._context.compiled is compiled
