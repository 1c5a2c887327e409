"""Fitting of the complexity gate (query/deciding/gate.py): which queries the text pass answers well enough.

A linear model (ridge regression, closed form) maps features of the elementary methods' lists to the average precision of the
text pass (NEEDLE, F.1). All figures, and the threshold, come from predictions that were made without the query in question
(cross-validation, queries of one group staying together). The threshold is the one that lets the largest share of queries end
with the text pass, while that costs at most `MOST_LOSS` in mean average precision compared with guides for every query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.query.deciding.gate import GateModel, K, Term

MOST_LOSS: Final = 0.01  # mean average precision
FEWEST: Final = 30  # queries
PENALTIES: Final = (1.0, 10.0, 100.0, 1000.0)  # of the ridge; the best in cross-validation is taken
FOLDS: Final = 5
_NOT_USED: Final = 0.0  # value of `M.answered` where a method was not used
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Observation:
    """Describes one judged query.

    Attributes:
        features: Features as `query.gate.features` returns them.
        ap: Average precision of the text pass, in [0, 1].
        guided: Average precision with guides; None where that is not known.
        group: Group of the query; variants of one information need are never on both sides of a fold.
    """

    features: Mapping[str, float]
    ap: float
    guided: float | None
    group: str


@dataclass(frozen=True, slots=True)
class GateReport:
    """Reports how good the fit is; everything is cross-validated.

    Attributes:
        queries: Number of queries in the fit.
        compared: Number of queries for which the value of guides is known.
        r2: Share of the variance of average precision that is predicted.
        pearson: Correlation of predicted and true average precision.
        text: Mean average precision of the text pass.
        guided: Mean average precision with guides for all queries.
        gated: Mean average precision with guides for complex queries only.
        lost: guided - gated.
        simple: Share of queries that end with the text pass.
        threshold: The chosen threshold.
        version: Version of the model.
    """

    queries: int
    compared: int
    r2: float
    pearson: float
    text: float
    guided: float | None
    gated: float | None
    lost: float | None
    simple: float
    threshold: float
    version: str

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Choice:
    """Holds a threshold and its effect on a set of queries.

    Attributes:
        threshold: Predicted average precision from which a query is simple.
        simple: Share of queries that are simple.
        lost: Mean average precision lost.
    """

    threshold: float
    simple: float
    lost: float


def fit_gate(
    observations: Sequence[Observation],
    *,
    most_loss: float = MOST_LOSS,
    threshold: float | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> tuple[GateModel, GateReport]:
    """Fit the gate's weights and threshold.

    Args:
        observations: At least `FEWEST` judged queries.
        most_loss: Mean average precision that the gate may cost.
        threshold: Used where the value of guides is known for fewer than `FEWEST` queries; None: the mean average precision of
            the text pass.
        provenance: Saved in the model.

    Raises:
        InvalidRequestError: too few observations, or `most_loss` out of range.
    """
    if not 0 <= most_loss <= 1:
        raise InvalidRequestError(f"a loss of {most_loss} is no mean average precision", hint="give a number from 0 to 1")
    if len(observations) < FEWEST:
        raise InvalidRequestError(
            f"{len(observations)} judged queries are too few for the gate, at least {FEWEST} are needed",
            hint="judge more queries, or give more feedback",
            queries=len(observations),
        )
    names = sorted(set().union(*(observation.features for observation in observations)))
    values = np.array([[observation.features.get(name, _missing(name)) for name in names] for observation in observations])
    truth = np.array([observation.ap for observation in observations])
    folds = np.array([_fold(observation.group) for observation in observations])
    penalty, predicted = _cross_validated(values, truth, folds)
    compared = np.array([observation.guided is not None for observation in observations])
    guided = np.array([np.nan if observation.guided is None else observation.guided for observation in observations])
    if compared.sum() >= FEWEST:
        choice = choose_threshold(predicted[compared], truth[compared], guided[compared], most_loss=most_loss)
    else:
        limit = float(np.clip(truth.mean(), 0, 1)) if threshold is None else threshold
        choice = Choice(limit, float((predicted >= limit).mean()), float("nan"))
    intercept, terms = _fit(names, values, truth, penalty)
    model = GateModel(intercept, terms, choice.threshold, K, dict(provenance or {}))
    report = GateReport(
        queries=len(observations),
        compared=int(compared.sum()),
        r2=_r2(predicted, truth),
        pearson=pearson(predicted, truth),
        text=float(truth.mean()),
        guided=float(guided[compared].mean()) if compared.any() else None,
        gated=_gated(predicted, truth, guided, choice.threshold) if compared.any() else None,
        lost=None if np.isnan(choice.lost) else choice.lost,
        simple=choice.simple,
        threshold=choice.threshold,
        version=model.version,
    )
    return model, report


def choose_threshold(predicted: Array, text: Array, guided: Array, *, most_loss: float = MOST_LOSS) -> Choice:
    """Return the lowest threshold that costs at most `most_loss`.

    Args:
        predicted: (n,) predicted average precision.
        text: (n,) average precision of the text pass.
        guided: (n,) average precision with guides.
        most_loss: Highest mean loss over all n queries.
    """
    order = np.argsort(-predicted, kind="stable")
    lost = np.cumsum((guided - text)[order]) / len(order)
    ranked = predicted[order]
    last = np.append(ranked[1:] < ranked[:-1], True)  # a threshold cannot separate equal predictions
    allowed = np.flatnonzero(last & (lost <= most_loss))
    if not len(allowed):
        return Choice(1.0, 0.0, 0.0)
    end = int(allowed[-1])
    below = float(ranked[end + 1]) if end + 1 < len(ranked) else 0.0
    return Choice(float(np.clip((ranked[end] + below) / 2, 0, 1)), (end + 1) / len(ranked), float(lost[end]))


def pearson(first: Array, second: Array) -> float:
    """Return the correlation of two (n,) arrays; 0 where one of them does not vary."""
    a, b = first - first.mean(), second - second.mean()
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm > 0 else 0.0


def _missing(name: str) -> float:
    return _NOT_USED if name.endswith(".answered") else np.nan


def _fold(group: str) -> int:
    return int.from_bytes(hashlib.sha256(group.encode("utf-8", "surrogatepass")).digest()[:4], "big") % FOLDS


def _cross_validated(values: Array, truth: Array, folds: NDArray[np.int_]) -> tuple[float, Array]:
    """Return the best penalty and its predictions, each made without the query's fold."""
    attempts = []
    for penalty in PENALTIES:
        predicted = np.full(len(truth), truth.mean())
        for fold in np.unique(folds):
            kept = folds != fold
            if kept.any():
                mean, spread, weights, intercept = _ridge(values[kept], truth[kept], penalty)
                predicted[~kept] = _predict(values[~kept], mean, spread, weights, intercept)
        attempts.append((_r2(predicted, truth), -penalty, predicted))
    _, negative, best = max(attempts, key=lambda attempt: attempt[:2])
    return -negative, best


