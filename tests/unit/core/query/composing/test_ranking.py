"""Ranking of composed queries: shares of standardised similarities that sum to the score, and diversity."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.composed.joint import JointPart, scores
from lodestone.query.asking.parts import free_name
from lodestone.query.composing.candidates import Standing
from lodestone.query.composing.ranking import diversified, shares_of, similarities
from lodestone.retrieval.fusion import FusedList, RankedList, weighted_sum

IDS = tuple(f"id{number:02}" for number in range(12))


def listed(name, space, values, *, weight):
    order = sorted((number for number in range(len(values)) if not np.isnan(values[number])), key=lambda one: -values[one])
    return RankedList(
        name, space, weight, tuple(IDS[one] for one in order), np.array([values[one] for one in order], np.float32)
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_of_the_shares_is_the_joint_similarity_also_where_vectors_are_missing(seed):
    rng = np.random.default_rng(seed)
    spaces = {}
    for space in ("a", "b", "c"):
        rows = rng.normal(size=(len(IDS), 6)).astype(np.float32)
        spaces[space] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    spaces["b"][rng.random(len(IDS)) < 0.4] = np.nan
    spaces["c"][rng.random(len(IDS)) < 0.4] = np.nan
    weights = rng.dirichlet(np.ones(4))
    parts = [
        JointPart(name, space, rng.normal(size=6).astype(np.float32), float(weight))
        for (name, space), weight in zip(
            (("words", "a"), ("picture", "a"), ("words", "b"), ("without", "c")), weights, strict=True
        )
    ]
    scored = [listed(part.name, part.space, spaces[part.space] @ part.vector, weight=part.weight) for part in parts]
    as_they_are = {(part.name, part.space): Standing() for part in parts}
    fused = weighted_sum(shares_of(scored, as_they_are))
    expected = dict(zip(IDS, scores(parts, spaces), strict=True))
    for image_id, score in zip(fused.ids, fused.scores, strict=True):
        assert score == pytest.approx(expected[image_id], abs=1e-5)


def test_similarities_are_measured_from_ordinary_pictures_in_units_of_their_spread():
    scored = [listed("words", "a", np.linspace(0.1, 0.21, 12), weight=1.0)]
    (shares,) = shares_of(scored, {("words", "a"): Standing(0.1, 0.02)})
    np.testing.assert_allclose(shares.scores, (scored[0].scores - 0.1) / 0.02, atol=1e-5)
    assert shares.scale == 0.02


def test_a_part_to_avoid_shows_its_similarity_and_not_that_of_its_negated_vector():
    (shown,) = similarities([listed("without", "a", -np.linspace(0, 1.1, 12), weight=1.0)], ["without"])
    assert (shown.ids[0], shown.scores[0]) == (IDS[11], np.float32(1.1))
    assert list(shown.scores) == sorted(shown.scores, reverse=True)


def reference(relevance, vectors, diversity):
    """Maximal marginal relevance, as it is defined."""
    unit, chosen = relevance.max() - relevance.min(), []
    while len(chosen) < len(relevance):
        value = {
            row: (1 - diversity) * relevance[row] / unit
            - diversity * max((max(float(vectors[row] @ vectors[one]), 0.0) for one in chosen), default=0.0)
            for row in range(len(relevance))
            if row not in chosen
        }
        chosen.append(max(value, key=lambda row: value[row]))
    return chosen


@pytest.mark.parametrize("diversity", [0.1, 0.5, 0.9, 1.0])
def test_diversity_is_maximal_marginal_relevance_and_a_share_of_the_score(diversity):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(12, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = np.sort(rng.normal(size=12))[::-1]
    relevant = RankedList("words", "a", 1.0, IDS, relevance.astype(np.float32))
    pool = 9
    lost = diversified(weighted_sum([relevant]), IDS[:pool], vectors[:pool], diversity=diversity)
    fused = weighted_sum([relevant, lost])
    assert [IDS.index(one) for one in fused.ids[:pool]] == reference(relevance[:pool], vectors[:pool], diversity)
    assert fused.ids[pool:] == IDS[pool:]


def test_diversity_of_nothing_is_nothing():
    lost = diversified(FusedList((), np.empty(0)), (), np.empty((0, 3), np.float32), diversity=0.5)
    assert lost.ids == ()


def test_names_are_counted_where_they_are_taken():
    assert [free_name("words", taken) for taken in ((), ("words",), ("words", "words2"))] == ["words", "words2", "words3"]
