"""Label matching: a picture's vector is the weighted sum of its most probable classes' names."""

import re

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.errors import UnknownNameError
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.spaces.labels import LabelSpace
from lodestone.spaces.registry import SPACES, make_space
from lodestone.text_encoders.labels import CLASSES, imagenet_labels
from lodestone.text_encoders.minilm import MiniLM

LITE0, LITE2 = OutputKey("efficientnet-lite0", "probabilities"), OutputKey("efficientnet-lite2", "probabilities")


@pytest.fixture(scope="module")
def encoder() -> MiniLM:
    made = MiniLM(model_context())
    made.warm_up(threads=1)
    return made


@pytest.fixture(scope="module")
def space() -> LabelSpace:
    made = LabelSpace(model_context())
    made.warm_up()
    return made


def _outputs(lite0: np.ndarray, lite2: np.ndarray | None = None) -> BackboneOutputs:
    lite2 = lite0 if lite2 is None else lite2
    return BackboneOutputs({LITE0: lite0.astype(np.float16), LITE2: lite2.astype(np.float16)})


def _one_hot(*classes: int) -> np.ndarray:
    return np.eye(CLASSES, dtype=np.float16)[list(classes)]


def test_labels_are_a_thousand_names_in_the_classifiers_order():
    labels = imagenet_labels()
    assert len(labels) == len(set(labels)) == CLASSES
    assert (labels[0], labels[285], labels[999]) == ("tench", "Egyptian cat", "toilet tissue")


def test_a_picture_of_one_certain_class_lies_on_that_class_name(space, encoder):
    classes = [0, 285, 657, 967]
    texts = space.project_texts(encoder.encode([imagenet_labels()[c] for c in classes]))
    np.testing.assert_allclose((space.project(_outputs(_one_hot(*classes))) * texts).sum(1), 1, atol=1e-5)


def test_vectors_are_unit_float32_of_the_stated_width(space, encoder):
    rng = np.random.default_rng(0)
    for vectors in (
        space.project(_outputs(rng.dirichlet(np.full(CLASSES, 0.02), 5))),
        space.project_texts(encoder.encode(["a red bus", "sorrow"])),
    ):
        assert vectors.shape[1] == space.dim
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_picture_is_the_mean_of_both_backbones_opinions(space):
    mixed = space.project(_outputs(_one_hot(1), _one_hot(500)))
    agreed = space.project(_outputs((_one_hot(1) + _one_hot(500)) / 2))
    np.testing.assert_allclose(mixed, agreed, atol=1e-6)


def test_only_the_most_probable_classes_count(space):
    probabilities = np.zeros((1, CLASSES))
    probabilities[0, :50] = 0.012
    probabilities[0, 50:100] = 0.008
    cut = probabilities.copy()
    cut[0, 50:] = 0
    np.testing.assert_allclose(space.project(_outputs(probabilities)), space.project(_outputs(cut)), atol=1e-6)
    everything = LabelSpace(model_context(), top=CLASSES)
    everything.warm_up()
    assert float((everything.project(_outputs(probabilities)) * space.project(_outputs(cut))).sum()) < 0.99


def test_a_row_does_not_depend_on_its_company(space):
    probabilities = np.random.default_rng(1).dirichlet(np.full(CLASSES, 0.02), 6)
    together = space.project(_outputs(probabilities))
    alone = space.project(_outputs(probabilities[3:4]))
    np.testing.assert_allclose(together[3:4], alone, atol=1e-6)


def test_projecting_leaves_the_outputs_as_they_were(space):
    outputs = _outputs(np.random.default_rng(2).dirichlet(np.full(CLASSES, 0.02), 2))
    before = {key: rows.copy() for key, rows in outputs.items()}
    space.project(outputs)
    for key, rows in outputs.items():
        np.testing.assert_array_equal(rows, before[key])


def test_no_rows_give_no_rows(space, encoder):
    assert space.project(_outputs(_one_hot())).shape == (0, space.dim)
    assert space.project_texts(encoder.encode([])).shape == (0, space.dim)
    assert space.label_similarity(encoder.encode([])).shape == (0,)


def test_words_find_the_photo_that_shows_them(space, encoder):
    names = [CAT, COFFEE, ROCKET, PERSON]
    columns = {}
    for key in space.requires:
        backbone = make_backbone(key.backbone, model_context())
        backbone.warm_up(threads=1)
        columns[key] = backbone.embed(np.stack([backbone.prepare(photo(name)) for name in names]))[key.output]
    pictures = space.project(BackboneOutputs(columns))
    words = space.project_texts(encoder.encode(["a photo of a cat", "a cup of coffee", "a rocket"]))
    assert [names[i] for i in (words @ pictures.T).argmax(1)] == [CAT, COFFEE, ROCKET]


def test_label_similarity_tells_names_from_other_words(space, encoder):
    name, phrase, abstract = space.label_similarity(
        encoder.encode(["acoustic guitar", "a man plays the guitar at night", "why not"])
    )
    assert name == pytest.approx(1, abs=1e-5)
    assert name > phrase > abstract


def test_only_a_bare_name_is_as_near_to_a_name_as_a_name_is(space, encoder):
    bare = ["owl", "great grey owl", "a great grey owl", "a photo of a great grey owl", "Great Grey Owl", "photo of a ski"]
    more = ["a great grey owl in the snow", "two great grey owls", "a woman with a paddle", "A man playing cricket", "dog"]
    similarity = space.name_similarity(encoder.encode([*bare, *more]))
    assert (similarity[1:6] > 0.97).all()
    assert (similarity[6:] < 0.93).all() and similarity[0] < 0.93  # "owl" is no class: which owl is for the bridge to weigh
    with pytest.raises(RuntimeError, match="warm_up"):
        LabelSpace(model_context()).name_similarity(encoder.encode(["owl"]))


def test_version_follows_what_the_vectors_depend_on():
    versions = [
        LabelSpace(model_context(), **settings).version
        for settings in ({}, {"top": 10}, {"backbones": ("efficientnet-lite0",)}, {"backbones": ("efficientnet-lite2",)})
    ]
    assert len(set(versions)) == len(versions)
    assert all(re.fullmatch(r"[0-9a-z]{1,16}", version) for version in versions)
    assert LabelSpace(model_context()).collection == f"labels-{versions[0]}"


def test_label_vectors_are_computed_once_and_then_read(space, monkeypatch, tmp_path):
    context = ModelContext(ModelCache(tmp_path), threads=1)
    monkeypatch.setattr(LabelSpace, "_encode_texts", lambda self, target, texts, stored: np.save(target, space.label_vectors))
    LabelSpace(context).warm_up()
    monkeypatch.setattr(LabelSpace, "_encode_texts", lambda self, target, texts, stored: pytest.fail("encoded again"))
    again = LabelSpace(context)
    again.warm_up()
    np.testing.assert_array_equal(again.label_vectors, space.label_vectors)


def test_projecting_before_warm_up_says_what_to_do():
    with pytest.raises(RuntimeError, match="warm_up"):
        LabelSpace(model_context()).project(_outputs(_one_hot(1)))


def test_an_unknown_space_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="'cube'") as caught:
        make_space("cube", model_context())
    assert all(name in caught.value.hint for name in SPACES)
    assert isinstance(make_space("labels", model_context()), LabelSpace)
