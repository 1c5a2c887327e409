"""Stages of a query that use what was learnt: trust, tags and the gate before an answer, its record after it.

An answer needs nothing of this: what fails or comes too late here is left out, and the answer says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.reading import CatalogReader
from lodestone.clock import remaining, within
from lodestone.errors import StoreError
from lodestone.generators.base import TagSource
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.contracts import QueryMemory, TrustSource
from lodestone.query.deciding.gate import GateModel, Method
from lodestone.query.deciding.methods import caption_method, methods_of
from lodestone.query.deciding.presence import HEAD, Presence, PresenceJudge, SpaceSigns, with_tags, with_written
from lodestone.query.guides.captions import CaptionMatches
from lodestone.query_log.recorder import Recorder
from lodestone.query_log.trace import Trace
from lodestone.query_notes import describe_failure
from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.retrieval.searcher import Ranking, Searcher
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.store.base import VectorStore
from lodestone.tags.terms import content_words
from lodestone_schemas.api import GateDecision, SearchRequest

Vectors = NDArray[np.float32]
_log = logging.getLogger(__name__)
_REMEMBER_GRACE_S: Final = 1.0  # an answer is recorded even when its deadline has just passed
_ROOM_S: Final = 0.25  # that an answer waits for room in the recorder's queue
_LOOK_S: Final = 0.02
_ALL_WORDS: Final = 0.999  # score of a picture whose tags, put by people, hold every word


@dataclass(frozen=True, slots=True)
class LearnedModels:
    """Models and services that use has taught, all of them optional.

    Attributes:
        trust: Says how far each space is trusted, by topic.
        tags: Finds pictures by tags.
        gate: Predicts how good the text pass is.
        presence: Judges how likely the collection holds what was asked; None for profiles without a fitted model.
        memory: Keeps answered queries.
        recorder: Records queries after their answers were given; None: each answer waits for its record.
    """

    trust: TrustSource | None = None
    tags: TagSource | None = None
    gate: GateModel | None = None
    presence: PresenceJudge | None = None
    memory: QueryMemory | None = None
    recorder: Recorder | None = None


@dataclass(frozen=True, slots=True)
class AssignedTrust:
    """Trust that feedback has taught for one query.

    Attributes:
        topic: Topic of the query, if it has one.
        weights: Space -> trust, 1 being neutral; empty where nothing was learnt.
    """

    topic: str | None = None
    weights: Mapping[str, float] = field(default_factory=dict)


class LearnedStages:
    """Runs the learnt models for the queries of one engine.

    Args:
        learnt: The models.
        store: Holds the vectors of captions.
        searcher: Scores the shown pictures for the record.
        text_encoder: Name of the encoder whose vectors topics and captions have.
        catalog: Knows the words of captions; None: no caption speaks for presence by its words.
    """

    def __init__(
        self,
        learnt: LearnedModels,
        *,
        store: VectorStore,
        searcher: Searcher,
        text_encoder: str,
        catalog: CatalogReader | None = None,
    ) -> None:
        self._catalog = catalog
        self._learnt = learnt
        self._store = store
        self._searcher = searcher
        self._text_encoder = text_encoder

    async def trust(self, query: RunningQuery, text_vectors: Mapping[str, NDArray[np.float32]]) -> AssignedTrust:
        """Return the query's topic and the trust in spaces that feedback has taught.

        Args:
            query: The query under way.
            text_vectors: Text encoder -> (d,) float32 vector of its words; empty without words.
        """
        resolved, source = query.resolved, self._learnt.trust
        vector = text_vectors.get(self._text_encoder)
        if source is None or not resolved.trust or vector is None:
            return AssignedTrust(resolved.topic)
        assign = partial(source.assign, vector, encoder=self._text_encoder, topic=resolved.topic, spaces=list(resolved.spaces))
        with query.notes.doing_without("learnt trust", "learnt trust is left out"):
            assigned = assign() if source.in_memory else await within(asyncio.to_thread(assign), resolved.deadline)
            return AssignedTrust(assigned.topic, assigned.weights)
        return AssignedTrust(resolved.topic)

    async def tagged(self, query: RunningQuery) -> TagMatches | None:
        """Return the pictures to which the words, or some of them, were written; None without words or such pictures."""
        resolved, source = query.resolved, self._learnt.tags
        if source is None or resolved.tags is None or not resolved.text:
            return None
        with query.stopwatch.stage("tags"), query.notes.doing_without("tags", "tags are left out"):
            searching = asyncio.to_thread(
                source.search, resolved.text, resolved.tags, filter_=resolved.filter, limit=resolved.depth
            )
            return await within(searching, resolved.deadline) or None
        return None

    async def judged(
        self,
        query: RunningQuery,
        text_vectors: Mapping[str, NDArray[np.float32]],
        ranking: Ranking,
        tags: TagMatches | None,
    ) -> GateDecision | None:
        """Return what the complexity gate decides from the text pass; None when it is off or the query gets no guides.

        Where its model knows none of the searched spaces, it is off unless the request itself asks for it. The decision, that
        the query is complex, then says why.

        Args:
            query: The query under way.
            text_vectors: Text encoder -> (d,) float32 vector of its words.
            ranking: The text pass.
            tags: What the tags found.
        """
        resolved, model = query.resolved, self._learnt.gate
        if not resolved.gating.on or model is None or not resolved.guiding.most or not ranking.lists:
            return None
        asked = isinstance(resolved.request, SearchRequest) and resolved.request.gate
        if not asked and not model.judges(resolved.spaces):
            return None
        with query.stopwatch.stage("gate"):
            vector = text_vectors.get(self._text_encoder)
            captions = None
            if resolved.captions is not None and vector is not None:
                search = asyncio.to_thread(caption_method, self._store, resolved.captions, vector, resolved.filter)
                with query.notes.doing_without("captions as a sign for the gate", "captions are no sign for the gate"):
                    captions = await within(search, resolved.deadline)
            try:
                methods = methods_of(ranking.lists, captions=captions, tags=None if tags is None else tags.degrees)
                return model.decide(methods, threshold=resolved.gating.threshold)
            except Exception as error:  # noqa: BLE001  (nothing learnt is needed for an answer)
                query.notes.failed(f"the gate is left out: {describe_failure(error)}")
        return None

    async def presence(
        self,
        query: RunningQuery,
        text_vectors: Mapping[str, NDArray[np.float32]],
        ranking: Ranking,
        tags: TagMatches | None,
    ) -> Presence | None:
        """Return how likely the collection holds what was asked in words; None without words or without a fitted model.

        Args:
            query: The query under way.
            text_vectors: Text encoder -> (d,) float32 vector of its words.
            ranking: The text pass.
            tags: What the tags found.
        """
        presence = await self._presence_seen(query, text_vectors, ranking)
        if presence is None:
            return None
        if tags is not None and (tags.filed.whole or any(score >= _ALL_WORDS for score in tags.degrees.scores[:1])):
            return with_tags(presence)
        if presence.probably_nothing and await self._is_written(query, text_vectors):
            return with_written(presence)
        return presence

    async def _is_written(self, query: RunningQuery, text_vectors: Mapping[str, NDArray[np.float32]]) -> bool:
        """Return whether one of the captions that are most like the words holds every content word of them."""
        resolved, catalog, vector = query.resolved, self._catalog, text_vectors.get(self._text_encoder)
        collection = resolved.captions
        if catalog is None or collection is None or vector is None:
            return False
        with query.stopwatch.stage("presence"), query.notes.doing_without("captions' words", "captions' words are left out"):
            asking = asyncio.to_thread(
                lambda: _held(resolved, catalog, caption_method(self._store, collection, vector, resolved.filter))
            )
            return await within(asking, resolved.deadline)
        return False

    async def _presence_seen(
        self, query: RunningQuery, text_vectors: Mapping[str, NDArray[np.float32]], ranking: Ranking
    ) -> Presence | None:
        """Return how likely the models see what was asked; see `presence`."""
        judge, vector = self._learnt.presence, text_vectors.get(self._text_encoder)
        if judge is None or vector is None or not query.resolved.text:
            return None
        with query.stopwatch.stage("presence"), query.notes.doing_without("the confidence", "the confidence is left out"):
            samples = {one.collection: self._searcher.known_background(one.collection) for one in ranking.searches}
            if all(sample is not None for sample in samples.values()):  # the search read them: nothing blocks
                return judge.judge(vector, self._space_signs(ranking, samples))
            judging = asyncio.to_thread(lambda: judge.judge(vector, self._space_signs(ranking, {})))
            return await within(judging, query.resolved.deadline)
        return None

    def presence_with_captions(self, presence: Presence | None, captions: CaptionMatches | None) -> Presence | None:
        """Return the judgement with what captions say about the collection."""
        judge = self._learnt.presence
        if judge is None or presence is None or captions is None or not captions.found.ids:
            return presence
        return judge.with_captions(presence, float(captions.found.scores[0]))

    def _space_signs(self, ranking: Ranking, samples: Mapping[str, Vectors | None]) -> dict[str, SpaceSigns]:
        """Map spaces to what they found for the words, beside ordinary pictures of their collections.

        Args:
            ranking: The text pass.
            samples: Collection -> vectors of ordinary pictures; what is missing is read, which blocks.
        """
        searches = {search.space: search for search in ranking.searches if search.guide == TEXT_GUIDE}
        found = {}
        for ranked in ranking.lists:
            if ranked.guide == TEXT_GUIDE and ranked.space in searches:
                search = searches[ranked.space]
                sample = samples.get(search.collection)
                sample = self._searcher.background(search.collection) if sample is None else sample
                cosines = sample @ search.vector if len(sample) else np.zeros(0, np.float32)
                found[ranked.space] = SpaceSigns(
                    ids=ranked.ids[:HEAD],
                    scores=ranked.scores[:HEAD],
                    mean=float(cosines.mean()) if len(cosines) else 0.0,
                    spread=float(cosines.std()) if len(cosines) else 0.0,
                    sampled=len(cosines),
                )
        return found

    async def settled(self, query_id: str | None = None) -> None:
        """Return when the query, or every answered one, is recorded; after ten seconds in any case."""
        recorder = self._learnt.recorder
        if recorder is not None and recorder.pending(query_id):
            await asyncio.to_thread(recorder.settle, query_id)

    @property
    def remembers(self) -> bool:
        """Whether queries are recorded."""
        return self._learnt.memory is not None

    async def remember(self, query: RunningQuery, trace: Trace) -> None:
        """Record a query and learn from it; whatever goes wrong is a warning of an answer that stands.

        What takes longer than the query has left goes on by itself: its answer does not wait. With a recorder it waits for
        nothing but room in the recorder's queue.

        Args:
            query: The query under way.
            trace: Its record, without the parts of its scores: those are read from the store when the record is written.
        """
        memory, recorder = self._learnt.memory, self._learnt.recorder
        if memory is None:
            return
        complete = partial(_with_parts, self._searcher, trace)
        with query.stopwatch.stage("remember"):
            if recorder is not None:
                await _queued(recorder, memory, complete, query)
                return
            until = time.monotonic() + max(remaining(query.resolved.deadline), _REMEMBER_GRACE_S)
            with query.notes.doing_without(
                "the record of this query, which comes late if at all", "this query was not recorded"
            ):
                for warning in await within(asyncio.to_thread(lambda: memory.keep(complete())), until):
                    query.notes.failed(warning)


def _held(resolved: ResolvedQuery, catalog: CatalogReader, described: Method) -> bool:
    wanted = content_words(resolved.text)
    captions = catalog.captions(described.ids)
    return any(wanted <= content_words(caption.text) for image_id in described.ids for caption in captions.get(image_id, ()))


def _with_parts(searcher: Searcher, trace: Trace) -> Trace:
    """Return the trace with the similarities of its hits; without, where the store does not give them: the record stands."""
    if trace.parts:
        return trace
    try:
        return replace(trace, parts=searcher.inner_products(trace.searches, trace.hits))
    except StoreError as error:
        _log.warning("query %s is recorded without its similarities: %s", trace.query_id, error)
        return trace


async def _queued(recorder: Recorder, memory: QueryMemory, complete: Callable[[], Trace], query: RunningQuery) -> None:
    """Queue a record, to be completed when it is written."""
    query_id = query.resolved.query_id
    until = time.monotonic() + min(_ROOM_S, remaining(query.resolved.deadline))
    while not recorder.offer(query_id, memory, complete):
        if time.monotonic() >= until:
            recorder.lose(query_id)
            query.notes.failed("this query was not recorded: the catalog does not keep up")
            return
        await asyncio.sleep(_LOOK_S)