def _fit(names: Sequence[str], values: Array, truth: Array, penalty: float) -> tuple[float, dict[str, Term]]:
    mean, spread, weights, intercept = _ridge(values, truth, penalty)
    numbers = zip(names, mean, spread, weights, strict=True)
    return intercept, {name: Term(float(m), float(s), float(w)) for name, m, s, w in numbers}


def _ridge(values: Array, truth: Array, penalty: float) -> tuple[Array, Array, Array, float]:
    """Return mean, spread and weight of each column, and the intercept; NaN counts as the column's mean."""
    finite = np.isfinite(values)
    count = np.maximum(finite.sum(0), 1)
    mean = np.where(finite, values, 0).sum(0) / count
    centred = np.where(finite, values - mean, 0)
    spread = np.sqrt((centred**2).sum(0) / count)
    spread[spread < 1e-9] = 1.0
    scaled = centred / spread
    intercept = float(truth.mean())
    gram = scaled.T @ scaled + penalty * np.eye(scaled.shape[1])
    return mean, spread, np.linalg.solve(gram, scaled.T @ (truth - intercept)), intercept


def _predict(values: Array, mean: Array, spread: Array, weights: Array, intercept: float) -> Array:
    scaled = np.where(np.isfinite(values), (values - mean) / spread, 0)
    clipped: Array = np.clip(intercept + scaled @ weights, 0, 1)
    return clipped


def _gated(predicted: Array, text: Array, guided: Array, threshold: float) -> float:
    finite = np.isfinite(guided)
    return float(np.where(predicted >= threshold, text, guided)[finite].mean())


def _r2(predicted: Array, truth: Array) -> float:
    variance = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((predicted - truth) ** 2).sum()) / variance if variance > 0 else 0.0
