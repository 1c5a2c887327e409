"""From which confidence on may a search tag what it found? Fits tags/confidence.py on answers whose right pictures are known.

NEEDLE (F.2) picks the threshold by the correlation between similarity and average precision. Here the confidence is fitted to
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
from lodestone.tags.confidence import EVIDENCE, Confidence
from lodestone.training.complexity import FOLDS, pearson

PRECISION: Final = 0.8
FEWEST: Final = 30  # answers
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer: `evidence` (k, 5) of its first pictures, whether each is `right` (k,), and its average precision `ap`."""

    evidence: Array
    right: NDArray[np.bool_]
    ap: float


@dataclass(frozen=True, slots=True)
class ConfidenceReport:
    """How good the fit is, cross-validated.

    Attributes:
        answers: How many were learnt from.
        pearson: Correlation of the confidence in the first picture with average precision.
        precision: Share of right ones among the pictures above the threshold. tagged: Pictures above it, per answer.
    """

    answers: int
    pearson: float
    precision: float
    tagged: float
    threshold: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable."""
        return asdict(self)


def fit_confidence(
    answers: Sequence[JudgedAnswer], *, precision: float = PRECISION, provenance: dict[str, Any] | None = None
) -> tuple[Confidence, ConfidenceReport]:
    """Fit weights and threshold.

    Args:
        answers: At least `FEWEST`; those without evidence are left out.
        precision: Share of tagged pictures that must be right, in (0, 1].
        provenance: Goes into the model.

    Raises:
        InvalidRequestError: too few answers.
    """
    usable = [one for one in answers if len(one.evidence)]
    if len(usable) < FEWEST:
        raise InvalidRequestError(
            f"{len(usable)} judged answers are too few, at least {FEWEST} are needed", hint="judge more queries"
        )
    values = np.concatenate([one.evidence for one in usable])
    right = np.concatenate([one.right for one in usable]).astype(np.float64)
    answer = np.repeat(np.arange(len(usable)), [len(one.evidence) for one in usable])
    predicted = np.empty(len(right))
    for fold in range(FOLDS):
        held = answer % FOLDS == fold
        weights, intercept = _least_squares(values[~held], right[~held])
        predicted[held] = np.clip(intercept + values[held] @ weights, 0, 1)
    threshold = _threshold(predicted, right, precision)
    chosen = predicted >= threshold
    firsts = np.flatnonzero(np.diff(answer, prepend=-1))
    report = ConfidenceReport(
        answers=len(usable),
        pearson=pearson(predicted[firsts], np.array([one.ap for one in usable])),
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
    """The lowest confidence from which on `precision` of the pictures are right; 1 when there is none."""
    order = np.argsort(-predicted, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    fine = np.flatnonzero(share >= precision)
    return float(predicted[order][fine[-1]]) if len(fine) else 1.0
