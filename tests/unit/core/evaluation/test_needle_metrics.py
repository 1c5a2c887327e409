"""Metrics of one answer against values worked out by hand (NEEDLE, H.3; Winoground)."""

import numpy as np
import pytest

from lodestone.evaluation.needle_metrics import (
    PairScores,
    average_precision,
    effective_positives,
    hard_queries,
    precision,
    ranking_metrics,
    recall,
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


def test_recall_is_of_the_effective_positives() -> None:
    assert recall([1, 2, 50], 4) == 0.75
    assert recall(list(range(1, 13)), 500) == 1.0


def test_precision_looks_at_as_many_results_as_there_are_effective_positives() -> None:
    assert precision([1, 3, 4], 3) == pytest.approx(2 / 3)
    assert precision([1, 10, 11], 80) == 0.2


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
        "recall": 1.0,
        "precision": 0.5,
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
