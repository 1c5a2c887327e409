"""Routes that list the runs, and the files that failed in one, in pages."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from lodestone.paging import MAX_CURSOR_CHARS, PageRequest
from lodestone.services.runs import RunFilters, RunUseCases
from lodestone_schemas.api import MAX_LIMIT
from lodestone_schemas.runs import FailurePage, RunPage, RunStateName
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import (
    CURSOR_DESCRIPTION,
    FIELDS_DESCRIPTION,
    MAX_FIELDS_CHARS,
    MAX_LIST_OFFSET,
    Fields,
    FieldSelection,
    page_of,
    select_fields,
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
