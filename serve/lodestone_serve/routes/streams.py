"""Routes that stream a query's answers, and go on where a connection broke."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from sse_starlette import EventSourceResponse

from lodestone.errors import InvalidRequestError
from lodestone.services.search import SearchUseCases
from lodestone_schemas.api import SearchRequest
from lodestone_serve.auth.principal import Asker, RequestCaller
from lodestone_serve.streaming.streams import Streams, last_event
from lodestone_serve.traffic.admission_middleware import at_work
from lodestone_serve.traffic.arrivals import REQUEST_ID

LastEvent = Annotated[str | None, Header(description="`id` of the last event that came: goes on behind it.", max_length=200)]

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "plan, results, guide, done or error events"},
    204: {"description": "The stream has ended, and the event named was its last."},
}


def streams_router(use_cases: SearchUseCases, streams: Streams) -> APIRouter:
    """Routes of server-sent events."""
    router = APIRouter(prefix="/v1/search/stream", tags=["search"])

    def resumed(query_id: str, after: int, owner: str) -> Response:
        stream = streams.find(query_id, owner)
        if stream.finished and after >= stream.count:
            return Response(status_code=204)  # tells an EventSource to stop asking
        return streams.response(stream, after)

    @router.post("", response_class=EventSourceResponse, responses=_EVENTS)
    async def search_stream(
        caller: RequestCaller, asker: Asker, body: SearchRequest, request: Request, last_event_id: LastEvent = None
    ) -> Response:
        """Find pictures by words; sends each better answer as soon as it is known. `Last-Event-ID` goes on with a stream."""
        last = last_event(last_event_id)
        if last is not None:
            return resumed(*last, asker.authority)
        async with at_work(request, body.deadline_ms) as work:
            events = use_cases.events(body, caller, context=work.request_context)
            request_id = request.headers.get(REQUEST_ID, "")
            stream = await streams.begin(events, ticket=work.ticket, owner=asker.authority, request_id=request_id)
        return streams.response(stream)

    @router.get("/{query_id}", response_class=EventSourceResponse, responses=_EVENTS)
    async def resume_stream(asker: Asker, query_id: str, last_event_id: LastEvent = None) -> Response:
        """Go on with a stream behind the event that `Last-Event-ID` names, or from its first."""
        of, after = last_event(last_event_id) or (query_id, 0)
        if of != query_id:
            raise InvalidRequestError(
                f"Last-Event-ID {last_event_id!r} is of another query than {query_id!r}", hint="ask for its own stream"
            )
        return resumed(query_id, after, asker.authority)

    return router
