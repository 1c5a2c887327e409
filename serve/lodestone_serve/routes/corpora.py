"""Routes that list the corpora, in pages, and rename one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from lodestone.services.corpora import CorpusUseCases
from lodestone_schemas.api import CorpusPage, CorpusRename, CorpusRenamed
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

    @router.patch("/{name:path}", response_model=CorpusRenamed)
    async def rename_corpus(caller: RequestCaller, name: str, body: CorpusRename) -> Response:
        """Call a corpus by another name. Nothing is indexed again, and keys that named it see it as before."""
        renamed = await use_cases.rename(name, body.name, caller)
        return Response(content=renamed.model_dump_json(), media_type="application/json")

    return router
