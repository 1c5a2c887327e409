"""Fitting of the confidence of tags (tags/implicit.py) on answers whose right pictures are known.

NEEDLE (F.2) chooses the threshold by the correlation between similarity and average precision. Here the confidence is fitted to
whether a picture is right; its correlation with average precision is reported, and the threshold is the lowest one above which
at least `PRECISION` of the pictures are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.tags.implicit import EVIDENCE, Confidence
from lodestone.training.complexity import FOLDS, pearson

PRECISION: Final = 0.8
FEWEST: Final = 30  # answers
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """Describes one judged answer of a search.

    Attributes:
        evidence: (k, 5) evidence of its first pictures.
        right: (k,) whether each of them is right.
        ap: Average precision of the answer.
    """

    evidence: Array
    right: NDArray[np.bool_]
    ap: float


@dataclass(frozen=True, slots=True)
class ConfidenceReport:
    """Reports how good the fit is, cross-validated.

    Attributes:
        answers: Number of answers in the fit.
        pearson: Correlation of the confidence in the first picture with average precision.
        precision: Share of right pictures among those above the threshold.
        tagged: Pictures above the threshold, per answer.
        threshold: The chosen threshold.
    """

    answers: int
    pearson: float
    precision: float
    tagged: float
    threshold: float

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        return asdict(self)


def fit_confidence(
    answers: Sequence[JudgedAnswer], *, precision: float = PRECISION, provenance: dict[str, Any] | None = None
) -> tuple[Confidence, ConfidenceReport]:
    """Fit the confidence's weights and threshold.

    Args:
        answers: At least `FEWEST` answers; those without evidence are left out.
        precision: Share of tagged pictures that must be right, in (0, 1].
        provenance: Saved in the model.

    Raises:
        InvalidRequestError: too few answers.
    """
    usable = [judged for judged in answers if len(judged.evidence)]
    if len(usable) < FEWEST:
        raise InvalidRequestError(
            f"{len(usable)} judged answers are too few, at least {FEWEST} are needed", hint="judge more queries"
        )
    values = np.concatenate([judged.evidence for judged in usable])
    right = np.concatenate([judged.right for judged in usable]).astype(np.float64)
    answer = np.repeat(np.arange(len(usable)), [len(judged.evidence) for judged in usable])
    predicted = np.empty(len(right))
    for fold in range(FOLDS):
        in_fold = answer % FOLDS == fold
        weights, intercept = _least_squares(values[~in_fold], right[~in_fold])
        predicted[in_fold] = np.clip(intercept + values[in_fold] @ weights, 0, 1)
    threshold = _threshold(predicted, right, precision)
    chosen = predicted >= threshold
    firsts = np.flatnonzero(np.diff(answer, prepend=-1))
    report = ConfidenceReport(
        answers=len(usable),
        pearson=pearson(predicted[firsts], np.array([judged.ap for judged in usable])),
        precision=float(right[chosen].mean()) if chosen.any() else 1.0,
        tagged=float(chosen.sum()) / len(usable),
        threshold=threshold,
    )
    weights, intercept = _least_squares(values, right)
    named = {name: float(weight) for name, weight in zip(EVIDENCE, weights, strict=True)}
    return Confidence(intercept, named, threshold, {**(provenance or {}), "figures": report.as_dict()}), report


def _least_squares(values: Array, right: Array) -> tuple[Array, float]:
    columns = np.column_stack([values, np.ones(len(values))])
    solved: Array = np.linalg.lstsq(columns, right, rcond=None)[0].astype(np.float64)
    return solved[:-1], float(solved[-1])


def _threshold(predicted: Array, right: Array, precision: float) -> float:
    """Return the lowest confidence from which on `precision` of the pictures are right; 1 when there is none."""
    order = np.argsort(-predicted, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    allowed = np.flatnonzero(share >= precision)
    return float(predicted[order][allowed[-1]]) if len(allowed) else 1.0
