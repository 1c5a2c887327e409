"""Candidates of composed queries: the pictures that may rank high, with the exact similarity of each with every part.

`CandidateSource` is the contract. `UnionSource` searches each space once, for what all parts ask of it together, and scores the
union of what was found. By inner product the weighted sum of the parts is one vector, so its list holds the best of that space
for all parts together, however many there are. `FusedSource` searches the fused collection of a composition instead, where
there is one (docs/fused-index.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import Stopwatch, within
from lodestone.composed.joint import JointPart
from lodestone.composed.search import MOST_RESULTS, JointSearch
from lodestone.config.compositions import Composition
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.rescoring import ALL_GUIDES, ListSearch, by_collection
from lodestone.retrieval.searcher import RankingRules, Searcher
from lodestone.store.base import Filter, HasId, VectorQuery, VectorStore

FEWEST: int = 8  # pictures of a sample: below, nothing can be said of an ordinary picture
_CANCELLED: Final = 1e-6  # length, in shares of the weights, below which a sum of vectors is rounding alone


@dataclass(frozen=True, slots=True)
class Standing:
    """Similarity of one part with ordinary pictures, in one space: mean and standard deviation, which is above 0."""

    mean: float = 0.0
    spread: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """What was found for the parts of one query.

    Attributes:
        found: The lists that put pictures among the candidates, as they were found.
        scored: One list a search: the exact inner product with every candidate that the space holds, best first.
        late: Spaces that did not answer in time.
        by_captions: Whether pictures were found by their captions too.
    """

    found: tuple[RankedList, ...] = ()
    scored: tuple[RankedList, ...] = ()
    late: tuple[str, ...] = ()
    by_captions: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all candidates, ascending."""
        return tuple(sorted(set().union(*(one.ids for one in self.found))))


class CandidateSource(Protocol):
    """Finds candidates of composed queries."""

    async def search(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        standings: Mapping[tuple[str, str], Standing],
        described: Sequence[ListSearch] = (),
    ) -> Candidates:
        """Return the lists that candidates are found in; spaces that do not answer by the deadline are left out.

        Args:
            searches: One a part and space: guide is the part's name, weight its share of the score there; the vector of a part
                to avoid is negated.
            rules: Depths, filter and deadline.
            stopwatch: Counts `search`.
            standings: (part, space) -> similarity with ordinary pictures.
            described: The same searches and those of captions, weighed as for pictures that have captions; empty where no
                captions are compared. A source that holds captions too finds pictures by all of it.
        """

    async def score(
        self, searches: Sequence[ListSearch], image_ids: Sequence[str], rules: RankingRules, stopwatch: Stopwatch
    ) -> list[RankedList]:
        """Return one list a search: the exact inner product with each of these pictures that the space holds.

        Args:
            searches: As in `search`.
            image_ids: The candidates.
            rules: The deadline.
            stopwatch: Counts `rescore`.

        Raises:
            TimeoutError: the deadline passed.
        """


class UnionSource:
    """Implements `CandidateSource` by searches of single spaces.

    Args:
        searcher: Searches them.
        store: Scores the candidates.
    """

    def __init__(self, searcher: Searcher, store: VectorStore) -> None:
        self._searcher = searcher
        self._store = store

    async def search(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        standings: Mapping[tuple[str, str], Standing],
        described: Sequence[ListSearch] = (),  # noqa: ARG002 - it holds no captions
    ) -> Candidates:
        """Search each space for all parts together; see `CandidateSource.search`."""
        together = [_together(group, standings) for group in by_collection(searches).values()]
        found = await self._searcher.search(together, rules, stopwatch)
        return Candidates(found.lists, late=found.late)

    async def score(
        self, searches: Sequence[ListSearch], image_ids: Sequence[str], rules: RankingRules, stopwatch: Stopwatch
    ) -> list[RankedList]:
        """Search the candidates exactly, once a space; see `CandidateSource.score`."""
        groups = by_collection(searches)
        with stopwatch.stage("rescore"):
            if all(self._store.instant(collection) for collection in groups):
                return self._scored(groups, image_ids)
            return await within(asyncio.to_thread(self._scored, groups, image_ids), rules.deadline)

    def _scored(self, groups: Mapping[str, Sequence[ListSearch]], image_ids: Sequence[str]) -> list[RankedList]:
        among = Filter((HasId(tuple(image_ids)),))
        lists = []
        for collection, group in groups.items():
            queries = [VectorQuery(one.vector, limit=len(image_ids), filter=among, exact=True) for one in group]
            for one, answer in zip(group, self._store.search(collection, queries), strict=True):
                lists.append(RankedList(one.guide, one.space, one.weight, answer.ids, answer.scores))
        return lists


