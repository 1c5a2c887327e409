"""Which routes tell of people? Those that pictures show, once faces are looked for; until then nobody is known."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from lodestone_schemas.access import Scope
from lodestone_schemas.people import PersonPage
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.pages import Fields, FieldSelection, Paged

_Chosen = Annotated[FieldSelection, Depends(Fields(PersonPage))]


def people_router() -> APIRouter:
    """Routes of people."""
    router = APIRouter(prefix="/v1/people", tags=["people"], dependencies=[needs(Scope.SEARCH)])

    @router.get("", response_model=PersonPage)
    async def people(services: Seen, page: Paged, fields: _Chosen) -> Response:
        """People, by corpus and name. Empty as long as faces are not looked for."""
        return fields.answer(await services.people(page.offset, page.limit, cursor=page.cursor))

    return router
