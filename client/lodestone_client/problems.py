"""Problems between client and service: broken connections and foreign answers, as Lodestone's errors."""

from __future__ import annotations

import email.utils
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

from lodestone_schemas.api import Problem
from lodestone_schemas.errors import (
    DeadlineExceededError,
    ForbiddenError,
    InvalidRequestError,
    LodestoneError,
    NotFoundError,
    NotLodestoneError,
    OverloadedError,
    ServiceUnavailableError,
    UnauthorizedError,
)

_BY_STATUS: dict[int, type[LodestoneError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,  # of a problem with a code that this version does not know
    408: DeadlineExceededError,  # of Serve's proxy, where no replica took the request in time
    429: OverloadedError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceUnavailableError,
}
_LONGEST_WAIT_S = 3_600.0
_SHOWN = 200
CA_VARIABLE: Final = "LODESTONE_CA_FILE"
URL_VARIABLE: Final = "LODESTONE_URL"
_OF_GATEWAYS: Final = frozenset({401, 403, 407, 408, 413, 429, 500, 502, 503, 504, 511})
"""Statuses without a problem that may come from what stands in front of a Lodestone service, or from a replica that died."""
_ITS_NAME: Final = "ask by a name that the certificate is for"
_TRUST: Final = {10: "it has expired: its owner must renew it", 62: _ITS_NAME, 64: _ITS_NAME}  # by X509_V_ERR_… of OpenSSL


class FailedResponse(Exception):  # noqa: N818 - never seen by callers, who get its error
    """One attempt of a call failed.

    Attributes:
        error: What the caller gets when it is not sent again.
        reached: Whether the service may have begun with the work.
        fatal: Whether sending it again would only fail again.
        retry_after: Seconds the service asks to wait; None: it does not say.
    """

    def __init__(
        self, error: LodestoneError, *, reached: bool = True, fatal: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.reached = reached
        self.fatal = fatal
        self.retry_after = retry_after


def error_of(problem: Mapping[str, Any]) -> LodestoneError:
    """Return the error that became `problem`, as its own class where this version has one with that code."""
    kinds = {kind.code: kind for kind in _kinds(LodestoneError)}
    status = problem.get("status", 500)
    status = status if isinstance(status, int) else 500
    fallback = _BY_STATUS.get(status, InvalidRequestError if 400 <= status < 500 else LodestoneError)
    kind = kinds.get(str(problem.get("code", "")), fallback)
    message = str(problem.get("detail") or problem.get("title") or "unknown problem")
    reserved = {*Problem.model_fields, "message"}
    extra = {name: value for name, value in problem.items() if name not in reserved}
    return kind(message, hint=str(problem.get("hint", "")), **extra)


def refused(answer: httpx.Response, url: str) -> FailedResponse:
    """Return the failure that an unsuccessful response describes; its content has been read."""
    status, retry_after = answer.status_code, seconds_to_wait(answer.headers.get("retry-after"))
    if answer.is_redirect:
        place = answer.headers.get("location", "")[:_SHOWN]
        hint = f"give the service's own address instead: it points to {place!r}"
        return FailedResponse(ServiceUnavailableError(f"{url} redirects elsewhere ({status})", hint=hint), fatal=True)
    found = _problem_in(answer)
    starting = found is None and _is_starting(answer)
    if starting:
        error: LodestoneError = ServiceUnavailableError(f"the service at {url} is starting", hint=f"see {url}/readyz")
    elif found is None and status not in _OF_GATEWAYS:
        error = _not_lodestone(answer, url, f"with HTTP {status} and {_kind(answer)}, and not with a problem")
    elif found is None:
        said, hint = (
            f"HTTP {status} from {answer.url.path}",
            f"a gateway may have answered, or something else: see {url}/healthz",
        )
        # A 500 without a problem is no answer of the service's: its replica died, or what is in front of it failed.
        plain = ServiceUnavailableError(said, hint=hint) if status == 500 else None
        error = plain or error_of({"status": status, "detail": said, "hint": hint})
    else:
        error = error_of({**found, "status": status})
    if retry_after is not None and status == 429:
        error.details.setdefault("retry_after", retry_after)
    transient = starting or status in {429, 502, 503} or (status in {500, 504} and found is None)
    return FailedResponse(
        error,
        reached=status != 429,
        fatal=not transient or error.code == "model_unavailable",
        retry_after=retry_after,
    )


def broken(error: httpx.HTTPError, url: str) -> FailedResponse:
    """Return the failure that a failed connection means."""
    distrusted = _distrusted(error)
    if distrusted is not None:
        said = f"{url} shows a certificate that is not trusted: {distrusted.verify_message.rstrip('.')}"
        hint = _TRUST.get(distrusted.verify_code, f"name the PEM file of who signed it in {CA_VARIABLE}")
        return FailedResponse(ServiceUnavailableError(said, hint=hint), reached=False, fatal=True)
    never = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return FailedResponse(
        unavailable(url, str(error) or type(error).__name__),
        reached=not never,
        fatal=isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout)),  # all the time there was has been waited
    )


def foreign(answer: httpx.Response, url: str, why: str) -> FailedResponse:
    """Return the failure of a successful response that is not what was asked for: it would fail again."""
    error = _not_lodestone(answer, url, f"with {_kind(answer)}, which is not what was asked for ({why[:_SHOWN]})")
    return FailedResponse(error, fatal=True)


def _not_lodestone(answer: httpx.Response, url: str, how: str) -> NotLodestoneError:
    asked = f"{answer.request.method} {answer.url.path}"
    return NotLodestoneError(
        f"{url} is not a Lodestone service of this version: it answered {asked} {how}",
        hint=f"check the address (--url, {URL_VARIABLE}): {url}/healthz of a Lodestone service answers with its version",
    )


def _kind(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "no media type"))[:_SHOWN]


def _is_starting(answer: httpx.Response) -> bool:
    """Return whether Serve's proxy answered, which knows no route before the first replica runs."""
    return answer.status_code == 404 and answer.content.startswith(b"Path ") and b"/-/routes" in answer.content


def unavailable(url: str, why: str) -> ServiceUnavailableError:
    """Return the error of a service that does not answer at `url`, or no longer does."""
    return ServiceUnavailableError(
        f"the service at {url} does not answer: {why}",
        hint="see whether `lodestone serve` still runs, or stop it and search without it",
    )


def seconds_to_wait(header: str | None) -> float | None:
    """Return Retry-After in seconds, from seconds or a date; None where there is none or it makes no sense."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return min(float(header), _LONGEST_WAIT_S)
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return min(max(moment.timestamp() - time.time(), 0.0), _LONGEST_WAIT_S)


def _distrusted(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return what is wrong with the certificate, where that ended the connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _problem_in(answer: httpx.Response) -> Mapping[str, Any] | None:
    try:
        found = answer.json()
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("code"), str):
        return None
    return found if "detail" in found or "title" in found else None  # others have a member `code`, too


def _kinds(root: type[LodestoneError]) -> Iterator[type[LodestoneError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
