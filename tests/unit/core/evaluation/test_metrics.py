"""Metrics on rankings worked out by hand, and the split that figures are published on."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.evaluation.metrics import (
    average_precision,
    bootstrap,
    first_ranks,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
    relevance,
)
from lodestone.evaluation.splits import held_out, split_by_hash

RANKED = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)


def test_metrics_by_hand():
    np.testing.assert_allclose(recall_at(RANKED, 2), [0.5, 0, 0])
    np.testing.assert_allclose(recall_at(RANKED, 2, totals=np.array([4, 1, 0])), [0.25, 0, 0])
    np.testing.assert_allclose(precision_at(RANKED, 4), [0.5, 0.25, 0])
    np.testing.assert_allclose(precision_at(RANKED, 8), [0.25, 0.125, 0])  # missing results are wrong ones
    np.testing.assert_allclose(average_precision(RANKED), [(1 + 2 / 3) / 2, 0.25, 0])
    np.testing.assert_allclose(reciprocal_rank(RANKED), [1, 0.25, 0])


def test_ndcg_by_hand_and_perfect_order():
    gains = np.array([[0.0, 3.0, 1.0]])
    expected = (3 / np.log2(3) + 1 / 2) / (3 + 1 / np.log2(3))
    np.testing.assert_allclose(ndcg_at(gains, 3), [expected])
    np.testing.assert_allclose(ndcg_at(np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), 3), [1, 0])
    np.testing.assert_allclose(ndcg_at(gains, 1, ideal=np.array([[1.0, 3.0, 0.0, 5.0]])), [0])


def test_relevance_orders_by_score_and_keeps_ties_in_place():
    scores = np.array([[0.1, 0.9, 0.5, 0.5]], np.float32)
    truth = np.array([[True, False, False, True]])
    assert relevance(scores, truth).tolist() == [[False, False, True, True]]


def test_constant_scores_earn_nothing():
    ranks = first_ranks(np.zeros((3, 50), np.float32), np.array([0, 10, 49]))
    assert ranks.tolist() == [50, 50, 50]
    assert first_ranks(np.array([[0.2, 0.9, 0.4]], np.float32), np.array([2])).tolist() == [2]


def test_k_below_one_is_refused():
    for metric in (recall_at, precision_at):
        with pytest.raises(ValueError, match="at least 1"):
            metric(RANKED, 0)


def test_bootstrap_is_repeatable_covers_the_mean_and_narrows():
    rng = np.random.default_rng(0)
    few, many = rng.random(50), rng.random(5000)
    assert bootstrap(few) == bootstrap(few)
    for values in (few, many):
        estimate = bootstrap(values)
        assert estimate.mean == pytest.approx(values.mean())
        assert estimate.low < estimate.mean < estimate.high
    assert bootstrap(many).high - bootstrap(many).low < (bootstrap(few).high - bootstrap(few).low) / 4
    with pytest.raises(ValueError, match="needs values"):
        bootstrap(np.array([]))


def test_split_has_the_stated_sizes_no_overlap_and_ignores_order():
    names = [f"{i}.jpg" for i in range(6000)]
    split = split_by_hash(names)
    assert [len(p) for p in (split.train, split.validation, split.test)] == [4500, 500, 1000]
    assert set(split.train) | set(split.validation) | set(split.test) == set(names)
    assert split_by_hash([*reversed(names), *names[:10]]) == split
    assert split.digests["test"] == "c87aec433d45637b39f7abb603edde78dd8f2739fad05f4394d48622af229522"


def test_held_out_share_is_stable_when_the_set_grows():
    small, large = held_out((f"{i}" for i in range(500)), 0.1), held_out((f"{i}" for i in range(5000)), 0.1)
    assert small <= large and 400 < len(large) < 600
