"""Which guides are unlike the others? (signatures; the rules follow)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rule = Literal["medoid", "umap_lof", "none"]


@dataclass(frozen=True, slots=True)
class OutlierReport:
    """What became of g guides.

    Attributes:
        scores: (g,) float64, >= 0; above 1 is unlike the others.
        rejected: (g,) bool; never more than half of the guides that could be judged.
        rule: Which rule judged.
        per_space: Space -> (g,) float64 scores of that space alone, NaN where the guide has no vector.
    """

    scores: NDArray[np.float64]
    rejected: NDArray[np.bool_]
    rule: Rule
    per_space: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def judge_guides(
    vectors: Mapping[str, NDArray[np.float32]],
    weights: Mapping[str, float],
    *,
    threshold: float | None = None,
    seed: int = 0,
) -> OutlierReport:
    """Space -> (g, dim) float32, NaN rows where missing; space -> weight, >= 0."""
    del weights, threshold, seed
    guides = len(next(iter(vectors.values()))) if vectors else 0
    return OutlierReport(np.zeros(guides), np.zeros(guides, bool), "none")


def warm_up() -> None:
    """Import and compile what the rules need (seconds); without it the first query with 15 guides pays."""
