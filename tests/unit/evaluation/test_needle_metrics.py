"""Metrics of one answer against values worked out by hand (NEEDLE, H.3; Winoground)."""

from itertools import permutations

import numpy as np
import pytest

from lodestone_eval.needle_metrics import (
    PAIR_CHANCE,
    PairScores,
    average_precision,
    effective_positives,
    hard_queries,
    precision_at,
    precision_at_effective,
    ranking_metrics,
    recall_at,
    recall_of_results,
    reciprocal_rank,
    right_places,
)


def test_no_more_than_ten_right_pictures_are_asked_of_an_answer() -> None:
    assert [effective_positives(total) for total in (1, 9, 10, 11, 4000)] == [1, 9, 10, 10, 10]


def test_a_query_without_a_right_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="right picture"):
        effective_positives(0)


@pytest.mark.parametrize(
    ("places", "total", "expected"),
    [
        ([3], 1, 1 / 3),
        ([], 1, 0.0),
        ([1, 3, 6], 3, (1 / 1 + 2 / 3 + 3 / 6) / 3),
        ([1, 3], 3, (1 / 1 + 2 / 3) / 3),  # the third was not found
        (list(range(1, 13)), 25, 1.0),  # ten are enough
        (list(range(2, 25, 2)), 25, 0.5),  # i / 2i, ten times; the eleventh and twelfth do not count
        ([1, 60], 40, (1 + 2 / 60) / 10),
    ],
)
def test_average_precision_is_over_the_effective_positives(places: list[int], total: int, expected: float) -> None:
    assert average_precision(places, total) == pytest.approx(expected)


def test_recall_at_ten_is_the_papers() -> None:
    """H.3: the number of right results among the first ten, divided by ep = min(10, C)."""
    assert recall_at([1, 4, 10, 11, 40], 25) == pytest.approx(3 / 10)
    assert recall_at([1, 4, 10, 11], 4) == pytest.approx(3 / 4)
    assert recall_at([2], 1) == 1.0
    assert recall_at([11], 1) == 0.0


def test_precision_at_ten_is_the_papers() -> None:
    """H.3: the same number divided by ten, however many pictures are right."""
    assert precision_at([1, 4, 10, 11, 40]) == pytest.approx(0.3)
    assert precision_at([1]) == pytest.approx(0.1)


def test_recall_of_sixty_is_of_the_effective_positives() -> None:
    assert recall_of_results([1, 2, 50], 4) == 0.75
    assert recall_of_results(list(range(1, 13)), 500) == 1.0


def test_precision_at_ep_looks_at_as_many_results_as_there_are_effective_positives() -> None:
    assert precision_at_effective([1, 3, 4], 3) == pytest.approx(2 / 3)
    assert precision_at_effective([1, 10, 11], 80) == 0.2


def test_the_reciprocal_rank_is_of_the_first_right_result() -> None:
    assert reciprocal_rank([4, 5]) == 0.25
    assert reciprocal_rank([]) == 0.0


@pytest.mark.parametrize("metric", PAIR_CHANCE)
def test_random_scores_reach_the_chance_level_of_each_pair_metric(metric: str) -> None:
    """Every order of the four scores is equally likely: the chance level is the mean over all 24 of them."""
    orders = [np.array(order, np.float64).reshape(2, 2) for order in permutations(range(4))]
    assert np.mean([PairScores(scores).metrics()[metric] for scores in orders]) == pytest.approx(PAIR_CHANCE[metric])


def test_only_sixty_results_count() -> None:
    ranked = [f"{place}" for place in range(1, 101)]
    assert right_places(ranked, {"60", "61"}) == [60]


def test_pictures_that_nobody_judged_are_passed_over() -> None:
    ranked = [f"unknown{place}" for place in range(70)] + ["wrong", "right"]
    assert right_places(ranked, {"right"}) == []
    assert right_places(ranked, {"right"}, judged={"right", "wrong"}) == [2]


def test_all_metrics_of_one_query_by_hand() -> None:
    assert ranking_metrics([2, 4], 2) == {
        "map": (1 / 2 + 2 / 4) / 2,
        "r@10": 1.0,
        "p@10": 0.2,
        "recall@60": 1.0,
        "precision@ep": 0.5,
        "mrr": 0.5,
        "hit@1": 0.0,
        "hit@10": 1.0,
    }
    assert set(ranking_metrics([], 3).values()) == {0.0}


@pytest.mark.parametrize(
    ("scores", "pairing", "image", "text", "group"),
    [
        ([[0.9, 0.1], [0.2, 0.8]], 1.0, 1, 1, 1),
        ([[0.9, 0.8], [0.1, 0.2]], 1.0, 1, 0, 0),  # picture 1 prefers caption 0
        ([[0.6, 0.7], [0.2, 0.9]], 0.5, 0, 1, 0),  # caption 0 prefers picture 1
        ([[0.5, 0.5], [0.5, 0.5]], 0.0, 0, 0, 0),  # a tie is no win
        ([[-np.inf, -np.inf], [0.1, 0.2]], 0.5, 0, 0, 0),  # nothing was found for caption 0
    ],
)
def test_pairs_are_scored_as_winoground_does(
    scores: list[list[float]], pairing: float, image: int, text: int, group: int
) -> None:
    found = PairScores(np.array(scores)).metrics()
    assert found == {"pairing": pairing, "image": image, "text": text, "group": group}


def test_hard_queries_are_those_that_the_baseline_answers_with_less_than_half() -> None:
    assert hard_queries({"easy": 1.0, "half": 0.5, "hard": 0.49, "lost": 0.0}) == {"hard", "lost"}
