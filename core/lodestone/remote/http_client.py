"""HTTP client of one remote service: requests bounded in time and size, replies checked, failures raised as Lodestone's errors.

Replies are read in parts, at most `max_bytes` of them, whatever length they announce; compressed ones are refused, because they
can grow without bound. A redirect is not followed with the key. A service that says when it is free again (429 or 503 with
`Retry-After`) gets the request again at that time, if the deadline allows; nothing else is sent twice, since each try may be
charged. Files of public hosts are fetched by `lodestone.remote.http_fetch`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpcore
import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

import lodestone
from lodestone.clock import remaining
from lodestone.errors import DeadlineExceededError, LodestoneError, ModelUnavailableError, ServiceUnavailableError
from lodestone.remote.credentials import Credential
from lodestone.remote.http_fetch import (
    MAX_REDIRECTS,
    TRANSPORT_ERRORS,
    AddressRefusedError,
    BodyTooLargeError,
    GuardedFetcher,
    Reply,
    follow,
    is_public,
    resolve_host,
)
from lodestone.remote.http_guard import Wording, host_refused, is_known_host, origin, shown

_TRIES: Final = 3
_EXCERPT: Final = 200  # characters of an error's body that a message repeats
_ERROR_BYTES: Final = 65_536  # bytes of an error's body that are read
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": f"lodestone/{lodestone.__version__}"}

FormFile = tuple[str, bytes, str]
"""A file of a form: its name, its content and its media type."""


@dataclass(frozen=True, slots=True)
class Access:
    """Address, key, limits and words of a service.

    Attributes:
        url: The service's address.
        credential: Its key.
        header: Name of the header that carries the key.
        scheme: Text before the key, e.g. "Bearer ".
        headers: Further headers of every request to the service, from the environment like the key.
        max_bytes: Largest reply or file, in bytes.
        allow_hosts: `host` or `host:port` of private hosts that files may be fetched from.
        wording: Words of the messages.
    """

    url: httpx.URL
    credential: Credential
    header: str = "Authorization"
    scheme: str = "Bearer "
    headers: Mapping[str, Credential] = field(default_factory=dict)
    max_bytes: int = 32 * 2**20
    allow_hosts: tuple[str, ...] = ()
    wording: Wording = field(default_factory=Wording)


class HttpClient:
    """The connections to one service.

    Every method raises `ModelUnavailableError` where the key is missing or refused, `DeadlineExceededError` at the deadline,
    and `ServiceUnavailableError` for everything else. Errors carry `charged=False` when the service has certainly done no
    work, `retry_after` (seconds) when it asked for a pause, and `declined=True` when it refused the content of the request.

    Args:
        access: Address, key, limits and words of the service.
        verdict: (HTTP status, parsed body) of an error -> whether the service declined the content rather than failed.
    """

    def __init__(self, access: Access, *, verdict: Callable[[int, Any], bool] = lambda _status, _body: False) -> None:
        self._access = access
        self._verdict = verdict
        self._open: httpx.AsyncClient | None = None  # belongs to `_loop`
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(
        self, url: httpx.URL, body: Mapping[str, Any], *, deadline: float, headers: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401  (JSON)
        """Send `body` to the service, and return the JSON of its answer."""
        return await self._json("POST", url, deadline=deadline, json=dict(body), headers=dict(headers or {}))

    async def post_form(
        self, url: httpx.URL, fields: Mapping[str, Any], *, files: Mapping[str, FormFile], deadline: float
    ) -> Any:  # noqa: ANN401
        """Send a form with these fields and files, by name, to the service, and return the JSON of its answer."""
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
        return await self._json("POST", url, deadline=deadline, data=texts, files=dict(files))

    async def get(self, url: httpx.URL, *, deadline: float) -> Any:  # noqa: ANN401
        """Return the JSON at an address of the service."""
        return await self._json("GET", url, deadline=deadline)

    async def download(self, address: str, *, deadline: float) -> bytes:
        """Return a file that a reply names. Only the service's own origin receives the key."""
        async with self._until(deadline):
            try:
                url = httpx.URL(address)
            except httpx.InvalidURL as error:
                raise ServiceUnavailableError(
                    f"the reply names a {self._access.wording.file} at an address that is none"
                ) from error
            return await follow(url, self._fetch, too_many=self._too_many_redirects)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._open = self._open, None
        if client is not None and self._loop is asyncio.get_running_loop():  # a loop that has ended took its connections along
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        """Return the client of the service and of allowed hosts; its connections belong to the running event loop."""
        loop = asyncio.get_running_loop()
        if self._open is None or self._loop is not loop:
            self._loop = loop
            self._open = httpx.AsyncClient(
                headers=_HEADERS,
                timeout=None,  # noqa: S113  (`_until` bounds the whole)
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
                follow_redirects=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # servers store nothing here
            )
        return self._open

    def _headers(self) -> dict[str, str]:
        """Return the headers with secrets, which only the service receives. They are never stored."""
        headers: dict[str, str] = {}
        for name, credential in self._access.headers.items():
            value = credential.read()
            headers |= {} if value is None else {name: value.get_secret_value()}
        key = self._access.credential.read()
        return headers if key is None else {**headers, self._access.header: self._access.scheme + key.get_secret_value()}

    async def _json(self, method: str, url: httpx.URL, *, deadline: float, **content: Any) -> Any:  # noqa: ANN401
        async with self._until(deadline):
            retrying = AsyncRetrying(
                retry=retry_if_exception(lambda error: _wait_of(error) is not None),
                wait=lambda state: _wait_of(state.outcome.exception() if state.outcome else None) or 0.0,
                stop=lambda state: _too_late(state, deadline),
                reraise=True,
            )
            return await retrying(self._json_once, method, url, content)

    async def _json_once(self, method: str, url: httpx.URL, content: dict[str, Any]) -> Any:  # noqa: ANN401
        headers = {**await asyncio.to_thread(self._headers), **content.get("headers", {}), "Accept": "application/json"}
        async with self._sent(method, url, **{**content, "headers": headers}) as reply:
            if _is_redirect(reply):
                target = reply.headers.get("location", "")
                raise ServiceUnavailableError(
                    f"{shown(url)} redirects to {self._clean(target)!r}",
                    hint=f"set the {self._access.wording.service}'s url to where it is",
                    charged=False,
                )
            body = await self._read(reply, self._access.max_bytes, shown(url))
            kind = reply.headers.get("content-type", "")
        return await asyncio.to_thread(self._parsed, body, kind, url)

    async def _fetch(self, url: httpx.URL) -> bytes | httpx.URL:
        """Return a file, or the address that it is redirected to."""
        access, noun = self._access, self._access.wording.file
        if is_known_host(url, own=access.url, allowed=access.allow_hosts, wording=access.wording):
            headers = await asyncio.to_thread(self._headers) if origin(url) == origin(access.url) else {}
            sending = self._sent("GET", url, headers=headers)
        else:
            sending = self._sent_to_public(url)
        async with sending as reply:
            if _is_redirect(reply):
                return url.join(reply.headers.get("location", ""))
            body = await self._read(reply, access.max_bytes, shown(url))
            kind = reply.headers.get("content-type", "")
        if not body:
            raise ServiceUnavailableError(f"the {noun} at {shown(url)} is empty")
        if kind.startswith(("text/html", "application/json")):
            raise ServiceUnavailableError(f"at {shown(url)} there is no {noun} but {kind.partition(';')[0]}")
        return body

    @asynccontextmanager
    async def _sent(self, method: str, url: httpx.URL, **content: Any) -> AsyncGenerator[Reply, None]:  # noqa: ANN401
        """Send a request to the service or an allowed host, and give the reply; error statuses are raised."""
        async with self._explained(shown(url)), self._client().stream(method, url, **content) as response:
            reply = Reply(response.status_code, response.headers, response.aiter_raw())
            if reply.status >= 400:
                raise await self._error(reply, shown(url))
            yield reply

    @asynccontextmanager
    async def _sent_to_public(self, url: httpx.URL) -> AsyncGenerator[Reply, None]:
        """Request a file of a public host, and give the reply; error statuses are raised."""
        http = GuardedFetcher(allowed=is_public, resolve=resolve_host)
        headers = {"Host": url.netloc.decode("ascii"), "Accept": "*/*", **_HEADERS}
        try:
            async with self._explained(shown(url)), http.get(str(url), headers) as reply:
                if reply.status >= 400:
                    raise await self._error(reply, shown(url))
                yield reply
        except AddressRefusedError as error:
            raise host_refused(url, error, self._access.wording) from error

    @asynccontextmanager
    async def _explained(self, where: str) -> AsyncGenerator[None, None]:
        """Raise errors of the connection as ours."""
        try:
            yield
        except (httpx.ConnectError, httpx.UnsupportedProtocol, httpcore.ConnectError, httpcore.UnsupportedProtocol) as error:
            raise ServiceUnavailableError(
                f"{where} cannot be reached: {self._clean(str(error))}", hint="is it running?", charged=False
            ) from None
        except (httpx.HTTPError, *TRANSPORT_ERRORS) as error:
            raise ServiceUnavailableError(
                f"{where} broke off: {type(error).__name__}: {self._clean(str(error))}", hint=self._look_at("log")
            ) from None

    def _parsed(self, body: bytes, kind: str, url: httpx.URL) -> Any:  # noqa: ANN401
        if not body.strip():
            raise ServiceUnavailableError(f"{shown(url)} answers with an empty body", hint=self._look_at("log"))
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            page = "an HTML page" if "html" in kind or body.lstrip()[:1] == b"<" else f"no JSON but {kind or 'something'!r}"
            raise ServiceUnavailableError(
                f"{shown(url)} answers with {page}",
                hint=f"is the url the {self._access.wording.service}'s API, and not its web page?",
            ) from None

    async def _error(self, reply: Reply, where: str) -> LodestoneError:
        """Return our error for an error status."""
        status, body = reply.status, None
        try:
            body = await asyncio.to_thread(json.loads, await self._read(reply, _ERROR_BYTES, where))
        except (LodestoneError, ValueError, RecursionError, httpx.HTTPError, *TRANSPORT_ERRORS):  # the status says enough
            body = None
        words = self._clean(_words_of(body) if body is not None else "")
        message = f"{where} answers {status}{f': {words}' if words else ''}"
        details: dict[str, Any] = {"charged": False, "http_status": status}
        if status in {401, 403}:
            return ModelUnavailableError(
                message, hint=f"is the key right? It is read from: {self._access.credential.source or 'nowhere'}", **details
            )
        wait = _retry_after(reply.headers.get("retry-after"))
        if status in {429, 503} and wait is not None:
            details["retry_after"] = wait
        if self._verdict(status, body):
            details["declined"] = True
        return ServiceUnavailableError(message, hint=self._look_at("log or status page"), **details)

    def _clean(self, text: str) -> str:
        """Return a server's words for our messages: short, in one line, without the key."""
        for credential in (self._access.credential, *self._access.headers.values()):
            text = credential.scrubbed(text)
        text = " ".join(text.split())
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"

    async def _read(self, reply: Reply, most: int, where: str) -> bytes:
        """Return the body, or raise an error when it is compressed or larger than `most` bytes."""
        if reply.headers.get("content-encoding", "identity").lower() != "identity":
            raise ServiceUnavailableError(f"{where} sends compressed data, which was not asked for")
        try:
            return await reply.read(most)
        except BodyTooLargeError as error:
            raise ServiceUnavailableError(
                f"{where} sends more than {most >> 20} MB", hint=self._access.wording.too_large
            ) from error

    @asynccontextmanager
    async def _until(self, deadline: float) -> AsyncGenerator[None, None]:
        try:
            async with asyncio.timeout(None if remaining(deadline) == float("inf") else remaining(deadline)):
                yield
        except TimeoutError as error:
            raise DeadlineExceededError("no answer in time", hint=self._access.wording.too_slow) from error

    def _too_many_redirects(self, url: httpx.URL) -> ServiceUnavailableError:
        noun = self._access.wording.file
        return ServiceUnavailableError(f"the {noun} at {shown(url)} is redirected more than {MAX_REDIRECTS} times")

    def _look_at(self, place: str) -> str:
        return f"look at the {self._access.wording.service}'s own {place}"


def _is_redirect(reply: Reply) -> bool:
    return 300 <= reply.status < 400


def _wait_of(error: BaseException | None) -> float | None:
    wait = error.details.get("retry_after") if isinstance(error, LodestoneError) else None
    return None if wait is None else float(wait)


def _too_late(state: RetryCallState, deadline: float) -> bool:
    return state.attempt_number >= _TRIES or state.upcoming_sleep >= remaining(deadline)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, which may be a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _words_of(body: object) -> str:
    """Return the message in an error's JSON, under any of the names that services use."""
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            break
        body = next((body[name] for name in ("error", "message", "detail", "title") if body.get(name)), "")
    return body if isinstance(body, str) else ""
