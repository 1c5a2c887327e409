"""The route that answers many questions at once: lines of JSON in, lines of JSON out, in the order in which they are ready."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from lodestone.access.caller import Caller
from lodestone.query.asking.request_context import RequestContext
from lodestone.services.search import SearchUseCases
from lodestone_schemas.api import SearchRequest, SearchResponse
from lodestone_schemas.batch import BatchAnswer, BatchLine
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.policy import NDJSON
from lodestone_serve.responses.pages import Fields, FieldSelection
from lodestone_serve.streaming.batch_search import Batches, BatchResponse
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission_middleware import admission_of
from lodestone_serve.traffic.arrivals import REQUEST_ID

BATCH_SEARCH: Final = "/v1/search/batch"
_EXAMPLE: Final = '{"id": "1", "query": "a boat on a lake", "limit": 5}\n{"id": "2", "query": "two dogs", "guides": 0}\n'
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "One BatchLine a line.",
        "content": {NDJSON: {"schema": {"type": "string"}, "example": _EXAMPLE, "x-line": "BatchLine"}},
    }
}
LINES: Final = (BatchLine, BatchAnswer)
"""What the OpenAPI document describes besides: it has no way to say what the lines of a body are."""

_Chosen = Annotated[FieldSelection, Depends(Fields(SearchResponse))]


def batch_router(use_cases: SearchUseCases, batches: Batches, metrics: Metrics) -> APIRouter:
    """The route of batches."""
    router = APIRouter(tags=["search"])

    @router.post(
        BATCH_SEARCH,
        response_class=StreamingResponse,
        openapi_extra=_BODY,
        responses={
            200: {
                "content": {NDJSON: {"schema": {"type": "string"}, "x-line": "BatchAnswer"}},
                "description": "One BatchAnswer a line, in the order in which they are ready.",
            }
        },
    )
    async def search_batch(caller: RequestCaller, request: Request, fields: _Chosen) -> BatchResponse:
        """Answer many questions, behind the interactive ones. Each gets a line of its own: an answer, or a problem."""
        return BatchResponse(
            batches,
            functools.partial(_answer, use_cases, caller),
            admission=admission_of(request),
            request_id=request.headers.get(REQUEST_ID, ""),
            fields=fields,
            observe=metrics.observe_answer,
        )

    return router


async def _answer(
    use_cases: SearchUseCases, caller: Caller, request: SearchRequest, *, request_context: RequestContext
) -> SearchResponse:
    return await use_cases.answer(request, caller, context=request_context)
