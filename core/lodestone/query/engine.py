"""How is a query answered? One async pipeline that yields what it knows as soon as it knows it.

plan -> text pass -> gate -> generate -> embed guides -> outliers -> search -> fuse -> remember. The events of one query are
`plan`, `results` (the text pass), `guide` for each guide, better `results`, `done`. A query that the gate finds simple ends
with the text pass. What does not fit into the deadline is dropped in this order: guides, then spaces of the guides, then guides
altogether; the text pass answers with the spaces that came in time. `dropped` says what was left out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.clock import Stopwatch, remaining, within
from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.errors import DeadlineExceededError, NotFoundError
from lodestone.query.captions import CaptionEvidence, CaptionRule
from lodestone.query.guide_search import FusionSettings
from lodestone.query.guide_stage import GuideStage, GuideState
from lodestone.query.hydrate import Hydrator
from lodestone.query.learned_stages import LearnedModels, LearnedStages
from lodestone.query.outliers import UMAP_FROM
from lodestone.query.request_context import NOW, RequestContext
from lodestone.query.resolve import ResolvedQuery, resolve
from lodestone.query.responses import Query, Stage, finished, guide_info, guide_infos, plan_event, response_of
from lodestone.query.stages import (
    CatalogReader,
    EncodedTexts,
    Encoder,
    EqualWeights,
    GuideSource,
    SpaceWeigher,
)
from lodestone.query.trust_weights import apply_trust, prior_trust
from lodestone.query_log.trace import Kind
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import PICTURE_GUIDE, TEXT_GUIDE, FusedList, RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Ranking, Searcher
from lodestone.store.base import Filter, HasId, VectorStore
from lodestone_schemas.api import (
    DoneEvent,
    Event,
    GuideEvent,
    GuideInfo,
    ResultsEvent,
    SearchOptions,
    SearchRequest,
    SearchResponse,
)

_log = logging.getLogger(__name__)

_ANSWER_S: Final = 0.02  # to finish an answer, besides reading it out
_MOST_RESERVED: Final = 0.3  # of the time left, for that
_HYDRATE_S: Final = 0.05  # where this query has not read anything out yet
_HYDRATE_GRACE_S: Final = 0.25  # an answer that is found is read out even when the deadline has just passed
_EMPTY: Final = Ranking(FusedList((), np.empty(0)))
Vector = NDArray[np.float32]
T = TypeVar("T")


class QueryEngine:
    """Answers searches in words, by an indexed picture and by any picture. Safe for many queries at once in one event loop.

    Args:
        store: Vectors.
        catalog: Facts of pictures.
        encoder: All models.
        profile: Defaults of spaces, generators, guides and fusion.
        settings: Defaults of this home.
        hub: Draws guides; None for the text pass alone.
        weigher: How much each space counts for a query.
        fusion: Fitted numbers.
        captions: Fitted numbers of what captions say; of weight 0, they are only guides.
        learnt: What use has taught.
    """

    def __init__(
        self,
        *,
        store: VectorStore,
        catalog: CatalogReader,
        encoder: Encoder,
        profile: Profile,
        settings: QuerySettings,
        hub: GuideSource | None = None,
        weigher: SpaceWeigher | None = None,
        fusion: FusionSettings | None = None,
        captions: CaptionRule | None = None,
        learnt: LearnedModels | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._encoder = encoder
        self._profile = profile
        self._settings = settings
        self._hub = hub
        self._weigher = weigher or EqualWeights()
        calibration = ScoreCalibration(store)
        self._searcher = Searcher(store, calibration)
        self._hydrator = Hydrator(catalog)
        self._lessons = LearnedStages(
            learnt or LearnedModels(), store=store, searcher=self._searcher, text_encoder=profile.text_encoder
        )
        self._loop = (
            None
            if hub is None
            else GuideStage(
                hub=hub,
                encoder=encoder,
                searcher=self._searcher,
                fusion=fusion or FusionSettings(),
                captions=CaptionEvidence(store, catalog, calibration, rule=captions),
                text_encoder=profile.text_encoder,
            )
        )

    @property
    def encoder(self) -> Encoder:
        """All models of words and pictures."""
        return self._encoder

    async def warm_up(self) -> None:
        """Load what searches in words need. A generator that cannot run is logged; queries will say so too.

        Raises:
            ModelUnavailableError: the text encoder or a space cannot be loaded.
        """
        await self._encoder.warm_up()
        if self._hub is not None:
            await self._hub.warm_up()
        guides = self._profile.guides if self._settings.guides is None else self._settings.guides
        if self._loop is not None and self._settings.outliers and guides >= UMAP_FROM:
            await asyncio.to_thread(self._loop.warm_up)

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncGenerator[Event, None]:
        """Answer in words, step by step; closing the iterator cancels what is pending.

        Raises:
            InvalidRequestError: the request cannot be answered as it stands.
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what the answer is read from failed.
        """
        stopwatch = Stopwatch(request_context.arrived)
        query = _without_guides(
            Query(await self._plan(request, stopwatch, request_context), stopwatch, {}), request_context.text_only
        )
        plan = query.plan
        with stopwatch.stage("encode"):
            texts = await self._encode(plan)
        query = await self._lessons.with_trust(query, texts)
        query = replace(query, trust=query.trust or prior_trust(self._profile.space_priors, list(plan.spaces)))
        query = replace(query, weights=self._weigh(texts, query))
        yield plan_event(query)
        ranking, tags = await self._text_pass(query, texts)
        if ranking.lists:
            query = replace(
                query, weights={**query.weights, **{one.space: one.weight for one in ranking.lists if one is not tags}}
            )
        query = replace(query, gate=await self._lessons.judged(query, texts, ranking, tags))
        response = await self._respond(query, ranking, stage="text")
        query.stopwatch.observed.text_answered(time.monotonic() - query.stopwatch.started)
        yield ResultsEvent(response=response)
        drawn = GuideState()
        if self._loop is not None and _wants_guides(query):
            async with aclosing(self._loop.run(_with_room_to_answer(query), texts, ranking, drawn)) as batches:
                async for batch in batches:
                    for guide in batch:
                        yield GuideEvent(query_id=plan.query_id, guide=guide_info(guide, plan.query_id))
            if drawn.stopped:
                query.log.left_out(f"more guides: {drawn.stopped}")
            infos = guide_infos(drawn, plan.query_id)
            if drawn.ranking is not None:
                ranking = drawn.ranking
                response = await self._respond(query, ranking, stage="guides", guides=infos)
                yield ResultsEvent(response=response)
            else:
                response = response.model_copy(update={"guides": infos})
        await self._lessons.remember(request, query, ranking, response, texts=texts)
        yield DoneEvent(response=finished(response, query))

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """The last event's answer; raises as `events` does."""
        async with aclosing(self.events(request, request_context=request_context)) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    return event.response
        raise AssertionError("a query ends with a DoneEvent or an exception")

    async def settled(self, query_id: str | None = None) -> None:
        """Return when the query, or every answered one, is recorded: its answer did not wait for that."""
        await self._lessons.settled(query_id)

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Pictures like an indexed one, by the vectors it has; without itself.

        Raises:
            NotFoundError: no such picture in any searched space.
        """
        stopwatch = Stopwatch(request_context.arrived)
        plan = await self._plan(options, stopwatch, request_context)
        with stopwatch.stage("retrieve"):
            vectors = await _in_time(asyncio.to_thread(self._vectors_of, image_id, plan), plan, "reading the picture's vectors")
        if plan.spaces and not vectors:
            raise NotFoundError(
                f"no picture {image_id!r} is indexed", hint="take the id from a search result", image_id=image_id
            )
        without = Filter((plan.filter or Filter()).must, (*(plan.filter or Filter()).must_not, HasId((image_id,))))
        return await self._like(vectors, replace(plan, filter=without), stopwatch, options, kind="similar")

    async def by_picture(
        self, image: Image.Image, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        """Pictures like this one, which need not be indexed; `image` is upright RGB. The first call loads the image models.

        Raises:
            ModelUnavailableError: an image model cannot be loaded.
        """
        stopwatch = Stopwatch(request_context.arrived)
        plan = await self._plan(options, stopwatch, request_context)
        vectors: dict[str, Vector] = {}
        if plan.spaces:
            pixels = np.asarray(image.convert("RGB"))
            with stopwatch.stage("embed"):
                embedded = await _in_time(
                    self._encoder.embed_pictures([pixels], deadline=plan.deadline), plan, "embedding the picture"
                )
            vectors = {collection: rows[0] for collection, rows in embedded.items()}
        return await self._like(vectors, plan, stopwatch, options, kind="picture")

    # -- steps ---------------------------------------------------------------------------------------------------------------

    async def _plan(self, options: SearchOptions, stopwatch: Stopwatch, request_context: RequestContext) -> ResolvedQuery:
        def read() -> ResolvedQuery:
            if self._hub is not None:
                self._hub.refresh()
            return resolve(
                options,
                settings=self._settings,
                profile=self._profile,
                aliases=self._store.aliases(),
                known_spaces=self._encoder.collections,
                known_generators=[] if self._hub is None else list(self._hub.names),
                catalog=self._catalog,
                present=self._store.collections,
                started=stopwatch.started,
                visibility=request_context.visibility,
            )

        with stopwatch.stage("plan"):
            plan = await asyncio.to_thread(read)
        stopwatch.observed.about(plan.query_id)
        if mixed := plan.spaces.items() - self._encoder.collections.items():
            raise AssertionError(f"vectors of one version would be compared with those of another: {sorted(mixed)}")
        return replace(plan, deadline=plan.deadline - request_context.way_back)

    async def _encode(self, plan: ResolvedQuery) -> EncodedTexts:
        if not plan.spaces:
            return EncodedTexts({}, {})
        encoding = self._encoder.encode_texts([plan.text], deadline=plan.deadline)
        return await _in_time(encoding, plan, "encoding the query")

    def _weigh(self, texts: EncodedTexts, query: Query, best: Mapping[str, float] | None = None) -> Mapping[str, float]:
        if not query.plan.spaces:
            return {}
        return apply_trust(self._weigher.weights(texts.encoded, list(query.plan.spaces), best=best), query.trust)

    async def _text_pass(self, query: Query, texts: EncodedTexts) -> tuple[Ranking, RankedList | None]:
        """The query's own words in every space that takes text, and the tags that are like them."""
        searches = _text_searches(query, texts)
        tags = await self._lessons.tagged(query) if searches else None
        ranking = await self._rank(searches, _with_room_to_answer(query), extra=[tags] if tags else [], texts=texts)
        return ranking, tags

    async def _rank(
        self,
        searches: Sequence[ListSearch],
        query: Query,
        *,
        extra: Sequence[RankedList] = (),
        texts: EncodedTexts | None = None,
    ) -> Ranking:
        if not searches:
            return _EMPTY
        reweigh = None if texts is None else lambda best: self._weigh(texts, query, best)
        ranking = await self._searcher.rank(searches, query.rules, query.stopwatch, extra=extra, reweigh=reweigh)
        if ranking is None:
            raise _too_late("searching")
        return ranking

    async def _like(
        self, vectors: Mapping[str, Vector], plan: ResolvedQuery, stopwatch: Stopwatch, options: SearchOptions, *, kind: Kind
    ) -> SearchResponse:
        spaces = {space: collection for space, collection in plan.spaces.items() if collection in vectors}
        weights = apply_trust(EqualWeights().weights({}, list(spaces)), prior_trust(self._profile.space_priors, list(spaces)))
        query = Query(plan, stopwatch, weights)
        searches = [
            ListSearch(PICTURE_GUIDE, space, collection, weights[space], vectors[collection])
            for space, collection in spaces.items()
        ]
        ranking = await self._rank(searches, _with_room_to_answer(query))
        response = await self._respond(query, ranking, stage="picture")
        await self._lessons.remember(options, query, ranking, response, kind=kind)
        return finished(response, query)

    async def _respond(
        self, query: Query, ranking: Ranking, *, stage: Stage, guides: Iterable[GuideInfo] = ()
    ) -> SearchResponse:
        plan = query.plan
        with query.stopwatch.stage("hydrate"):
            try:
                async with asyncio.timeout(max(remaining(plan.deadline), _HYDRATE_GRACE_S)):
                    shown, hits = await asyncio.to_thread(self._hydrator.shown, plan, ranking)
            except TimeoutError as error:
                raise _too_late("reading the catalog") from error
        return response_of(query, shown, hits, stage=stage, guides=guides)

    def _vectors_of(self, image_id: str, plan: ResolvedQuery) -> dict[str, Vector]:
        found = {}
        for collection in plan.spaces.values():
            points = self._store.retrieve(collection, [image_id])
            if len(points):
                found[collection] = points.vectors[0]
        return found


