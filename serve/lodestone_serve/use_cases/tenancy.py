"""What of the home does a principal see? `Services` with everything else taken out, as if it were not there.

Corpora are tenants. Whatever belongs to another one (a picture, a directory, a job, a run, a tag, a query) is answered exactly
as something that does not exist, so that nobody learns that it does. What was learnt from everybody is shown without anybody's
words. Searches are restricted in the store's own filter; here stands what is asked for by id or in lists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.errors import NotFoundError
from lodestone.query.request_context import NOW, RequestContext
from lodestone_schemas.api import (
    CorpusPage,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    ImagePage,
    QueryExplanation,
    QueryPage,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
    TagList,
    TagPage,
    TagRequest,
    TrustPage,
)
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRequest,
    JobInfo,
    JobList,
)
from lodestone_schemas.openai import DrawingRequest, ModelList
from lodestone_schemas.runs import FailurePage, RunInfo, RunPage
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult
from lodestone_serve.auth.api_key_cache import KeyStore
from lodestone_serve.auth.principal import Principal
from lodestone_serve.use_cases.redaction import (
    discreet_engines,
    discreet_event,
    discreet_explanation,
    discreet_feedback,
    discreet_queries,
    discreet_response,
    discreet_status,
    discreet_tags,
    discreet_trust,
)
from lodestone_serve.use_cases.services import (
    Embedded,
    GeneratedImages,
    GuidePicture,
    RunFilters,
    ServedFile,
    Services,
    TagFilters,
)
from lodestone_serve.use_cases.visibility import VisibilityLimits


def seen_by(services: Services, principal: Principal) -> Services:
    """The home as the principal may see it: itself for those who see everything and have no name, else a `Tenant` of it."""
    return services if principal.visibility == EVERYTHING else Tenant(services, principal.visibility)


class Tenant:
    """Meets `Services`. Every method of it stands here: what is not restricted on purpose is not reached at all.

    Args:
        home: Everything.
        visibility: What may be seen of it.
    """

    def __init__(self, home: Services, visibility: Visibility) -> None:
        self._home = home
        self._visibility = visibility
        self._bounds = VisibilityLimits(visibility)

    async def open(self) -> None:
        """The home is opened once, by the service."""
        raise self._bounds.whole("open")

    async def close(self) -> None:
        """The home is closed once, by the service."""
        raise self._bounds.whole("close")

    # -- searches ------------------------------------------------------------------------------------------------------------

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncIterator[Event]:
        """See `Services.events`."""
        inner = cast("Any", self._home.events(request, request_context=self._asking(request_context)))
        async with aclosing(inner) as events:
            async for event in events:
                yield self._bounds.shown(event, lambda whole: discreet_event(whole, request))

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """See `Services.answer`."""
        return self._response(await self._home.answer(request, request_context=self._asking(request_context)), request)

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """See `Services.similar`."""
        await self.image(image_id)
        return self._response(
            await self._home.similar(image_id, options, request_context=self._asking(request_context)), options
        )

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        """See `Services.by_picture`."""
        return self._response(
            await self._home.by_picture(picture, options, request_context=self._asking(request_context)), options
        )

    # -- pictures and corpora ------------------------------------------------------------------------------------------------

    async def image(self, image_id: str) -> ImageInfo:
        """See `Services.image`."""
        missing = NotFoundError(f"no indexed picture has the id {image_id!r}", hint="take an id from a search")
        return await self._bounds.own(self._home.image(image_id), lambda found: found.corpus, missing)

    async def thumbnail(self, image_id: str) -> ServedFile:
        """See `Services.thumbnail`."""
        await self.image(image_id)
        return await self._home.thumbnail(image_id)

    async def content(self, image_id: str) -> ServedFile:
        """See `Services.content`."""
        await self.image(image_id)
        return await self._home.content(image_id)

    async def images(self, corpus: str, limit: int, *, cursor: str | None = None) -> ImagePage:
        """See `Services.images`."""
        with self._bounds.within(corpus):
            return await self._home.images(corpus, limit, cursor=cursor)

    async def corpora(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> CorpusPage:  # noqa: ARG002 - nobody widens it
        """See `Services.corpora`."""
        return await self._home.corpora(offset, limit, cursor=cursor, visibility=self._visibility)

    async def remove_corpus(self, name: str) -> None:
        """See `Services.remove_corpus`."""
        with self._bounds.within(name):
            await self._home.remove_corpus(name)

    # -- directories, jobs and runs ------------------------------------------------------------------------------------------

    async def directories(
        self,
        offset: int,
        limit: int,
        *,
        cursor: str | None = None,
        visibility: Visibility = EVERYTHING,  # noqa: ARG002 - as above
    ) -> DirectoryPage:
        """See `Services.directories`."""
        return await self._home.directories(offset, limit, cursor=cursor, visibility=self._visibility)

    async def directory(self, directory_id: str) -> DirectoryInfo:
        """See `Services.directory`."""
        missing = NotFoundError(
            f"there is no directory {directory_id!r}", hint="see /v1/directories", directory_id=directory_id
        )
        return await self._bounds.own(self._home.directory(directory_id), lambda found: found.corpus, missing)

    async def add_directory(self, request: DirectoryRequest, *, visibility: Visibility = EVERYTHING) -> DirectoryAdded:  # noqa: ARG002 - as above
        """See `Services.add_directory`."""
        with self._bounds.within(request.corpus):
            return await self._home.add_directory(request, visibility=self._visibility)

    async def change_directory(self, directory_id: str, change: DirectoryChange) -> DirectoryInfo:
        """See `Services.change_directory`."""
        await self.directory(directory_id)
        return await self._home.change_directory(directory_id, change)

    async def index_directory(self, directory_id: str) -> JobInfo:
        """See `Services.index_directory`."""
        await self.directory(directory_id)
        return await self._home.index_directory(directory_id)

    async def remove_directory(self, directory_id: str) -> None:
        """See `Services.remove_directory`."""
        await self.directory(directory_id)
        await self._home.remove_directory(directory_id)

    async def jobs(self) -> JobList:
        """See `Services.jobs`."""
        return JobList(jobs=[job for job in (await self._home.jobs()).jobs if self._visibility.sees(job.corpus)])

    async def cancel_job(self, job_id: str) -> JobInfo:
        """See `Services.cancel_job`."""
        if all(job.job_id != job_id for job in (await self.jobs()).jobs):
            raise NotFoundError(f"there is no job {job_id!r}", hint="see /v1/jobs", job_id=job_id)
        return await self._home.cancel_job(job_id)

    async def runs(self, filters: RunFilters, offset: int, limit: int, *, cursor: str | None = None) -> RunPage:
        """See `Services.runs`."""
        seen = self._visibility.corpora
        if seen is not None:
            filters = replace(filters, corpora=seen if filters.corpora is None else seen & filters.corpora)
        return await self._home.runs(filters, offset, limit, cursor=cursor)

    async def run(self, run_id: str) -> RunInfo:
        """See `Services.run`."""
        missing = NotFoundError(f"there is no run {run_id!r}", hint="see /v1/runs", run_id=run_id)
        return await self._bounds.own(self._home.run(run_id), lambda found: found.corpus, missing)

    async def cancel_run(self, run_id: str) -> RunInfo:
        """See `Services.cancel_run`."""
        await self.run(run_id)
        return await self._home.cancel_run(run_id)

    async def run_failures(self, run_id: str, limit: int, *, cursor: str | None = None) -> FailurePage:
        """See `Services.run_failures`."""
        await self.run(run_id)
        return await self._home.run_failures(run_id, limit, cursor=cursor)

    # -- looking back and learning -------------------------------------------------------------------------------------------

    async def queries(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> QueryPage:  # noqa: ARG002 - as above
        """See `Services.queries`."""
        page = await self._home.queries(offset, limit, cursor=cursor, visibility=self._visibility)
        return self._bounds.shown(page, discreet_queries)

    async def explain(self, query_id: str, *, visibility: Visibility = EVERYTHING) -> QueryExplanation:  # noqa: ARG002 - as above
        """See `Services.explain`."""
        found = await self._home.explain(query_id, visibility=self._visibility)
        return self._bounds.shown(found, discreet_explanation)

    async def replay(self, query_id: str, *, fresh: bool, visibility: Visibility = EVERYTHING) -> ReplayResult:  # noqa: ARG002 - as above
        """See `Services.replay`."""
        return await self._home.replay(query_id, fresh=fresh, visibility=self._visibility)

    async def guide_picture(self, query_id: str, guide_id: str, *, visibility: Visibility = EVERYTHING) -> GuidePicture:  # noqa: ARG002 - as above
        """See `Services.guide_picture`."""
        return await self._home.guide_picture(query_id, guide_id, visibility=self._visibility)

    async def feedback(self, request: FeedbackRequest, *, visibility: Visibility = EVERYTHING) -> FeedbackResult:  # noqa: ARG002 - as above
        """See `Services.feedback`."""
        found = await self._home.feedback(request, visibility=self._visibility)
        return self._bounds.shown(found, discreet_feedback)

    async def trust(self) -> TrustPage:
        """See `Services.trust`."""
        page = await self._home.trust()
        return self._bounds.shown(page, discreet_trust)

    async def generators(self) -> EngineList:
        """See `Services.generators`."""
        found = await self._home.generators()
        return self._bounds.shown(found, discreet_engines)

    async def tags(
        self,
        filters: TagFilters,
        offset: int,
        limit: int,
        *,
        cursor: str | None = None,
        visibility: Visibility = EVERYTHING,  # noqa: ARG002 - as above
    ) -> TagPage:
        """See `Services.tags`."""
        page = await self._home.tags(filters, offset, limit, cursor=cursor, visibility=self._visibility)
        return self._bounds.shown(page, lambda whole: whole.model_copy(update={"tags": discreet_tags(whole.tags)}))

    async def add_tags(self, request: TagRequest) -> TagList:
        """See `Services.add_tags`."""
        if self._visibility.corpora is not None:
            for image_id in dict.fromkeys(request.image_ids):
                missing = NotFoundError(
                    f"no picture {image_id!r} is indexed", hint="take the id from a search result", image_id=image_id
                )
                await self._bounds.own(self._home.image(image_id), lambda found: found.corpus, missing)
        found = await self._home.add_tags(request)
        return self._bounds.shown(found, lambda whole: TagList(tags=discreet_tags(whole.tags)))

    async def remove_tag(self, tag_id: str, *, visibility: Visibility = EVERYTHING) -> None:  # noqa: ARG002 - as above
        """See `Services.remove_tag`."""
        await self._home.remove_tag(tag_id, visibility=self._visibility)

    # -- models and operation ------------------------------------------------------------------------------------------------

    async def models(self) -> ModelList:
        """See `Services.models`: they are everybody's."""
        return await self._home.models()

    async def embed(self, model: str, inputs: Sequence[str | bytes]) -> Embedded:
        """See `Services.embed`: nothing of the home takes part."""
        return await self._home.embed(model, inputs)

    async def draw(self, request: DrawingRequest) -> GeneratedImages:
        """See `Services.draw`: nothing of the home takes part."""
        return await self._home.draw(request)

    def key_store(self) -> KeyStore:
        """See `Services.key_store`."""
        if not (self._visibility.all_queries and self._visibility.corpora is None):
            raise self._bounds.whole("keys")
        return self._home.key_store()

    async def status(self, *, visibility: Visibility = EVERYTHING) -> ServiceStatus:  # noqa: ARG002 - as above
        """See `Services.status`."""
        found = await self._home.status(visibility=self._visibility)
        return self._bounds.shown(found, discreet_status)

    async def shadow(self, request: ShadowRequest) -> ShadowResult:
        """See `Services.shadow`."""
        if not self._visibility.all_queries:
            raise self._bounds.whole("comparing versions by everybody's queries")
        return await self._home.shadow(request)

    def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        """See `Services.sync`."""
        if self._visibility.corpora is not None:
            raise self._bounds.whole("bringing collections in line")
        return self._home.sync(request)

    def _asking(self, request_context: RequestContext) -> RequestContext:
        return replace(request_context, visibility=self._visibility)

    def _response(self, response: SearchResponse, request: SearchOptions) -> SearchResponse:
        return self._bounds.shown(response, lambda whole: discreet_response(whole, request))
