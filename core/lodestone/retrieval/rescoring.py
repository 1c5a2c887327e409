"""Exact scores of every candidate in every space, over the union of all lists, by one search a collection.

`mean_distance` is linear: the weighted mean of all guides' scores in one space is the score of one vector, the weighted sum of
the guides'. So however many guides there are, the union is scored once a space, and the result is what fetching every missing
score of every list would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.retrieval.fusion import RankedList
from lodestone.store.base import Filter, HasId, VectorQuery, VectorStore

ALL_GUIDES: Final = "*"  # the guide of a list that stands for all guides of its space


@dataclass(frozen=True, slots=True)
class ListSearch:
    """One (guide, space) list before it is searched.

    Attributes:
        guide: Guide id, or `TEXT_GUIDE`.
        space: Name of the space.
        collection: Where it is searched.
        weight: How much the list will count, > 0.
        vector: (dim,) float32, L2-normalised.
        depth: Candidates to take; None for as many as the query takes from every list.
        recurring: Whether other queries will probably search by the same vector.
    """

    guide: str
    space: str
    collection: str
    weight: float
    vector: NDArray[np.float32]
    depth: int | None = None
    recurring: bool = False


class Scorer(Protocol):
    """Scores candidates without a vector of theirs, e.g. by captions."""

    @property
    def found(self) -> RankedList:
        """Return the list that it found by itself."""

    def completed(self, image_ids: Sequence[str]) -> RankedList:
        """Return `found` extended to every one of `image_ids`, best first. Blocking."""


def by_collection(searches: Sequence[ListSearch]) -> dict[str, list[ListSearch]]:
    """Map collections to their searches, the heaviest collection first, so that what is dropped last counts most."""
    groups: dict[str, list[ListSearch]] = {}
    for one in searches:
        groups.setdefault(one.collection, []).append(one)
    return dict(sorted(groups.items(), key=lambda item: (-sum(one.weight for one in item[1]), item[0])))


def complete(
    store: VectorStore, searches: Sequence[ListSearch], lists: Sequence[RankedList], *, scorer: Scorer | None = None
) -> list[RankedList]:
    """Return one list a space, over every candidate of `lists`. Blocking.

    `mean_distance` of these lists equals `mean_distance` of all lists with every missing score fetched.

    Args:
        store: Searched exactly, by id.
        searches: The searches.
        lists: The lists that they found, with their scales. Lists without a search (tags) come back with 0 for every candidate
            that they do not name.
        scorer: Adds a list of its own, over all candidates; `lists` may hold what it found.
    """
    union = tuple(sorted(set().union(*(one.ids for one in lists))))
    scored = () if scorer is None or not union else (scorer.completed(union),)
    if scorer is not None:
        lists = [one for one in lists if one is not scorer.found]
    if not union:
        return []
    scales = {(one.guide, one.space): one.scale for one in lists}
    searched = {(one.guide, one.space) for one in searches}
    return (
        [*scored]
        + [_filled(one, union) for one in lists if (one.guide, one.space) not in searched]
        + [
            _score(store, collection, [one for one in group if (one.guide, one.space) in scales], scales, union)
            for collection, group in by_collection(searches).items()
            if any((one.guide, one.space) in scales for one in group)
        ]
    )


def _score(
    store: VectorStore,
    collection: str,
    group: Sequence[ListSearch],
    scales: Mapping[tuple[str, str], float],
    union: tuple[str, ...],
) -> RankedList:
    total = sum(one.weight for one in group)
    weights = np.array([one.weight / total / scales[one.guide, one.space] for one in group], np.float32)
    vector: NDArray[np.float32] = weights @ np.stack([one.vector for one in group])
    query = VectorQuery(vector, limit=len(union), filter=Filter((HasId(union),)), exact=True)
    (found,) = store.search(collection, [query])
    return RankedList(ALL_GUIDES, group[0].space, total, found.ids, found.scores)


def _filled(one: RankedList, union: tuple[str, ...]) -> RankedList:
    scores = dict.fromkeys(union, 0.0) | dict(zip(one.ids, one.scores.tolist(), strict=True))
    ids = sorted(scores, key=lambda image_id: (-scores[image_id], image_id))
    return replace(one, ids=tuple(ids), scores=np.array([scores[image_id] for image_id in ids], np.float32))
