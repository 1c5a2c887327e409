"""Labels are those of the label space, and parts that a home has no model for are left out."""

from __future__ import annotations

import importlib.util
import time

import numpy as np
import pytest
from PIL import Image
from tests.support.collection import load_models
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import encoded

from lodestone.errors import DeadlineExceededError, ImageError, ModelUnavailableError
from lodestone.imaging.decode import decode
from lodestone.imaging.quality import measure_quality
from lodestone.spaces.labels import LabelSpace
from lodestone.tagging.safety import PACKAGE, OpenNsfw, installed_scorer
from lodestone.tagging.tagger import LABELS, LEAST_SIMILARITY, LocalTagger


def opened(data: bytes) -> Image.Image:
    return decode(data, min_side=512, max_decoded_bytes=64 << 20).image


class Careful:
    model = "careful"

    def score(self, image: Image.Image) -> float:
        return image.width / 10_000


@pytest.fixture(scope="module")
def models():
    return load_models()


def tagger(models, **changed) -> LocalTagger:
    encoder = models.encoder()
    projections = {name: space for name, space in encoder._projections.items() if isinstance(space, LabelSpace)}
    return LocalTagger(encoder, changed.pop("projections", dict(list(projections.items())[:1])), decode=opened, **changed)


@pytest.mark.parametrize(("name", "label"), [(CAT, "cat"), (COFFEE, "espresso")])
async def test_photos_are_labelled_by_what_they_show(models, name: str, label: str):
    tags = await tagger(models).tag(encoded(photo(name), "PNG"))
    assert tags.labels is not None
    assert any(label in found.text for found in tags.labels[:3]), tags.labels
    similarities = [found.similarity for found in tags.labels]
    assert similarities == sorted(similarities, reverse=True)
    assert len(tags.labels) <= LABELS and min(similarities) >= LEAST_SIMILARITY
    assert tags.safety is None
    expected = measure_quality(opened(encoded(photo(name), "PNG")))  # the colours of its profile become sRGB's
    assert tags.quality.sharpness == pytest.approx(expected.sharpness)
    assert tags.quality.brightness == pytest.approx(expected.brightness)


async def test_quality_is_not_measured_on_what_the_models_see(models):
    """JPEG is decoded at a smaller size where that is enough: never below the size at which quality is measured."""
    large = photo(COFFEE).resize((3000, 2000), Image.Resampling.LANCZOS)
    as_png = (await tagger(models).tag(encoded(large, "PNG"))).quality
    as_jpeg = (await tagger(models).tag(encoded(large, "JPEG"))).quality
    assert as_jpeg.sharpness == pytest.approx(as_png.sharpness, rel=0.15)


async def test_a_home_without_label_space_or_safety_model_leaves_them_out(models):
    tags = await tagger(models, projections={}).tag(encoded(photo(CAT), "JPEG"))
    assert (tags.labels, tags.safety) == (None, None)
    safe = (await tagger(models, safety=Careful()).tag(encoded(photo(CAT), "PNG"))).safety
    assert safe is not None
    assert (safe.model, safe.not_safe) == ("careful", photo(CAT).width / 10_000)


async def test_what_is_no_picture_or_comes_too_late_is_refused(models):
    with pytest.raises(ImageError):
        await tagger(models).tag(b"no picture at all")
    with pytest.raises(DeadlineExceededError):
        await tagger(models).tag(encoded(photo(CAT), "JPEG"), deadline=time.monotonic() - 1)


def test_nearest_labels_are_those_of_the_highest_cosine(models):
    space = next(found for found in models.encoder()._projections.values() if isinstance(found, LabelSpace))
    space.warm_up()
    own = space.project_texts(space.label_vectors[[3, 700]])
    found = space.nearest_labels(own, 2)
    assert [row[0][1] for row in found] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert all(row[0][1] >= row[1][1] for row in found)


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the extra safety is not installed")
def test_photos_of_cats_and_coffee_are_safe():
    scorer = installed_scorer(threads=1)
    assert scorer is not None
    assert max(scorer.score(photo(name)) for name in (CAT, COFFEE, ROCKET)) < 0.2
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    assert 0 <= scorer.score(Image.fromarray(noise)) <= 1


def test_without_its_package_there_is_no_scorer_and_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert installed_scorer() is None
    with pytest.raises(ModelUnavailableError) as caught:
        OpenNsfw().score(photo(CAT))
    assert "lodestone-search[safety]" in (caught.value.hint or "")
