"""Which routes are for Lodestone's own commands? Syncing, comparing, removing: what needs the scope `index`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from lodestone_schemas.access import Scope
from lodestone_schemas.api import SyncProgress, SyncRequest
from lodestone_schemas.swaps import ShadowRequest, ShadowResult
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.streams import NDJSON, progress_stream


def internal_router() -> APIRouter:
    """Routes that change what is indexed, for Lodestone's own commands and the holders of such keys."""
    router = APIRouter(tags=["internal"], dependencies=[needs(Scope.INDEX)])

    @router.post(
        "/v1/internal/sync",
        response_class=StreamingResponse,
        responses={200: {"model": SyncProgress, "content": {NDJSON: {}}, "description": "one SyncProgress a line"}},
    )
    async def sync(services: Seen, body: SyncRequest) -> StreamingResponse:
        """Bring the collections in line with the catalog and the Parquet files, then answer from what is new."""
        return progress_stream(services.sync(body))

    @router.post("/v1/internal/shadow", response_model=ShadowResult)
    async def shadow(services: Seen, body: ShadowRequest) -> Response:
        """Answer recorded queries by both versions of a space that is being swapped, beside those of users; compare."""
        found = await services.shadow(body)
        return Response(content=found.model_dump_json(), media_type="application/json")

    @router.delete("/v1/corpora/{name:path}", status_code=204)
    async def remove_corpus(services: Seen, name: str) -> Response:
        """Remove a corpus everywhere: vectors, embeddings, thumbnails, catalog. The pictures themselves are not touched."""
        await services.remove_corpus(name)
        return Response(status_code=204)

    return router
