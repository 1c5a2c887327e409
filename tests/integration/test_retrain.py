"""A bridge learns phrases beside captions, and names of classes where it begins from nothing. A worse one is not used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.home import open_runtime
from tests.support.models import model_context
from tests.support.pairs import make_pairs

from lodestone.errors import InvalidRequestError
from lodestone.indexing.progress import CAPTIONS_ALONE, ProgressEvent, RunStage
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training import retrain
from lodestone.training.bridge import TrainingReport
from lodestone.training.captions import FEWEST_MEASURED
from lodestone.training.classes import PER_CLASS, ClassPairs
from lodestone.training.phrases import PhrasePairs, in_templates, noun_phrases
from lodestone.training.retrain import FEWEST_FOR_CLASSES, retrain_bridge
from lodestone.training.sources import CaptionedPictures


class _TrainedError(Exception):
    """Ends the run where training, which takes minutes with this many classes, would begin."""


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(
    ("pictures", "from_nothing", "taught"),
    [(FEWEST_FOR_CLASSES, True, True), (FEWEST_FOR_CLASSES - 1, True, False), (FEWEST_FOR_CLASSES, False, False)],
    ids=["from nothing", "of few pictures", "an update"],
)
def test_a_bridge_from_nothing_is_taught_the_classes_names_if_there_are_pictures_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: int, from_nothing: bool, taught: bool
) -> None:
    outputs, texts, owner = make_pairs(pictures, captions=1)
    seen: list[ClassPairs | None] = []

    def fit(*_: object, classes: ClassPairs | None, **__: Any) -> None:
        seen.append(classes)
        raise _TrainedError

    monkeypatch.setattr(retrain, "fit_bridge", fit)
    captions = [f"a thing number {row} on a table" for row in owner]
    with open_runtime(tmp_path) as runtime, pytest.raises(_TrainedError):
        retrain_bridge(runtime, CaptionedPictures(outputs, captions, owner), from_nothing=from_nothing, dry_run=True)
    (classes,) = seen
    assert (classes is not None) == taught
    if classes is not None:
        assert classes.texts.shape[1:] == (len(imagenet_labels()), texts.shape[1])
        assert classes.outputs.rows == PER_CLASS * len(imagenet_labels())


@pytest.mark.parametrize("from_nothing", [True, False])
def test_a_bridge_is_taught_the_phrases_of_the_captions_beside_the_captions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_nothing: bool
) -> None:
    outputs, _, owner = make_pairs(FEWEST_MEASURED, captions=1)
    seen: list[tuple[np.ndarray, PhrasePairs | None]] = []

    def fit(_: object, texts: np.ndarray, *__: object, phrases: PhrasePairs | None, **___: Any) -> None:
        seen.append((texts, phrases))
        raise _TrainedError

    monkeypatch.setattr(retrain, "fit_bridge", fit)
    captions = [f"a red {'chair' if row % 2 else 'table'} in a room" for row in owner]
    with open_runtime(tmp_path) as runtime, pytest.raises(_TrainedError):
        retrain_bridge(runtime, CaptionedPictures(outputs, captions, owner), from_nothing=from_nothing, dry_run=True)
    ((texts, phrases),) = seen
    assert len(texts) == len(captions)
    assert phrases is not None and phrases.texts.shape[:2] == (2, 5)  # chair, red chair, red table, room, table
    assert phrases.owner.tolist() == [row for row in owner for _ in range(3)]
    encoder = make_text_encoder("minilm", model_context())
    encoder.warm_up()
    wanted = encoder.encode(in_templates(noun_phrases(captions)))
    np.testing.assert_allclose(phrases.texts.reshape(10, -1), wanted, atol=1e-5)


def test_too_few_captioned_pictures_are_refused_with_the_number_before_anything_is_done(tmp_path: Path) -> None:
    outputs, _, owner = make_pairs(4, captions=2)
    told: list[ProgressEvent] = []
    with open_runtime(tmp_path) as runtime, pytest.raises(InvalidRequestError) as caught:
        retrain_bridge(runtime, CaptionedPictures(outputs, ["a thing"] * len(owner), owner), progress=told.append)

    assert (caught.value.details["pictures"], caught.value.details["minimum"]) == (4, FEWEST_MEASURED)
    assert str(FEWEST_MEASURED) in caught.value.message
    assert not told


@pytest.mark.parametrize(
    ("before", "after", "promoted"), [(0.5, 0.6, True), (0.5, 0.5, True), (0.5, 0.4, False), (0.5, None, False)]
)
def test_a_bridge_that_is_worse_or_was_not_measured_is_not_put_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: float, after: float | None, promoted: bool
) -> None:
    outputs, _, owner = make_pairs(FEWEST_MEASURED, captions=1)

    def fit(*_: object, base: BridgeWeights, rival: BridgeWeights, **__: Any) -> tuple[BridgeWeights, TrainingReport]:
        assert rival.version == base.version
        weights = replace(base, ridge_bias=base.ridge_bias + np.float32(0.01))
        return weights, TrainingReport(1, 1, 0.0, 0.0, "", weights.version, before=before, after=after)

    monkeypatch.setattr(retrain, "fit_bridge", fit)
    told: list[ProgressEvent] = []
    with open_runtime(tmp_path) as runtime:
        pictures = CaptionedPictures(outputs, [f"a thing number {row}" for row in owner], owner)
        report = retrain_bridge(runtime, pictures, synchronise=lambda *_, **__: None, progress=told.append)
        assert report.promoted == promoted
        assert (runtime.catalog.active_artifact("bridge") is not None) == promoted
    assert told[-1].stage is RunStage.EMBED
    assert (told[-1].done, told[-1].detail) == (told[-1].total, CAPTIONS_ALONE)
