"""Losses of the spaces: how badly each space ordered the pictures that the user judged, where the answer was in doubt.

Each space is evaluated on what it alone would have ranked: its own lists of the recorded query, fused by the query's own
method. Each pair of a right and a wrong picture counts as far as the answer itself ordered it wrongly (logistic, in units of
half the answer's spread). A pair that the answer ordered well changes nothing, so weights stop moving when answers are right,
and an ensemble that is better than its best member is not reduced to that member. With equal weights for all pairs the rule
would be Hedge on 1 - AUC (Freund and Schapire, 1997); weighting them by the ensemble's remaining errors is exponentiated
gradient on the ensemble's own pairwise loss (Kivinen and Warmuth, 1997).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import NEED_ALL_SCORES, RankedList, recorded_fusion

_UNIT: Final = 0.5  # share of the spread of the answer's scores that makes one unit of margin; fitted on validation data
_REACH: Final = 1.0  # margin, in units, at which a space's loss for a pair reaches 0 or 1; fitted on validation data
_SMALLEST: Final = 1e-9
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Holds the losses that feedback gives the spaces of one query.

    Attributes:
        losses: Space -> loss in [0, 1]. It is 0 where the space orders every doubtful pair right by a wide margin, and all of
            the answer's doubt (at most 1) where it orders every pair wrong by a wide margin. Empty when there was nothing to
            compare.
        ignored: Judged ids that no list of the query holds, in the order given.
    """

    losses: dict[str, float]
    ignored: list[str]


def judge(trace: Trace, relevant: Sequence[str], irrelevant: Sequence[str]) -> Judgement:
    """Return the losses of the spaces that trust may weight: those of `trace.space_weights` that were searched.

    Where one side was not given, unjudged pictures take its place: the shown ones (else all that were found) count as wrong, or
    all that were found count as right.
    """
    spaces = _by_space(trace)
    total = sum(weight for weight, _ in spaces.values())
    by_space = {space: _space_scores(trace.fusion, lists, weight) for space, (weight, lists) in spaces.items()}
    ids = sorted(set().union(*(space_scores.ids for space_scores in by_space.values())))
    row = {image_id: number for number, image_id in enumerate(ids)}
    right, wrong = _sides(trace, set(ids), relevant, irrelevant)
    ignored = [image_id for image_id in dict.fromkeys([*relevant, *irrelevant]) if image_id not in row]
    if not right or not wrong:
        return Judgement({}, ignored)
    scores = {space: space_scores.over(ids) for space, space_scores in by_space.items()}
    answer: Values = np.sum([spaces[space][0] / total * values for space, values in scores.items()], axis=0)
    unit = max(_UNIT * float(answer.std()), _SMALLEST)
    doubt = 0.5 - 0.5 * np.tanh(_margins(answer / unit, row, right, wrong) / 2)
    most = max(1.0, float(doubt.sum()))
    losses = {}
    for space in sorted(scores.keys() & trace.space_weights.keys()):
        agrees = np.clip(_margins(scores[space] / unit, row, right, wrong) / _REACH, -1, 1)
        losses[space] = float((doubt * (1 - agrees) / 2).sum()) / most
    return Judgement(losses, ignored)


@dataclass(frozen=True, slots=True)
class _SpaceScores:
    """Holds one space's scores of its candidates; `rest` is its score of all other pictures."""

    ids: tuple[str, ...]
    scores: Values
    rest: float

    def over(self, ids: Sequence[str]) -> Values:
        score_of = dict(zip(self.ids, self.scores.tolist(), strict=True))
        return np.array([score_of.get(image_id, self.rest) for image_id in ids])


def _by_space(trace: Trace) -> dict[str, tuple[float, list[RankedList]]]:
    """Return space -> its weight in the answer and its lists, without spaces that found nothing."""
    groups: dict[str, list[RankedList]] = {}
    for ranked in trace.completed or trace.lists:
        if ranked.weight > 0 and ranked.ids:
            groups.setdefault(ranked.space, []).append(ranked)
    return {space: (sum(ranked.weight for ranked in groups[space]), groups[space]) for space in sorted(groups)}


def _space_scores(fusion: str, lists: Sequence[RankedList], weight: float) -> _SpaceScores:
    fused = recorded_fusion(fusion)([replace(ranked, weight=ranked.weight / weight) for ranked in lists])
    other_score = float(fused.scores.min()) if fusion in NEED_ALL_SCORES else 0.0
    return _SpaceScores(fused.ids, fused.scores, other_score)


def _sides(
    trace: Trace, candidates: Collection[str], relevant: Sequence[str], irrelevant: Sequence[str]
) -> tuple[list[str], list[str]]:
    right, wrong = ([image_id for image_id in dict.fromkeys(side) if image_id in candidates] for side in (relevant, irrelevant))
    judged = {*right, *wrong}
    if right and not wrong:
        shown = [image_id for image_id in trace.hits if image_id in candidates and image_id not in judged]
        wrong = shown or sorted(set(candidates) - judged)
    elif wrong and not right:
        right = sorted(set(candidates) - judged)
    return right, wrong


def _margins(scores: Values, row: dict[str, int], right: Sequence[str], wrong: Sequence[str]) -> Values:
    """Return by how much each right picture scores above each wrong one: (right, wrong)."""
    above, below = (scores[[row[image_id] for image_id in side]] for side in (right, wrong))
    margins: Values = above[:, None] - below[None, :]
    return margins
