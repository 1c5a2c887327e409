"""Metrics on rankings worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.retrieval.metrics import (
    average_precision,
    first_ranks,
    precision_at,
    recall_at,
    reciprocal_rank,
)

RANKED = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)


def test_metrics_by_hand():
    np.testing.assert_allclose(recall_at(RANKED, 2), [0.5, 0, 0])
    np.testing.assert_allclose(recall_at(RANKED, 2, totals=np.array([4, 1, 0])), [0.25, 0, 0])
    np.testing.assert_allclose(precision_at(RANKED, 4), [0.5, 0.25, 0])
    np.testing.assert_allclose(precision_at(RANKED, 8), [0.25, 0.125, 0])  # missing results are wrong ones
    np.testing.assert_allclose(average_precision(RANKED), [(1 + 2 / 3) / 2, 0.25, 0])
    np.testing.assert_allclose(reciprocal_rank(RANKED), [1, 0.25, 0])


def test_constant_scores_earn_nothing():
    ranks = first_ranks(np.zeros((3, 50), np.float32), np.array([0, 10, 49]))
    assert ranks.tolist() == [50, 50, 50]
    assert first_ranks(np.array([[0.2, 0.9, 0.4]], np.float32), np.array([2])).tolist() == [2]


def test_k_below_one_is_refused():
    for metric in (recall_at, precision_at):
        with pytest.raises(ValueError, match="at least 1"):
            metric(RANKED, 0)
