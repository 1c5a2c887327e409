"""First pass of a query: the weights of its spaces, and the ranking of what its own leaves and the tags find.

For words the weights are fitted to the query and multiplied by learnt trust, and the tags that are like them take part. A query
without words is weighed by the profile's trust alone: the fitted weights read the words, topics of trust are found by them, and
tags are words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from lodestone.query.asking.running import RunningQuery, too_late
from lodestone.query.contracts import EqualWeights, SpaceWeigher
from lodestone.query.retrieving.learned_stages import LearnedStages
from lodestone.query.retrieving.leaves import EncodedQuery
from lodestone.query.weighting.choice import apply_trust, prior_trust
from lodestone.retrieval.fusion import FusedList
from lodestone.retrieval.searcher import Ranking, Searcher
from lodestone.retrieval.tag_matches import TagMatches

_EMPTY: Final = Ranking(FusedList((), np.empty(0)))


@dataclass(frozen=True, slots=True)
class QueryWeights:
    """How much each space counts for one query.

    Attributes:
        by_space: Space -> weight, trust included.
        topic: Topic of the query, if it has one.
        trust: Space -> trust, 1 being neutral; empty where neither feedback nor the profile says anything.
    """

    by_space: Mapping[str, float]
    topic: str | None = None
    trust: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What the query found by itself, before any guide.

    Attributes:
        ranking: All candidates.
        weights: The weights that made it; they may depend on what was found.
        tags: Pictures to which the words, or some of them, were written; None without any.
    """

    ranking: Ranking
    weights: QueryWeights
    tags: TagMatches | None = None


class FirstPassStage:
    """Weighs the spaces of queries and ranks what they find.

    Args:
        searcher: Searches and fuses.
        weigher: Fits weights to a query's words.
        learned: Knows trust and tags.
        priors: Space -> trust before any feedback, of the profile.
    """

    def __init__(
        self, *, searcher: Searcher, weigher: SpaceWeigher, learned: LearnedStages, priors: Mapping[str, float]
    ) -> None:
        self._searcher = searcher
        self._weigher = weigher
        self._equal = EqualWeights()
        self._learned = learned
        self._priors = priors

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return the weights of the query's spaces before anything is searched."""
        assigned = await self._learned.trust(query, encoded.text_vectors)
        trust = assigned.weights or prior_trust(self._priors, list(encoded.spaces))
        return QueryWeights(self._weights(query, encoded, trust), assigned.topic, trust)

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Search every leaf in every space that it has a vector for, and rank what was found, with tags.

        Raises:
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError: the store failed.
        """
        searches = encoded.searches(weights.by_space)
        if not searches:
            return FirstPass(_EMPTY, weights)
        tags = await self._learned.tagged(query)
        ranking = await self._searcher.rank(
            searches,
            query.rules(query.search_deadline),
            query.stopwatch,
            extra=[tags.ranked()] if tags else [],
            reweigh=lambda best: self._weights(query, encoded, weights.trust, best),
        )
        if ranking is None:
            raise too_late("searching")
        final = {ranked.space: ranked.weight for ranked in ranking.lists if ranked.space in encoded.spaces}
        return FirstPass(ranking, replace(weights, by_space={**weights.by_space, **final}), tags)

    def _weights(
        self, query: RunningQuery, encoded: EncodedQuery, trust: Mapping[str, float], best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        if not encoded.spaces:
            return {}
        weigher = self._weigher if query.resolved.text else self._equal
        vectors = {name: vector[np.newaxis] for name, vector in encoded.text_vectors.items()}
        return apply_trust(weigher.weights(vectors, list(encoded.spaces), best=best), trust)
