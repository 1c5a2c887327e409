"""Is one configuration better than another on the same queries? A paired bootstrap and Wilcoxon's signed-rank test.

Queries that belong together (the captions of one picture) are not independent: they are averaged first, and the groups are
what is drawn and ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.evaluation.metrics import Estimate

_SAMPLES: Final = 2_000
_BATCH: Final = 2_000_000  # drawn at a time: memory stays small for many queries
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """What two configurations give on common queries.

    Attributes:
        queries: Queries that both answered.
        groups: Independent groups of them.
        before: Mean of the first configuration.
        after: Mean of the second.
        difference: after - before, with its interval.
        p_bootstrap: Two-sided; how often a resample's difference lies on the other side of 0.
        p_wilcoxon: Two-sided; 1 where nothing differs.
        better: Queries on which the second is better.
        worse: Queries on which it is worse.
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
        """JSON-serialisable."""
        return asdict(self)


def estimate(values: Values, groups: Sequence[str], *, level: float = 0.95, seed: int = 0) -> Estimate:
    """Mean over queries and its interval by the percentile bootstrap over groups (Efron, 1979).

    Args:
        values: (queries,), at least one.
        groups: (queries,) which of them belong together.
        level: Coverage, between 0 and 1.
        seed: Makes the interval repeatable.

    Raises:
        ValueError: no values, or lengths that differ.
    """
    sums, sizes = _by_group(values, groups)
    means = _resampled(sums, sizes, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(sums.sum() / sizes.sum()), float(low), float(high))


def compare_paired(before: Values, after: Values, groups: Sequence[str], *, level: float = 0.95, seed: int = 0) -> Paired:
    """Compare one metric of two configurations, query by query.

    Args:
        before: (queries,) values of the first.
        after: (queries,) values of the second, in the same order.
        groups: (queries,) which of them belong together.
        level: Coverage of the interval.
        seed: Makes it repeatable.

    Raises:
        ValueError: no values, or lengths that differ.
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
        p_bootstrap=min(1.0, 2 * max(min(below, above), 1 / (_SAMPLES + 1))),  # never 0: only so many were drawn
        p_wilcoxon=_wilcoxon(sums / sizes),
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )


def _by_group(values: Values, groups: Sequence[str]) -> tuple[Values, Values]:
    """Sum and size of each group."""
    if len(values) == 0 or len(values) != len(groups):
        raise ValueError(f"as many groups as values, at least one: got {len(values)} values and {len(groups)} groups")
    _, place = np.unique(np.asarray(groups), return_inverse=True)
    sums: Values = np.bincount(place, weights=np.asarray(values, np.float64)).astype(np.float64)
    sizes: Values = np.bincount(place).astype(np.float64)
    return sums, sizes


def _resampled(sums: Values, sizes: Values, seed: int) -> Values:
    """(samples,) means over queries of resampled groups."""
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
