"""How badly did each space order what the user judged, where it mattered?

Every space is asked what it alone would have ranked: its own lists of the recorded query, fused by the query's own method. Each
pair of a right and a wrong picture counts as far as the answer itself got it wrong (logistic, in units of half the answer's
spread): a pair that the answer ordered well teaches nothing, so weights stop moving when answers are right, and an ensemble
that is better than its best member is not talked down to that member. With equal weights for all pairs the rule would be
Hedge on 1 - AUC (Freund and Schapire, 1997); weighing them by what the ensemble still gets wrong is exponentiated gradient on
the ensemble's own pairwise loss (Kivinen and Warmuth, 1997).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import NEED_ALL_SCORES, RankedList, find_fusion

_UNIT: Final = 0.5  # of the answer's spread over what was found: a margin of this size is beyond doubt; validation data
_REACH: Final = 1.0  # units beyond which a space has a pair as right, or as wrong, as can be; fitted on validation data
_SMALLEST: Final = 1e-9
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What feedback says about the spaces of one query.

    Attributes:
        losses: Space -> loss in [0, 1]: 0 where it puts every doubtful pair right by far, all of the answer's doubt (at most 1)
            where it puts every one wrong by far. Empty when there was nothing to compare.
        ignored: Judged ids that no list of the query holds, in the order given.
    """

    losses: dict[str, float]
    ignored: list[str]


def judge(trace: Trace, relevant: Sequence[str], irrelevant: Sequence[str]) -> Judgement:
    """Losses of the spaces that trust may weigh: those of `trace.space_weights` that were searched.

    Where one side was not given, unjudged pictures stand in for it: for wrong ones those that were shown (else any that was
    found), for right ones all that were found.
    """
    spaces = _by_space(trace)
    total = sum(weight for weight, _ in spaces.values())
    voices = {space: _voice(trace.fusion, lists, weight) for space, (weight, lists) in spaces.items()}
    ids = sorted(set().union(*(voice.ids for voice in voices.values())))
    row = {image_id: number for number, image_id in enumerate(ids)}
    right, wrong = _sides(trace, set(ids), relevant, irrelevant)
    ignored = [image_id for image_id in dict.fromkeys([*relevant, *irrelevant]) if image_id not in row]
    if not right or not wrong:
        return Judgement({}, ignored)
    says = {space: voice.over(ids) for space, voice in voices.items()}
    answer: Values = np.sum([spaces[space][0] / total * said for space, said in says.items()], axis=0)
    unit = max(_UNIT * float(answer.std()), _SMALLEST)
    doubt = 0.5 - 0.5 * np.tanh(_margins(answer / unit, row, right, wrong) / 2)
    most = max(1.0, float(doubt.sum()))
    losses = {}
    for space in sorted(says.keys() & trace.space_weights.keys()):
        agrees = np.clip(_margins(says[space] / unit, row, right, wrong) / _REACH, -1, 1)
        losses[space] = float((doubt * (1 - agrees) / 2).sum()) / most
    return Judgement(losses, ignored)


@dataclass(frozen=True, slots=True)
class _Voice:
    """What one space alone says of its candidates; `rest` is what it says of all others."""

    ids: tuple[str, ...]
    scores: Values
    rest: float

    def over(self, ids: Sequence[str]) -> Values:
        known = dict(zip(self.ids, self.scores.tolist(), strict=True))
        return np.array([known.get(image_id, self.rest) for image_id in ids])


def _by_space(trace: Trace) -> dict[str, tuple[float, list[RankedList]]]:
    """Space -> its weight in the answer and its lists; spaces that found nothing are left out."""
    groups: dict[str, list[RankedList]] = {}
    for one in trace.completed or trace.lists:
        if one.weight > 0 and one.ids:
            groups.setdefault(one.space, []).append(one)
    return {space: (sum(one.weight for one in groups[space]), groups[space]) for space in sorted(groups)}


def _voice(fusion: str, lists: Sequence[RankedList], weight: float) -> _Voice:
    fused = find_fusion(fusion)([replace(one, weight=one.weight / weight) for one in lists])
    rest = float(fused.scores.min()) if fusion in NEED_ALL_SCORES else 0.0
    return _Voice(fused.ids, fused.scores, rest)


def _sides(
    trace: Trace, known: Collection[str], relevant: Sequence[str], irrelevant: Sequence[str]
) -> tuple[list[str], list[str]]:
    right, wrong = ([one for one in dict.fromkeys(side) if one in known] for side in (relevant, irrelevant))
    judged = {*right, *wrong}
    if right and not wrong:
        shown = [one for one in trace.hits if one in known and one not in judged]
        wrong = shown or sorted(set(known) - judged)
    elif wrong and not right:
        right = sorted(set(known) - judged)
    return right, wrong


def _margins(scores: Values, row: dict[str, int], right: Sequence[str], wrong: Sequence[str]) -> Values:
    """(right, wrong): by how much each right picture stands above each wrong one."""
    above, below = (scores[[row[one] for one in side]] for side in (right, wrong))
    margins: Values = above[:, None] - below[None, :]
    return margins
