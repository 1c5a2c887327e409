"""Pipeline that answers every query: resolve, retrieve the leaves, combine, gate, guides, decide, record.

Each stage takes what the stages before it returned and returns one value: `RunningQuery` (the resolved query), `EncodedQuery`,
`QueryWeights`, `FirstPass` (the ranking), `GateDecision`, `GuideOutcome`, `QueryAnswer`. Events come as soon as possible:
`plan`, `results` of the first pass, `guide` for each guide, better `results`, `done`.

The gate and guides are for words alone: the gate's model was fitted on text passes, and a picture needs no imagined one. Tags
compare words and learnt trust has topics of words, so they take part in words alone too. A composed query has a first pass of
its own (composing/stage.py), and guides that are edits of its pictures where the composition says so (composing/edits.py); one
with several alternatives has the best of them (composing/alternatives.py). passes.py is the table of the three. Everything else
holds for every query: the record, and with it explanation, replay and feedback.

What does not fit into the deadline is dropped in this order: guides, then spaces of the guides, then all guides; the first pass
answers with the spaces that came in time. `dropped` names what was left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lodestone.catalog.database.reader import waiting_at_most
from lodestone.catalog.reading import CatalogReader
from lodestone.clock import Stopwatch, remaining
from lodestone.config.compositions import Composition
from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.query.answering.hydrate import Hydrator
from lodestone.query.answering.passes import QueryPasses
from lodestone.query.answering.record import trace_of
from lodestone.query.answering.responses import (
    QueryAnswer,
    Stage,
    finished,
    guide_info,
    guide_infos,
    opening_event,
    response_of,
)
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.asking.resolve import deadline_of, resolve
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery, too_late
from lodestone.query.asking.searchable import CURRENT, IndexVersions
from lodestone.query.asking.tree import Query
from lodestone.query.contracts import Encoder, GuideSource
from lodestone.query.deciding.presence import Presence
from lodestone.query.guides.outcome import GuideOutcome
from lodestone.query.retrieving.first_pass import FirstPass, QueryWeights
from lodestone.query.retrieving.learned_stages import LearnedStages
from lodestone.query.retrieving.leaves import RetrievalStage, retriever_of
from lodestone.query.words.checker import QueryChecker
from lodestone.query_notes import QueryNotes
from lodestone.retrieval.searcher import Ranking
from lodestone.store.base import VectorStore
from lodestone_schemas.api import (
    DoneEvent,
    Event,
    GateDecision,
    GuideEvent,
    GuideInfo,
    Hit,
    ResultsEvent,
    SearchOptions,
)
from lodestone_schemas.collections import FieldKind

# Seconds that a query waits for the catalog's server, as it does for a Qdrant server: somebody waits for the answer.
CATALOG_PATIENCE_S: Final = 1.5
_RESOLVE_GRACE_S: Final = 2.0  # a query with hardly any time is resolved all the same; what does not fit is left out later
_HYDRATE_GRACE_S: Final = 0.25  # an answer that is found is read out even when the deadline has just passed


@dataclass(frozen=True, slots=True)
class ResolveStage:
    """Resolves queries against the home as it is now.

    Attributes:
        store: Knows aliases and collections.
        catalog: Knows corpora and roots.
        encoder: Knows the loaded versions of the spaces.
        profile: Defaults of spaces, generators, guides and fusion.
        settings: Defaults of this home.
        hub: Knows the generators; None without any.
        checker: Checks spelling and language of words; None to take them as they are.
        compositions: Name -> how composed queries are answered.
        versions: How the loaded versions differ from what the home is configured for.
        fields: Filter fields that further parts of pictures have.
    """

    store: VectorStore
    catalog: CatalogReader
    encoder: Encoder
    profile: Profile
    settings: QuerySettings
    hub: GuideSource | None
    checker: QueryChecker | None = None
    compositions: Mapping[str, Composition] = field(default_factory=dict)
    versions: IndexVersions = CURRENT
    fields: Mapping[str, FieldKind] = field(default_factory=dict)

    async def resolve(self, query: Query, options: SearchOptions, request_context: RequestContext) -> RunningQuery:
        """Resolve a query and start its clock.

        Raises:
            InvalidRequestError: the query cannot be answered as it stands.
            StoreError, CatalogError: what the query is resolved against cannot be read.
            DeadlineExceededError: it could not be read in time.
        """
        stopwatch = Stopwatch(request_context.arrived)
        deadline = deadline_of(options, self.settings, stopwatch.started, request_context)
        with stopwatch.stage("plan"):
            try:
                async with asyncio.timeout(max(remaining(deadline), _RESOLVE_GRACE_S)):
                    resolved = await asyncio.to_thread(self._resolved, query, options, stopwatch.started, request_context)
            except TimeoutError as error:
                raise too_late("reading the catalog") from error
        stopwatch.observed.about(resolved.query_id)
        if mixed := resolved.spaces.items() - self.encoder.collections.items():
            raise AssertionError(f"vectors of one version would be compared with those of another: {sorted(mixed)}")
        return RunningQuery(resolved, stopwatch, QueryNotes(dropped=list(resolved.dropped)))

    def _resolved(self, query: Query, options: SearchOptions, started: float, request_context: RequestContext) -> ResolvedQuery:
        with waiting_at_most(CATALOG_PATIENCE_S):
            return self._resolve(query, options, started, request_context)

    def _resolve(self, query: Query, options: SearchOptions, started: float, request_context: RequestContext) -> ResolvedQuery:
        if self.hub is not None:
            self.hub.refresh()
        resolved = resolve(
            query,
            options,
            settings=self.settings,
            profile=self.profile,
            aliases=self.store.aliases(),
            known_spaces=self.encoder.collections,
            known_generators=[] if self.hub is None else list(self.hub.names),
            compositions=self.compositions,
            editors=self._editors(),
            catalog=self.catalog,
            present=self.store.collections,
            versions=self.versions,
            fields=self.fields,
            started=started,
            request_context=request_context,
            checker=self.checker,
        )
        for leaf in resolved.leaves:
            retriever_of(leaf)
        return resolved

    def _editors(self) -> list[str]:
        """Return the generators that edit pictures, where a composition wants pictures edited."""
        if self.hub is None or all(one.target != "guide" for one in self.compositions.values()):
            return []
        return [name for name in self.hub.names if self.hub.edits(name)]


class PageStage:
    """Decides what is shown of a ranking: one page, read from the catalog.

    Args:
        hydrator: Reads pages.
    """

    def __init__(self, hydrator: Hydrator) -> None:
        self._hydrator = hydrator

    async def answer(
        self,
        query: RunningQuery,
        ranking: Ranking,
        *,
        stage: Stage,
        weights: QueryWeights,
        gate: GateDecision | None,
        guides: Sequence[GuideInfo] = (),
        presence: Presence | None = None,
    ) -> QueryAnswer:
        """Return the answer that a ranking gives.

        Raises:
            DeadlineExceededError: the catalog could not be read in time.
            CatalogError: the catalog cannot be read.
        """
        with query.stopwatch.stage("hydrate"):
            try:
                async with asyncio.timeout(max(remaining(query.resolved.deadline), _HYDRATE_GRACE_S)):
                    shown, hits = await asyncio.to_thread(self._shown, query.resolved, ranking)
            except TimeoutError as error:
                raise too_late("reading the catalog") from error
        response = response_of(query, shown, hits, stage=stage, weights=weights, gate=gate, guides=guides, presence=presence)
        return QueryAnswer(ranking, response, presence)

    def _shown(self, resolved: ResolvedQuery, ranking: Ranking) -> tuple[Ranking, list[Hit]]:
        with waiting_at_most(CATALOG_PATIENCE_S):
            return self._hydrator.shown(resolved, ranking)


class FirstPage:
    """Answer of the first pass, which is read from the catalog when it is first asked for.

    Args:
        decide: Reads it.
        presence: What its confidence is read from; None where there is none.
    """

    def __init__(self, decide: Callable[[], Awaitable[QueryAnswer]], presence: Presence | None) -> None:
        self._decide = decide
        self._answer: QueryAnswer | None = None
        self.presence = presence

    async def read(self) -> QueryAnswer:
        """Return the answer; raises as `PageStage.answer`."""
        if self._answer is None:
            self._answer = await self._decide()
        return self._answer


@dataclass(frozen=True, slots=True)
class QueryPipeline:
    """The stages of one query engine, in the order in which queries go through them.

    Attributes:
        resolving: Checks and names everything.
        retrieval: Retrieves the leaves.
        passes: Weigh the spaces, combine what the leaves find, and draw guides, each for one kind of query.
        learned: Trust, tags, the gate and the record.
        deciding: Reads the page that is shown.
    """

    resolving: ResolveStage
    retrieval: RetrievalStage
    passes: QueryPasses
    learned: LearnedStages
    deciding: PageStage

    async def run(
        self, query: Query, options: SearchOptions, request_context: RequestContext, *, early: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Answer a query, event by event; closing the iterator cancels what is pending.

        Args:
            query: What to look for.
            options: How to answer.
            request_context: When it came, from whom, and whether it may have guides.
            early: Whether somebody reads the results of the first pass while guides are drawn; if not, its page is read only
                where guides change nothing.
        """
        running = await self.resolving.resolve(query, options, request_context)
        query_id = running.resolved.query_id
        encoded = await self.retrieval.encode(running)
        passing = self.passes.of(running.resolved)
        weights = await passing.weigh(running, encoded)
        yield opening_event(running, weights.by_space)
        first = await passing.rank(running, encoded, weights)
        gate = await self.learned.judged(running, encoded.text_vectors, first.ranking, first.tags)
        presence = await self.learned.presence(running, encoded.text_vectors, first.ranking, first.tags)
        stage: Stage = "text" if running.resolved.words else "picture"
        decide = partial(self.deciding.answer, stage=stage, weights=first.weights, gate=gate, presence=presence)
        page = FirstPage(partial(decide, running, first.ranking), presence)
        drawing = passing.draw(running, encoded, first) if _wants_guides(running.resolved, gate) else None
        answer = await page.read() if early or drawing is None else None
        if running.resolved.text:
            running.stopwatch.observed.text_answered(time.monotonic() - running.stopwatch.started)
        if answer is not None:
            yield ResultsEvent(response=answer.response)
        if drawing is not None:
            async with aclosing(drawing):
                async for part in drawing:
                    if isinstance(part, GuideOutcome):
                        answer = await self._guided(running, first, gate, page, part)
                    else:
                        for guide in part:
                            yield GuideEvent(query_id=query_id, guide=guide_info(guide, query_id))
        answer = answer or await page.read()
        if answer.response.stage == "guides":
            yield ResultsEvent(response=answer.response)
        if self.learned.remembers:
            await self.learned.remember(running, trace_of(running, encoded, answer))
        yield DoneEvent(response=finished(answer.response, running))

    async def _guided(
        self, query: RunningQuery, first: FirstPass, gate: GateDecision | None, page: FirstPage, outcome: GuideOutcome
    ) -> QueryAnswer:
        """Return the answer with guides; where none counts, that of the first pass, which names them."""
        infos = guide_infos(outcome, query.resolved.query_id)
        if outcome.ranking is None:
            answer = await page.read()
            return replace(answer, response=answer.response.model_copy(update={"guides": infos}))
        presence = self.learned.presence_with_captions(page.presence, outcome.captions)
        weights = first.weights
        if outcome.space_weights is not None:
            weights = replace(weights, by_space=outcome.space_weights)
        return await self.deciding.answer(
            query,
            outcome.ranking,
            stage="guides",
            weights=weights,
            gate=gate,
            guides=infos,
            presence=presence,
        )


def _wants_guides(resolved: ResolvedQuery, gate: GateDecision | None) -> bool:
    simple = gate is not None and gate.verdict == "simple"
    return bool(resolved.guiding.generators and resolved.guiding.most and resolved.spaces) and not simple
