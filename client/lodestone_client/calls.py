"""Calls of operations: the request that each row of the table and its arguments make, and how the answer is read."""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel

from lodestone_client.call import IDEMPOTENCY_HEADER, Answer, Call, Repeat, as_bytes, as_model, as_nothing
from lodestone_schemas import operation_rows
from lodestone_schemas.api import CorpusRename, SyncProgress, UrlSearchRequest
from lodestone_schemas.operation_rows import Declared

# Operations whose message is made of several arguments -> how.
_MESSAGES: Final[Mapping[str, Callable[[Mapping[str, Any]], BaseModel]]] = {
    "by_url": lambda values: UrlSearchRequest(url=values["url"], options=values["options"]),
    "rename_corpus": lambda values: CorpusRename(name=values["new"]),
}
_PLACE: Final = re.compile(r"{(\w+)(?::path)?}")
_FORM: Final = frozenset({"picture", "more"})


def call_of(operation: Declared, arguments: inspect.BoundArguments) -> Call[Any]:
    """Return the call that asks a service for an operation.

    Arguments that the path names stand there. A message is the body, or the query parameters of a GET; pictures are files of a
    form; everything else is a query parameter, and left out where it says nothing.
    """
    row, values = operation.row, operation.values(arguments)
    path = _PLACE.sub(lambda place: part(values.pop(place[1])), row.path)
    headers: dict[str, str] = {}
    repeat = Repeat.NEVER if row.once else Repeat.ALWAYS
    if operation.idempotent:
        headers[IDEMPOTENCY_HEADER] = values.pop(operation_rows.IDEMPOTENCY_KEY) or uuid.uuid4().hex
        repeat = Repeat.KEYED
    form = {name: values.pop(name) for name in _FORM & values.keys()}
    if operation.name in _MESSAGES:
        body: BaseModel | None = _MESSAGES[operation.name](values)
        values = {}
    else:
        body = next((value for value in values.values() if isinstance(value, BaseModel)), None)
        values = {name: value for name, value in values.items() if not isinstance(value, BaseModel)}
    return Call(
        row.method,
        path,
        _reader(operation),
        params=_params(values),
        body=body,
        in_query=row.method == "GET",
        picture=form.get("picture"),
        further=tuple(form.get("more", ())),
        headers=headers,
        repeat=repeat,
        endless=row.endless,
    )


def part(text: str) -> str:
    """Quote one part of a path, whatever characters it has."""
    return quote(text, safe="")


def progress_of(line: bytes) -> SyncProgress:
    """Return one line of a sync's answer as its progress."""
    return SyncProgress.model_validate_json(line, extra="ignore")


def _params(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query parameters. A page that a cursor names has no offset; what is off, none or nothing is left out."""
    left_out = {"offset"} if values.get("cursor") is not None or not values.get("offset") else set[str]()
    said = {name: value for name, value in values.items() if name not in left_out}
    return {name: value for name, value in said.items() if value is not None and value is not False}


def _reader(operation: Declared) -> Callable[[Answer], Any]:
    if operation.streams:
        return as_nothing
    if operation.row.media:
        return as_bytes(*operation.row.media)
    answer = operation.types["return"]
    return as_nothing if answer is type(None) else as_model(answer)
