"""The methods that the benchmark of composed queries compares answer what they are said to answer."""

import numpy as np
import pytest
from benchmarks.query.composed_data import joint_scores, made, unit
from benchmarks.query.composed_methods import K, abandoning, asked, best, by_ranks, exact, exact_intersected, fused
from benchmarks.query.composed_search import Point, rate_at

DATA = made(500, 8, dim=16, strength=1.0)


def test_intersection_keeps_what_all_lists_have_in_the_order_of_the_ranks_and_no_more_than_ten() -> None:
    assert by_ranks([[4, 1, 2, 3], [3, 2, 1, 9]]) == [1, 2, 3]  # sums of ranks 3, 3 and 3: equal ones by number
    assert by_ranks([[1, 2], [3, 4]]) == []
    assert by_ranks([list(range(30)), list(range(30))]) == list(range(K))


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.5, 1.0])
def test_fused_vectors_have_the_joint_similarity_under_any_roots(weight: float) -> None:
    wanted = joint_scores(DATA, weight)
    for roots in ((0.5, 0.5), (0.2, 0.8)):
        np.testing.assert_allclose(asked(DATA, weight, roots) @ fused(DATA, roots).T, wanted, atol=1e-5)


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_exact_methods_find_the_true_neighbours(weight: float) -> None:
    for row, scores in enumerate(joint_scores(DATA, weight)):
        truth = best(scores, K)
        assert list(exact(DATA, weight)(row, 0)) == truth
        assert list(abandoning(DATA, weight)(row, 0)) == truth


def test_intersection_of_everything_is_ordered_by_ranks_and_not_by_weights() -> None:
    found = exact_intersected(DATA)(0, len(DATA.parts[0]))
    assert len(found) == K
    assert list(found) != best(joint_scores(DATA, 0.2)[0], K)


def test_the_rate_at_a_recall_is_the_highest_of_those_that_reach_it() -> None:
    points = [Point(1, 0.5, 900), Point(2, 0.98, 300), Point(3, 0.99, 400)]
    assert (rate_at(points, 0.4), rate_at(points, 0.98), rate_at(points, 0.999)) == (900, 400, 0)


def test_made_up_objects_are_the_same_for_the_same_seed_and_of_length_1() -> None:
    again = made(500, 8, dim=16, strength=1.0)
    np.testing.assert_array_equal(again.parts[0], DATA.parts[0])
    np.testing.assert_allclose(np.linalg.norm(DATA.composition, axis=1), 1, atol=1e-6)
    assert unit(np.ones((1, 4))).dtype == np.float32
