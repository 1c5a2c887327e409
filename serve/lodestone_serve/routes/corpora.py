"""Which routes list what is indexed? The corpora, in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from lodestone_schemas.access import Scope
from lodestone_schemas.api import MAX_LIMIT, CorpusPage
from lodestone_serve.principal import Seen, needs

MAX_CORPORA_OFFSET = 1_000_000


def corpora_router() -> APIRouter:
    """Routes of corpora."""
    router = APIRouter(prefix="/v1/corpora", tags=["corpora"], dependencies=[needs(Scope.SEARCH)])

    @router.get("", response_model=CorpusPage)
    async def corpora(
        services: Seen,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
        offset: Annotated[int, Query(ge=0, le=MAX_CORPORA_OFFSET)] = 0,
    ) -> Response:
        """The corpora, by name."""
        page = await services.corpora(offset, limit)
        return Response(content=page.model_dump_json(), media_type="application/json")

    return router
