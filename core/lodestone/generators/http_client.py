"""How is a remote engine asked so that no answer of its can do harm? Bounded in time and size, checked, its errors made ours.

Replies are read piece by piece and given up at `max_bytes`, whatever they say of their length; compressed ones are refused, as
they unfold without bound. A redirect is not followed with the key. A service that says when it is free again (429 or 503 with
`Retry-After`) is asked again then, if that is in time; nothing else is tried twice, since each try may be charged.
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

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

import lodestone
from lodestone.clock import remaining
from lodestone.errors import DeadlineExceededError, LodestoneError, ModelUnavailableError, ServiceUnavailableError
from lodestone.generators.credentials import Credential
from lodestone.generators.http_guard import checked_address, origin, shown

_TRIES: Final = 3
_REDIRECTS: Final = 3
_EXCERPT: Final = 200  # characters of an error's body that are told
_ERROR_BYTES: Final = 65_536  # of it that are read
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": f"lodestone/{lodestone.__version__}"}


@dataclass(frozen=True, slots=True)
class Access:
    """How an engine is reached.

    Attributes:
        url: The engine's address.
        credential: Its key.
        header: That carries the key.
        scheme: Before the key, e.g. "Bearer ".
        headers: Further headers of every request to the engine, from the environment like the key.
        max_bytes: Of one reply or one picture.
        allow_hosts: `host` or `host:port` of private hosts that pictures may be fetched from.
    """

    url: httpx.URL
    credential: Credential
    header: str = "Authorization"
    scheme: str = "Bearer "
    headers: Mapping[str, Credential] = field(default_factory=dict)
    max_bytes: int = 32 * 2**20
    allow_hosts: tuple[str, ...] = ()


class HttpClient:
    """One engine's connections. Every method raises the errors that `Generator.generate` names, or `ServiceUnavailableError`.

    Errors carry `charged=False` when the engine has surely not drawn anything, `retry_after` (seconds) when it asked to be left
    alone, and `declined=True` when it refused these words.

    Args:
        access: How the engine is reached.
        verdict: (HTTP status, parsed body) of an error -> whether the engine declined the words rather than failed.
    """

    def __init__(self, access: Access, *, verdict: Callable[[int, Any], bool] = lambda _status, _body: False) -> None:
        self._access = access
        self._verdict = verdict
        self._clients: dict[bool, httpx.AsyncClient] = {}  # by whether it is the engine's own; of `_loop`
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(
        self, url: httpx.URL, body: Mapping[str, Any], *, deadline: float, headers: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401  (JSON)
        """The JSON that the engine answers to `body`."""
        return await self._json("POST", url, deadline=deadline, json=dict(body), headers=dict(headers or {}))

    async def get(self, url: httpx.URL, *, deadline: float) -> Any:  # noqa: ANN401
        """The JSON at an address of the engine."""
        return await self._json("GET", url, deadline=deadline)

    async def download(self, address: str, *, deadline: float) -> bytes:
        """A picture that a reply names; only the engine's own origin is shown the key."""
        async with _until(deadline):
            try:
                url = httpx.URL(address)
            except httpx.InvalidURL as error:
                raise ServiceUnavailableError("the reply names a picture at an address that is none") from error
            for _ in range(_REDIRECTS + 1):
                reply = await self._fetch(url)
                if isinstance(reply, bytes):
                    return reply
                url = reply
            raise ServiceUnavailableError(f"the picture at {shown(url)} is redirected more than {_REDIRECTS} times")

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        clients, self._clients = list(self._clients.values()), {}
        if self._loop is asyncio.get_running_loop():  # those of a loop that ended went with it
            for client in clients:
                await client.aclose()

    def _client(self, *, own: bool) -> httpx.AsyncClient:
        """Connections belong to an event loop. Those to strangers go through no proxy: it would look names up by itself."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients = loop, {}
        if own not in self._clients:
            limits = httpx.Limits(max_connections=64, max_keepalive_connections=8)
            self._clients[own] = httpx.AsyncClient(
                headers=_HEADERS,
                trust_env=own,
                timeout=None,  # noqa: S113  (`_until` bounds the whole)
                limits=limits,
                follow_redirects=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # servers keep nothing here
            )
        return self._clients[own]

    def _headers(self) -> dict[str, str]:
        """What only the engine is shown. Never stored."""
        headers: dict[str, str] = {}
        for name, credential in self._access.headers.items():
            value = credential.read()
            headers |= {} if value is None else {name: value.get_secret_value()}
        key = self._access.credential.read()
        return headers if key is None else {**headers, self._access.header: self._access.scheme + key.get_secret_value()}

    async def _json(self, method: str, url: httpx.URL, *, deadline: float, **content: Any) -> Any:  # noqa: ANN401
        async with _until(deadline):
            retrying = AsyncRetrying(
                retry=retry_if_exception(lambda error: _wait_of(error) is not None),
                wait=lambda state: _wait_of(state.outcome.exception() if state.outcome else None) or 0.0,
                stop=lambda state: _too_late(state, deadline),
                reraise=True,
            )
            return await retrying(self._json_once, method, url, content)

    async def _json_once(self, method: str, url: httpx.URL, content: dict[str, Any]) -> Any:  # noqa: ANN401
        headers = {**await asyncio.to_thread(self._headers), **content.get("headers", {}), "Accept": "application/json"}
        async with self._sent(self._client(own=True), method, url, **{**content, "headers": headers}) as response:
            if response.is_redirect:
                target = response.headers.get("location", "")
                raise ServiceUnavailableError(
                    f"{shown(url)} redirects to {self._clean(target)!r}",
                    hint="set the engine's url to where it is",
                    charged=False,
                )
            body = await self._read(response, self._access.max_bytes)
            kind = response.headers.get("content-type", "")
        return await asyncio.to_thread(self._parsed, body, kind, url)

    async def _fetch(self, url: httpx.URL) -> bytes | httpx.URL:
        """A picture, or where it is now."""
        access = self._access
        address = await checked_address(url, own=access.url, allowed=access.allow_hosts)
        client, headers, extensions, target = self._client(own=address is None), {}, {}, url
        if address is not None:  # connect to what was checked; certificate and Host stay the name's
            headers, extensions, target = {"Host": url.netloc.decode()}, {"sni_hostname": url.host}, url.copy_with(host=address)
        elif origin(url) == origin(access.url):
            headers = await asyncio.to_thread(self._headers)
        async with self._sent(client, "GET", target, named=url, headers=headers, extensions=extensions) as response:
            if response.is_redirect:
                return url.join(response.headers.get("location", ""))
            body = await self._read(response, access.max_bytes)
            kind = response.headers.get("content-type", "")
        if not body:
            raise ServiceUnavailableError(f"the picture at {shown(url)} is empty")
        if kind.startswith(("text/html", "application/json")):
            raise ServiceUnavailableError(f"at {shown(url)} there is no picture but {kind.partition(';')[0]}")
        return body

    @asynccontextmanager
    async def _sent(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: httpx.URL,
        *,
        named: httpx.URL | None = None,
        **content: Any,  # noqa: ANN401
    ) -> AsyncGenerator[httpx.Response, None]:
        """An answer whose body is still to be read; error statuses are raised."""
        where = shown(named or url)
        try:
            async with client.stream(method, url, **content) as response:
                if response.status_code >= 400:
                    raise await self._error(response, where)
                yield response
        except (httpx.ConnectError, httpx.UnsupportedProtocol) as error:
            raise ServiceUnavailableError(
                f"{where} cannot be reached: {self._clean(str(error))}", hint="is it running?", charged=False
            ) from None
        except httpx.HTTPError as error:
            raise ServiceUnavailableError(
                f"{where} broke off: {type(error).__name__}: {self._clean(str(error))}", hint="look at the engine's own log"
            ) from None

    async def _read(self, response: httpx.Response, most: int) -> bytes:
        """The body, or an error as soon as it is more than `most` bytes."""
        where = shown(response.request.url)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise ServiceUnavailableError(f"{where} sends compressed data, which was not asked for")
        stated = response.headers.get("content-length", "")
        parts, size = [], int(stated) if stated.isdecimal() else 0
        if size <= most:
            size = 0
            async for part in response.aiter_raw():
                parts.append(part)
                size += len(part)
                if size > most:
                    break
        if size > most:
            raise ServiceUnavailableError(
                f"{where} sends more than {most >> 20} MB", hint="ask it for smaller pictures, or raise options.max_mb"
            )
        return b"".join(parts)

    def _parsed(self, body: bytes, kind: str, url: httpx.URL) -> Any:  # noqa: ANN401
        if not body.strip():
            raise ServiceUnavailableError(f"{shown(url)} answers with an empty body", hint="look at the engine's own log")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            page = "an HTML page" if "html" in kind or body.lstrip()[:1] == b"<" else f"no JSON but {kind or 'something'!r}"
            raise ServiceUnavailableError(
                f"{shown(url)} answers with {page}", hint="is the url the engine's API, and not its web page?"
            ) from None

    async def _error(self, response: httpx.Response, where: str) -> LodestoneError:
        """An error status in our words."""
        status, body, text = response.status_code, None, b""
        try:
            text = await self._read(response, _ERROR_BYTES)
            body = await asyncio.to_thread(json.loads, text)
        except (LodestoneError, ValueError, RecursionError, httpx.HTTPError):  # the status says enough
            body = None
        told = self._clean(_words_of(body) if body is not None else "")
        message = f"{where} answers {status}{f': {told}' if told else ''}"
        details: dict[str, Any] = {"charged": False, "http_status": status}
        if status in {401, 403}:
            return ModelUnavailableError(
                message, hint=f"is the key right? It is read from: {self._access.credential.source or 'nowhere'}", **details
            )
        wait = _retry_after(response.headers.get("retry-after"))
        if status in {429, 503} and wait is not None:
            details["retry_after"] = wait
        if self._verdict(status, body):
            details["declined"] = True
        return ServiceUnavailableError(message, hint="look at the engine's own log or status page", **details)

    def _clean(self, text: str) -> str:
        """Words of a server for our messages: short, in one line, without the key."""
        for credential in (self._access.credential, *self._access.headers.values()):
            text = credential.scrubbed(text)
        text = " ".join(text.split())
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"


@asynccontextmanager
async def _until(deadline: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(None if remaining(deadline) == float("inf") else remaining(deadline)):
            yield
    except TimeoutError as error:
        raise DeadlineExceededError(
            "no answer in time", hint="raise the engine's timeout_s, or the query's deadline"
        ) from error


def _wait_of(error: BaseException | None) -> float | None:
    wait = error.details.get("retry_after") if isinstance(error, LodestoneError) else None
    return None if wait is None else float(wait)


def _too_late(state: RetryCallState, deadline: float) -> bool:
    return state.attempt_number >= _TRIES or state.upcoming_sleep >= remaining(deadline)


def _retry_after(value: str | None) -> float | None:
    """Seconds of a `Retry-After` header, which may be a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _words_of(body: object) -> str:
    """The message in an error's JSON, wherever services put it."""
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, dict):
            break
        body = next((body[name] for name in ("error", "message", "detail", "title") if body.get(name)), "")
    return body if isinstance(body, str) else ""
