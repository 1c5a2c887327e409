"""Which routes list what is indexed? The corpora, in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from lodestone_schemas.access import Scope
from lodestone_schemas.api import CorpusPage
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.pages import NOT_CHANGED, Fields, FieldSelection, Paged, unless_known

_Chosen = Annotated[FieldSelection, Depends(Fields(CorpusPage))]


def corpora_router() -> APIRouter:
    """Routes of corpora."""
    router = APIRouter(prefix="/v1/corpora", tags=["corpora"], dependencies=[needs(Scope.SEARCH)])

    @router.get("", response_model=CorpusPage, responses=NOT_CHANGED)
    async def corpora(services: Seen, page: Paged, fields: _Chosen, request: Request) -> Response:
        """The corpora, by name."""
        found = await services.corpora(page.offset, page.limit, cursor=page.cursor)
        return unless_known(request, fields.json(found))

    return router
