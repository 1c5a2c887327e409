"""Routes that teach, and show what was learnt: feedback, trust, tags and the guide engines."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from lodestone.paging import MAX_CURSOR_CHARS, PageRequest
from lodestone.services.learning import LearningUseCases
from lodestone.services.tags import TagFilters, TagUseCases
from lodestone_schemas.api import (
    MAX_LIMIT,
    EngineList,
    FeedbackRequest,
    FeedbackResult,
    TagList,
    TagPage,
    TagRequest,
    TagTexts,
    TrustEventPage,
    TrustPage,
)
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import (
    CURSOR_DESCRIPTION,
    FIELDS_DESCRIPTION,
    MAX_FIELDS_CHARS,
    MAX_LIST_OFFSET,
    page_of,
    select_fields,
)
from lodestone_serve.routes.threads import in_thread


class TagParams(BaseModel):
    """Which tags, which page of them, and what of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(50, ge=1, le=MAX_LIMIT)
    offset: int = Field(0, ge=0, le=MAX_LIST_OFFSET)
    cursor: str | None = Field(None, max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)
    fields: str | None = Field(None, max_length=MAX_FIELDS_CHARS, description=FIELDS_DESCRIPTION)
    corpus: str | None = Field(None, max_length=1_000)
    image_id: str | None = Field(None, max_length=64)
    text: str | None = Field(None, max_length=200)
    source: str | None = Field(None, max_length=32)

    def filters(self) -> TagFilters:
        """Return the filters, without the page."""
        return TagFilters(self.corpus, self.image_id, self.text, self.source)


def learning_router(use_cases: LearningUseCases, tag_use_cases: TagUseCases) -> APIRouter:
    """Routes of what use teaches."""
    router = APIRouter(prefix="/v1", tags=["learning"])

    @router.post("/feedback", response_model=FeedbackResult)
    async def feedback(caller: RequestCaller, body: FeedbackRequest) -> Response:
        """Say which pictures of an answer were right and which were not; saying it twice changes nothing."""
        return _json(await use_cases.feedback(body, caller))

    @router.post("/feedback/withdraw", response_model=FeedbackResult)
    async def withdraw_feedback(caller: RequestCaller, body: FeedbackRequest) -> Response:
        """Take feedback back: trust and tags become what they would be without it; doing it twice changes nothing."""
        return _json(await use_cases.withdraw(body, caller))

    @router.get("/trust", response_model=TrustPage)
    async def trust(caller: RequestCaller) -> Response:
        """How far each space is trusted, topic by topic."""
        return _json(await in_thread(use_cases.trust, caller))

    @router.get("/trust/events", response_model=TrustEventPage)
    async def trust_events(
        caller: RequestCaller,
        topic: Annotated[str | None, Query(max_length=200, description="Only changes of this topic.")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
        offset: Annotated[int, Query(ge=0, le=MAX_LIST_OFFSET)] = 0,
    ) -> Response:
        """Return a page of what changed trust, newest first, for those who see everybody's queries."""
        return _json(await in_thread(use_cases.trust_events, topic, PageRequest(limit, offset), caller))

    @router.get("/generators", response_model=EngineList)
    async def generators(caller: RequestCaller) -> Response:
        """The guide engines, their breakers, and the guide cache."""
        return _json(await in_thread(use_cases.generators, caller))

    @router.get("/tags", response_model=TagPage)
    async def tags(caller: RequestCaller, params: Annotated[TagParams, Query()]) -> Response:
        """Return a page of tags, newest first."""
        page, fields = page_of(params.limit, params.offset, params.cursor), select_fields(TagPage, params.fields)
        return fields.answer(await in_thread(tag_use_cases.page, params.filters(), page, caller))

    @router.get("/tags/texts", response_model=TagTexts)
    async def tag_texts(
        caller: RequestCaller,
        source: Annotated[str | None, Query(max_length=100)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
    ) -> Response:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""
        return _json(await in_thread(tag_use_cases.texts, source, limit, caller))

    @router.post("/tags", response_model=TagList)
    async def add_tags(caller: RequestCaller, body: TagRequest) -> Response:
        """Tag pictures by hand; a tag that is there stays as it is."""
        return _json(await tag_use_cases.add(body, caller))

    @router.delete("/tags/{tag_id}", status_code=204)
    async def remove_tag(caller: RequestCaller, tag_id: str) -> Response:
        """Remove one tag by its id."""
        await tag_use_cases.remove(tag_id, caller)
        return Response(status_code=204)

    return router


def _json(message: BaseModel) -> Response:
    return Response(content=message.model_dump_json(), media_type="application/json")
