"""Errors as HTTP answers: RFC 9457 problem details, for every error on every route."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from lodestone.errors import LodestoneError
from lodestone_schemas.api import Problem
from lodestone_schemas.openai import OpenAIError
from lodestone_schemas.redaction import redacted, without_secrets
from lodestone_serve.policy import has_openai_errors, methods_for, policy_for

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
CODE_IN_SCOPE = "lodestone.problem"

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    421: "misdirected_request",
    429: "overloaded",
}
IN_PATHS = "/:@!$&'()*+,;=-._~"  # RFC 3986: `instance` is a reference, and paths here come decoded
_OF_A_UNION = ("constrained-", "list[")  # what pydantic says of which alternative it tried
_ALTERNATIVES = (*_OF_A_UNION, "str")
_OTHER_KINDS = frozenset({"string_type", "list_type"})
_WAIT = frozenset({429, 503})
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_log = structlog.get_logger("lodestone.serve")


class Refusal(HTTPException):
    """Raised when the HTTP layer itself refuses a request, before any other part of Lodestone has seen it.

    It is an `HTTPException` because FastAPI turns every other exception raised while a body is read into a plain 400.
    """

    def __init__(self, status: int, detail: str, *, hint: str = "", code: str = "", **extra: Any) -> None:  # noqa: ANN401
        super().__init__(status_code=status, detail=detail, headers=retry_headers(status))
        self.problem = problem(status, code or _CODES[status], detail, hint=hint, extra=extra)


def problem(
    status: int, code: str, detail: str, *, hint: str = "", instance: str = "", extra: Mapping[str, Any] | None = None
) -> Problem:
    """Return problem details with the title of `status`; members of `extra` never replace those that the RFC defines.

    What looks like a secret is taken out, as messages quote addresses, and addresses may hold passwords.
    """
    own = {
        "type": f"urn:lodestone:problem:{code}",
        "title": _title(status),
        "status": status,
        "detail": redacted(detail),
        "instance": quote(instance, safe=IN_PATHS),
        "code": code,
        "hint": redacted(hint),
    }
    return Problem(**{**without_secrets(dict(extra or {})), **own})


def problem_of(error: LodestoneError, *, instance: str = "") -> Problem:
    """Return the problem details of an error that Lodestone raised on purpose."""
    return problem(error.status, error.code, error.message, hint=error.hint, instance=instance, extra=error.details)


def validation_problem(errors: Sequence[Mapping[str, Any]], *, instance: str = "") -> Problem:
    """Return the problem details of a message that is not valid; `errors` as pydantic lists them."""
    fields = [_described(item) for item in _telling(errors)]
    first = fields[0] if fields else {"field": "body", "message": "not understood"}
    return problem(
        422,
        "invalid_request",
        f"{first['field'] or 'body'}: {first['message']}",
        hint="see /openapi.json for what this route takes",
        instance=instance,
        extra={"errors": fields[:20]},
    )


def unexpected(request_id: str) -> Problem:
    """Return the problem details of a defect, which name the request and nothing of what happened inside."""
    return problem(
        500,
        "internal_error",
        "Lodestone failed in a way it does not know",
        hint=f"the log has the details under request id {request_id}",
        extra={"request_id": request_id},
    )


def problem_response(found: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the HTTP answer that carries the problem `found`."""
    return _ProblemResponse(found, headers={**retry_headers(found.status, found.model_extra), **(headers or {})})


class _ProblemResponse(Response):
    """Answer that leaves the problem's code in the scope for the metrics, and adds the member that OpenAI's clients read."""

    def __init__(self, found: Problem, *, headers: Mapping[str, str]) -> None:
        super().__init__(found.model_dump_json(), status_code=found.status, media_type=PROBLEM_TYPE, headers=dict(headers))
        self._found = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CODE_IN_SCOPE] = self._found.code
        if has_openai_errors(scope.get("path", "")):
            extended = self._found.model_copy(update={"error": openai_error(self._found).model_dump()})
            self.body = extended.model_dump_json().encode()
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def openai_error(found: Problem) -> OpenAIError:
    """Return the member that OpenAI's clients read; the rest of the problem is beside it."""
    errors = (found.model_extra or {}).get("errors") or [{}]
    return OpenAIError(
        message=f"{found.detail} ({found.hint})" if found.hint else found.detail,
        type=_OPENAI_TYPES.get(found.status, "invalid_request_error" if found.status < 500 else "server_error"),
        param=errors[0].get("field"),
        code=found.code,
    )


