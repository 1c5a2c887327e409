"""Retrieval metrics as pure functions with one value per query.

A ranking is given as `relevant`: (queries, results) bool, the results of each query best first, True where the result is right.
Where each query has one right picture, use `first_ranks`. Metrics are as in Manning, Raghavan and Schütze, Introduction to
Information Retrieval, chapter 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Relevant = NDArray[np.bool_]
PerQuery = NDArray[np.float64]


def first_ranks(scores: Scores, truth: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the rank, from 1, of the one right picture of each query.

    A tie counts against the ranking: a picture with the same score as the right one counts as ranked before it, so that
    constant scores gain nothing.

    Args:
        scores: (queries, pictures), higher is better.
        truth: (queries,) column of the right picture.
    """
    right = scores[np.arange(len(scores)), truth][:, None]
    ranks: NDArray[np.int64] = (scores >= right).sum(1).astype(np.int64)
    return ranks


def recall_at(relevant: Relevant, k: int, *, totals: NDArray[np.integer[Any]] | None = None) -> PerQuery:
    """Return which share of the right pictures is among the first `k` results.

    Args:
        relevant: (queries, results).
        k: Number of results that count, at least 1.
        totals: (queries,) number of right pictures, where `relevant` holds only part of the ranking.
    """
    _check_k(k)
    hits = relevant[:, :k].sum(1)
    return _share(hits, relevant.sum(1) if totals is None else totals)


def precision_at(relevant: Relevant, k: int) -> PerQuery:
    """Return which share of the first `k` results is right; missing results count as wrong."""
    _check_k(k)
    share: PerQuery = relevant[:, :k].sum(1) / k
    return share


def average_precision(relevant: Relevant, *, totals: NDArray[np.integer[Any]] | None = None) -> PerQuery:
    """Return the mean of the precision at each right result, over all right pictures; 0 where there are none."""
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return _share((precision * relevant).sum(1), relevant.sum(1) if totals is None else totals)


def reciprocal_rank(relevant: Relevant) -> PerQuery:
    """Return 1 / rank of the first right result, or 0 where there is none; the mean of these values is MRR."""
    hit = relevant.any(1)
    rank = relevant.argmax(1) + 1 if relevant.shape[1] else np.ones(len(relevant))
    return np.where(hit, 1 / rank, 0.0)


def _share(numerator: NDArray[Any], denominator: NDArray[Any]) -> PerQuery:
    share: PerQuery = np.divide(
        numerator, denominator, out=np.zeros(len(numerator), np.float64), where=np.asarray(denominator) > 0
    )
    return share


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
