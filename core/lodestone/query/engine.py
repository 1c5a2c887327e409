"""How is a query answered? One async pipeline that yields what it knows as soon as it knows it.

plan -> text pass -> generate -> embed guides -> search -> fuse. The events of one query are `plan`, `results` (the text pass),
`guide` for each guide, better `results`, `done`. What does not fit into the deadline is dropped in this order: guides, then
spaces of the guides, then guides altogether; the text pass answers with the spaces that came in time. `dropped` says what was
was left out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.errors import DeadlineExceededError, LodestoneError, ModelUnavailableError, NotFoundError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.calibration import Calibration
from lodestone.query.clock import Stopwatch, remaining, within
from lodestone.query.fusion import PICTURE_GUIDE, TEXT_GUIDE, FusedList
from lodestone.query.guiding import FusionSettings, ask, fit, searches_of
from lodestone.query.hydrate import Hydrator
from lodestone.query.plan import CAPTIONS_ALIAS, QueryPlan, make_plan
from lodestone.query.rescore import ListSearch
from lodestone.query.responses import Query, Stage, finished, guide_info, plan_event, response_of
from lodestone.query.search import Ranking, Searcher
from lodestone.query.stages import CatalogReader, EncodedTexts, Encoder, EqualWeights, SpaceWeigher
from lodestone.store.base import Filter, HasId, VectorStore
from lodestone_schemas.api import (
    DoneEvent,
    Event,
    GuideEvent,
    ResultsEvent,
    SearchOptions,
    SearchRequest,
    SearchResponse,
)

_log = logging.getLogger(__name__)

_HYDRATE_GRACE_S: Final = 1.0  # an answer that is found is read out even when the deadline has just passed
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
        generators: Name -> guide engine.
        weigher: How much each space counts for a query.
        fusion: Fitted numbers.
    """

    def __init__(
        self,
        *,
        store: VectorStore,
        catalog: CatalogReader,
        encoder: Encoder,
        profile: Profile,
        settings: QuerySettings,
        generators: Mapping[str, Generator] | None = None,
        weigher: SpaceWeigher | None = None,
        fusion: FusionSettings | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._encoder = encoder
        self._profile = profile
        self._settings = settings
        self._generators = dict(generators or {})
        self._weigher = weigher or EqualWeights()
        self._fusion = fusion or FusionSettings()
        self._searcher = Searcher(store, Calibration(store))
        self._hydrator = Hydrator(catalog)

    async def warm_up(self) -> None:
        """Load what searches in words need. A generator that cannot run is logged; queries will say so too.

        Raises:
            ModelUnavailableError: the text encoder or a space cannot be loaded.
        """
        await self._encoder.warm_up()
        for name, generator in self._generators.items():
            try:
                await generator.warm_up()
            except ModelUnavailableError as error:
                _log.warning("generator %s cannot run: %s (%s)", name, error.message, error.hint)

    async def events(self, request: SearchRequest) -> AsyncGenerator[Event, None]:
        """Answer in words, step by step; closing the iterator cancels what is pending.

        Raises:
            InvalidRequestError: the request cannot be answered as it stands.
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what the answer is read from failed.
        """
        stopwatch = Stopwatch()
        plan = await self._plan(request, stopwatch)
        with stopwatch.stage("encode"):
            texts = await self._encode(plan)
        query = Query(plan, stopwatch, self._weigh(texts, plan))
        yield plan_event(query)
        ranking = await self._rank(_text_searches(query, texts), query, reweigh=lambda best: self._weigh(texts, plan, best))
        if ranking.lists:
            query = replace(query, weights={**query.weights, **{one.space: one.weight for one in ranking.lists}})
        response = await self._respond(query, ranking, stage="text")
        yield ResultsEvent(response=response)
        guides: list[Guide] = []
        async with aclosing(self._guides(query, texts)) as batches:
            async for batch in batches:
                guides += batch
                for guide in batch:
                    yield GuideEvent(query_id=plan.query_id, guide=guide_info(guide))
        better = await self._guided(query, ranking, guides) if guides else None
        if better is not None:
            used = {one.guide for one in better.searches}
            response = await self._respond(
                query, better, stage="guides", guides=[one for one in guides if one.guide_id in used]
            )
            yield ResultsEvent(response=response)
        yield DoneEvent(response=finished(response, query))

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """The last event's answer; raises as `events` does."""
        async with aclosing(self.events(request)) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    return event.response
        raise AssertionError("a query ends with a DoneEvent or an exception")

    async def similar(self, image_id: str, options: SearchOptions) -> SearchResponse:
        """Pictures like an indexed one, by the vectors it has; without itself.

        Raises:
            NotFoundError: no such picture in any searched space.
        """
        stopwatch = Stopwatch()
        plan = await self._plan(options, stopwatch)
        with stopwatch.stage("retrieve"):
            vectors = await _in_time(asyncio.to_thread(self._vectors_of, image_id, plan), plan, "reading the picture's vectors")
        if plan.spaces and not vectors:
            raise NotFoundError(
                f"no picture {image_id!r} is indexed", hint="take the id from a search result", image_id=image_id
            )
        without = Filter((plan.filter or Filter()).must, (*(plan.filter or Filter()).must_not, HasId((image_id,))))
        return await self._like(vectors, replace(plan, filter=without), stopwatch)

    async def by_picture(self, image: Image.Image, options: SearchOptions) -> SearchResponse:
        """Pictures like this one, which need not be indexed; `image` is upright RGB. The first call loads the image models.

        Raises:
            ModelUnavailableError: an image model cannot be loaded.
        """
        stopwatch = Stopwatch()
        plan = await self._plan(options, stopwatch)
        vectors: dict[str, Vector] = {}
        if plan.spaces:
            pixels = np.asarray(image.convert("RGB"))
            with stopwatch.stage("embed"):
                embedded = await _in_time(self._encoder.embed_pictures([pixels]), plan, "embedding the picture")
            vectors = {collection: rows[0] for collection, rows in embedded.items()}
        return await self._like(vectors, plan, stopwatch)

    # -- steps ---------------------------------------------------------------------------------------------------------------

    async def _plan(self, options: SearchOptions, stopwatch: Stopwatch) -> QueryPlan:
        def read() -> QueryPlan:
            return make_plan(
                options,
                settings=self._settings,
                profile=self._profile,
                aliases=self._store.aliases(),
                known_spaces=self._encoder.collections,
                known_generators=list(self._generators),
                catalog=self._catalog,
                started=stopwatch.started,
            )

        with stopwatch.stage("plan"):
            return await asyncio.to_thread(read)

    async def _encode(self, plan: QueryPlan) -> EncodedTexts:
        if not plan.spaces:
            return EncodedTexts({}, {})
        return await _in_time(self._encoder.encode_texts([plan.text]), plan, "encoding the query")

    def _weigh(self, texts: EncodedTexts, plan: QueryPlan, best: Mapping[str, float] | None = None) -> Mapping[str, float]:
        return self._weigher.weights(texts.encoded, list(plan.spaces), best=best) if plan.spaces else {}

    async def _rank(
        self,
        searches: Sequence[ListSearch],
        query: Query,
        *,
        reweigh: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None,
    ) -> Ranking:
        if not searches:
            return _EMPTY
        ranking = await self._searcher.rank(searches, query.rules, query.stopwatch, reweigh=reweigh)
        if ranking is None:
            raise _too_late("searching")
        return ranking

    async def _guides(self, query: Query, texts: EncodedTexts) -> AsyncGenerator[list[Guide], None]:
        plan = query.plan
        if not plan.generators or not plan.spaces:
            return
        collections = dict(plan.spaces) | ({CAPTIONS_ALIAS: plan.captions} if plan.captions else {})
        request = GuideRequest(
            query=plan.text,
            prompt=plan.text,
            n=plan.guides,
            seed=plan.seed,
            text_vectors={name: rows[0] for name, rows in texts.encoded.items()},
            collections=collections,
            filter=plan.filter,
        )
        engines = {name: self._generators[name] for name in plan.generators}
        waiting = time.monotonic()
        async with aclosing(ask(engines, request, deadline=plan.deadline, log=query.log)) as batches:
            async for batch in batches:
                query.stopwatch.add("generate", time.monotonic() - waiting)
                yield batch
                waiting = time.monotonic()
        query.stopwatch.add("generate", time.monotonic() - waiting)

    async def _guided(self, query: Query, ranking: Ranking, guides: Sequence[Guide]) -> Ranking | None:
        """The text pass and as many guides as there is time for; None when there is none."""
        plan, log = query.plan, query.log
        kept, width = fit(
            len(guides),
            len(plan.spaces),
            seconds_a_list=query.stopwatch.seconds("search") / max(1, len(ranking.lists)),
            left=remaining(plan.deadline),
        )
        if kept < len(guides):
            log.dropped.append(f"{len(guides) - kept} of {len(guides)} guides: out of time")
        if not kept:
            return None
        best = sorted(plan.spaces, key=lambda space: (-query.weights[space], space))[:width]
        log.dropped += [f"space {space!r} for guides: out of time" for space in plan.spaces if space not in best]
        strongest = sorted(guides, key=lambda guide: -guide.weight)[:kept]
        with query.stopwatch.stage("guides"):
            try:
                searches = await within(
                    searches_of(
                        strongest,
                        encoder=self._encoder,
                        spaces={space: plan.spaces[space] for space in best},
                        space_weights=query.weights,
                        settings=self._fusion,
                    ),
                    plan.deadline,
                )
                better = await self._searcher.rank(searches, query.rules, query.stopwatch, before=ranking) if searches else None
                if searches and better is None:
                    log.dropped.append("guides: out of time")
            except TimeoutError:
                better = None
                log.dropped.append("guides: out of time")
            except LodestoneError as error:
                better = None
                log.warnings.append(f"guides are left out: {error.message}{f' ({error.hint})' if error.hint else ''}")
        return better

    async def _like(self, vectors: Mapping[str, Vector], plan: QueryPlan, stopwatch: Stopwatch) -> SearchResponse:
        spaces = {space: collection for space, collection in plan.spaces.items() if collection in vectors}
        weights = EqualWeights().weights({}, list(spaces))
        query = Query(plan, stopwatch, weights)
        searches = [
            ListSearch(PICTURE_GUIDE, space, collection, weights[space], vectors[collection])
            for space, collection in spaces.items()
        ]
        return finished(await self._respond(query, await self._rank(searches, query), stage="picture"), query)

    async def _respond(self, query: Query, ranking: Ranking, *, stage: Stage, guides: Iterable[Guide] = ()) -> SearchResponse:
        plan = query.plan
        with query.stopwatch.stage("hydrate"):
            try:
                async with asyncio.timeout(max(remaining(plan.deadline), _HYDRATE_GRACE_S)):
                    hits = await asyncio.to_thread(self._hydrator.page, plan, ranking)
            except TimeoutError as error:
                raise _too_late("reading the catalog") from error
        return response_of(query, ranking, hits, stage=stage, guides=guides)

    def _vectors_of(self, image_id: str, plan: QueryPlan) -> dict[str, Vector]:
        found = {}
        for collection in plan.spaces.values():
            points = self._store.retrieve(collection, [image_id])
            if len(points):
                found[collection] = points.vectors[0]
        return found


def _text_searches(query: Query, texts: EncodedTexts) -> list[ListSearch]:
    return [
        ListSearch(TEXT_GUIDE, space, collection, query.weights[space], texts.projected[collection][0])
        for space, collection in query.plan.spaces.items()
        if collection in texts.projected and query.weights[space] > 0
    ]


async def _in_time(work: Awaitable[T], plan: QueryPlan, doing: str) -> T:
    try:
        return await within(work, plan.deadline)
    except TimeoutError as error:
        raise _too_late(doing) from error


def _too_late(doing: str) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the deadline passed while {doing}, before anything was found", hint="allow more time: deadline_ms"
    )
