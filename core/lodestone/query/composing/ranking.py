"""Ranking of a composed query: the share of each part in the score of each candidate, and diversity among the first ones.

A similarity is measured from that of an ordinary picture, in units of its spread: pictures are more like pictures than like
words, so cosines of different parts and spaces do not compare as they are. A part is as similar to a picture as its spaces say
on average; spaces that do not hold the picture are left out, and the others count for more:

    z_ps(o) = (<q_ps, o> - mean_ps) / spread_ps
    z_p(o) = sum of share_ps * z_ps(o) over the spaces s that hold o / sum of those shares

A rule of composed/combining.py joins the parts: the sum, which is the joint similarity of these z (composed/joint.py), or one
of those that ask for all parts at once, over 1 + z / `NULL`. Each part's share of the score is kept as a list of its own for
each space, so that a record is enough to rank again and to explain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.combining import combine_values
from lodestone.query.composing.candidates import Standing
from lodestone.retrieval.fusion import FusedList, RankedList
from lodestone.retrieval.searcher import Ranking
from lodestone_schemas.api import Contribution

NULL: Final = 3.0
"""Spreads below an ordinary picture from which a picture counts as not at all like a part, for rules other than the sum."""

DIVERSITY: Final = "diversity"
"""Guide of the list that says what pictures lose for being like those before them."""

POOL: Final = 200
"""Most candidates, the best ones, that diversity reorders; those behind them stay in order."""

_Values = NDArray[np.float64]


def shares_of(
    scored: Sequence[RankedList], standings: Mapping[tuple[str, str], Standing], *, rule: str = "sum"
) -> list[RankedList]:
    """Return one list a part and space whose weight times score is its share of each candidate's score.

    Args:
        scored: Inner products with every candidate that the space holds; the vectors of parts to avoid are negated.
        standings: (part, space) -> inner products with ordinary pictures.
        rule: Key of `combining.RULES`.

    Raises:
        UnknownNameError: there is no such rule.
    """
    ids = sorted(set().union(*(one.ids for one in scored)))
    row_of = {image_id: number for number, image_id in enumerate(ids)}
    rows = [np.fromiter((row_of[image_id] for image_id in one.ids), np.intp, len(one.ids)) for one in scored]
    values = np.full((len(ids), len(scored)), np.nan)
    for column, one in enumerate(scored):
        standing = standings[one.guide, one.space]
        values[rows[column], column] = (one.scores.astype(np.float64) - standing.mean) / standing.spread
    weights = np.array([one.weight for one in scored])
    if rule == "sum":
        shares = combine_values(rule, values, list(weights)).contributions
    else:
        shares = _shares_of_parts(values, weights, [one.guide for one in scored], rule)
    return [
        replace(
            one,
            scores=(shares[rows[column], column] / one.weight).astype(np.float32),
            scale=standings[one.guide, one.space].spread,
        )
        for column, one in enumerate(scored)
    ]


def _shares_of_parts(values: _Values, weights: _Values, parts: Sequence[str], rule: str) -> _Values:
    """Return (n, columns) shares of the scores that a rule gives to parts, each divided among its spaces as they make it up.

    Args:
        values: (n, columns) z, one column a part and space; NaN where a space does not hold the picture.
        weights: (columns,) weights.
        parts: The part of each column.
        rule: A rule that asks for all parts at once.
    """
    names = list(dict.fromkeys(parts))
    groups = [np.flatnonzero([part == name for part in parts]) for name in names]
    terms = np.zeros(values.shape)  # of the mean over a part's spaces
    means = np.full((len(values), len(names)), np.nan)
    for number, columns in enumerate(groups):
        present = ~np.isnan(values[:, columns])
        counted = present * weights[columns]
        total = counted.sum(axis=1, keepdims=True)
        within = np.divide(counted, total, out=np.zeros(counted.shape), where=total > 0)
        terms[:, columns] = within * np.where(present, 1 + values[:, columns] / NULL, 0.0)
        means[:, number] = np.where(total[:, 0] > 0, terms[:, columns].sum(axis=1), np.nan)
    clamped = np.maximum(means, 0)  # NaN stays NaN
    joined = combine_values(rule, clamped, [float(weights[columns].sum()) for columns in groups]).contributions
    shares = np.zeros(values.shape)
    for number, columns in enumerate(groups):
        mean = clamped[:, number : number + 1]
        share = np.divide(terms[:, columns], mean, out=np.zeros((len(values), len(columns))), where=mean > 0)
        shares[:, columns] = joined[:, number : number + 1] * share
    return shares


def similarities(scored: Sequence[RankedList], avoided: Collection[str]) -> tuple[RankedList, ...]:
    """Return the lists with the similarity of each part, the most similar first: products with negated vectors are turned."""
    return tuple(replace(one, ids=one.ids[::-1], scores=-one.scores[::-1]) if one.guide in avoided else one for one in scored)


def parts_of_hit(ranking: Ranking, image_id: str) -> list[Contribution]:
    """Return what each part gave to one hit of a composed query, the largest share first; the shares sum to the score."""
    similar = {(one.guide, one.space): one for one in ranking.similarities}
    parts = []
    for one in ranking.completed:
        if image_id not in one.ids or one.weight <= 0:
            continue
        score = float(one.scores[one.ids.index(image_id)])
        shown = similar.get((one.guide, one.space), one)
        place = shown.ids.index(image_id)
        parts.append(
            Contribution(
                guide=one.guide,
                space=one.space,
                rank=place + 1,
                score=float(shown.scores[place]),
                weight=one.weight,
                part=one.weight * score,
            )
        )
    return sorted(parts, key=lambda part: (-abs(part.part or 0.0), part.guide, part.space))


def diversified(fused: FusedList, ids: Sequence[str], vectors: NDArray[np.float32], *, diversity: float) -> RankedList:
    """Return what each candidate loses for diversity: with it, the ranking is by maximal marginal relevance.

    Greedily, the next picture is the one with the largest (1 - d) * relevance - d * (cosine with the most similar picture
    before it), relevance being the score in units of the range of the pool (Carbonell and Goldstein, 1998).

    Args:
        fused: The ranking by relevance.
        ids: The first of its candidates that have a vector.
        vectors: (len(ids), dim) float32, L2-normalised.
        diversity: d, above 0 and at most 1.
    """
    score = dict(zip(fused.ids, fused.scores.tolist(), strict=True))
    relevance = np.array([score[image_id] for image_id in ids])
    unit = max(float(relevance.max() - relevance.min()), 1e-9) if len(ids) else 1.0
    nearest = np.full(len(ids), -1.0)
    value = (1 - diversity) * relevance
    left = np.ones(len(ids), bool)
    final: dict[str, float] = {}
    for number in range(len(ids)):
        values = value - diversity * unit * np.maximum(nearest, 0.0) if number else value
        row = int(np.flatnonzero(left)[np.argmax(values[left])])
        final[ids[row]] = float(values[row])
        left[row] = False
        nearest = np.maximum(nearest, vectors @ vectors[row])
    floor = min(final.values(), default=0.0)
    behind = min((score[image_id] for image_id in ids), default=0.0)
    lost = {
        image_id: final[image_id] - score[image_id] if image_id in final else min(floor - behind, 0.0) for image_id in fused.ids
    }
    ordered = sorted(lost, key=lambda image_id: (-lost[image_id], image_id))
    scores = np.array([lost[image_id] / diversity for image_id in ordered], np.float32)
    return RankedList(DIVERSITY, "", diversity, tuple(ordered), scores)
