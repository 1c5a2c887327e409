"""Tests of centred queries: what all pictures or words have in common decides nothing."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.query.asking.parts import Part
from lodestone.query.asking.tree import Image, Text
from lodestone.query.composing.stage import SHARE, centred
from lodestone.retrieval.rescoring import ListSearch

QUERY = np.array([0.6, 0.8, 0.0], np.float32)
MEAN = np.array([0.3, 0.0, 0.4], np.float32)


def _one(name: str, part: Part, *, words: dict[str, np.ndarray] | None = None, sample: np.ndarray | None = None) -> np.ndarray:
    sign = -1 if part.avoid else 1
    search = ListSearch(name, "bridge", "bridge-1", 0.5, np.float32(sign) * QUERY)
    pictures = np.empty((0, 0), np.float32) if sample is None else sample
    (found,) = centred([search], [part], pictures=lambda _: pictures, words=words or {})
    assert (found.guide, found.space, found.collection, found.weight) == (name, "bridge", "bridge-1", 0.5)
    return found.vector


@pytest.mark.parametrize("avoid", [False, True])
def test_the_mean_of_its_kind_is_taken_from_a_part(avoid: bool) -> None:
    sample = np.stack([MEAN + 0.1, MEAN - 0.1])
    picture = _one("picture", Part("picture", Image("a"), 0.5, avoid), sample=sample, words={"bridge": QUERY})
    words = _one("words", Part("words", Text("night"), 0.5, avoid), sample=sample, words={"bridge": MEAN})
    for vector in (picture, words):
        expected = QUERY - SHARE * MEAN
        assert vector == pytest.approx((-1 if avoid else 1) * expected / np.linalg.norm(expected), abs=1e-6)


def test_a_part_without_a_known_mean_stays_as_it_is() -> None:
    assert _one("words", Part("words", Text("night"), 0.5, False), words={"labels": MEAN}) == pytest.approx(QUERY)
    assert _one("picture", Part("picture", Image("a"), 0.5, False)) == pytest.approx(QUERY)


def test_a_picture_that_is_the_mean_itself_stays_as_it_is() -> None:
    assert _one("picture", Part("picture", Image("a"), 0.5, False), sample=np.stack([QUERY, QUERY])) == pytest.approx(QUERY)