class FusedSource:
    """Implements `CandidateSource` by one search of a fused collection, where there is one that covers the parts.

    Args:
        store: Holds the fused collection.
        composition: Its composition.
        otherwise: Answers where there is none, and scores candidates.
    """

    def __init__(self, store: VectorStore, composition: Composition, *, otherwise: CandidateSource) -> None:
        self._store = store
        self._joint = JointSearch(store)
        self._composition = composition
        self._otherwise = otherwise

    async def search(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        standings: Mapping[tuple[str, str], Standing],
        described: Sequence[ListSearch] = (),
    ) -> Candidates:
        """Search the fused collection; see `CandidateSource.search`."""
        with stopwatch.stage("search"):
            finding = asyncio.to_thread(self._found, searches, rules, standings, described)
            found = await within(finding, rules.deadline)
        if found is not None:
            return found
        return await self._otherwise.search(searches, rules, stopwatch, standings=standings, described=described)

    async def score(
        self, searches: Sequence[ListSearch], image_ids: Sequence[str], rules: RankingRules, stopwatch: Stopwatch
    ) -> list[RankedList]:
        """Score candidates as the other source does; see `CandidateSource.score`."""
        return await self._otherwise.score(searches, image_ids, rules, stopwatch)

    def _found(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        standings: Mapping[tuple[str, str], Standing],
        described: Sequence[ListSearch],
    ) -> Candidates | None:
        """Return the best of the fused collection; None if there is none of the spaces and versions that are searched."""
        aliases = self._store.aliases()
        layout = self._joint.layout(self._composition, aliases)
        if layout is None:
            return None
        fused = {space.name: space.collection for space in layout.spaces}
        if any(fused.get(one.space) != one.collection for one in searches):
            return None
        by_captions = bool(described) and all(fused.get(one.space) == one.collection for one in described)
        parts = _joint_parts(searches, standings)
        groups = self._joint.by_presence(
            _joint_parts(described, standings) if by_captions else parts,
            min(rules.depths[-1], MOST_RESULTS),
            layout=layout,
            filter_=rules.filter,
            incomplete=parts,
        )
        weight = sum(one.weight for one in searches)
        names = [layout.alias, *(f"{layout.alias}:{number}" for number in range(1, len(groups)))]
        found = tuple(
            RankedList(ALL_GUIDES, name, weight, group.ids, group.scores) for name, group in zip(names, groups, strict=True)
        )
        return Candidates(found, by_captions=by_captions)


def _joint_parts(searches: Sequence[ListSearch], standings: Mapping[tuple[str, str], Standing]) -> list[JointPart]:
    return [
        JointPart(one.guide, one.space, one.vector, one.weight / standings[one.guide, one.space].spread) for one in searches
    ]


def _together(group: Sequence[ListSearch], standings: Mapping[tuple[str, str], Standing]) -> ListSearch:
    """Return the search for what all parts of a space ask for together.

    Where they cancel out, every picture is as good as any other: it is the search for the first part.
    """
    if len(group) == 1:
        return group[0]
    weights = np.array([one.weight / standings[one.guide, one.space].spread for one in group], np.float32)
    vector: NDArray[np.float32] = weights @ np.stack([one.vector for one in group])
    length = float(np.linalg.norm(vector))
    if length <= _CANCELLED * float(weights.sum()):
        return group[0]
    weight = sum(one.weight for one in group)
    return ListSearch(ALL_GUIDES, group[0].space, group[0].collection, weight, vector / np.float32(length))
