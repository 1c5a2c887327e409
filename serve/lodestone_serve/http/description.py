"""Completion of the OpenAPI document: credentials, problems, streamed bodies and examples, added to what FastAPI describes.

FastAPI describes what the routes declare. `describe` adds what surrounds them: who may ask, every status with which a request
can be refused, each as a problem, the lines and events of streamed bodies, and examples.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI, Response
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from lodestone_schemas.api import Event, Problem
from lodestone_schemas.batch import BatchAnswer, BatchLine
from lodestone_serve.policy import AdmissionRule, RoutePolicy, policy_for
from lodestone_serve.responses import problems

_REF: Final = "#/components/schemas/{model}"
_MEANINGS: Final[Mapping[int, str]] = {
    400: "The request cannot be read, or can be read in two ways.",
    401: "The request has no key or token that counts, and the route needs one.",
    403: "The key lacks a scope, or another site's page asked.",
    404: "There is nothing of this name or id, or it is not yours to see.",
    409: "The `Idempotency-Key` came with another body, or the first request is still worked on.",
    413: "The body, or the picture in it, is too large.",
    415: "The body is not of the kind that this route takes.",
    421: "The service does not answer for the `Host` that was named.",
    422: "A parameter or member is not what it should be.",
    429: "The service is busy, or this key or address asked too often.",
    500: "A defect; the log has the details under the request's id.",
    502: "The place of a picture cannot be read.",
    503: "The service, its store, its catalog or a model does not answer now.",
    504: "The deadline, or the proxy's patience, passed before there was an answer.",
    507: "The disk is full.",
}
_WAIT: Final = {
    "Retry-After": {"description": "Seconds to wait before asking again.", "schema": {"type": "integer", "minimum": 1}}
}
_KEY_PARAMETER: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text of the client's; the same request again gets the first one's answer, and nothing is done twice.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
# Name of the operation -> a body that it takes.
_EXAMPLES: Final[Mapping[str, Any]] = {
    "search": {"query": "a boat on a lake", "limit": 5},
    "search_stream": {"query": "two dogs on a beach", "guides": 4, "filters": {"corpora": ["holidays"]}},
    "feedback": {"query_id": "9f1c", "relevant": ["5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"]},
    "add_tags": {"image_ids": ["5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"], "text": "my boat"},
}


def describe(app: FastAPI) -> None:
    """Complete the document of the app and serve it. It is written once, as anybody may ask for it."""
    generate = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return app.openapi_schema or {}

    @functools.cache
    def written() -> bytes:
        return json.dumps(described(), ensure_ascii=False).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi_document() -> Response:
        return Response(written(), media_type="application/json")

    app.openapi = described  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _complete(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            policy = policy_for(method.upper(), path)
            if described := operation.get("description"):  # FastAPI makes its summary of the name of the function
                operation["summary"] = _first_sentence(described)
            if (example := _EXAMPLES.get(operation["operationId"])) is not None:
                for content in operation["requestBody"]["content"].values():
                    content["example"] = example
            if policy.idempotent:
                operation.setdefault("parameters", []).append(_KEY_PARAMETER)
            operation["responses"].pop("422", None)  # FastAPI's own shape of it
            for status in sorted(_refusals(policy, operation)):
                operation["responses"][str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
            if policy.probe:
                operation["security"] = []
    components = document["components"]
    components["responses"] = {_name(status): _problem(status) for status in _MEANINGS}
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a token of the issuer."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
    }
    document["security"] = [{}, {"bearer": []}, {"key": []}]  # {}: a service that asks nobody who they are
    schemas = components["schemas"]
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for name, schema in _besides():
        schemas.setdefault(name, schema)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a description, up to its dot or semicolon, in one line."""
    return re.split(r"[.;:](?:\s|$)", " ".join(text.replace("`", "").split()), maxsplit=1)[0]


def _refusals(policy: RoutePolicy, operation: Mapping[str, Any]) -> set[int]:
    """Return the statuses other than success that the operation can end with."""
    statuses = {400, 403, 413, 421, 429, 500, 503, 504}  # 503 and 504 of Serve's proxy, too, while no replica answers
    statuses |= policy.problems
    if not policy.probe:
        statuses.add(401)
    if policy.method in {"POST", "PATCH"} and "requestBody" in operation:
        statuses |= {415, 422}
    if operation.get("parameters"):
        statuses.add(422)
    if policy.has_parameters or policy.admission is not AdmissionRule.NONE:
        statuses.add(404)
    if policy.idempotent:
        statuses |= {409, 507}
    return statuses


def _problem(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": _MEANINGS[status],
        "content": {problems.PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    return {**described, "headers": _WAIT} if status in {429, 503} else described


def _name(status: int) -> str:
    return HTTPStatus(status).name.title().replace("_", "")


def _besides() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas that no route names: problems, the lines of batches, the events of streams."""
    yield "Problem", Problem.model_json_schema()
    for model, mode in ((BatchLine, "validation"), (BatchAnswer, "serialization")):
        _, found = models_json_schema([(model, cast("Any", mode))], ref_template=_REF)
        yield from found.get("$defs", {}).items()
    events = TypeAdapter(Event).json_schema(mode="serialization", ref_template=_REF)
    yield from events.pop("$defs").items()
    yield "Event", {**events, "title": "Event", "description": "The data of one server-sent event."}