def _without_guides(query: Query, reason: str) -> Query:
    """The query, to be answered by its text pass where there is a reason for that; its answer says so."""
    if not reason or not query.plan.guides:
        return query
    query.log.left_out(f"guides: {reason}")
    return replace(query, plan=replace(query.plan, generators=(), guides=0))


def _with_room_to_answer(query: Query) -> Query:
    """The query with a deadline for its searches or guides: early enough for what they find to be read out by its own."""
    reading_out = 2 * (query.stopwatch.seconds("hydrate") or _HYDRATE_S) + _ANSWER_S
    reserve = min(reading_out, _MOST_RESERVED * remaining(query.plan.deadline))
    return replace(query, plan=replace(query.plan, deadline=query.plan.deadline - reserve))


def _wants_guides(query: Query) -> bool:
    plan = query.plan
    simple = query.gate is not None and query.gate.verdict == "simple"
    return bool(plan.generators and plan.guides and plan.spaces) and not simple


def _text_searches(query: Query, texts: EncodedTexts) -> list[ListSearch]:
    return [
        ListSearch(TEXT_GUIDE, space, collection, query.weights[space], texts.projected[collection][0])
        for space, collection in query.plan.spaces.items()
        if collection in texts.projected and query.weights[space] > 0
    ]


async def _in_time(work: Awaitable[T], plan: ResolvedQuery, doing: str) -> T:
    try:
        return await within(work, plan.deadline)
    except TimeoutError as error:
        raise _too_late(doing) from error


def _too_late(doing: str) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the deadline passed while {doing}, before anything was found", hint="allow more time: deadline_ms"
    )