def refusal_response(refusal: Refusal, path: str) -> Response:
    """Return the answer of a middleware that refuses a request for `path`."""
    return problem_response(refusal.problem.model_copy(update={"instance": path}), refusal.headers)


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem answer."""
    app.add_exception_handler(LodestoneError, _lodestone)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)


async def _lodestone(request: Request, error: Exception) -> Response:
    assert isinstance(error, LodestoneError)  # noqa: S101 - Starlette's handler type is wider than what it is registered for
    if error.status >= 500:
        _log.warning("request failed", code=error.code, detail=error.message, path=request.url.path)
    return problem_response(problem_of(error, instance=request.url.path))


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    return problem_response(validation_problem(error.errors(), instance=request.url.path))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    if isinstance(error, Refusal):
        return refusal_response(error, request.url.path)
    path = request.scope["path"]
    if error.status_code == 405 and _only_a_slash_too_much(path):
        error = HTTPException(404)
    code = _CODES.get(error.status_code, "http_error")
    headers = dict(error.headers or {})
    if error.status_code == 405 and (methods := methods_for(path)):  # the router names those of one of the path's routes only
        headers["Allow"] = ", ".join(methods)
    detail, hint = _said(error, request.method, path, allowed=headers.get("Allow", "nothing"))
    return problem_response(problem(error.status_code, code, detail, hint=hint, instance=path), headers)


def _only_a_slash_too_much(path: str) -> bool:
    """Return whether a path is that of a route without parameters with a slash behind it.

    A route below it with a path as its parameter takes it too, for other methods: the parameter is empty then.
    """
    below = policy_for("GET", path[:-1])
    return path.endswith("/") and bool(below.method) and not below.has_parameters


def _said(error: HTTPException, method: str, path: str, *, allowed: str) -> tuple[str, str]:
    """Return detail and hint of what the framework refuses by itself, as its own words name nothing."""
    if error.status_code == 404:
        ends = path.endswith("/") and path != "/"
        return f"there is nothing at {path[:200]!r}", "leave the slash at the end out" if ends else "see /openapi.json"
    if error.status_code == 405:
        return f"{method} is not for {path[:200]!r}", f"it takes {allowed}: see /openapi.json"
    return str(error.detail), "see /openapi.json for what this route takes" if error.status_code == 400 else ""


def _telling(errors: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the errors without those of alternatives that were not meant, such as a list that is no text."""

    def unmeant(item: Mapping[str, Any]) -> bool:
        *member, last = item["loc"] or ("",)
        return (
            str(last).startswith(_ALTERNATIVES)
            and item["type"] in _OTHER_KINDS
            and any(other is not item and tuple(other["loc"][: len(member)]) == tuple(member) for other in errors)
        )

    return [item for item in errors if not unmeant(item)] or errors


def _described(item: Mapping[str, Any]) -> dict[str, str]:
    where = item["loc"]
    if item["type"] == "json_invalid" and len(where) == 2:
        reason = item["ctx"]["error"]
        if isinstance(where[1], int):  # FastAPI's own: a position in the body
            return {"field": "body", "message": f"no JSON at character {where[1]}: {reason}"}
        return {"field": str(where[1]), "message": f"this is no valid JSON ({reason})"}  # a field of a form
    if item["type"] in {"uuid_parsing", "uuid_type"}:
        return {"field": _field(where), "message": "this is no UUID such as 0b269412-6a43-5c0e-8c6e-0f2f0b0e3a55"}
    return {"field": _field(where), "message": item["msg"]}


def _field(location: tuple[int | str, ...]) -> str:
    """Return `filters.corpora.0` for `("body", "filters", "corpora", 0)`, and the bare part (`body`) where nothing follows."""
    inner = location[1:] if len(location) > 1 and location[0] in {"body", "query", "path", "header"} else location
    return ".".join(str(part) for part in inner if not str(part).startswith(_OF_A_UNION))


def retry_headers(status: int, extra: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the headers that say how long to wait (`retry_after`, or one second), or how to authenticate."""
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    seconds = (extra or {}).get("retry_after", RETRY_AFTER_S if status in _WAIT else None)
    return {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
