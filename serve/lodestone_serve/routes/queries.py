"""Which routes look back at a query? Its record, its explanation, its guides' pictures and its replay."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from lodestone_schemas.access import Scope
from lodestone_schemas.api import QueryExplanation, QueryPage, ReplayResult
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.pages import Fields, FieldSelection, Paged

_Chosen = Annotated[FieldSelection, Depends(Fields(QueryPage))]
# A record never changes, and it is for the one who asked.
_CACHE = "private, max-age=3600"


def queries_router() -> APIRouter:
    """Routes of recorded queries."""
    router = APIRouter(prefix="/v1/queries", tags=["queries"], dependencies=[needs(Scope.SEARCH)])

    @router.get("", response_model=QueryPage)
    async def queries(services: Seen, page: Paged, fields: _Chosen) -> Response:
        """Recorded queries, newest first."""
        return fields.answer(await services.queries(page.offset, page.limit, cursor=page.cursor))

    @router.get("/{query_id}", response_model=QueryExplanation)
    async def query(services: Seen, query_id: str) -> Response:
        """Why a query was answered as it was: plan, gate, guides, lists, weights, and the parts of each hit's score."""
        return _json(await services.explain(query_id))

    @router.post("/{query_id}/replay", response_model=ReplayResult)
    async def replay(services: Seen, query_id: str, fresh: bool = False) -> Response:
        """The ranking once more: from the record (always the same), or `fresh`, asked again of the collection as it is now."""
        return _json(await services.replay(query_id, fresh=fresh))

    @router.get("/{query_id}/guides/{guide_id:path}", response_class=Response)
    async def guide_picture(services: Seen, query_id: str, guide_id: str) -> Response:
        """The picture of a guide, while the guide cache keeps it."""
        picture = await services.guide_picture(query_id, guide_id)
        return Response(content=picture.data, media_type=picture.media_type, headers={"Cache-Control": _CACHE})

    return router


def _json(message: QueryExplanation | ReplayResult) -> Response:
    return Response(content=message.model_dump_json(), media_type="application/json")
