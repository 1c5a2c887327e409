"""Passes of the pipeline: how the queries of one kind are weighed, ranked and imagined. `QueryPasses.of` is the table.

A query of one leaf has the pass of words (first_pass.py), which pictures and vectors take too, a composed one that of its
composition (composing/assembly.py), and one with several alternatives theirs (composing/alternatives.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

from lodestone.generators.base import Guide
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.composing.assembly import CompositionStages
from lodestone.query.guides.outcome import GuideOutcome
from lodestone.query.guides.stage import GuideInput, GuideStage
from lodestone.query.retrieving.first_pass import FirstPass, FirstPassStage, QueryWeights
from lodestone.query.retrieving.leaves import EncodedQuery


class QueryPass(Protocol):
    """Weighs, ranks and imagines queries of one kind."""

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return the weights of the query's spaces before anything is searched."""

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Return what the query finds by itself.

        Raises:
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what is searched cannot be read.
        """

    def draw(
        self, query: RunningQuery, encoded: EncodedQuery, first: FirstPass
    ) -> AsyncGenerator[tuple[Guide, ...] | GuideOutcome, None] | None:
        """Return what draws the guides of a query and ends with their outcome; None where nothing does."""


@dataclass(frozen=True, slots=True)
class SingleLeafPass:
    """Answers queries of one leaf: words, a picture or vectors.

    Attributes:
        first_pass: Weighs and ranks.
        guides: Draws guides and fuses them in; None without a hub.
    """

    first_pass: FirstPassStage
    guides: GuideStage | None

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return the weights of the query's spaces; see `QueryPass.weigh`."""
        return await self.first_pass.weigh(query, encoded)

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Return what the leaf finds, with tags; see `QueryPass.rank`."""
        return await self.first_pass.rank(query, encoded, weights)

    def draw(
        self, query: RunningQuery, encoded: EncodedQuery, first: FirstPass
    ) -> AsyncGenerator[tuple[Guide, ...] | GuideOutcome, None] | None:
        """Return what draws guides of the words; see `QueryPass.draw`."""
        if self.guides is None:
            return None
        given = GuideInput(first.ranking, first.weights.by_space, encoded.text_vectors, query.search_deadline)
        return self.guides.run(query, given)


@dataclass(frozen=True, slots=True)
class QueryPasses:
    """The passes of one engine.

    Attributes:
        single: Answers queries of one leaf.
        composed: Name of a composition -> what answers composed queries by it.
    """

    single: SingleLeafPass
    composed: Mapping[str, CompositionStages]

    def of(self, resolved: ResolvedQuery) -> QueryPass:
        """Return the pass that answers a query."""
        if not resolved.composing.parts:
            return self.single
        stages = self.composed[resolved.composing.composition]
        return stages.alternatives if resolved.composing.alternatives else stages
