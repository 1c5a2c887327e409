"""Route that lists the tags, in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from lodestone.paging import MAX_CURSOR_CHARS
from lodestone.services.tags import TagFilters, TagUseCases
from lodestone_schemas.api import MAX_LIMIT, TagPage
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


def tags_router(use_cases: TagUseCases) -> APIRouter:
    """Return the router of the list of tags."""
    router = APIRouter(prefix="/v1/tags", tags=["learning"])

    @router.get("", response_model=TagPage)
    async def tags(caller: RequestCaller, params: Annotated[TagParams, Query()]) -> Response:
        """Return a page of tags, newest first."""
        page, fields = page_of(params.limit, params.offset, params.cursor), select_fields(TagPage, params.fields)
        return fields.answer(await in_thread(use_cases.page, params.filters(), page, caller))

    return router
