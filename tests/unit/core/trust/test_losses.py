"""A space's loss is high where its own list misled the answer, and weights follow losses by the rule."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.traces import ranked, trace_of_scores

from lodestone.retrieval.fusion import RankedList
from lodestone.trust.losses import judge
from lodestone.trust.rule import learnt, learnt_by_needle, reciprocal_rank_losses, relative

GOOD = {"right": 1.0, "wrong": 0.0, "other": 0.2}
BAD = {"right": 0.0, "wrong": 1.0, "other": 0.2}
FLAT = {"right": 0.5, "wrong": 0.5, "other": 0.2}


def test_the_space_that_ordered_the_pair_right_loses_least() -> None:
    found = judge(trace_of_scores("q", {"good": GOOD, "bad": BAD, "flat": FLAT}), ["right"], ["wrong"])
    assert found.ignored == []
    assert 0 <= found.losses["good"] < found.losses["flat"] < found.losses["bad"] <= 1
    assert found.losses["flat"] == pytest.approx((found.losses["good"] + found.losses["bad"]) / 2)


def test_a_pair_that_the_answer_ordered_well_teaches_little() -> None:
    scores = {"good": GOOD, "bad": BAD}
    wrong_answer = judge(trace_of_scores("q", scores, weights={"good": 0.2, "bad": 0.8}), ["right"], ["wrong"]).losses
    right_answer = judge(trace_of_scores("q", scores, weights={"good": 0.9, "bad": 0.1}), ["right"], ["wrong"]).losses
    assert right_answer["bad"] - right_answer["good"] < 0.5 * (wrong_answer["bad"] - wrong_answer["good"])


def test_ids_that_were_not_found_are_ignored_and_named() -> None:
    trace = trace_of_scores("q", {"good": GOOD, "bad": BAD})
    found = judge(trace, ["stranger", "right"], ["wrong", "alien", "alien"])
    assert found.ignored == ["stranger", "alien"]
    assert found.losses == judge(trace, ["right"], ["wrong"]).losses
    assert judge(trace, ["stranger"], ["alien"]).losses == {}


def test_pictures_that_were_shown_stand_in_for_the_side_that_was_not_judged() -> None:
    trace = trace_of_scores("q", {"good": GOOD, "bad": BAD})
    for losses in (judge(trace, ["right"], []).losses, judge(trace, [], ["wrong"]).losses):
        assert losses["good"] < losses["bad"]
    one_shown = replace(trace, hits=("right", "wrong"))
    assert judge(one_shown, ["right"], []).losses == judge(trace, ["right"], ["wrong"]).losses
    assert judge(trace, ["right", "wrong", "other"], []).losses == {}


def test_lists_that_trust_does_not_weigh_have_no_loss_but_count_in_the_answer() -> None:
    trace = trace_of_scores("q", {"good": GOOD, "bad": BAD})
    tagged = replace(trace, completed=(*trace.completed, ranked("tags", {"right": 5.0, "wrong": 0.0}, weight=1.0)))
    plain, with_tags = (judge(one, ["right"], ["wrong"]).losses for one in (trace, tagged))
    assert set(with_tags) == {"good", "bad"}
    assert with_tags["bad"] - with_tags["good"] < plain["bad"] - plain["good"]


def test_a_space_that_was_left_out_has_no_loss() -> None:
    trace = trace_of_scores("q", {"good": GOOD, "bad": BAD})
    late = replace(trace, completed=trace.completed[:1], lists=trace.lists[:1])
    assert set(judge(late, ["right"], ["wrong"]).losses) == {"good"}
    empty = replace(trace, completed=(), lists=())
    assert judge(empty, ["right"], ["wrong"]).losses == {}


def test_fusions_by_rank_judge_a_space_by_all_its_lists() -> None:
    def by_rank(guide: str, space: str, *ids: str) -> RankedList:
        return RankedList(guide, space, 0.5, ids, np.linspace(1, 0.5, len(ids), dtype=np.float32))

    lists = (
        by_rank("text", "good", "right", "other"),
        by_rank("engine/0", "good", "right", "wrong"),
        by_rank("text", "bad", "wrong", "other"),
        by_rank("engine/0", "bad", "wrong", "right"),
    )
    trace = replace(trace_of_scores("q", {"good": GOOD, "bad": BAD}), fusion="rrf", lists=lists, completed=lists)
    losses = judge(trace, ["right"], ["wrong"]).losses
    assert losses["good"] == 0 < losses["bad"]


# The rule


def test_weights_shrink_by_the_exponential_of_eta_times_loss() -> None:
    weights = learnt({"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 1.0}, eta=0.5, lowest={"a": 0.1, "b": 0.1})
    assert weights["b"] / weights["a"] == pytest.approx(math.exp(-0.5))
    assert sum(weights.values()) == pytest.approx(2.0)


def test_spaces_that_were_not_judged_keep_their_weight() -> None:
    weights = learnt({"a": 1.0, "b": 1.0, "c": 0.7}, {"a": 0.0, "b": 1.0}, eta=1.0, lowest={"a": 0.1, "b": 0.1})
    assert weights["c"] == 0.7
    assert learnt({"a": 1.0, "b": 0.3}, {"a": 1.0}, eta=1.0, lowest={"a": 0.1}) == {"a": 1.0, "b": 0.3}


def test_no_space_falls_below_its_floor_and_it_can_come_back() -> None:
    weights = dict.fromkeys("abc", 1.0)
    lowest = dict.fromkeys("abc", 0.1)
    for _ in range(100):
        weights = learnt(weights, {"a": 0.0, "b": 1.0, "c": 0.9}, eta=1.0, lowest=lowest)
    assert weights == pytest.approx({"a": 2.8, "b": 0.1, "c": 0.1})
    for _ in range(100):
        weights = learnt(weights, {"a": 1.0, "b": 0.0, "c": 0.9}, eta=1.0, lowest=lowest)
    assert weights == pytest.approx({"a": 0.1, "b": 2.8, "c": 0.1})


def test_weights_are_shown_with_mean_one_and_new_spaces_start_from_their_prior() -> None:
    assert relative({}, ["b", "a"], {}) == {"a": 1.0, "b": 1.0}
    assert relative({}, ["a", "b"], {"a": 3.0}) == {"a": 1.5, "b": 0.5}
    assert relative({"a": 3.0, "gone": 9.0}, ["a", "new"], {}) == {"a": 1.5, "new": 0.5}
    assert relative({}, [], {}) == {}


# NEEDLE's own rule


def test_needles_loss_is_the_sum_of_reciprocal_ranks_of_wrong_results() -> None:
    """Eq. 5: a wrong picture at places 1 and 4 of two guides' lists, another at place 2 of one list of the other space."""
    assert reciprocal_rank_losses([("a", 1), ("a", 4), ("b", 2)]) == {"a": 1.25, "b": 0.5}
    assert reciprocal_rank_losses([]) == {}


def test_needles_rule_takes_eta_times_the_loss_from_each_weight_and_scales_to_one() -> None:
    """E.1: w (1 - eta loss), by hand: .5 (1 - .2 * 1.25) = .375, .3 (1 - .2 * .5) = .27, .2 stays; the sum is .845."""
    weights = learnt_by_needle({"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 1.25, "b": 0.5}, eta=0.2)
    assert weights == pytest.approx({"a": 0.375 / 0.845, "b": 0.27 / 0.845, "c": 0.2 / 0.845})


def test_a_loss_that_would_turn_a_weight_negative_takes_all_of_it() -> None:
    assert learnt_by_needle({"a": 0.5, "b": 0.5}, {"a": 30.0}, eta=0.1) == {"a": 0.0, "b": 1.0}
    assert learnt_by_needle({"a": 0.5, "b": 0.5}, {"a": 30.0, "b": 40.0}, eta=0.1) == {"a": 0.5, "b": 0.5}
