"""When are enough guides drawn? When more of them no longer change the first results. (signatures; the rule follows)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Reason = Literal["stable", "bound"]


def guides_bound(epsilon: float, delta: float, *, candidates: int = 1, spread: float = 1.0) -> int:
    """Guides after which every one of `candidates` mean scores is within `epsilon` with probability 1 - `delta`."""
    return math.ceil(spread**2 / (2 * epsilon**2) * math.log(2 * candidates / delta))


class StableTopK:
    """Says stop when the first `k` results are stable over `patience` rounds, or `bound` guides are drawn."""

    def __init__(
        self, k: int = 10, *, patience: int = 2, agreement: float = 0.9, least: int = 2, bound: int | None = None
    ) -> None:
        self.k, self.patience, self.agreement, self.least, self.bound = k, patience, agreement, least, bound
        self.reason: Reason | None = None

    def update(self, ranking_ids: Sequence[str], scores: NDArray[np.float64] | None = None, *, guides: int) -> bool:
        """Take the ranking that `guides` guides (0: the text pass) gave; True: draw no more."""
        del ranking_ids, scores
        return self.bound is not None and guides >= self.bound
