"""Route that lists the directories, in pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from lodestone.services.directories import DirectoryUseCases
from lodestone_schemas.directories import DirectoryPage
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import Fields, FieldSelection, Paged
from lodestone_serve.routes.threads import in_thread

_Chosen = Annotated[FieldSelection, Depends(Fields(DirectoryPage))]


def directories_router(use_cases: DirectoryUseCases) -> APIRouter:
    """Return the router of the list of directories."""
    router = APIRouter(prefix="/v1/directories", tags=["directories"])

    @router.get("", response_model=DirectoryPage)
    async def directories(caller: RequestCaller, page: Paged, fields: _Chosen) -> Response:
        """The directories, by corpus and name."""
        return fields.answer(await in_thread(use_cases.page, page, caller))

    return router
