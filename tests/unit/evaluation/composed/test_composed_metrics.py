"""Metrics of composed queries, against values worked out by hand from the published definitions."""

import numpy as np
import pytest

from lodestone.errors import UnknownNameError
from lodestone_eval.composed.metrics import (
    average_precision,
    depth_of,
    measure,
    recall_at,
    similarity_error,
    trapezoidal_average_precision,
)
from lodestone_eval.composed.queries import ComposedQuery


@pytest.mark.parametrize(
    ("ranked", "right", "k", "wanted", "expected"),
    [
        ("abcd", "c", 1, 1, 0.0),
        ("abcd", "c", 3, 1, 1.0),
        ("abcd", "bd", 4, 1, 1.0),  # any one of two
        ("abcd", "bd", 2, 2, 0.5),
        ("abcd", "bdxyz", 4, 3, 2 / 3),
        ("abcd", "b", 4, 3, 1.0),  # there is only one: all of them are found
        ("abcd", "", 4, 1, 0.0),
        ("", "a", 4, 1, 0.0),
    ],
)
def test_recall_at_k_of_k_is_equation_1(ranked: str, right: str, k: int, wanted: int, expected: float) -> None:
    assert recall_at(list(ranked), frozenset(right), k, wanted=wanted) == pytest.approx(expected)


def test_average_precision_divides_by_what_can_be_found() -> None:
    assert average_precision(list("axbyc"), frozenset("abc"), 5) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert average_precision(list("axbyc"), frozenset("abc"), 2) == pytest.approx(1 / 2)  # min(2, 3) could be found
    assert average_precision(list("xyz"), frozenset("abc"), 5) == 0


def test_trapezoidal_average_precision_is_between_the_precisions_around_a_rank() -> None:
    assert trapezoidal_average_precision(list("abx"), frozenset("ab")) == pytest.approx(1.0, abs=1e-4)
    # ranks 2 and 3: precision rises from 0 to 1/2, and from 1/2 to 2/3
    assert trapezoidal_average_precision(list("xab"), frozenset("ab")) == pytest.approx((1 / 4 + 7 / 12) / 2, abs=1e-4)


def test_similarity_error_is_equation_4_to_the_nearest_right_result() -> None:
    truth = np.array([[1, 0], [0.6, 0.8]], np.float32)
    assert similarity_error(truth, np.array([0, 1], np.float32)) == pytest.approx(1 - 0.8, abs=1e-6)
    assert similarity_error(truth[:1], np.array([0, 1], np.float32)) == pytest.approx(1.0)
    assert similarity_error(truth, truth[1]) == pytest.approx(0.0, abs=1e-6)


def test_a_subset_is_ranked_by_the_same_ranking_and_excluded_pictures_are_not_right() -> None:
    query = ComposedQuery("1", (), ("w",), frozenset("ct"), target="t", subset=frozenset("bst"), excluded=frozenset("c"))
    values = measure(query, list("abst"), ("subset@1", "subset@2", "subset@3", "target@3", "target@4", "recall@4(2)"))
    assert list(values.values()) == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]


def test_the_longest_ranking_that_the_metrics_need_is_known() -> None:
    assert depth_of(["recall@10(1)", "map@50", "target@5"]) == 50
    assert depth_of(["recall@10(1)", "map"]) is None
    assert depth_of(["subset@1"]) is None


@pytest.mark.parametrize("metric", ["recall@10", "recall@0(1)", "map@", "ndcg@5", "subset"])
def test_an_unknown_metric_lists_those_there_are(metric: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        measure(ComposedQuery("1", (), ()), [], [metric])
    assert "recall@10(1)" in caught.value.hint
