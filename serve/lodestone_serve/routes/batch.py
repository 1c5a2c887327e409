"""Which route answers many questions at once? Lines of JSON in, lines of JSON out, in the order in which they are ready."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from lodestone_schemas.access import Scope
from lodestone_schemas.api import SearchResponse
from lodestone_schemas.batch import BatchAnswer, BatchLine
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.batch_search import Batches, BatchResponse
from lodestone_serve.http.pages import Fields, FieldSelection
from lodestone_serve.http.streams import NDJSON
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


def batch_router(batches: Batches, metrics: Metrics) -> APIRouter:
    """The route of batches."""
    router = APIRouter(tags=["search"], dependencies=[needs(Scope.SEARCH)])

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
    async def search_batch(services: Seen, request: Request, fields: _Chosen) -> BatchResponse:
        """Answer many questions, behind the interactive ones. Each gets a line of its own: an answer, or a problem."""
        return BatchResponse(
            batches,
            services.answer,
            admission=admission_of(request),
            request_id=request.headers.get(REQUEST_ID, ""),
            fields=fields,
            observe=metrics.observe_answer,
        )

    return router
