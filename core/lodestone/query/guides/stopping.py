"""Stopping rule for guides: enough are drawn when more of them no longer change the first results.

Guides cost seconds, and what one more adds shrinks with each. `guides_bound` says beforehand how many suffice for the worst
query; `StableTopK` looks at the rankings as they come and stops at the first sign that the answer stands. NEEDLE draws a fixed
number; stopping early is our addition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from lodestone.errors import InvalidRequestError

Reason = Literal["stable", "bound"]

# Fitted on the validation part of Flickr8k (benchmarks/query/stopping.py).
AGREEMENT: Final = 0.9
PATIENCE: Final = 2
LEAST: Final = 3
_PERSISTENCE: Final = 0.9  # Webber et al.: the first ten places have most of the weight, the first ones most of that


def guides_bound(epsilon: float, delta: float, *, candidates: int = 1, spread: float = 2.0) -> int:
    """Return how many guides suffice for mean scores that are right to `epsilon`, except with probability `delta`.

    NEEDLE takes a query's true score of a picture to be its expected similarity to what a generator draws, and the mean over
    guides for an estimate of it; theorem 1 bounds its error by the number of guides. In Hoeffding's form: the mean of n
    independent values in an interval of length `spread` misses its expectation by `epsilon` or more with probability at most
    2 exp(-2 n epsilon^2 / spread^2). For all `candidates` at once (union bound) that gives

        n >= spread^2 / (2 epsilon^2) * ln(2 candidates / delta).

    It supposes independent guides from one distribution and knows nothing of the query: an upper bound, usually a loose one
    (epsilon .1, delta .05, one cosine: 738), which is why `StableTopK` exists.

    Args:
        epsilon: Error of the mean score, > 0, in the unit of `spread`.
        delta: Probability of a larger error, in (0, 1).
        candidates: Pictures whose scores shall all be right, >= 1.
        spread: Largest minus smallest possible score; 2 for cosines.

    Raises:
        InvalidRequestError: an argument out of range.
    """
    if not (epsilon > 0 and 0 < delta < 1 and candidates >= 1 and 0 < spread < math.inf):
        raise InvalidRequestError(
            f"no bound for epsilon {epsilon!r}, delta {delta!r}, {candidates!r} candidates, spread {spread!r}",
            hint="epsilon > 0, delta between 0 and 1, at least one candidate, a positive spread",
        )
    return max(1, math.ceil(spread**2 / (2 * epsilon**2) * math.log(2 * candidates / delta)))


def overlap(before: Sequence[str], after: Sequence[str], k: int) -> float:
    """Return the rank-biased overlap of the first `k` of two rankings, in [0, 1]; 1 only for equal results in equal order.

    The mean over depths d = 1..k of the share of results that the two first d have in common, weighted by .9^(d-1) and
    normalised to end at k (Webber, Moffat and Zobel, 2010). Rankings shorter than `k` count as far as the longer one goes.
    """
    depth = min(k, max(len(before), len(after)))
    seen: tuple[set[str], set[str]] = set(), set()
    total, weights = 0.0, 0.0
    for place in range(depth):
        for ids, ranking in zip(seen, (before, after), strict=True):
            ids.update(ranking[place : place + 1])
        weight = _PERSISTENCE**place
        total += weight * len(seen[0] & seen[1]) / (place + 1)
        weights += weight
    return total / weights if weights else 1.0


class StableTopK:
    """Stops when the first `k` results stayed nearly the same over the last `patience` guides, or `bound` is reached.

    One per query: it keeps what the last round gave.

        stable = StableTopK(bound=16)
        stable.update(text_ranking.ids, guides=0)
        # after each round: the ranking fused from all guides so far
        if stable.update(ranking.ids, guides=len(guides)): ...

    Args:
        k: Results that shall be stable, >= 1.
        agreement: Least `overlap` of two rounds that counts as the same, in (0, 1].
        patience: Guides that the rounds without a change bring together, >= 1: two rounds of one, or one of two.
        least: Guides before which nothing is called stable.
        bound: Guides at most, as the request or the budget says; None for no limit.

    Attributes:
        reason: Why it said stop: `stable` or `bound`; None while it has not.
        agreements: The overlap of each round with the one before.

    Raises:
        InvalidRequestError: a parameter out of range.
    """

    def __init__(
        self,
        k: int = 10,
        *,
        agreement: float = AGREEMENT,
        patience: int = PATIENCE,
        least: int = LEAST,
        bound: int | None = None,
    ) -> None:
        if k < 1 or patience < 1 or not 0 < agreement <= 1:
            raise InvalidRequestError(
                f"no stable results with k {k!r}, patience {patience!r}, agreement {agreement!r}",
                hint="k and patience from 1 on, agreement above 0 and at most 1",
            )
        self._k, self._agreement, self._patience, self._least, self._bound = k, agreement, patience, least, bound
        self._last: tuple[str, ...] | None = None
        self._guides = -1
        self._calm = 0  # guides since the first results last changed
        self.reason: Reason | None = None
        self.agreements: list[float] = []

    def update(self, ranking_ids: Sequence[str], *, guides: int) -> bool:
        """Take the ranking that the first `guides` guides gave (0: the text pass alone); return whether to stop.

        A round that brought no guide says nothing and is not counted. Once True, always True.
        """
        if guides > self._guides:
            top = tuple(ranking_ids[: self._k])
            if self._last is not None:
                self.agreements.append(overlap(self._last, top, self._k))
                self._calm = self._calm + guides - self._guides if self.agreements[-1] >= self._agreement else 0
            self._last, self._guides = top, guides
        if self.reason is None:
            if self._calm >= self._patience and guides >= self._least:
                self.reason = "stable"
            elif self._bound is not None and guides >= self._bound:
                self.reason = "bound"
        return self.reason is not None
