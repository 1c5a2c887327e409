"""Fusion of several ranked lists into one ranking: three pure functions and the table of their names.

A list is the answer of one space to one guide ("text" is the query itself). All three functions ignore lists of weight 0, never
change their inputs, do not depend on the order of the lists, and break ties by id.

- `weighted_reciprocal_rank`: sum of weight / rank (NEEDLE, eq. 4);
- `rrf`: reciprocal rank fusion with a constant, sum of weight / (k + rank) (Cormack et al., 2009; VisRet takes k = 1);
- `mean_distance`: weighted mean of the scores (NEEDLE, eq. 1), each list divided by its own scale first, so that spaces whose
  cosines spread differently count as their weights say. It reads the score of every candidate in every list (rescoring.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import UnknownNameError
from lodestone_schemas.api import Contribution

TEXT_GUIDE: Final = "text"  # name of the list's guide when the query's own words were searched
PICTURE_GUIDE: Final = "picture"  # the same for a query that is a picture
WEIGHTED_SUM: Final = "weighted_sum"  # name of the fusion of composed queries, which no request can ask for
VISRET_K: Final = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RankedList:
    """Ranked pictures that one space found for one guide.

    Attributes:
        guide: Guide id, or `TEXT_GUIDE`.
        space: Name of the space.
        weight: How much the list counts, >= 0.
        ids: Image ids, best first, without repeats.
        scores: (len(ids),) float32, descending; inner products.
        scale: What one unit of score means in this list: spread of the scores, > 0.
        merged: Whether the guide was searched together with others in one search: ids are of what that search found.
    """

    guide: str
    space: str
    weight: float
    ids: tuple[str, ...]
    scores: NDArray[np.float32]
    scale: float = 1.0
    merged: bool = False


@dataclass(frozen=True, slots=True)
class FusedList:
    """A ranking: image `ids`, best first, and their `scores`, (len(ids),) float64, descending; equal scores by ascending id."""

    ids: tuple[str, ...]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)


Fusion = Callable[[Sequence[RankedList]], FusedList]


def weighted_reciprocal_rank(lists: Sequence[RankedList]) -> FusedList:
    """Fuse by weighted reciprocal rank: each list adds weight / rank, ranks from 1 (NEEDLE, eq. 4)."""
    return rrf(lists, k=0.0)


def rrf(lists: Sequence[RankedList], *, k: float = VISRET_K) -> FusedList:
    """Fuse by reciprocal rank with a constant: each list adds weight / (k + rank), ranks from 1.

    Args:
        lists: The lists to fuse.
        k: The larger, the less the first places stand out; >= 0.
    """
    used = _counting(lists)
    ids, codes = _number(used)
    if not ids:
        return FusedList((), np.empty(0))
    gains = np.concatenate([one.weight / (k + np.arange(1.0, len(one.ids) + 1.0)) for one in used])
    return _best_first(ids, np.bincount(codes, weights=gains, minlength=len(ids)).astype(np.float64, copy=False))


def mean_distance(lists: Sequence[RankedList]) -> FusedList:
    """Fuse by the weighted mean of scaled scores over all lists (NEEDLE, eq. 1, of similarities: higher is better).

    A candidate that a list has no score for counts there as the list's last. After `rescoring.complete` that
    happens only to pictures which a space does not hold (yet), and the answer is exact over the union of the lists.
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


def weighted_sum(lists: Sequence[RankedList]) -> FusedList:
    """Add up weight times score over the lists that hold a picture; a list that does not hold it adds nothing.

    Composed queries are ranked by it (query/composing): each list has the scores of one part in one space, and whoever makes
    the lists decides what a missing vector means.
    """
    used = _counting(lists)
    ids, codes = _number(used)
    if not ids:
        return FusedList((), np.empty(0))
    gains = np.concatenate([one.weight * one.scores.astype(np.float64) for one in used])
    return _best_first(ids, np.bincount(codes, weights=gains, minlength=len(ids)).astype(np.float64, copy=False))


FUSIONS: Final[Mapping[str, Fusion]] = {
    "weighted_reciprocal_rank": weighted_reciprocal_rank,
    "rrf": rrf,
    "mean_distance": mean_distance,
}

FORMER_NAMES: Final[Mapping[str, str]] = {"needle": "weighted_reciprocal_rank"}
"""Former name of a fusion -> its name now. Requests, settings and recorded queries may still hold former names."""

# These fusions read scores: lists are completed over the union of candidates before they are fused.
NEED_ALL_SCORES: Final = frozenset({"mean_distance", WEIGHTED_SUM})


