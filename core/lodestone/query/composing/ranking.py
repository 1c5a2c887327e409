"""Ranking of a composed query: the share of each part in the score of each candidate, and diversity among the first ones.

The score is the joint similarity (composed/joint.py) of standardised similarities. A similarity is measured from that of an
ordinary picture, in units of its spread: pictures are more like pictures than like words, so cosines of different parts and
spaces do not compare as they are. A picture that has no vector in a space is renormalised over the others:

    z_p(o) = (<q_p, o> - mean_p) / spread_p
    score(o) = sum of weight_p * z_p(o) over the parts p that o has a vector for / sum of those weights

Each part's share of that sum is kept as a list of its own, so that a record is enough to rank again and to explain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query.composing.candidates import Standing
from lodestone.retrieval.fusion import FusedList, RankedList
from lodestone.retrieval.searcher import Ranking
from lodestone_schemas.api import Contribution

DIVERSITY: Final = "diversity"
"""Guide of the list that says what pictures lose for being like those before them."""

POOL: Final = 200
"""Most candidates, the best ones, that diversity reorders; those behind them stay in order."""


def shares_of(scored: Sequence[RankedList], standings: Mapping[tuple[str, str], Standing]) -> list[RankedList]:
    """Return one list a part and space whose weight times score is the part's share of each candidate's score.

    Args:
        scored: Inner products with every candidate that the space holds; the vectors of parts to avoid are negated.
        standings: (part, space) -> inner products with ordinary pictures.
    """
    present: dict[str, float] = {}
    for one in scored:
        for image_id in one.ids:
            present[image_id] = present.get(image_id, 0.0) + one.weight
    lists = []
    for one in scored:
        standing = standings[one.guide, one.space]
        renormalised = np.array([present[image_id] for image_id in one.ids])
        standardised = (one.scores.astype(np.float64) - standing.mean) / standing.spread
        shares = np.divide(standardised, renormalised, out=np.zeros_like(standardised), where=renormalised > 0)
        lists.append(replace(one, scores=shares.astype(np.float32), scale=standing.spread))
    return lists


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
