"""Parts of lists and answers that a client asks for: pages, cursors, the parameter `fields`, and entity tags."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin

from fastapi import Depends, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from lodestone.errors import InvalidRequestError
from lodestone.paging import MAX_CURSOR_CHARS, PageRequest
from lodestone_schemas.api import MAX_LIMIT

MAX_LIST_OFFSET: Final = 1_000_000
MAX_FIELDS_CHARS: Final = 4_000
CURSOR_DESCRIPTION: Final = "`next_cursor` of the page before, instead of an offset."
FIELDS_DESCRIPTION: Final = (
    "Members of the answer to send, all others being left out, e.g. `hits.image_id,hits.score`; default: all of them."
)
NOT_CHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "not changed since `If-None-Match`"}}
# An answer may be kept by the one who asked, and is asked after every time.
_REVALIDATE: Final = "private, no-cache"


def page_of(limit: int, offset: int, cursor: str | None) -> PageRequest:
    """The page that is asked for.

    Raises:
        InvalidRequestError: Both an offset and a cursor say where it begins.
    """
    if offset and cursor is not None:
        raise InvalidRequestError(
            f"the page begins at offset {offset} and behind a cursor", hint="give `offset` or `cursor`, not both"
        )
    return PageRequest(limit, offset, cursor)


# Coroutines although they wait for nothing: FastAPI sends plain functions to a thread, for each request.
async def _page(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows a page.")] = 50,
    offset: Annotated[int, Query(ge=0, le=MAX_LIST_OFFSET, description="Rows to skip.")] = 0,
    cursor: Annotated[str | None, Query(max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)] = None,
) -> PageRequest:
    return page_of(limit, offset, cursor)


Paged = Annotated[PageRequest, Depends(_page)]
"""A route's parameters: which page of its list."""


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """The members of an answer that are sent: `include` as pydantic takes it, None for all of them."""

    include: dict[str, Any] | None = None

    def json(self, message: BaseModel) -> bytes:
        """Return the message as JSON, serialised once."""
        return message.model_dump_json(include=self.include).encode()

    def answer(self, message: BaseModel, *, status: int = 200) -> Response:
        """Return the HTTP answer that carries `message`."""
        return Response(content=self.json(message), status_code=status, media_type="application/json")


class Fields:
    """Dependency that reads the parameter `fields` of a route that answers with `model`, before anything is done."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    async def __call__(
        self, fields: Annotated[str | None, Query(max_length=MAX_FIELDS_CHARS, description=FIELDS_DESCRIPTION)] = None
    ) -> FieldSelection:
        """Return the selection; all members where the parameter is missing."""
        return select_fields(self._model, fields)


def select_fields(model: type[BaseModel], fields: str | None) -> FieldSelection:
    """Return what `fields` (dotted paths between commas) selects of a `model`. A path through a list means all its items.

    Raises:
        InvalidRequestError: A path leads nowhere; the hint lists what is there.
    """
    if fields is None:
        return FieldSelection()
    chosen: dict[str, Any] = {}
    for path in fields.split(","):
        _add(chosen, model, path.strip(), path.strip().split("."))
    return FieldSelection(chosen)


def _add(chosen: dict[str, Any], model: type[BaseModel], path: str, parts: list[str]) -> None:
    name, *rest = parts
    field = model.model_fields.get(name)
    if field is None:
        raise InvalidRequestError(
            f"fields: there is no {path[:200]!r} in the answer",
            hint=f"here is: {', '.join(model.model_fields)}",
            field=path[:200],
        )
    if not rest or chosen.get(name) is True:
        chosen[name] = True
        return
    inner, in_list = _inner(field.annotation)
    if inner is None:
        raise InvalidRequestError(
            f"fields: {path[:200]!r} leads into {name!r}, which is sent whole", hint=f"ask for {name!r}", field=path[:200]
        )
    below = chosen.setdefault(name, {"__all__": {}} if in_list else {})
    _add(below["__all__"] if in_list else below, inner, path, rest)


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, bool]:  # noqa: ANN401 - any annotation there is
    """Return the model behind an annotation, and whether it is in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _inner(arguments[0])
    if origin in {Union, types.UnionType}:
        found = [one for one in arguments if one is not types.NoneType]
        return _inner(found[0]) if len(found) == 1 else (None, False)
    if origin is list:
        return _inner(arguments[0])[0], True
    return None, False


def json_answer(message: BaseModel, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that holds a message."""
    return Response(content=message.model_dump_json(), media_type="application/json", headers=headers)


def unless_known(request: Request, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Return `body` as JSON under an entity tag of its own, or 304 where the client has it already."""
    tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    carried = {"ETag": tag, "Cache-Control": _REVALIDATE, **(headers or {})}
    if is_known(request, tag):
        return Response(status_code=304, headers=carried)
    return Response(content=body, media_type="application/json", headers=carried)


def is_known(request: Request, tag: str) -> bool:
    """Return whether `If-None-Match` names the entity tag, or any."""
    asked = {given.strip().removeprefix("W/") for given in request.headers.get("if-none-match", "").split(",")}
    return tag in asked or "*" in asked
