"""Routes that sync, compare, rename and remove: for Lodestone's own commands and for keys with the scope `index`."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from lodestone.services.corpora import CorpusUseCases
from lodestone.services.operations import OperationUseCases
from lodestone_schemas.api import CorpusRename, CorpusRenamed, DuplicatesRequest, SyncProgress, SyncRequest, VerifyRequest
from lodestone_schemas.swaps import ShadowRequest, ShadowResult
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.policy import NDJSON
from lodestone_serve.streaming.streams import progress_stream

_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": SyncProgress, "content": {NDJSON: {}}, "description": "one SyncProgress a line"}
}


def internal_router(operations: OperationUseCases, corpora: CorpusUseCases) -> APIRouter:
    """Routes that change what is indexed, for Lodestone's own commands and the holders of such keys."""
    router = APIRouter(tags=["internal"])

    @router.post(
        "/v1/internal/sync",
        response_class=StreamingResponse,
        responses=_LINES,
    )
    async def sync(caller: RequestCaller, body: SyncRequest) -> StreamingResponse:
        """Bring the collections in line with the catalog and the Parquet files, then answer from what is new."""
        return progress_stream(operations.sync(body, caller), body.run_id)

    @router.post("/v1/internal/duplicates", response_class=StreamingResponse, responses=_LINES)
    async def find_duplicates(caller: RequestCaller, body: DuplicatesRequest) -> StreamingResponse:
        """Look for files of equal content and pictures that look alike; the last line has the counts of each corpus."""
        return progress_stream(operations.find_duplicates(body, caller))

    @router.post("/v1/internal/verify", response_class=StreamingResponse, responses=_LINES)
    async def verify(caller: RequestCaller, body: VerifyRequest) -> StreamingResponse:
        """Compare the collections with catalog and Parquet files; the last line has the facts of each. Nothing is changed."""
        return progress_stream(operations.verify(body, caller))

    @router.post("/v1/internal/shadow", response_model=ShadowResult)
    async def shadow(caller: RequestCaller, body: ShadowRequest) -> Response:
        """Answer recorded queries by both versions of a space that is being swapped, beside those of users; compare."""
        result = await operations.shadow(body, caller)
        return Response(content=result.model_dump_json(), media_type="application/json")

    @router.patch("/v1/corpora/{name:path}", response_model=CorpusRenamed)
    async def rename_corpus(caller: RequestCaller, name: str, body: CorpusRename) -> Response:
        """Call a corpus by another name. Nothing is indexed again, and keys that named it see it as before."""
        renamed = await corpora.rename(name, body.name, caller)
        return Response(content=renamed.model_dump_json(), media_type="application/json")

    @router.delete("/v1/corpora/{name:path}", status_code=204)
    async def remove_corpus(caller: RequestCaller, name: str) -> Response:
        """Remove a corpus everywhere: vectors, embeddings, thumbnails, catalog. The pictures themselves are not touched."""
        await corpora.remove(name, caller)
        return Response(status_code=204)

    return router
