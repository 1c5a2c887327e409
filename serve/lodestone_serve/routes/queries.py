"""Routes that look back at a query: its record, its explanation, its guides' pictures and its replay."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from lodestone.services.queries import QueryUseCases
from lodestone_schemas.api import QueryExplanation, QueryPage, ReplayResult
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import Fields, FieldSelection, Paged, json_answer
from lodestone_serve.responses.picture_files import VARIES

_Chosen = Annotated[FieldSelection, Depends(Fields(QueryPage))]
# A record never changes, and it is for the one who asked.
_CACHE = "private, max-age=3600"


def queries_router(use_cases: QueryUseCases) -> APIRouter:
    """Routes of recorded queries."""
    router = APIRouter(prefix="/v1/queries", tags=["queries"])

    @router.get("", response_model=QueryPage)
    async def queries(caller: RequestCaller, page: Paged, fields: _Chosen) -> Response:
        """Recorded queries, newest first."""
        return fields.answer(await use_cases.page(page, caller))

    @router.get("/{query_id}", response_model=QueryExplanation)
    async def query(caller: RequestCaller, query_id: str) -> Response:
        """Why a query was answered as it was: plan, gate, guides, lists, weights, and the parts of each hit's score."""
        return json_answer(await use_cases.explain(query_id, caller))

    @router.post("/{query_id}/replay", response_model=ReplayResult)
    async def replay(caller: RequestCaller, query_id: str, fresh: bool = False) -> Response:
        """The ranking once more: from the record (always the same), or `fresh`, asked again of the collection as it is now."""
        return json_answer(await use_cases.replay(query_id, caller, fresh=fresh))

    @router.get("/{query_id}/guides/{guide_id:path}", response_class=Response)
    async def guide_picture(caller: RequestCaller, query_id: str, guide_id: str) -> Response:
        """The picture of a guide, while the guide cache keeps it."""
        picture = await use_cases.guide_picture(query_id, guide_id, caller)
        return Response(content=picture.data, media_type=picture.media_type, headers={"Cache-Control": _CACHE, "Vary": VARIES})

    return router
