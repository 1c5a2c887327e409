"""Metrics of composed queries, each as its benchmark publishes it, computed for one query from its ranked answer.

A metric has a name, which reports and the command line show:

- `recall@k(k')`: Recall@k(k') of MUST (eq. 1): right pictures among the first k, divided by k'. Where a query has more than k'
  equally right pictures, any k' of them count, as in the published code; where it has fewer, all of them count.
- `map@K`: average precision of the first K results, divided by min(K, right pictures), as CIRCO's server computes it.
- `target@K`: whether the one picture that the words were written for is among the first K (CIRCO's Recall@K).
- `subset@K`: whether the target is among the first K of its subset, from which the reference is left out (CIRR's R_subset@K).
- `map`: average precision of the whole ranking; `map-trapezoid`: the same with precision interpolated between ranks, as in
  revisited Oxford and Paris (Radenovic et al., 2018) and i-CIR.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import UnknownNameError
from lodestone_eval.composed.queries import ComposedQuery

_METRIC: Final = re.compile(
    r"(?:recall@(?P<k>[1-9]\d*)\((?P<wanted>[1-9]\d*)\)|(?P<kind>map|target|subset)@(?P<depth>[1-9]\d*))"
)
_WHOLE: Final = ("map", "map-trapezoid")
_ICIR_EPSILON: Final = 1e-5  # the published code adds it to the number of right pictures


def depth_of(metrics: Collection[str]) -> int | None:
    """Return how many results the metrics need; None for the whole ranking.

    Raises:
        UnknownNameError: there is no such metric.
    """
    depths = []
    for metric in metrics:
        if metric in _WHOLE:
            return None
        match = _METRIC.fullmatch(metric)
        if match is None:
            raise UnknownNameError.among("metric", metric, ["recall@10(1)", "map@10", "target@10", "subset@1", *_WHOLE])
        if match["kind"] == "subset":
            return None  # members of the subset may stand anywhere
        depths.append(int(match["k"] or match["depth"]))
    return max(depths, default=1)


def measure(query: ComposedQuery, ranked: Sequence[str], metrics: Collection[str]) -> dict[str, float]:
    """Return the metrics of one query.

    Args:
        query: The query, with its right pictures.
        ranked: Names of the results, best first, without pictures that the query excludes.
        metrics: Names of metrics.

    Raises:
        UnknownNameError: there is no such metric.
    """
    depth_of(metrics)
    relevant = query.relevant - query.excluded
    return {metric: _value(metric, query, ranked, relevant) for metric in metrics}


def _value(metric: str, query: ComposedQuery, ranked: Sequence[str], relevant: frozenset[str]) -> float:
    if metric == "map":
        return average_precision(ranked, relevant, len(ranked))
    if metric == "map-trapezoid":
        return trapezoidal_average_precision(ranked, relevant)
    kind, _, depths = metric.partition("@")
    k, _, wanted = depths.rstrip(")").partition("(")
    if kind == "recall":
        return recall_at(ranked, relevant, int(k), wanted=int(wanted))
    if kind == "map":
        return average_precision(ranked, relevant, int(k))
    results = ranked if kind == "target" else [name for name in ranked if name in query.subset]
    return float(query.target in results[: int(k)])


def recall_at(ranked: Sequence[object], relevant: Collection[object], k: int, *, wanted: int) -> float:
    """Return Recall@k(k') (MUST, eq. 1): the share of `wanted` right results that is among the first k.

    Args:
        ranked: Results, best first.
        relevant: Right results, in no order. Where only the first k' of a ranking are right, pass these.
        k: Number of results that count.
        wanted: k', the number of right results that make an answer complete.
    """
    total = min(wanted, len(relevant))
    hits = sum(result in relevant for result in ranked[:k])
    return min(hits, total) / total if total else 0.0


def average_precision(ranked: Sequence[object], relevant: Collection[object], depth: int) -> float:
    """Return the sum of the precision at each right result among the first `depth`, over min(depth, right results)."""
    places = [place for place, result in enumerate(ranked[:depth], 1) if result in relevant]
    total = min(depth, len(relevant))
    return sum(number / place for number, place in enumerate(places, 1)) / total if total else 0.0


def trapezoidal_average_precision(ranked: Sequence[object], relevant: Collection[object]) -> float:
    """Return average precision by the trapezoidal rule, as i-CIR's code computes it, over the right results in the ranking."""
    places = [place for place, result in enumerate(ranked) if result in relevant]
    steps = [((number / place if place else 1.0) + (number + 1) / (place + 1)) / 2 for number, place in enumerate(places)]
    return sum(steps) / (len(places) + _ICIR_EPSILON)


def similarity_error(truth: NDArray[np.float32], result: NDArray[np.float32]) -> float:
    """Return the similarity measurement error (MUST, eq. 4): 1 - <truth, result> in the target modality.

    Where several results are right, the one most similar to the result counts: the paper leaves this open.

    Args:
        truth: (n, dim) float32, L2-normalised: target vectors of the right results.
        result: (dim,) float32, L2-normalised: target vector of the first result.
    """
    return 1.0 - float((truth.astype(np.float64) @ result.astype(np.float64)).max())
