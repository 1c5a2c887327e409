"""Metrics of NEEDLE (section H.3), computed for one query from the ranks of its right pictures.

The first n = 60 results count. A query with C(q) right pictures has r = min(10, C(q)) *effective positives*: an answer is
complete when it has r of them. R@10 is the number of right results among the first ten divided by r, P@10 the same number
divided by ten. Average precision is the mean, over the first r right results, of the precision at each one's rank, where a
missing one counts 0. (H.3 sums over all n results. Where a query has more than ten right pictures that sum exceeds 1, which the
paper's figures never do.) With one right picture average precision is the reciprocal rank. Two more metrics have names of their
own: recall@60 is the share of r that is among the n, and P@ep the share of the first r results that is right.

Pairs are scored as in Winoground (Thrush et al., 2022). `PAIR_CHANCE` says what random scores reach. The paper gives .25 for
its pairing accuracy, which is the chance that both captions get their own picture (`image`). Its formula counts single
captions (`pairing`), for which the chance is .5, and its figures (CLIP .519 on Winoground) read like these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RESULTS: Final = 60  # NEEDLE's n: the number of results that count
POSITIVES: Final = 10
HARD_BELOW: Final = 0.5  # a query is hard when the baseline's average precision is lower

RANKING_METRICS: Final = ("map", "r@10", "p@10", "mrr", "hit@1", "hit@10", "recall@60", "precision@ep")
PAIR_CHANCE: Final[Mapping[str, float]] = {"pairing": 1 / 2, "image": 1 / 4, "text": 1 / 4, "group": 1 / 6}
PAIR_METRICS: Final = (*PAIR_CHANCE, "mrr")


def effective_positives(total: int) -> int:
    """Return how many right pictures make an answer complete: r = min(10, C(q)).

    Args:
        total: C(q), the number of right pictures of the query, at least 1.
    """
    if total < 1:
        raise ValueError(f"a query needs a right picture, got {total}")
    return min(POSITIVES, total)


def right_places(ranked: Sequence[str], relevant: Collection[str], *, judged: Collection[str] | None = None) -> list[int]:
    """Return the ranks, from 1, of the right pictures among the first n results.

    Args:
        ranked: Names of the results, best first.
        relevant: Names of the right ones.
        judged: Names of the judged pictures, where only some were judged; results outside it are ignored, as if they were not
            in the collection.
    """
    kept = ranked if judged is None else [name for name in ranked if name in judged]
    return [place for place, name in enumerate(kept[:RESULTS], 1) if name in relevant]


def average_precision(places: Sequence[int], total: int) -> float:
    """Return the mean of i / rank over the first r right results; missing ones count 0.

    Args:
        places: Ranks of the right results, ascending, from 1.
        total: C(q), the number of right pictures of the query.
    """
    wanted = effective_positives(total)
    return sum(number / place for number, place in enumerate(places[:wanted], 1)) / wanted


def recall_at(places: Sequence[int], total: int, k: int = POSITIVES) -> float:
    """Return NEEDLE's r@k: the number of right results among the first `k`, divided by the effective positives."""
    return sum(place <= k for place in places) / effective_positives(total)


def precision_at(places: Sequence[int], k: int = POSITIVES) -> float:
    """Return NEEDLE's p@k: the number of right results among the first `k`, divided by `k`."""
    return sum(place <= k for place in places) / k


def recall_of_results(places: Sequence[int], total: int) -> float:
    """Return the share of the effective positives that is among the first n results."""
    wanted = effective_positives(total)
    return min(len(places), wanted) / wanted


def precision_at_effective(places: Sequence[int], total: int) -> float:
    """Return the share of the first r results that is right."""
    wanted = effective_positives(total)
    return sum(place <= wanted for place in places) / wanted


def ranking_metrics(places: Sequence[int], total: int) -> dict[str, float]:
    """Return all of `RANKING_METRICS` for one query; `map` is its average precision, whose mean is MAP."""
    first = min(places, default=0)
    return {
        "map": average_precision(places, total),
        "r@10": recall_at(places, total),
        "p@10": precision_at(places),
        "mrr": reciprocal_rank(places),
        "hit@1": float(0 < first <= 1),
        "hit@10": float(0 < first <= POSITIVES),
        "recall@60": recall_of_results(places, total),
        "precision@ep": precision_at_effective(places, total),
    }


def reciprocal_rank(places: Sequence[int]) -> float:
    """Return 1 / rank of the first right result, or 0 where there is none."""
    return 1 / min(places) if places else 0.0


@dataclass(frozen=True, slots=True)
class PairScores:
    """Computes the metrics of one pair from the scores of each caption with each picture.

    Attributes:
        scores: (2, 2): caption, picture; higher fits better. Scores of one caption are comparable; those of two captions (for
            `text` and `group`) are as comparable as the engine's fusion makes them.
    """

    scores: NDArray[np.float64]

    def metrics(self) -> dict[str, float]:
        """Return the metrics of `PAIR_CHANCE`; a tie does not count as right.

        pairing: the share of the two captions that prefer their own picture; image: both do (COLA's accuracy too); text: both
        pictures prefer their own caption; group: image and text.
        """
        own, other = self.scores.diagonal(), self.scores[[0, 1], [1, 0]]
        by_caption = own > other
        by_picture = own > other[::-1]
        image, text = bool(by_caption.all()), bool(by_picture.all())
        return {
            "pairing": float(by_caption.mean()),
            "image": float(image),
            "text": float(text),
            "group": float(image and text),
        }


def hard_queries(baseline: Mapping[str, float]) -> frozenset[str]:
    """Return the queries for which the baseline's average precision is below 0.5.

    Args:
        baseline: Query id -> average precision of the baseline.
    """
    return frozenset(query for query, value in baseline.items() if value < HARD_BELOW)
