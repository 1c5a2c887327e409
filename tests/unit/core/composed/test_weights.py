"""Weights of modalities: squares that sum to 1, their roots, their floor, and what is refused."""

from __future__ import annotations

import math

import pytest

from lodestone.composed.weights import ModalityWeights
from lodestone.errors import InvalidRequestError


def test_amounts_are_normalised_and_roots_are_theirs() -> None:
    weights = ModalityWeights.of({"picture": 2.0, "words": 6.0})
    assert dict(weights) == pytest.approx({"picture": 0.25, "words": 0.75})
    assert weights.root("picture") == pytest.approx(0.5)


def test_amounts_near_the_largest_float_do_not_overflow() -> None:
    assert dict(ModalityWeights.of({"a": 1e308, "b": 1e308})) == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("amounts", [{"a": math.nan}, {"a": math.inf}, {"a": -0.1, "b": 1.0}, {"a": 0.0, "b": 0.0}, {}])
def test_what_are_no_weights_is_refused(amounts: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        ModalityWeights.of(amounts)
    assert refused.value.hint


def test_weights_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not to 1"):
        ModalityWeights({"a": 0.4, "b": 0.5})


def test_a_query_without_a_modality_shares_its_weight_among_the_others() -> None:
    weights = ModalityWeights.of({"a": 0.2, "b": 0.2, "c": 0.6})
    assert dict(weights.among({"a", "b"}) or {}) == pytest.approx({"a": 0.5, "b": 0.5})
    assert weights.among({"d"}) is None
