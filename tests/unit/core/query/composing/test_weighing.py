"""What each part of a composed query decides in each space, by hand: shares, captions, trust, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lodestone.config.compositions import Role
from lodestone.query.asking.parts import Part
from lodestone.query.asking.resolved import ComposeOptions
from lodestone.query.asking.tree import Text, Vector
from lodestone.query.composing.candidates import Standing
from lodestone.query.composing.weighing import CAPTION_SHARE, PartWeighing, by_part, by_space, without_captions
from lodestone.query.retrieving.first_pass import QueryWeights
from lodestone.query.retrieving.leaves import EncodedLeaf, EncodedQuery
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.rescoring import ListSearch

SPACES = {"bridge": "bridge-1", "labels": "labels-1"}
WORDS = Part("words", Text("at night"), 0.3, avoid=False)
WITHOUT = Part("without", Text("people"), 0.2, avoid=True)
PICTURE = Part("picture", Vector({"bridge": np.array([1, 0], np.float32)}), 0.5, avoid=False)


class Weigher:
    """Weighs by a table, and keeps what it was told of the best pictures."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, float] | None] = []

    def weights(
        self, encoded: Mapping[str, NDArray[np.float32]], spaces: Sequence[str], *, best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        assert set(encoded) == {"minilm"}
        self.told.append(best)
        return {space: {"bridge": 0.75, "labels": 0.25}[space] for space in spaces}

    def ordinary_words(self) -> Mapping[str, NDArray[np.float32]]:
        return {}


def weighing(weigher: Weigher | None = None, **options: Any) -> PartWeighing:
    settings = {"priors": {}, "modality_weights": {}, "text_encoder": "minilm", **options}
    return PartWeighing(weigher or Weigher(), **settings)


def question(*parts: Part, captions: str | None = "captions-1") -> Any:
    return SimpleNamespace(resolved=SimpleNamespace(composing=ComposeOptions(parts=tuple(parts)), captions=captions))


def encoded(*parts: Part) -> EncodedQuery:
    vectors = {collection: np.array([1, 0], np.float32) for collection in SPACES.values()}
    words = {"minilm": np.array([0, 1], np.float32)}
    leaves = [EncodedLeaf(part.name, vectors, words if isinstance(part.leaf, Text) else {}) for part in parts]
    return EncodedQuery(tuple(leaves), SPACES)


def weights_of(searches: Sequence[ListSearch]) -> dict[tuple[str, str], float]:
    return {(one.guide, one.space): one.weight for one in searches}


def test_words_decide_their_share_by_captions_and_the_rest_by_the_spaces_that_are_fitted_to_them() -> None:
    found = weighing().searches(question(WORDS), encoded(WORDS), {}, "captions-1")
    assert weights_of(found) == pytest.approx(
        {
            ("words", "captions"): 0.3 * CAPTION_SHARE,
            ("words", "bridge"): 0.3 * (1 - CAPTION_SHARE) * 0.75,
            ("words", "labels"): 0.3 * (1 - CAPTION_SHARE) * 0.25,
        }
    )
    without = weighing().searches(question(WORDS), encoded(WORDS), {}, None)
    assert weights_of(without) == pytest.approx({("words", "bridge"): 0.3 * 0.75, ("words", "labels"): 0.3 * 0.25})


def test_words_that_are_compared_with_captions_alone_decide_all_of_their_share_there() -> None:
    only = weighing(modalities=[("captions", Role.AUXILIARY), ("labels", Role.TARGET)])
    found = only.searches(question(PICTURE, WORDS), encoded(PICTURE, WORDS), {}, "captions-1")
    assert weights_of(found) == pytest.approx({("picture", "labels"): 0.5, ("words", "captions"): 0.3})
    assert only.searches(question(WORDS), encoded(WORDS), {}, None) == []


def test_pictures_are_compared_three_times_as_much_by_their_scene_as_by_their_labels_and_never_with_captions() -> None:
    found = weighing().searches(question(PICTURE), encoded(PICTURE), {"bridge": 5.0}, "captions-1")
    assert weights_of(found) == pytest.approx({("picture", "bridge"): 0.375, ("picture", "labels"): 0.125})


def test_learnt_trust_weighs_words_in_the_place_of_the_profile_s() -> None:
    learnt = weighing(priors={"labels": 9.0}).searches(question(WORDS), encoded(WORDS), {"labels": 3.0}, None)
    assert weights_of(learnt) == pytest.approx({("words", "bridge"): 0.15, ("words", "labels"): 0.15})
    prior = weighing(priors={"labels": 9.0}).searches(question(WORDS), encoded(WORDS), {}, None)
    assert weights_of(prior) == pytest.approx({("words", "bridge"): 0.3 * 0.25, ("words", "labels"): 0.3 * 0.75})


def test_the_vectors_of_a_part_to_avoid_are_negated_in_spaces_and_captions() -> None:
    found = weighing().searches(question(WORDS, WITHOUT), encoded(WORDS, WITHOUT), {}, "captions-1")
    for one in found:
        sign = -1 if one.guide == "without" else 1
        assert one.vector.tolist() == ([0, sign] if one.space == "captions" else [sign, 0])
        assert one.collection == f"{one.space}-1"


def test_weights_are_fitted_again_to_how_like_each_part_the_nearest_picture_is() -> None:
    """Of a part to avoid, the vector is negated: the picture most like it comes last, with its similarity negated."""
    weigher = Weigher()
    parts = (WORDS, WITHOUT)
    scored = [
        RankedList("words", "bridge", 1.0, ("a", "b"), np.array([0.6, 0.1], np.float32)),
        RankedList("words", "labels", 1.0, ("b", "a"), np.array([0.4, -0.2], np.float32)),
        RankedList("without", "bridge", 1.0, ("a", "b"), np.array([0.3, -0.7], np.float32)),
        RankedList("without", "labels", 1.0, (), np.empty(0, np.float32)),
    ]
    standings = {(part.name, space): Standing(0.0, 1.0) for part in parts for space in (*SPACES, "captions")}
    before = QueryWeights({}, "topic", {})
    searches, weights = weighing(weigher).reweighed(question(*parts), encoded(*parts), before, scored, standings)
    words, without = weigher.told
    assert words == pytest.approx({"bridge": 0.6, "labels": 0.4})
    assert without == pytest.approx({"bridge": 0.7})
    assert weights.by_space == pytest.approx(by_space(searches)) and weights.topic == "topic"
    assert by_part(searches) == pytest.approx({"words": 0.3, "without": 0.2})
    silent = {key: value for key, value in standings.items() if key[1] != "captions"}
    spoken, _ = weighing().reweighed(question(*parts), encoded(*parts), before, scored, silent)
    assert "captions" not in by_space(spoken), "captions of which nothing is known take nothing from the spaces"


def test_modalities_weigh_cosines_and_those_without_a_weight_are_not_compared() -> None:
    weights = {("bridge", Role.AUXILIARY): 0.8, ("labels", Role.TARGET): 0.4}
    by_modality = weighing(modality_weights=weights)
    searches = by_modality.searches(question(PICTURE, WORDS), encoded(PICTURE, WORDS), {}, None)
    spreads = {"bridge": 0.05, "labels": 0.2}
    standings = {(one.guide, one.space): Standing(0.0, spreads[one.space]) for one in searches}
    found = weights_of(by_modality.by_modality(question(PICTURE, WORDS), searches, standings))
    words, picture = 0.3 * 0.8 * 0.05, 0.5 * 0.4 * 0.2
    assert found == pytest.approx(
        {("words", "bridge"): words / (words + picture), ("picture", "labels"): picture / (words + picture)}
    )
    assert weighing().by_modality(question(PICTURE, WORDS), searches, standings) == searches


def test_without_captions_the_spaces_decide_all_that_a_part_does() -> None:
    parts = (PICTURE, WORDS)
    found = weighing().searches(question(*parts), encoded(*parts), {}, "captions-1")
    spaces = [one for one in found if one.space != "captions"]
    captions = [one for one in found if one.space == "captions"]
    silent = without_captions(spaces, captions)
    assert by_part(silent) == pytest.approx({"picture": 0.5, "words": 0.3})
    assert weights_of(silent)["words", "bridge"] == pytest.approx(0.3 * 0.75)
