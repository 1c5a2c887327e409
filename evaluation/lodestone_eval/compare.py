"""Means of metrics with intervals, and paired comparison of two configurations: a bootstrap and Wilcoxon's signed-rank test.

Queries that belong together (the captions of one picture) are not independent, so they are averaged first, and whole groups are
resampled and ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.retrieval.metrics import PerQuery


@dataclass(frozen=True, slots=True)
class Estimate:
    """Holds a mean over queries and the bounds of its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


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


_SAMPLES: Final = 2_000
_BATCH: Final = 2_000_000  # numbers drawn at a time, so that memory stays small for many queries
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """Holds the comparison of two configurations on common queries.

    Attributes:
        queries: Number of queries that both answered.
        groups: Number of independent groups of these queries.
        before: Mean of the first configuration.
        after: Mean of the second configuration.
        difference: after - before, with its interval.
        p_bootstrap: Two-sided p-value: how often a resample's difference lies on the other side of 0.
        p_wilcoxon: Two-sided p-value; 1 where nothing differs.
        better: Number of queries on which the second is better.
        worse: Number of queries on which the second is worse.
    """

    queries: int
    groups: int
    before: float
    after: float
    difference: Estimate
    p_bootstrap: float
    p_wilcoxon: float
    better: int
    worse: int

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-serialisable dict."""
        return asdict(self)


def estimate(values: Values, groups: Sequence[str], *, level: float = 0.95, seed: int = 0) -> Estimate:
    """Return the mean over queries and its interval by the percentile bootstrap over groups (Efron, 1979).

    Args:
        values: (queries,), at least one.
        groups: (queries,) group of each query.
        level: Coverage, between 0 and 1.
        seed: Makes the interval repeatable.

    Raises:
        ValueError: there are no values, or the lengths differ.
    """
    sums, sizes = _by_group(values, groups)
    means = _resampled(sums, sizes, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(sums.sum() / sizes.sum()), float(low), float(high))


def compare_paired(before: Values, after: Values, groups: Sequence[str], *, level: float = 0.95, seed: int = 0) -> Paired:
    """Compare one metric of two configurations, query by query.

    Args:
        before: (queries,) values of the first configuration.
        after: (queries,) values of the second, in the same order.
        groups: (queries,) group of each query.
        level: Coverage of the interval.
        seed: Makes it repeatable.

    Raises:
        ValueError: there are no values, or the lengths differ.
    """
    if len(before) != len(after):
        raise ValueError(f"paired values must be as many: {len(before)} and {len(after)}")
    differences = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    sums, sizes = _by_group(differences, groups)
    means = _resampled(sums, sizes, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    below, above = float((means <= 0).mean()), float((means >= 0).mean())
    return Paired(
        queries=len(differences),
        groups=len(sums),
        before=float(np.mean(before)),
        after=float(np.mean(after)),
        difference=Estimate(float(differences.mean()), float(low), float(high)),
        # never 0, because the number of samples is limited
        p_bootstrap=min(1.0, 2 * max(min(below, above), 1 / (_SAMPLES + 1))),
        p_wilcoxon=_wilcoxon(sums / sizes),
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )


def _by_group(values: Values, groups: Sequence[str]) -> tuple[Values, Values]:
    """Return the sum and the size of each group."""
    if len(values) == 0 or len(values) != len(groups):
        raise ValueError(f"as many groups as values, at least one: got {len(values)} values and {len(groups)} groups")
    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    sums: Values = np.bincount(group_of, weights=np.asarray(values, np.float64)).astype(np.float64)
    sizes: Values = np.bincount(group_of).astype(np.float64)
    return sums, sizes


def _resampled(sums: Values, sizes: Values, seed: int) -> Values:
    """Return means over queries of resampled groups: (samples,)."""
    rng = np.random.default_rng(seed)
    count = len(sums)
    step = max(1, _BATCH // count)
    means = []
    for start in range(0, _SAMPLES, step):
        drawn = rng.integers(0, count, (min(step, _SAMPLES - start), count))
        means.append(sums[drawn].sum(1) / sizes[drawn].sum(1))
    return np.concatenate(means)


def _wilcoxon(differences: Values) -> float:
    if not np.any(differences):
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences).pvalue)
