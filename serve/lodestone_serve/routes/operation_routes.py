"""Routes made of the table of operations: those that read a message, call a use case and write its answer, and nothing else.

Where a request needs more (a place in the queue of queries, an upload, an entity tag, a selection of members), a module of this
package declares the route by hand, and none is made for the operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from lodestone.paging import MAX_CURSOR_CHARS
from lodestone.services.dispatch import arguments_of, use_case_of
from lodestone.services.use_cases import Services
from lodestone_schemas.api import MAX_LIMIT
from lodestone_schemas.operation_rows import IDEMPOTENCY_KEY, Declared
from lodestone_schemas.operations import OPERATIONS
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import CURSOR_DESCRIPTION, MAX_LIST_OFFSET, page_of
from lodestone_serve.routes.threads import in_thread

_MAX_CHARS: Final = 1_000
# How parameters of these names are checked. Other texts of a query have a bounded length, and the rest is checked by its type.
_CHECKED: Final[dict[str, Any]] = {
    "image_id": UUID,
    "run_id": UUID,
    "key_id": Annotated[str, Path(max_length=32)],
    "limit": Annotated[int, Query(ge=1, le=MAX_LIMIT)],
    "offset": Annotated[int, Query(ge=0, le=MAX_LIST_OFFSET)],
    "cursor": Annotated[str | None, Query(max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)],
    "topic": Annotated[str | None, Query(max_length=200, description="Only changes of this topic.")],
    "source": Annotated[str | None, Query(max_length=100)],
    "retry_failed": Annotated[bool, Query(description="Also try unchanged files again that failed before.")],
}
# Subject of use cases -> tag of the OpenAPI document, where the two differ.
_TAGS: Final = {"tags": "learning", "pictures": "images", "operations": "internal"}


def operations_router(services: Services, by_hand: Iterable[APIRouter]) -> APIRouter:
    """Return the router of every operation that no other router has a route for.

    Args:
        services: The use cases.
        by_hand: The other routers.
    """
    declared = {
        f"{method} {route.path}"
        for router in by_hand
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    router = APIRouter()
    missing = [operation for operation in OPERATIONS.values() if operation.row.route not in declared]
    for operation in sorted(missing, key=lambda one: "{" in one.row.path):  # a path without parameters is tried first
        _add(router, operation, services)
    return router


def _add(router: APIRouter, operation: Declared, services: Services) -> None:
    row, answer = operation.row, operation.types["return"]
    nothing = answer is type(None)
    subject = row.use_case.partition(".")[0]
    router.add_api_route(
        row.path,
        _endpoint(operation, services),
        methods=[row.method],
        name=operation.name,
        description=operation.text,
        tags=[_TAGS.get(subject, subject)],
        response_model=None if nothing else answer,
        status_code=row.status or (204 if nothing else 200),
    )


def _endpoint(operation: Declared, services: Services) -> Callable[..., Awaitable[Response]]:
    """Return the function that answers the route. FastAPI reads its parameters from the signature that it is given here."""
    status = operation.row.status or 200

    async def endpoint(caller: RequestCaller, **given: Any) -> Response:  # noqa: ANN401 - see `_parameter`
        if given.get("cursor") is not None:
            page_of(given["limit"], given.get("offset", 0), given["cursor"])
        values = {name: str(value) if isinstance(value, UUID) else value for name, value in given.items()}
        use_case, arguments = use_case_of(services, operation), arguments_of(operation, values)
        if inspect.iscoroutinefunction(use_case):
            answer: BaseModel | None = await use_case(**arguments, caller=caller)
        else:
            answer = await in_thread(use_case, **arguments, caller=caller)
        if answer is None:
            return Response(status_code=204)
        return Response(content=answer.model_dump_json(), status_code=status, media_type="application/json")

    parameters = [inspect.Parameter("caller", inspect.Parameter.KEYWORD_ONLY, annotation=RequestCaller)]
    parameters += [_parameter(operation, name) for name in operation.signature.parameters if name != IDEMPOTENCY_KEY]
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect documents it
    return endpoint


def _parameter(operation: Declared, name: str) -> inspect.Parameter:
    """Return a parameter as FastAPI reads it: a message is the body, and every other one is checked."""
    only, kind = inspect.Parameter.KEYWORD_ONLY, operation.types[name]
    message = operation.message(name)
    if message is not None:
        return inspect.Parameter(name, only, annotation=message)
    if f"{{{name}" in operation.row.path:
        return inspect.Parameter(name, only, annotation=_CHECKED.get(name, kind))
    text = Annotated[kind, Query(max_length=_MAX_CHARS)] if kind in (str, str | None) else kind
    default = operation.signature.parameters[name].default
    return inspect.Parameter(name, only, annotation=_CHECKED.get(name, text), default=default)
