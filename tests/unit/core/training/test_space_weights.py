"""The weights between spaces: bounded, monotone, complete, and fitted to what is asked."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.query.weighting.trust import apply_trust, prior_trust
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.trust import ScoredQueries, fit_space_weights, fuse, sure_pictures, trust_of

FITTED = SpaceWeights(middle=0.65, slope=25, named=0.45, floor=0.05, ceiling=0.5, scales={"labels": 0.1, "bridge": 0.2})


def test_trust_rises_with_similarity_between_floor_and_ceiling():
    trust = [FITTED.label_trust(s) for s in (-1.0, 0.3, 0.6, 0.65, 0.7, 1.0)]
    assert trust == sorted(trust)
    assert trust[0] == pytest.approx(0.05, abs=1e-3) and trust[-1] == pytest.approx(0.5, abs=1e-3)
    assert trust[3] == pytest.approx(0.275, abs=1e-3)


def test_words_that_the_bridge_was_never_taught_trust_label_matching_more():
    known, strange = FITTED.label_trust(0.4, 0.7), FITTED.label_trust(0.4, 0.2)
    assert strange - known == pytest.approx(FITTED.strange, abs=0.03)
    assert FITTED.label_trust(1.0, 0.0) == FITTED.ceiling


def test_a_name_that_no_picture_matches_earns_nothing():
    shown, absent = FITTED.label_trust(0.95, 0.7, 0.9), FITTED.label_trust(0.95, 0.7, 0.2)
    assert shown > 0.4 > 0.1 > absent


def test_nothing_but_a_name_gets_mostly_label_matching_where_some_picture_matches_it():
    rule = SpaceWeights()
    trust = [rule.label_trust(0.95, 0.7, 0.9, bareness=near) for near in (0.0, 0.8, 0.93, 0.96, 0.98, 1.0)]
    assert trust == sorted(trust)
    assert trust[0] == pytest.approx(trust[1]) == pytest.approx(rule.label_trust(0.95, 0.7, 0.9))
    assert trust[2] < 0.53 and rule.bare - 0.005 < trust[-1] <= rule.bare
    assert rule.label_trust(0.95, 0.7, 0.1, bareness=1.0) < 0.05
    assert rule.weigh(0.95, 0.7, ["labels", "bridge"], evidence=0.9, bareness=1.0)["bridge"] < 1.005 - rule.bare
    queries = scored("labels", 0.95, seed=2)
    named = replace(queries, bareness=np.ones_like(queries.similarity))
    assert (trust_of(named, rule) > trust_of(queries, rule) + 0.3).all()


def test_weights_sum_to_one_whatever_spaces_are_searched():
    for spaces in (["labels", "bridge"], ["bridge"], ["labels"], ["labels", "bridge", "clip"], ["clip"]):
        weights = FITTED.weigh(0.9, 0.7, spaces)
        assert list(weights) == spaces
        assert sum(weights.values()) == pytest.approx(1)
    assert FITTED.weigh(0.9, 0.7, []) == {}


def test_a_name_trusts_labels_more_than_a_sentence_does():
    name, sentence = (FITTED.weigh(similarity, 0.7, ["labels", "bridge"]) for similarity in (0.95, 0.35))
    assert name["labels"] > 0.45 > 0.1 > sentence["labels"]


def test_only_space_counts_even_without_any_trust():
    assert SpaceWeights(floor=0.0, ceiling=0.0).weigh(0.1, 1.0, ["labels"]) == {"labels": 1.0}


def test_extreme_slopes_do_not_overflow():
    steep = SpaceWeights(slope=1e9, strange_slope=1e9, evidence_slope=1e9, floor=0.0, ceiling=1.0)
    assert steep.label_trust(-1.0, 1.0) == pytest.approx(0)
    assert steep.label_trust(1.0, -1.0) == pytest.approx(steep.named + steep.strange)


def test_unknown_space_has_a_neutral_scale():
    assert FITTED.scale("labels") == 0.1
    assert FITTED.scale("clip") == pytest.approx(0.15)
    assert SpaceWeights().scale("clip") == 1.0


def test_header_round_trip_through_json():
    assert SpaceWeights.from_header(json.loads(json.dumps(FITTED.to_header()))) == FITTED
    assert SpaceWeights.from_header({}) == SpaceWeights()


def scored(right_space: str, similarity: float, *, seed: int) -> ScoredQueries:
    rng = np.random.default_rng(seed)
    queries, pictures = 60, 200
    truth = rng.integers(0, pictures, queries)
    spaces = {name: rng.normal(size=(queries, pictures)).astype(np.float32) for name in ("labels", "bridge")}
    spaces[right_space][np.arange(queries), truth] += 3.5
    near = np.clip(rng.normal(similarity, 0.03, queries), 0, 1).astype(np.float32)
    return ScoredQueries(spaces["labels"], spaces["bridge"], near, np.full(queries, 0.7, np.float32), truth)


def test_fitting_finds_a_rule_that_serves_names_and_captions():
    captions, names = scored("bridge", 0.35, seed=0), scored("labels", 0.85, seed=1)
    rule = fit_space_weights(captions, names)
    assert rule.label_trust(0.35) < 0.15 and rule.label_trust(0.9) >= 0.4
    for queries, wanted in ((captions, 0.85), (names, 0.6)):
        fused = fuse(queries, rule)
        right = fused[np.arange(len(fused)), queries.truth][:, None]
        assert ((fused >= right).sum(1) <= 10).mean() > wanted
    assert set(rule.scales) == {"labels", "bridge"}
    bare = replace(names, bareness=np.ones_like(names.similarity))
    assert fit_space_weights(captions, bare) == rule and rule.bare == SpaceWeights().bare  # what resembles a name decides


def test_sure_pictures_name_each_class_once_by_its_surest_picture():
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1], [0.45, 0.55], [0.5, 0.5]], np.float32)
    classes, pictures = sure_pictures(probabilities)
    assert classes.tolist() == [0, 1] and pictures.tolist() == [1, 2]


def test_what_the_profile_says_of_spaces_counts_by_ratios_until_something_is_learnt():
    assert prior_trust({}, ["a", "b"]) == {}
    assert prior_trust({"c": 2.0}, ["a", "b"]) == {}
    assert prior_trust({"a": 3.0}, ["a", "b"]) == {"a": 1.5, "b": 0.5}
    assert apply_trust({"a": 0.5, "b": 0.5}, prior_trust({"a": 0.3, "b": 0.1}, ["a", "b"])) == pytest.approx(
        {"a": 0.75, "b": 0.25}
    )


def test_what_ships_follows_the_rule_of_the_documentation():
    shipped, rule = SpaceWeights.from_header(BridgeWeights.shipped().query_weights), SpaceWeights()
    assert replace(shipped, scales={}) == rule
    assert rule.label_trust(0.0, 1.0, 1.0) == pytest.approx(0.03, abs=1e-3)
    assert rule.label_trust(0.0, 0.4, 1.0) == pytest.approx(0.03 + 0.15 / 2, abs=1e-3)
    assert rule.label_trust(0.7, 1.0, 1.0) == pytest.approx(0.03 + 0.35 / 2, abs=1e-3)
    assert rule.label_trust(1.0, 0.0, 1.0, bareness=1.0) == pytest.approx(0.7, abs=1e-2)
