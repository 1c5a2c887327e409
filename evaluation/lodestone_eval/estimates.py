"""Mean of a metric over queries with its bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
