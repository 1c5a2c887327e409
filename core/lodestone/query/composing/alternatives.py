"""First pass of a query with several alternatives (sets.py): each is ranked by itself, and a picture has its best score.

A score of a composed query counts in spreads from that of an ordinary picture, whatever its parts are, so the scores of two
alternatives compare as they are. A picture belongs to the alternative that gives it the highest score among those that found
it: the record keeps the lists of that one for it, so its parts still sum to its score, and the ranking can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.errors import DeadlineExceededError
from lodestone.query.asking.parts import PartSet
from lodestone.query.asking.running import RunningQuery
from lodestone.query.composing.stage import ComposedStage
from lodestone.query.retrieving.first_pass import FirstPass, QueryWeights
from lodestone.query.retrieving.leaves import EncodedQuery
from lodestone.retrieval.fusion import WEIGHTED_SUM, FusedList, RankedList, fuse_in_tiers, weighted_sum
from lodestone.retrieval.searcher import Ranking

_EMPTY: Final = Ranking(FusedList((), np.empty(0)))


class AlternativesStage:
    """Weighs and ranks queries with several alternatives.

    Args:
        composed: Weighs and ranks each of them.
    """

    def __init__(self, composed: ComposedStage) -> None:
        self._composed = composed

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return what each space decides of the score, on average over the alternatives."""
        weighed = [await self._composed.weigh(one, leaves) for one, leaves in _divided(query, encoded)]
        return _average(weighed)

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Rank each alternative within its filter, and give each picture the highest of its scores.

        An alternative for which there was no time is left out.

        Raises:
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what is searched cannot be read.
        """
        passes: list[FirstPass] = []
        late: DeadlineExceededError | None = None
        for number, (one, leaves) in enumerate(_divided(query, encoded), 1):
            try:
                passes.append(await self._composed.rank(one, leaves, weights))
            except DeadlineExceededError as error:
                late = error
                query.notes.left_out(f"alternative {number} of {len(query.resolved.composing.alternatives)}: out of time")
        if late is not None and not passes:
            raise late
        with query.stopwatch.stage("fuse"):
            ranking = united([one.ranking for one in passes], query.resolved.depths)
        if query.resolved.composing.diversity > 0 and ranking.fused.ids:
            ranking = await self._composed.diverse(query, ranking)
        return FirstPass(ranking, _average([one.weights for one in passes]))

    def draw(self, query: RunningQuery, encoded: EncodedQuery, first: FirstPass) -> None:
        """Return nothing: guides are for one query in words, and edits for one composed query."""


def united(rankings: Sequence[Ranking], depths: Sequence[int]) -> Ranking:
    """Return the union of the rankings of several alternatives; a picture has the highest score that one of them gives it.

    Only alternatives count whose lists hold the picture at the first depth where any of them does, so that a deeper search
    appends to the ranking and changes nothing before.

    Args:
        rankings: The rankings, whose lists are named by different parts.
        depths: See `fuse_in_tiers`.
    """
    scores = [
        dict(zip(fused.ids, fused.scores.tolist(), strict=True)) for fused in (weighted_sum(one.completed) for one in rankings)
    ]
    owner: dict[str, int] = {}
    for depth in depths:
        found = [{image_id for one in ranking.lists for image_id in one.ids[:depth]} for ranking in rankings]
        for image_id in sorted(set().union(*found) - owner.keys()):
            able = [number for number, ids in enumerate(found) if image_id in ids and image_id in scores[number]]
            if able:
                owner[image_id] = max(able, key=lambda number: (scores[number][image_id], -number))
    lists = tuple(one for ranking in rankings for one in ranking.lists)
    completed = tuple(_only_of(one, owner, number) for number, ranking in enumerate(rankings) for one in ranking.completed)
    return Ranking(
        fused=fuse_in_tiers(WEIGHTED_SUM, lists, completed, depths=depths) if lists else _EMPTY.fused,
        lists=lists,
        searches=tuple(one for ranking in rankings for one in ranking.searches),
        completed=completed,
        dropped=tuple(dict.fromkeys(reason for ranking in rankings for reason in ranking.dropped)),
        similarities=tuple(one for ranking in rankings for one in ranking.similarities),
    )


def _only_of(one: RankedList, owner: dict[str, int], number: int) -> RankedList:
    """Return the list with only those pictures that belong to an alternative."""
    kept = np.array([owner.get(image_id) == number for image_id in one.ids], bool)
    return replace(
        one, ids=tuple(image_id for image_id, keep in zip(one.ids, kept, strict=True) if keep), scores=one.scores[kept]
    )


def _divided(query: RunningQuery, encoded: EncodedQuery) -> Iterator[tuple[RunningQuery, EncodedQuery]]:
    """Yield each alternative as a query of its own, with its leaves."""
    first = 0
    for one in query.resolved.composing.alternatives:
        leaves = encoded.leaves[first : first + len(one.parts)]
        first += len(one.parts)
        spaces = {space: name for space, name in encoded.spaces.items() if any(name in leaf.vectors for leaf in leaves)}
        avoided = frozenset(number for number, part in enumerate(one.parts) if part.avoid)
        yield _of(query, one), EncodedQuery(leaves, spaces, avoided)


def _of(query: RunningQuery, one: PartSet) -> RunningQuery:
    """Return the query of one alternative; diversity is for the union of all."""
    resolved = replace(
        query.resolved,
        leaves=tuple(part.leaf for part in one.parts),
        filter=one.filter,
        composing=replace(query.resolved.composing, parts=one.parts, alternatives=(), diversity=0.0),
    )
    return replace(query, resolved=resolved)


def _average(weights: Sequence[QueryWeights]) -> QueryWeights:
    spaces = dict.fromkeys(space for one in weights for space in one.by_space)
    by_space = {space: sum(one.by_space.get(space, 0.0) for one in weights) / len(weights) for space in spaces}
    learnt = next((one for one in weights if one.topic is not None or one.trust), QueryWeights({}))
    return QueryWeights(by_space, learnt.topic, learnt.trust)
