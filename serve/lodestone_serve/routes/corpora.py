"""Routes that list the corpora, in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from lodestone.services.corpora import CorpusUseCases
from lodestone_schemas.api import CorpusPage
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import NOT_CHANGED, Fields, FieldSelection, Paged, unless_known
from lodestone_serve.routes.threads import in_thread

_Chosen = Annotated[FieldSelection, Depends(Fields(CorpusPage))]


def corpora_router(use_cases: CorpusUseCases) -> APIRouter:
    """Return the router of corpora."""
    router = APIRouter(prefix="/v1/corpora", tags=["corpora"])

    @router.get("", response_model=CorpusPage, responses=NOT_CHANGED)
    async def corpora(caller: RequestCaller, page: Paged, fields: _Chosen, request: Request) -> Response:
        """The corpora, by name."""
        return unless_known(request, fields.json(await in_thread(use_cases.page, page, caller)))

    return router
