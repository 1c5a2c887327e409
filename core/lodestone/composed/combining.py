"""Rules that join a candidate's similarities to the parts of a composed query into the score that it is finally ranked by.

A sum ranks a picture that matches one part very well above one that matches all parts well enough. Without training that is
what composed queries fail by: on i-CIR (Psomas et al., NeurIPS 2025, github.com/billpsomas/icir) the sum reaches a mean average
precision of 8.2, the product of both similarities 17.5, and BASIC 31.6. The rules, with a_p the weight of part p divided by
those of all parts that the picture has a vector for, s_p the similarity, t_p the same clamped at 0, and G = product of
t_p ** a_p:

    sum       sum of a_p * s_p: the joint similarity of `joint.scores`
    product   G, the weighted geometric mean: the order of the plain product for equal weights
    harris    G^2 - 4 * .1 * (sum of a_p * t_p)^2: for two equal weights t_1 * t_2 - .1 * (t_1 + t_2)^2, the corner criterion
    basic     harris over similarities that are centred, then shifted and scaled by their null minimum (`Null`)

The published rules know two parts, a picture and words, without weights. These means agree with them there, take any number of
parts, and renormalise where a picture lacks a modality as the sum does. A part to avoid counts by 1 - its similarity in product
and harris, as a clamped negative similarity would be 0 for every picture.

Each rule is explained by contributions that sum to the score. All are homogeneous functions f of degree d (1 for sum and
product, 2 for harris and basic), so by Euler's theorem f = sum over p of v_p * df/dv_p / d, and that term is what part p
contributes: a_p * s_p for the sum, a_p * G for the product, a_p * G^2 - .4 * (sum of a_q * t_q) * a_p * t_p for harris.

Candidates come from the joint search and so by descending sum. Sort them by these scores stably: candidates for which a rule
gives 0 stay in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.joint import JointPart, Rows, part_scores
from lodestone.errors import InvalidRequestError, UnknownNameError

_LAMBDA: Final = 0.1
"""Harris' constant, as i-CIR publishes it: high similarity to one part alone is worth less than some of each."""
_LEAST_SPREAD: Final = 1e-6

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Combined:
    """Scores of candidates.

    Attributes:
        scores: (n,) float64; NaN for a picture that no part can be compared with.
        contributions: (n, parts) what each part adds to the score; 0 for parts that the picture lacks or that have no weight.
        values: (n, parts) what the rule joined: similarities, clamped or standardised where it does so; NaN where missing.
    """

    scores: Values
    contributions: Values
    values: Values


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Similarities of pictures and queries that have nothing to do with each other, for one kind of part in one space.

    Two modalities' similarities are of different sizes, and so are two queries' in one modality. Subtracting the mean picture
    and the mean query removes what all have in common. The lowest similarity of unrelated pairs then says what is nothing.

    Attributes:
        pictures: (dim,) mean vector of pictures.
        queries: (dim,) mean vector of queries of this kind: of pictures, or of words.
        low: Lowest centred similarity of unrelated pairs, below 0.
        high: Highest centred similarity of unrelated pairs, above 0.
    """

    pictures: NDArray[np.float64]
    queries: NDArray[np.float64]
    low: float
    high: float

    @classmethod
    def of(cls, pictures: Rows, queries: Rows) -> Null:
        """Measure unrelated pairs.

        Args:
            pictures: (n, dim) float32 vectors of at least 2 pictures of the collection, drawn at random.
            queries: (q, dim) float32 vectors of other pictures or of words, at least 2. Row i is not compared with picture i
                where both are the same array.

        Raises:
            InvalidRequestError: there are too few, or a number is not finite.
        """
        if min(len(pictures), len(queries)) <= 1 or not (np.isfinite(pictures).all() and np.isfinite(queries).all()):
            raise InvalidRequestError(
                f"{len(pictures)} pictures and {len(queries)} queries do not show what unrelated ones are like",
                hint="give at least 2 of each, with finite numbers",
            )
        mean_picture = pictures.mean(axis=0, dtype=np.float64)
        mean_query = queries.mean(axis=0, dtype=np.float64)
        products = (queries - mean_query) @ (pictures - mean_picture).T
        if queries is pictures:
            products = products[~np.eye(len(pictures), dtype=bool)]
        low, high = float(products.min()), float(products.max())
        return cls(mean_picture, mean_query, min(low, -_LEAST_SPREAD), max(high, _LEAST_SPREAD))

    def standardised(self, part: JointPart, rows: Rows, *, avoided: bool = False) -> Values:
        """Return (n,) similarities that are 0 at the null minimum and 1 where nothing is said; NaN for NaN rows.

        Args:
            part: The part; its vector is negated if it is to be avoided.
            rows: (n, dim) float32 vectors of pictures in the part's space.
            avoided: Whether the part is to be avoided: then 0 is where unrelated pairs are most alike.
        """
        sign = -1.0 if avoided else 1.0
        query = part.vector.astype(np.float64) - sign * self.queries
        centred = rows.astype(np.float64) @ query - self.pictures @ query
        least = self.high if avoided else -self.low
        return (centred + least) / least


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        join: (n, parts) values, 0 where missing, and (n, parts) shares that sum to 1 -> scores and contributions.
        clamps: Whether values are clamped at 0.
        standardises: Whether similarities are standardised by their `Null`.
    """

    join: Callable[[Values, Values], tuple[Values, Values]]
    clamps: bool = True
    standardises: bool = False


