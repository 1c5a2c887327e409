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
    OverloadedError,
    ServiceUnavailableError,
    UnauthorizedError,
)

_BY_STATUS: dict[int, type[LodestoneError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    408: DeadlineExceededError,  # of Serve's proxy, where no replica took the request in time
    429: OverloadedError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceUnavailableError,
}
_LONGEST_WAIT_S = 3_600.0
_SHOWN = 200
CA_VARIABLE: Final = "LODESTONE_CA_FILE"
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
    if found is None:
        said, hint = f"HTTP {status} from {answer.url.path}", "something between here and the service answered"
        # A 500 without a problem is no answer of the service's: its replica died, or what is in front of it failed.
        plain = ServiceUnavailableError(said, hint=hint) if status == 500 else None
        error = plain or error_of({"status": status, "detail": said, "hint": hint})
    else:
        error = error_of({**found, "status": status})
    if retry_after is not None and status == 429:
        error.details.setdefault("retry_after", retry_after)
    transient = status in {429, 502, 503} or (status in {500, 504} and found is None)
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
    kind = answer.headers.get("content-type", "nothing named")[:_SHOWN]
    return FailedResponse(
        ServiceUnavailableError(
            f"{url} answered {answer.url.path} with {kind}, which is not what Lodestone's service sends: {why[:_SHOWN]}",
            hint="is this the address of a Lodestone service of this version? open its /healthz",
        ),
        fatal=True,
    )


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
    return found if isinstance(found, dict) and "code" in found else None


def _kinds(root: type[LodestoneError]) -> Iterator[type[LodestoneError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
