"""Routes that sync and compare, and tell every step: for Lodestone's own commands and for keys with the scope `index`."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from lodestone.services.operations import OperationUseCases
from lodestone_schemas.api import DuplicatesRequest, SyncProgress, SyncRequest, VerifyRequest
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.policy import NDJSON
from lodestone_serve.streaming.streams import progress_stream

_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": SyncProgress, "content": {NDJSON: {}}, "description": "one SyncProgress a line"}
}


def internal_router(operations: OperationUseCases) -> APIRouter:
    """Routes that change what is indexed or look at all of it, for Lodestone's own commands and the holders of such keys."""
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

    return router
