"""The weights between spaces: bounded, monotone, complete; and those that ship."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lodestone.query.weighting.choice import apply_trust, prior_trust
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.spaces.bridge_weights import BridgeWeights

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
