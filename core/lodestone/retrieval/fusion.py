"""How do several ranked lists become one? Three pure functions and the table of their names.

A list is the answer of one space to one guide ("text" is the query itself). All three ignore lists of weight 0, never change
their inputs, do not depend on the order of the lists, and break ties by id.

- `needle`: weighted reciprocal rank, sum of weight / rank (NEEDLE, eq. 4);
- `rrf`: reciprocal rank fusion with a constant, sum of weight / (k + rank) (Cormack et al., 2009; VisRet takes k = 1);
- `mean_distance`: weighted mean of the scores (NEEDLE, eq. 1), each list divided by its own scale first, so that spaces whose
  cosines spread differently count as their weights say. It reads the score of every candidate in every list: see `rescore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import UnknownNameError
from lodestone_schemas.api import Contribution

TEXT_GUIDE: Final = "text"  # name of the list's guide when the query's own words were searched
PICTURE_GUIDE: Final = "picture"  # the same for a query that is a picture
VISRET_K: Final = 1.0


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one space answered to one guide.

    Attributes:
        guide: Guide id, or `TEXT_GUIDE`.
        space: Name of the space.
        weight: How much the list counts, >= 0.
        ids: Best first, without repeats.
        scores: (len(ids),) float32, descending; inner products.
        scale: What one unit of score means in this list: spread of the scores, > 0.
    """

    guide: str
    space: str
    weight: float
    ids: tuple[str, ...]
    scores: NDArray[np.float32]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class FusedList:
    """One ranking: `ids` best first and their `scores` (len(ids),) float64, descending; equal scores stand by ascending id."""

    ids: tuple[str, ...]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)


Fusion = Callable[[Sequence[RankedList]], FusedList]


def needle(lists: Sequence[RankedList]) -> FusedList:
    """Weighted reciprocal rank: each list gives weight / rank (NEEDLE, eq. 4)."""
    return rrf(lists, k=0.0)


def rrf(lists: Sequence[RankedList], *, k: float = VISRET_K) -> FusedList:
    """Reciprocal rank fusion: each list gives weight / (k + rank), ranks from 1.

    Args:
        lists: What to fuse.
        k: The larger, the less the first places stand out; >= 0.
    """
    used = _counting(lists)
    ids, codes = _number(used)
    if not ids:
        return FusedList((), np.empty(0))
    gains = np.concatenate([one.weight / (k + np.arange(1.0, len(one.ids) + 1.0)) for one in used])
    return _best_first(ids, np.bincount(codes, weights=gains, minlength=len(ids)).astype(np.float64, copy=False))


def mean_distance(lists: Sequence[RankedList]) -> FusedList:
    """Weighted mean of scaled scores over all lists (NEEDLE, eq. 1; similarities for distances, so higher is better).

    A candidate that a list has no score for counts there as the list's last. After `rescore.complete` that is left only for
    pictures which a space does not hold (yet), and the answer is exact over the union of the lists.
    """
    used = [one for one in _counting(lists) if one.ids]
    ids, codes = _number(used)
    if not ids:
        return FusedList((), np.empty(0))
    total = np.zeros(len(ids))
    start = 0
    for one in used:
        rows = codes[start : start + len(one.ids)]
        start += len(one.ids)
        scores = np.full(len(ids), float(one.scores.min()))
        scores[rows] = one.scores
        total += one.weight / one.scale * scores
    return _best_first(ids, total / sum(one.weight for one in used))


FUSIONS: Final[Mapping[str, Fusion]] = {"needle": needle, "rrf": rrf, "mean_distance": mean_distance}

# These read scores: lists are completed over the union of candidates before them.
NEED_ALL_SCORES: Final = frozenset({"mean_distance"})


def find_fusion(name: str) -> Fusion:
    """The fusion called `name`; `UnknownNameError` lists the known ones."""
    if name not in FUSIONS:
        raise UnknownNameError.among("fusion", name, list(FUSIONS))
    return FUSIONS[name]


def fuse_in_tiers(
    name: str, found: Sequence[RankedList], completed: Sequence[RankedList], *, depths: Sequence[int]
) -> FusedList:
    """Fuse so that looking deeper only ever appends: what page one showed stays as it is when page nine is asked for.

    The candidates of the first `depths[0]` places of the lists come first, fused as if nothing else had been found, then those
    that the next depth adds, and so on. Scores never rise from one tier to the next.

    Args:
        name: Key of `FUSIONS`.
        found: The lists as the searches gave them; a picture's place there says at which depth it enters.
        completed: The same lists, with every candidate's score (`rescore.complete`) for one of `NEED_ALL_SCORES`.
        depths: Ascending; the last one is the depth of the search.
    """
    fusion = find_fusion(name)
    if len(depths) == 1:
        return fusion(completed)
    ids: list[str] = []
    scores: list[float] = []
    placed: set[str] = set()
    for depth in depths:
        tier = fusion(lists_of_tier(name, found, completed, depth=depth))
        ceiling = scores[-1] if scores else np.inf
        for image_id, score in zip(tier.ids, tier.scores, strict=True):
            if image_id not in placed:
                placed.add(image_id)
                ids.append(image_id)
                scores.append(min(float(score), ceiling))
    return FusedList(tuple(ids), np.array(scores))


def lists_of_tier(
    name: str, found: Sequence[RankedList], completed: Sequence[RankedList], *, depth: int
) -> Sequence[RankedList]:
    """What the candidates of the first `depth` places are fused from; arguments as of `fuse_in_tiers`, with several depths."""
    tops = [_cut(one, depth) for one in _counting(found)]
    if name not in NEED_ALL_SCORES:
        return tops
    candidates = set().union(*(top.ids for top in tops))
    return [_only(one, candidates) for one in completed]


def contributions(lists: Sequence[RankedList], image_id: str) -> list[Contribution]:
    """The lists in which the picture stood, with rank, score and weight: why it was found."""
    found = []
    for one in _counting(lists):
        if image_id in one.ids:
            place = one.ids.index(image_id)
            found.append(
                Contribution(
                    guide=one.guide, space=one.space, rank=place + 1, score=float(one.scores[place]), weight=one.weight
                )
            )
    return found


def _cut(one: RankedList, depth: int) -> RankedList:
    return replace(one, ids=one.ids[:depth], scores=one.scores[:depth])


def _only(one: RankedList, wanted: set[str]) -> RankedList:
    rows = [row for row, image_id in enumerate(one.ids) if image_id in wanted]
    return replace(one, ids=tuple(one.ids[row] for row in rows), scores=one.scores[rows])


def _counting(lists: Sequence[RankedList]) -> list[RankedList]:
    # A fixed order of summation: floating-point sums would otherwise depend on which search came back first.
    return sorted((one for one in lists if one.weight > 0), key=lambda one: (one.guide, one.space, one.weight, one.ids))


def _number(lists: Sequence[RankedList]) -> tuple[list[str], NDArray[np.intp]]:
    """All ids, ascending, and for each entry of the lists, one after the other, its row among them."""
    ids = sorted(set().union(*(one.ids for one in lists)))
    row = {image_id: number for number, image_id in enumerate(ids)}
    return ids, np.fromiter((row[image_id] for one in lists for image_id in one.ids), np.intp)


def _best_first(ids: Sequence[str], scores: NDArray[np.float64]) -> FusedList:
    order = np.argsort(-scores, kind="stable")  # rows ascend by id, so equal scores stay in that order
    return FusedList(tuple(ids[row] for row in order), scores[order])
