"""Retrieval metrics as pure functions with one value per query, and bootstrap intervals.

A ranking is given as `relevant`: (queries, results) bool, the results of each query best first, True where the result is right.
`relevance` builds it from scores and truths; where each query has one right picture, use `first_ranks`. Metrics are as in
Manning, Raghavan and Schütze, Introduction to Information Retrieval, chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Relevant = NDArray[np.bool_]
PerQuery = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Holds a mean over queries and the bounds of its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def relevance(scores: Scores, truth: Relevant) -> Relevant:
    """Order `truth` by descending `scores`, both (queries, pictures); equal scores keep the order of the pictures."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(truth, order, axis=1)


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


def ndcg_at(gains: NDArray[np.float64], k: int, *, ideal: NDArray[np.float64] | None = None) -> PerQuery:
    """Return the normalised discounted cumulative gain of the first `k` results (Järvelin and Kekäläinen, 2002).

    The discount is log2(rank + 1).

    Args:
        gains: (queries, results) gain of each result, best ranked first, >= 0; a bool matrix is allowed.
        k: Number of results that count, at least 1.
        ideal: (queries, pictures) gains of all pictures, in any order; None when `gains` ranks all of them.
    """
    _check_k(k)
    best = np.sort(np.asarray(gains if ideal is None else ideal, np.float64), axis=1)[:, ::-1]
    return _share(_discounted(np.asarray(gains, np.float64)[:, :k]), _discounted(best[:, :k]))


def bootstrap(values: PerQuery, *, level: float = 0.95, samples: int = 1000, seed: int = 0) -> Estimate:
    """Return the mean over queries with its percentile bootstrap interval (Efron, 1979).

    Args:
        values: (queries,) one metric value per query, at least one.
        level: Coverage, between 0 and 1.
        samples: Number of resamples.
        seed: Makes the interval repeatable.

    Raises:
        ValueError: there are no values, or the level is outside (0, 1).
    """
    if len(values) == 0 or not 0 < level < 1:
        raise ValueError(f"bootstrap needs values and a level in (0, 1), got {len(values)} values and {level}")
    rng = np.random.default_rng(seed)
    data = np.asarray(values, np.float64)
    means = np.array([data[rng.integers(0, len(data), len(data))].mean() for _ in range(samples)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(data.mean()), float(low), float(high))


def _share(numerator: NDArray[Any], denominator: NDArray[Any]) -> PerQuery:
    share: PerQuery = np.divide(
        numerator, denominator, out=np.zeros(len(numerator), np.float64), where=np.asarray(denominator) > 0
    )
    return share


def _discounted(gains: NDArray[np.float64]) -> PerQuery:
    total: PerQuery = (gains / np.log2(np.arange(2, gains.shape[1] + 2))).sum(1)
    return total


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