def find_fusion(name: str) -> Fusion:
    """Return the fusion of this name, or former name, that a request may ask for.

    Raises:
        UnknownNameError: no fusion has this name; it lists the known ones.
    """
    current = FORMER_NAMES.get(name, name)
    if current not in FUSIONS:
        raise UnknownNameError.among("fusion", name, list(FUSIONS))
    return FUSIONS[current]


def recorded_fusion(name: str) -> Fusion:
    """Return the fusion of this name that a recorded query was ranked by: one of `FUSIONS`, or that of composed queries.

    Raises:
        UnknownNameError: as `find_fusion`.
    """
    return weighted_sum if name == WEIGHTED_SUM else find_fusion(name)


def current_name(name: str) -> str:
    """Return today's name of a fusion: that of `FORMER_NAMES`, whose use is logged once a process, or `name` itself."""
    if name in FORMER_NAMES:
        _log_former_name(name)
    return FORMER_NAMES.get(name, name)


def former_name_warning(name: str) -> str:
    """Return what users are told about a former name of a fusion."""
    return f"fusion {name!r} is now called {FORMER_NAMES[name]!r}; use the new name"


@cache
def _log_former_name(name: str) -> None:
    _log.warning(former_name_warning(name))


def fuse_in_tiers(
    name: str, found: Sequence[RankedList], completed: Sequence[RankedList], *, depths: Sequence[int]
) -> FusedList:
    """Fuse so that a deeper search only appends: what page one showed stays as it is when page nine is requested.

    The candidates of the first `depths[0]` places of the lists come first, fused as if nothing else had been found, then those
    that the next depth adds, and so on. Scores never rise from one tier to the next.

    Args:
        name: Key of `FUSIONS`, a former name, or `WEIGHTED_SUM`.
        found: The lists as the searches gave them; a picture's place there says at which depth it enters.
        completed: The same lists, with every candidate's score (`rescoring.complete`) for one of `NEED_ALL_SCORES`.
        depths: Ascending; the last one is the depth of the search.
    """
    fusion = recorded_fusion(name)
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
    """Return the lists from which the candidates of the first `depth` places are fused.

    Args:
        name: See `fuse_in_tiers`.
        found: See `fuse_in_tiers`.
        completed: See `fuse_in_tiers`; the lists were searched at several depths.
        depth: Number of places.
    """
    tops = [_cut(one, depth) for one in _counting(found)]
    if name not in NEED_ALL_SCORES:
        return tops
    candidates = set().union(*(top.ids for top in tops))
    return [_only(one, candidates) for one in completed]


def contributions(lists: Sequence[RankedList], image_id: str) -> list[Contribution]:
    """Return the lists that contain the picture, with its rank and score and the list's weight."""
    parts = []
    for ranked in _counting(lists):
        if image_id in ranked.ids:
            place = ranked.ids.index(image_id)
            parts.append(
                Contribution(
                    guide=ranked.guide,
                    space=ranked.space,
                    rank=place + 1,
                    score=float(ranked.scores[place]),
                    weight=ranked.weight,
                )
            )
    return parts


def _cut(one: RankedList, depth: int) -> RankedList:
    return replace(one, ids=one.ids[:depth], scores=one.scores[:depth])


def _only(one: RankedList, wanted: set[str]) -> RankedList:
    rows = [row for row, image_id in enumerate(one.ids) if image_id in wanted]
    return replace(one, ids=tuple(one.ids[row] for row in rows), scores=one.scores[rows])


def _counting(lists: Sequence[RankedList]) -> list[RankedList]:
    # A fixed order of summation: floating-point sums would otherwise depend on which search came back first.
    return sorted((one for one in lists if one.weight > 0), key=lambda one: (one.guide, one.space, one.weight, one.ids))


def _number(lists: Sequence[RankedList]) -> tuple[list[str], NDArray[np.intp]]:
    """Return all ids, ascending, and for each entry of the lists, one list after the other, its row among these ids."""
    ids = sorted(set().union(*(one.ids for one in lists)))
    row = {image_id: number for number, image_id in enumerate(ids)}
    entries = chain.from_iterable(one.ids for one in lists)
    return ids, np.fromiter(map(row.__getitem__, entries), np.intp, count=sum(len(one.ids) for one in lists))


def _best_first(ids: Sequence[str], scores: NDArray[np.float64]) -> FusedList:
    order = np.argsort(-scores, kind="stable")  # rows ascend by id, so equal scores stay in that order
    return FusedList(tuple(map(ids.__getitem__, order.tolist())), scores[order])
