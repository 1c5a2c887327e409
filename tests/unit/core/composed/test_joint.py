"""Joint similarity: the weighted sum of the parts, renormalised where a picture lacks a modality."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.composed.joint import JointPart, part_scores, scores
from lodestone.errors import InvalidRequestError

_A = np.array([1.0, 0.0], np.float32)
_B = np.array([0.0, 1.0, 0.0], np.float32)


def _vectors() -> dict[str, np.ndarray]:
    look = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], np.float32)
    captions = np.array([[0.0, 0.6, 0.8], [0.0, 1.0, 0.0], [np.nan] * 3], np.float32)
    return {"look": look, "captions": captions}


def test_the_score_is_the_weighted_sum_of_the_similarities() -> None:
    parts = [JointPart("picture", "look", _A, 0.25), JointPart("words", "captions", _B, 0.75)]
    assert scores(parts, _vectors())[:2] == pytest.approx([0.25 * 1 + 0.75 * 0.6, 0.25 * 0.6 + 0.75 * 1])


def test_a_picture_without_a_modality_is_scored_by_the_others_alone() -> None:
    parts = [JointPart("picture", "look", _A, 0.25), JointPart("words", "captions", _B, 0.75)]
    assert scores(parts, _vectors())[2] == pytest.approx(0.8)


def test_a_picture_with_nothing_to_compare_has_no_score() -> None:
    assert np.isnan(scores([JointPart("words", "captions", _B, 1.0)], _vectors())[2])


def test_parts_of_weight_zero_count_for_nothing() -> None:
    alone = scores([JointPart("picture", "look", _A, 1.0)], _vectors())
    beside = scores([JointPart("picture", "look", _A, 1.0), JointPart("words", "captions", _B, 0.0)], _vectors())
    np.testing.assert_array_equal(alone, beside)
    with pytest.raises(InvalidRequestError, match="no part"):
        scores([JointPart("words", "captions", _B, 0.0)], _vectors())


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_part_of_no_possible_weight_is_refused(weight: float) -> None:
    with pytest.raises(InvalidRequestError):
        JointPart("words", "captions", _B, weight)


@pytest.mark.parametrize("vector", [np.zeros(2, np.float32), np.array([np.nan, 1], np.float32), np.ones((1, 2), np.float32)])
def test_a_part_without_a_direction_is_refused(vector: np.ndarray) -> None:
    with pytest.raises(InvalidRequestError):
        JointPart("picture", "look", vector, 1.0)


def test_vectors_of_another_length_or_space_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="3 numbers"):
        part_scores([JointPart("picture", "look", _B, 1.0)], _vectors())
    with pytest.raises(InvalidRequestError, match="no vectors"):
        part_scores([JointPart("face", "faces", _A, 1.0)], _vectors())
