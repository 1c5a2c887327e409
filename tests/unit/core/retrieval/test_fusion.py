"""Fusion: the papers' formulas, and what must hold of every fusion."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodestone.errors import UnknownNameError
from lodestone.retrieval.fusion import (
    FUSIONS,
    NEED_ALL_SCORES,
    RankedList,
    _log_former_name,
    contributions,
    current_name,
    find_fusion,
    fuse_in_tiers,
    mean_distance,
    rrf,
    weighted_reciprocal_rank,
)


def ranked(ids, *, guide="text", space="a", weight=1.0, scores=None, scale=1.0):
    given_scores = np.linspace(1, 0.1, len(ids)) if scores is None else scores
    return RankedList(guide, space, weight, tuple(ids), np.asarray(given_scores, np.float32), scale)


@st.composite
def complete_lists(draw, *, complete=False):
    pool = [f"id{number:02}" for number in range(12)]
    lists = []
    for number in range(draw(st.integers(1, 5))):
        ids = draw(st.permutations(pool))
        kept = len(pool) if complete else draw(st.integers(0, len(pool)))
        scores = sorted(draw(st.lists(st.floats(-1, 1, width=32), min_size=kept, max_size=kept)), reverse=True)
        lists.append(
            ranked(
                ids[:kept],
                space=f"s{number}",
                weight=draw(st.floats(0, 3)),
                scores=scores,
                scale=draw(st.floats(0.05, 2)),
            )
        )
    return lists


def test_weighted_reciprocal_rank_is_the_weighted_sum_of_reciprocal_ranks():
    fused = weighted_reciprocal_rank([ranked("abc", weight=2.0), ranked("cab", space="b", weight=0.5)])
    assert fused.ids == ("a", "b", "c")
    np.testing.assert_allclose(fused.scores, [2 + 0.25, 1 + 0.5 / 3, 2 / 3 + 0.5])


def test_rrf_adds_its_constant_to_every_rank():
    fused = rrf([ranked("ab"), ranked("b", space="b")], k=1)
    assert fused.ids == ("b", "a")
    np.testing.assert_allclose(fused.scores, [1 / 3 + 1 / 2, 1 / 2])


def test_mean_distance_divides_by_the_scale_and_averages_by_weight():
    lists = [
        ranked("ab", scores=[0.4, 0.2], scale=0.1, weight=1.0),
        ranked("ba", space="b", scores=[0.9, 0.3], scale=0.5, weight=3.0),
    ]
    fused = mean_distance(lists)
    assert fused.ids == ("b", "a")
    np.testing.assert_allclose(fused.scores, [(2 + 3 * 1.8) / 4, (4 + 3 * 0.6) / 4], rtol=1e-6)


def test_a_candidate_without_a_score_counts_as_the_lists_last():
    fused = mean_distance([ranked("ab", scores=[0.9, 0.2]), ranked("ca", space="b", scores=[0.8, 0.6])])
    assert dict(zip(fused.ids, np.round(fused.scores, 6), strict=True)) == {"a": 0.75, "c": 0.5, "b": 0.4}


def test_equal_scores_stand_by_ascending_id():
    for fusion in FUSIONS.values():
        assert fusion([ranked("ba", scores=[0.5, 0.5]), ranked("ab", space="b", scores=[0.5, 0.5])]).ids == ("a", "b")


@pytest.mark.parametrize("name", FUSIONS)
def test_nothing_found_fuses_to_nothing(name):
    assert len(FUSIONS[name]([])) == 0
    assert len(FUSIONS[name]([ranked(""), ranked("ab", weight=0.0)])) == 0


@pytest.mark.parametrize("name", FUSIONS)
@given(data=st.data())
def test_the_order_of_the_lists_changes_nothing(name, data):
    lists = data.draw(complete_lists())
    shuffled = data.draw(st.permutations(lists))
    one, other = FUSIONS[name](lists), FUSIONS[name](shuffled)
    assert one.ids == other.ids
    assert one.scores.tolist() == other.scores.tolist()


@pytest.mark.parametrize("name", FUSIONS)
@given(lists=complete_lists())
def test_lists_of_weight_zero_are_ignored_and_inputs_stay_as_they_were(name, lists):
    before = [(one.ids, one.scores.copy()) for one in lists]
    extra = ranked(["zz", "id01"], space="extra", weight=0.0)
    one, other = FUSIONS[name](lists), FUSIONS[name]([extra, *lists])
    assert one.ids == other.ids
    assert one.scores.tolist() == other.scores.tolist()
    for (ids, scores), now in zip(before, lists, strict=True):
        assert now.ids == ids
        assert now.scores.tolist() == scores.tolist()


@pytest.mark.parametrize("name", FUSIONS)
@given(lists=complete_lists())
def test_the_answer_holds_each_candidate_once_and_scores_descend(name, lists):
    fused = FUSIONS[name](lists)
    assert sorted(fused.ids) == sorted(set().union(*(one.ids for one in lists if one.weight > 0)))
    assert (np.diff(fused.scores) <= 0).all()


@pytest.mark.parametrize("name", FUSIONS)
@given(lists=complete_lists(complete=True), data=st.data())
def test_moving_up_in_one_list_never_lowers_a_picture(name, lists, data):
    row = data.draw(st.integers(0, len(lists) - 1))
    place = data.draw(st.integers(1, len(lists[row].ids) - 1))
    ids = list(lists[row].ids)
    raised = ids[place]
    ids[place - 1], ids[place] = ids[place], ids[place - 1]
    better = [*lists[:row], replace(lists[row], ids=tuple(ids)), *lists[row + 1 :]]
    before, after = FUSIONS[name](lists), FUSIONS[name](better)
    if before.ids:
        assert after.ids.index(raised) <= before.ids.index(raised)


def test_an_unknown_fusion_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError) as raised:
        find_fusion("borda")
    assert raised.value.details["known"] == sorted(FUSIONS)


def test_a_former_name_finds_the_fusion_and_is_logged_once(caplog):
    assert find_fusion("needle") is weighted_reciprocal_rank
    _log_former_name.cache_clear()
    assert [current_name("needle") for _ in range(3)] == ["weighted_reciprocal_rank"] * 3
    assert current_name("rrf") == "rrf"
    assert [record.message for record in caplog.records] == [
        "fusion 'needle' is now called 'weighted_reciprocal_rank'; use the new name"
    ]


@pytest.mark.parametrize("name", FUSIONS)
def test_searching_deeper_only_appends(name):
    rng = np.random.default_rng(3)
    pool = [f"{number:03}" for number in range(120)]
    full = [
        ranked(
            rng.permutation(pool).tolist(), space=f"s{number}", weight=1 + number, scores=np.sort(rng.normal(size=120))[::-1]
        )
        for number in range(3)
    ]
    answers = {}
    for depths in ([10], [10, 20], [10, 20, 40]):
        found = [replace(one, ids=one.ids[: depths[-1]], scores=one.scores[: depths[-1]]) for one in full]
        union = set().union(*(one.ids for one in found))
        rows = [[row for row, image_id in enumerate(one.ids) if image_id in union] for one in full]
        completed = [
            replace(one, ids=tuple(one.ids[row] for row in kept), scores=one.scores[kept])
            for one, kept in zip(full, rows, strict=True)
        ]
        answers[len(depths)] = fuse_in_tiers(name, found, completed if name in NEED_ALL_SCORES else found, depths=depths)
    for shallow, deep in ((1, 2), (2, 3)):
        length = len(answers[shallow])
        assert len(answers[deep]) > length
        assert answers[deep].ids[:length] == answers[shallow].ids
    assert (np.diff(answers[3].scores) <= 0).all()


def test_contributions_name_the_lists_in_which_a_picture_stood():
    lists = [ranked("ab", weight=0.5), ranked("bc", guide="exemplar/0", space="b"), ranked("b", space="c", weight=0.0)]
    found = contributions(lists, "b")
    assert [(one.guide, one.space, one.rank, one.weight) for one in found] == [
        ("exemplar/0", "b", 1, 1.0),
        ("text", "a", 2, 0.5),
    ]
