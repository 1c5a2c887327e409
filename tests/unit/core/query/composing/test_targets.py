"""Composition vectors of pictures and words, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.query.asking.parts import Part, editable
from lodestone.query.asking.tree import Image, Text
from lodestone.query.composing.targets import OWN, composed_targets, guided_targets
from lodestone.query.retrieving.leaves import EncodedLeaf, EncodedQuery

ROOT = 2**-0.5


def _encoded(*vectors: dict[str, list[float]]) -> EncodedQuery:
    leaves = tuple(EncodedLeaf("any", {name: np.array(row, np.float32) for name, row in one.items()}) for one in vectors)
    return EncodedQuery(leaves, {"joint": "joint-1", "look": "look-1"})


def test_the_picture_s_vector_becomes_the_sum_of_it_and_the_words_in_their_joint_space() -> None:
    parts = [
        Part("words", Text("night"), 0.4, False),
        Part("picture", Image("a"), 0.4, False),
        Part("unlike", Image("b"), 0.1, True),
        Part("without", Text("people"), 0.1, True),
    ]
    encoded = _encoded(
        {"joint-1": [0, 1, 0]}, {"joint-1": [1, 0, 0], "look-1": [1, 0]}, {"joint-1": [1, 0, 0]}, {"joint-1": [0, 0, 1]}
    )
    composed, kept = composed_targets(encoded, parts, ["joint", "look"])
    assert composed.leaves[1].vectors["joint-1"] == pytest.approx([ROOT, ROOT, 0])
    assert composed.leaves[1].vectors["look-1"] == pytest.approx([1, 0])  # no words are compared there
    for number in (0, 2, 3):
        assert composed.leaves[number] is encoded.leaves[number]
    assert [(one.guide, one.space, one.weight, one.vector.tolist()) for one in kept] == [
        ("picture" + OWN, "joint", 0.0, [1, 0, 0])
    ]
    assert encoded.leaves[1].vectors["joint-1"].tolist() == [1, 0, 0]  # what was given is not changed


def test_several_words_count_by_their_weights() -> None:
    parts = [
        Part("words", Text("night"), 0.3, False),
        Part("words2", Text("rain"), 0.4, False),
        Part("picture", Image("a"), 0.3, False),
    ]
    encoded = _encoded({"joint-1": [0, 1, 0]}, {"joint-1": [0, 0, 1]}, {"joint-1": [1, 0, 0]})
    composed, _ = composed_targets(encoded, parts, ["joint"])
    assert composed.leaves[2].vectors["joint-1"] == pytest.approx([ROOT, 0.6 * ROOT, 0.8 * ROOT])


def test_a_picture_stays_as_it_is_without_words_or_where_they_are_its_opposite_or_where_nothing_is_wanted() -> None:
    parts = [Part("words", Text("night"), 0.5, False), Part("picture", Image("a"), 0.5, False)]
    opposite = _encoded({"joint-1": [-1, 0]}, {"joint-1": [1, 0]})
    silent = _encoded({}, {"joint-1": [1, 0]})
    ordinary = _encoded({"joint-1": [0, 1]}, {"joint-1": [1, 0]})
    for encoded, spaces in ((opposite, ["joint"]), (silent, ["joint"]), (ordinary, [])):
        composed, kept = composed_targets(encoded, parts, spaces)
        assert composed.leaves == encoded.leaves
        assert kept == ()


def test_the_vectors_of_an_edited_picture_stand_in_the_place_of_its_own_in_every_space() -> None:
    parts = [
        Part("words", Text("night"), 0.4, False),
        Part("picture", Image("a"), 0.3, False),
        Part("picture2", Image("b"), 0.3, False),
    ]
    encoded = _encoded({"joint-1": [0, 1]}, {"joint-1": [1, 0], "look-1": [1, 0]}, {"joint-1": [1, 0]})
    edited = {"joint-1": np.array([0.6, 0.8], np.float32), "look-1": np.array([0, 1], np.float32), "gone-1": np.zeros(2)}
    guided, kept = guided_targets(encoded, parts, {1: edited})
    assert {name: row.tolist() for name, row in guided.leaves[1].vectors.items()} == {
        "joint-1": pytest.approx([0.6, 0.8]),
        "look-1": [0, 1],
    }
    assert guided.leaves[0] is encoded.leaves[0] and guided.leaves[2] is encoded.leaves[2]
    assert [(one.guide, one.space, one.weight, one.vector.tolist()) for one in kept] == [
        ("picture" + OWN, "joint", 0.0, [1, 0]),
        ("picture" + OWN, "look", 0.0, [1, 0]),
    ]
    assert encoded.leaves[1].vectors["joint-1"].tolist() == [1, 0]  # what was given is not changed


def test_pictures_to_look_for_can_be_edited_where_words_are_looked_for() -> None:
    words, without = Part("words", Text("night"), 0.5, False), Part("without", Text("rain"), 0.5, True)
    picture, unlike = Part("picture", Image("a"), 0.5, False), Part("unlike", Image("b"), 0.5, True)
    assert editable([words, picture, unlike, picture]) == [1, 3]
    assert editable([without, picture]) == editable([words, unlike]) == editable([]) == []
