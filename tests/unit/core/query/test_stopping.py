"""Adaptive stopping: draws on while the first results move, stops when they stand, and never beyond the bound."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError
from lodestone.query.guides.stopping import LEAST, PATIENCE, StableTopK, guides_bound, overlap

FIRST = tuple("abcdefghij")
OTHER = tuple("klmnopqrst")


def feed(stable: StableTopK, rankings: list[tuple[str, ...]]) -> int | None:
    """Guides at the first stop; the text pass comes first."""
    for guides, ranking in enumerate(rankings):
        if stable.update(ranking, guides=guides):
            return guides
    return None


def test_results_that_never_change_stop_at_the_least_number_of_guides() -> None:
    stable = StableTopK()
    assert feed(stable, [FIRST] * 10) == max(LEAST, PATIENCE)
    assert stable.reason == "stable"


def test_results_that_change_every_time_are_drawn_to_the_bound() -> None:
    stable = StableTopK(bound=7)
    assert feed(stable, [FIRST, OTHER] * 10) == 7
    assert stable.reason == "bound"


def test_without_a_bound_changing_results_never_stop() -> None:
    assert feed(StableTopK(), [FIRST, OTHER] * 50) is None


def test_a_change_starts_the_count_again() -> None:
    calm = [FIRST] * 3
    assert feed(StableTopK(patience=3, least=1), [*calm, OTHER, OTHER, OTHER, OTHER]) == 6


def test_only_the_first_k_results_count() -> None:
    rankings = [(*FIRST, str(number)) for number in range(10)]
    assert feed(StableTopK(k=10), rankings) == max(LEAST, PATIENCE)
    assert feed(StableTopK(k=11, agreement=1.0), rankings) is None


def test_swapping_the_last_places_is_calm_and_swapping_the_first_is_not() -> None:
    last = (*FIRST[:8], FIRST[9], FIRST[8])
    first = (FIRST[1], FIRST[0], *FIRST[2:])
    assert feed(StableTopK(), [FIRST, last] * 5) == max(LEAST, PATIENCE)
    assert feed(StableTopK(agreement=0.95), [FIRST, first] * 5) is None


def test_nothing_is_stable_before_the_least_number_of_guides() -> None:
    assert feed(StableTopK(patience=1, least=5), [FIRST] * 10) == 5


def test_one_calm_round_of_two_guides_counts_as_two_rounds_of_one() -> None:
    stable = StableTopK(patience=2, least=1)
    assert not stable.update(FIRST, guides=0)
    assert stable.update(FIRST, guides=2)


def test_a_round_without_new_guides_says_nothing() -> None:
    stable = StableTopK(patience=1, least=0)
    assert not stable.update(FIRST, guides=0)
    assert not stable.update(FIRST, guides=0)
    assert stable.agreements == []


def test_stopped_is_stopped() -> None:
    stable = StableTopK(patience=1, least=1)
    assert feed(stable, [FIRST, FIRST]) == 1
    assert stable.update(OTHER, guides=2)
    assert stable.reason == "stable"


def test_empty_rankings_are_equal() -> None:
    assert feed(StableTopK(patience=1, least=1), [(), ()]) == 1


def test_overlap_is_one_for_the_same_and_zero_for_nothing_in_common() -> None:
    assert overlap(FIRST, FIRST, 10) == pytest.approx(1.0)
    assert overlap(FIRST, OTHER, 10) == 0.0
    assert overlap(FIRST, (), 10) == 0.0


def test_overlap_by_hand() -> None:
    # depth 1: 0 of 1, depth 2: both, weights 1 and .9
    assert overlap(("a", "b"), ("b", "a"), 10) == pytest.approx(0.9 / 1.9)


def test_the_bound_of_theorem_one_holds() -> None:
    """Means of so many uniform scores are all as near to their expectation as promised, as often as promised."""
    epsilon, delta, candidates = 0.2, 0.1, 5
    guides = guides_bound(epsilon, delta, candidates=candidates, spread=1.0)
    assert guides == 58  # ln(100) / (2 * .04)
    means = np.random.default_rng(0).random((2000, guides, candidates)).mean(1)
    assert (np.abs(means - 0.5).max(1) >= epsilon).mean() <= delta


def test_the_bound_grows_with_what_is_asked() -> None:
    usual = guides_bound(0.1, 0.05)
    assert guides_bound(0.05, 0.05) >= 4 * usual - 4
    assert guides_bound(0.1, 0.01) > usual
    assert guides_bound(0.1, 0.05, candidates=100) > usual
    assert guides_bound(0.1, 0.05, spread=1.0) < usual


@pytest.mark.parametrize(
    ("epsilon", "delta", "candidates", "spread"),
    [(0, 0.1, 1, 1), (0.1, 0, 1, 1), (0.1, 1, 1, 1), (0.1, 0.1, 0, 1), (0.1, 0.1, 1, 0)],
)
def test_a_bound_for_impossible_demands_is_refused(epsilon: float, delta: float, candidates: int, spread: float) -> None:
    with pytest.raises(InvalidRequestError):
        guides_bound(epsilon, delta, candidates=candidates, spread=spread)


@pytest.mark.parametrize("parameters", [{"k": 0}, {"patience": 0}, {"agreement": 0.0}, {"agreement": 1.1}])
def test_parameters_out_of_range_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError):
        StableTopK(**parameters)  # type: ignore[arg-type]
