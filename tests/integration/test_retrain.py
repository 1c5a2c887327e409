"""What is a bridge that is trained from nothing in a home taught besides the captions?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.home import open_runtime
from tests.support.pairs import make_pairs

from lodestone.text_encoders.labels import imagenet_labels
from lodestone.training import retrain
from lodestone.training.classes import PER_CLASS, ClassPairs
from lodestone.training.retrain import FEWEST_FOR_CLASSES, retrain_bridge
from lodestone.training.sources import CaptionedPictures


class _TrainedError(Exception):
    """Ends the run where training, which takes minutes with this many classes, would begin."""


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
