"""Routes that list corpora, directories, tags, runs, and the files that failed in a run, in pages."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from lodestone.paging import MAX_CURSOR_CHARS, PageRequest
from lodestone.services.corpora import CorpusUseCases
from lodestone.services.directories import DirectoryUseCases
from lodestone.services.runs import RunFilters, RunUseCases
from lodestone.services.tags import TagFilters, TagUseCases
from lodestone_schemas.api import MAX_LIMIT, CorpusPage, CorpusRename, CorpusRenamed, TagPage
from lodestone_schemas.directories import DirectoryPage
from lodestone_schemas.runs import FailurePage, RunPage, RunStateName
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import (
    CURSOR_DESCRIPTION,
    FIELDS_DESCRIPTION,
    MAX_FIELDS_CHARS,
    MAX_LIST_OFFSET,
    NOT_CHANGED,
    Fields,
    FieldSelection,
    Paged,
    json_answer,
    page_of,
    select_fields,
    unless_known,
)
from lodestone_serve.routes.threads import in_thread


class RunParams(BaseModel):
    """Which runs, which page of them, and what of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="Rows a page.")
    offset: int = Field(0, ge=0, le=MAX_LIST_OFFSET, description="Rows to skip.")
    cursor: str | None = Field(None, max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)
    fields: str | None = Field(None, max_length=MAX_FIELDS_CHARS, description=FIELDS_DESCRIPTION)
    corpus: str | None = Field(None, max_length=1_000, description="Only about this corpus.")
    kind: str | None = Field(None, max_length=32, description="Only of this kind, e.g. index.")
    state: RunStateName | None = Field(None, description="Only in this state.")

    def filters(self) -> RunFilters:
        """Return the filters, without the page."""
        return RunFilters(None if self.corpus is None else frozenset({self.corpus}), self.kind, self.state)


_ChosenFailures = Annotated[FieldSelection, Depends(Fields(FailurePage))]


def runs_router(use_cases: RunUseCases) -> APIRouter:
    """Return the router of the lists of runs."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])

    @router.get("", response_model=RunPage)
    async def runs(caller: RequestCaller, params: Annotated[RunParams, Query()]) -> Response:
        """Return a page of runs, newest first."""
        page, fields = page_of(params.limit, params.offset, params.cursor), select_fields(RunPage, params.fields)
        return fields.answer(await in_thread(use_cases.page, params.filters(), page, caller))

    @router.get("/{run_id}/failures", response_model=FailurePage)
    async def run_failures(
        caller: RequestCaller,
        run_id: UUID,
        fields: _ChosenFailures,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows a page.")] = 50,
        cursor: Annotated[str | None, Query(max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)] = None,
    ) -> Response:
        """The files that last failed in a run, by place."""
        page = PageRequest(limit, cursor=cursor)
        return fields.answer(await in_thread(use_cases.failures, str(run_id), page, caller))

    return router


_ChosenCorpora = Annotated[FieldSelection, Depends(Fields(CorpusPage))]


def corpora_router(use_cases: CorpusUseCases) -> APIRouter:
    """Return the router of corpora."""
    router = APIRouter(prefix="/v1/corpora", tags=["corpora"])

    @router.get("", response_model=CorpusPage, responses=NOT_CHANGED)
    async def corpora(caller: RequestCaller, page: Paged, fields: _ChosenCorpora, request: Request) -> Response:
        """The corpora, by name."""
        return unless_known(request, fields.json(await in_thread(use_cases.page, page, caller)))

    @router.patch("/{name:path}", response_model=CorpusRenamed)
    async def rename_corpus(caller: RequestCaller, name: str, body: CorpusRename) -> Response:
        """Call a corpus by another name. Nothing is indexed again, and keys that named it see it as before."""
        renamed = await use_cases.rename(name, body.name, caller)
        return json_answer(renamed)

    return router


_ChosenDirectories = Annotated[FieldSelection, Depends(Fields(DirectoryPage))]


def directories_router(use_cases: DirectoryUseCases) -> APIRouter:
    """Return the router of the list of directories."""
    router = APIRouter(prefix="/v1/directories", tags=["directories"])

    @router.get("", response_model=DirectoryPage)
    async def directories(caller: RequestCaller, page: Paged, fields: _ChosenDirectories) -> Response:
        """The directories, by corpus and name."""
        return fields.answer(await in_thread(use_cases.page, page, caller))

    return router


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