def _sum(values: Values, shares: Values) -> tuple[Values, Values]:
    contributions = shares * values
    return contributions.sum(axis=1), contributions


def _geometric_mean(values: Values, shares: Values) -> Values:
    logs = np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)
    weighted = np.multiply(shares, logs, out=np.zeros(values.shape), where=shares > 0)  # 0 * -inf is not a number
    mean: Values = np.exp(weighted.sum(axis=1))
    return mean


def _product(values: Values, shares: Values) -> tuple[Values, Values]:
    mean = _geometric_mean(values, shares)
    return mean, shares * mean[:, None]


def _harris(values: Values, shares: Values) -> tuple[Values, Values]:
    square = _geometric_mean(values, shares)[:, None] ** 2
    parts = shares * values
    contributions = shares * square - 4 * _LAMBDA * parts.sum(axis=1, keepdims=True) * parts
    return contributions.sum(axis=1), contributions


RULES: Final[Mapping[str, Rule]] = {
    "sum": Rule(_sum, clamps=False),
    "product": Rule(_product),
    "harris": Rule(_harris),
    "basic": Rule(_harris, standardises=True),
}
"""Name of a rule -> the rule."""


def combine(
    rule: str,
    parts: Sequence[JointPart],
    vectors: Mapping[str, Rows],
    *,
    avoided: Sequence[bool] | None = None,
    nulls: Sequence[Null] | None = None,
) -> Combined:
    """Score candidates by a rule.

    Args:
        rule: Key of `RULES`.
        parts: The parts of one query, at least one of weight above 0.
        vectors: Space -> (n, dim) float32 of the candidates, in the same order; NaN rows where a picture has none.
        avoided: Which parts are to be avoided; None for none. Their vectors are negated.
        nulls: Unrelated similarities of each part, for rules that standardise.

    Raises:
        UnknownNameError: there is no such rule.
        InvalidRequestError: no part has a weight above 0, the rule needs `nulls`, or as `joint.part_scores`.
    """
    if rule not in RULES:
        raise UnknownNameError.among("rule", rule, list(RULES))
    chosen = RULES[rule]
    unlike = [False] * len(parts) if avoided is None else list(avoided)
    values = part_scores(parts, vectors)
    if chosen.standardises:
        if nulls is None or len(nulls) != len(parts):
            raise InvalidRequestError(
                f"the rule {rule!r} needs to know what unrelated pictures are like, for each part", hint="give `nulls`"
            )
        columns = zip(parts, nulls, unlike, strict=True)
        values = np.stack([null.standardised(part, vectors[part.space], avoided=flag) for part, null, flag in columns], axis=1)
    elif chosen.clamps:
        values = values + np.array(unlike, np.float64)
    if chosen.clamps:
        values = np.maximum(values, 0)  # NaN stays NaN
    return combine_values(rule, values, [part.weight for part in parts])


def combine_values(rule: str, values: Values, weights: Sequence[float]) -> Combined:
    """Score candidates by a rule from their values.

    Args:
        rule: Key of `RULES`.
        values: (n, parts) similarities, clamped or standardised as the rule wants; NaN where a picture has no vector.
        weights: Weight of each part, at least 0, at least one above.

    Raises:
        UnknownNameError: there is no such rule.
        InvalidRequestError: no weight is above 0.
    """
    if rule not in RULES:
        raise UnknownNameError.among("rule", rule, list(RULES))
    if not any(weight > 0 for weight in weights):
        raise InvalidRequestError("no part of the query has a weight above 0", hint="give a picture or words to look for")
    present = ~np.isnan(values)
    counted = present * (np.asarray(weights, np.float64) / max(weights))
    total = counted.sum(axis=1, keepdims=True)
    shares = np.divide(counted, total, out=np.zeros(counted.shape), where=total > 0)
    scores, contributions = RULES[rule].join(np.where(present, values, 0.0), shares)
    return Combined(np.where(total[:, 0] > 0, scores, np.nan), contributions, values)
