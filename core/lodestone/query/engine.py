"""Query engine of one home: the constructors of queries, and the pipeline that answers all of them (pipeline.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import numpy as np
from PIL import Image as PillowImage

from lodestone.catalog.reading import CatalogReader
from lodestone.config.compositions import DEFAULT_COMPOSITION, Composition, all_compositions
from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.errors import UnknownNameError
from lodestone.files.beneath import Boundaries
from lodestone.query.answering.hydrate import Hydrator
from lodestone.query.answering.passes import QueryPasses, SingleLeafPass
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.query.asking.requested_sets import query_of
from lodestone.query.asking.searchable import CURRENT, IndexVersions
from lodestone.query.asking.tree import Image, Picture, Query, Where
from lodestone.query.composing.assembly import StageMaker
from lodestone.query.contracts import Encoder, EqualWeights, GuideSource, PictureSource, SpaceWeigher
from lodestone.query.guides.captions import CaptionEvidence, CaptionRule
from lodestone.query.guides.outliers import UMAP_FROM
from lodestone.query.guides.search import FusionSettings
from lodestone.query.guides.stage import GuideStage
from lodestone.query.pipeline import PageStage, QueryPipeline, ResolveStage
from lodestone.query.retrieving.first_pass import FirstPassStage
from lodestone.query.retrieving.learned_stages import LearnedModels, LearnedStages
from lodestone.query.retrieving.leaves import LeafSources, RetrievalStage
from lodestone.query.words.checker import QueryChecker
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fuser import Fuser
from lodestone.retrieval.searcher import Searcher
from lodestone.store.base import VectorStore
from lodestone_schemas.api import DoneEvent, Event, SearchOptions, SearchRequest, SearchResponse
from lodestone_schemas.collections import FieldKind


class QueryEngine:
    """Answers searches in words, by an indexed picture, by any picture, by several and by trees; many in one event loop.

    Args:
        store: Vectors.
        catalog: Facts of pictures.
        encoder: All models.
        profile: Defaults of spaces, generators, guides and fusion.
        settings: Defaults of this home.
        hub: Draws guides; None for the text pass alone.
        weigher: Fits weights of spaces to a query's words.
        fusion: Fitted numbers.
        captions: Fitted numbers of what captions say; of weight 0, they are only guides.
        learnt: What use has taught.
        boundaries: What may be opened of the roots, to see whether the file of a hit is gone.
        checker: Checks spelling and language of words; None to take them as they are.
        fuser: Fuses the lists of queries; None for this process.
        compositions: How composed queries are searched and ranked, by name, with set or learnt weights; `default` is among
            them. None for the profile's own.
        pictures: Reads indexed pictures that are to be edited; None where they cannot be read.
        versions: How the versions of `encoder` differ from what the home is configured for.
        fields: Filter fields that further parts of pictures have.

    Raises:
        ConfigurationError: a composition wants pictures edited, and no engine of its queries edits any.
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
        boundaries: Boundaries | None = None,
        checker: QueryChecker | None = None,
        fuser: Fuser | None = None,
        compositions: Mapping[str, Composition] | None = None,
        pictures: PictureSource | None = None,
        versions: IndexVersions = CURRENT,
        fields: Mapping[str, FieldKind] | None = None,
    ) -> None:
        self._encoder = encoder
        self._profile = profile
        self._settings = settings
        self._hub = hub
        calibration = ScoreCalibration(store)
        searcher = Searcher(store, calibration, fuser=fuser, merge_above=settings.merge_above)
        weigher = weigher or EqualWeights()
        self._compositions = dict(compositions or all_compositions({}, profile))
        self._learned = LearnedStages(
            learnt or LearnedModels(), store=store, searcher=searcher, text_encoder=profile.text_encoder, catalog=catalog
        )
        self._guides = (
            None
            if hub is None
            else GuideStage(
                hub=hub,
                encoder=encoder,
                searcher=searcher,
                fusion=fusion or FusionSettings(),
                captions=CaptionEvidence(store, catalog, calibration, rule=captions),
                text_encoder=profile.text_encoder,
            )
        )
        maker = StageMaker(
            store=store,
            catalog=catalog,
            searcher=searcher,
            calibration=calibration,
            encoder=encoder,
            weigher=weigher,
            learned=self._learned,
            priors=profile.space_priors,
            text_encoder=profile.text_encoder,
            hub=hub,
            generators=profile.generators if settings.generators is None else settings.generators,
            pictures=pictures,
        )
        composing = {name: maker.stages(composition) for name, composition in self._compositions.items()}
        first_pass = FirstPassStage(searcher=searcher, weigher=weigher, learned=self._learned, priors=profile.space_priors)
        self._pipeline = QueryPipeline(
            resolving=ResolveStage(
                store,
                catalog,
                encoder,
                profile,
                settings,
                hub,
                checker,
                compositions=self._compositions,
                versions=versions,
                fields=fields or {},
            ),
            retrieval=RetrievalStage(LeafSources(encoder, store)),
            passes=QueryPasses(SingleLeafPass(first_pass, self._guides), composing),
            learned=self._learned,
            deciding=PageStage(Hydrator(catalog, boundaries)),
        )

    @property
    def encoder(self) -> Encoder:
        """All models of words and pictures."""
        return self._encoder

    def composition(self, name: str | None) -> Composition:
        """Return a composition of the home, with its set or learnt weights; `default` for None.

        Raises:
            UnknownNameError: there is no such composition; the hint lists those that there are.
        """
        if (wanted := name or DEFAULT_COMPOSITION) not in self._compositions:
            raise UnknownNameError.among("composition", wanted, list(self._compositions))
        return self._compositions[wanted]

    async def warm_up(self) -> None:
        """Load what searches in words need. A generator that cannot run is logged; queries will say so too.

        Raises:
            ModelUnavailableError: the text encoder or a space cannot be loaded.
        """
        await self._encoder.warm_up()
        if self._hub is not None:
            await self._hub.warm_up()
        guides = self._profile.guides if self._settings.guides is None else self._settings.guides
        if self._guides is not None and self._settings.outliers and guides >= UMAP_FROM:
            await asyncio.to_thread(self._guides.warm_up)

    def ask(
        self, query: Query, options: SearchOptions, *, request_context: RequestContext = NOW, early: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Answer a query, event by event; closing the iterator cancels what is pending.

        Args:
            query: What to look for.
            options: How to answer; its filters hold beside those of the query.
            request_context: When it came, from whom, and whether it may have guides.
            early: Whether somebody reads the results of the first pass while guides are drawn.

        Raises:
            InvalidRequestError: the query cannot be answered as it stands.
            NotFoundError: a picture that the query names is not indexed.
            ModelUnavailableError: a model that the query needs cannot be loaded.
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what the answer is read from failed.
        """
        return self._pipeline.run(Where(options.filters, query), options, request_context, early=early)

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncGenerator[Event, None]:
        """Answer a search in words, within the sets of its request, event by event, as `ask` does."""
        async with aclosing(self.ask(query_of(request), request, request_context=request_context)) as events:
            async for event in events:
                yield event

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return the last answer to a search in words, within the sets of its request; raises as `ask` does."""
        return await self._last(self.ask(query_of(request), request, request_context=request_context, early=False))

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return pictures like an indexed one, by the vectors that it has; without itself.

        Raises:
            NotFoundError: no such picture in any searched space.
        """
        return await self._last(self.ask(Image(image_id), options, request_context=request_context))

    async def by_picture(
        self, image: PillowImage.Image, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        """Return pictures like this one, which need not be indexed. The first call loads the image models.

        Args:
            image: Upright, RGB.
            options: How to answer.
            request_context: When it came, and from whom.

        Raises:
            ModelUnavailableError: an image model cannot be loaded.
        """
        picture = Picture(np.asarray(image.convert("RGB")))
        return await self._last(self.ask(picture, options, request_context=request_context))

    async def composed(self, query: Query, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return the answer to a composed query, or to one that sets restrict; raises as `ask` does."""
        return await self._last(self.ask(query, options, request_context=request_context))

    async def settled(self, query_id: str | None = None) -> None:
        """Return when the query, or every answered one, is recorded: its answer did not wait for that."""
        await self._learned.settled(query_id)

    async def _last(self, answering: AsyncGenerator[Event, None]) -> SearchResponse:
        async with aclosing(answering) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    return event.response
        raise AssertionError("a query ends with a DoneEvent or an exception")
