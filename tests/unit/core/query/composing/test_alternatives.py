"""Union of the rankings of alternatives: the highest score counts, and deeper searches append to it."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.query.composing.alternatives import united
from lodestone.retrieval.fusion import WEIGHTED_SUM, FusedList, RankedList, fuse_in_tiers
from lodestone.retrieval.searcher import Ranking


def ranking(name: str, found: str, scores: dict[str, float], **others) -> Ranking:
    """A ranking of pictures that are letters: found in this order, with these scores."""
    ids = sorted(scores, key=lambda one: (-scores[one], one))
    completed = RankedList(name, "space", 0.5, tuple(ids), np.array([2 * scores[one] for one in ids], np.float32))
    lists = (RankedList(name, "space", 0.5, tuple(found), np.arange(len(found), 0, -1, np.float32)),)
    return Ranking(FusedList((), np.empty(0)), lists, (), (completed,), **others)


def test_a_picture_has_the_highest_score_of_the_alternatives_that_found_it_and_their_parts_alone():
    made = united([ranking("p", "abc", {"a": 3, "b": 1, "c": 2}), ranking("q", "bd", {"b": 4, "d": 2.5})], [10])
    assert made.fused.ids == ("b", "a", "d", "c")
    assert made.fused.scores.tolist() == pytest.approx([4, 3, 2.5, 2])
    assert {one.guide: one.ids for one in made.completed} == {"p": ("a", "c"), "q": ("b", "d")}
    again = fuse_in_tiers(WEIGHTED_SUM, made.lists, made.completed, depths=[10])
    assert again.ids == made.fused.ids


def test_of_equal_scores_the_first_alternative_counts():
    made = united([ranking("p", "a", {"a": 1}), ranking("q", "a", {"a": 1})], [10])
    assert {one.guide: one.ids for one in made.completed} == {"p": ("a",), "q": ()}


def test_a_deeper_search_appends_and_changes_no_score_before():
    # At depth 1 only the first alternative finds a; at depth 2 the second finds it too, with a higher score.
    alternatives = [ranking("p", "ab", {"a": 3, "b": 1}), ranking("q", "ca", {"c": 2, "a": 9})]
    made = united(alternatives, [1, 2])
    assert made.fused.ids == ("a", "c", "b")
    assert made.fused.scores.tolist() == pytest.approx([3, 2, 1])
    assert united(alternatives, [2]).fused.ids == ("a", "c", "b")
    assert united(alternatives, [2]).fused.scores.tolist() == pytest.approx([9, 2, 1])


def test_nothing_found_is_an_empty_ranking_with_what_was_dropped():
    nothing = Ranking(FusedList((), np.empty(0)), dropped=("space 'labels': out of time",))
    made = united([nothing, nothing], [10, 20])
    assert (made.fused.ids, made.dropped) == ((), ("space 'labels': out of time",))
