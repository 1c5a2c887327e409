"""Which routes are for Lodestone's own commands? Syncing and removing, with the token that service.json holds."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.responses import Response, StreamingResponse

from lodestone.service import TOKEN_HEADER
from lodestone_schemas.api import SyncProgress, SyncRequest
from lodestone_serve.problems import Refusal
from lodestone_serve.services import Services
from lodestone_serve.streams import NDJSON, progress_stream


def internal_router(services: Services, token: str) -> APIRouter:
    """Routes that only a reader of this home's service.json may use."""

    def check_token(given: Annotated[str, Header(alias=TOKEN_HEADER)] = "") -> None:
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise Refusal(401, f"{TOKEN_HEADER} is missing or wrong", hint="the token is in service.json of the service's home")

    router = APIRouter(tags=["internal"], dependencies=[Depends(check_token)])

    @router.post(
        "/v1/internal/sync",
        response_class=StreamingResponse,
        responses={200: {"model": SyncProgress, "content": {NDJSON: {}}, "description": "one SyncProgress a line"}},
    )
    async def sync(body: SyncRequest) -> StreamingResponse:
        """Bring the collections in line with the catalog and the Parquet files, then answer from what is new."""
        return progress_stream(services.sync(body))

    @router.delete("/v1/corpora/{name:path}", status_code=204)
    async def remove_corpus(name: str) -> Response:
        """Remove a corpus everywhere: vectors, embeddings, thumbnails, catalog. The pictures themselves are not touched."""
        await services.remove_corpus(name)
        return Response(status_code=204)

    return router
