"""Load generator: sends each request at its own moment, in its own task, over real HTTP.

Load is bounded: it goes to loopback addresses alone, the number of requests and seconds has a limit (schedule.py), so has the
number of open requests, and no request waits beyond its deadline and a grace. A request over the limit is counted (`unsent`)
and never delayed, because latency counts from when a request was due.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.loading.connections import Answer, Connections
from benchmarks.loading.outcomes import GRACE_S, Outcome, Verdict, judged, what_is_missing
from benchmarks.loading.schedule import Arrival

MOST_OPEN = 2_000
NOT_OURS = "not_a_problem"  # code of refusals without problem details
SEARCH, STREAM = "/v1/search", "/v1/search/stream"


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a JSON body for a route.

    Attributes:
        body: JSON members, without the deadline.
        deadline: Seconds that the request allows; sent as `deadline_ms`.
        path: The route.
        headers: Further headers.
    """

    body: Mapping[str, Any]
    deadline: float = 10.0
    path: str = SEARCH
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> bytes:
        """Return the body, with the deadline."""
        return json.dumps({**self.body, "deadline_ms": max(1, round(self.deadline * 1000))}).encode()

    @property
    def sent_headers(self) -> dict[str, str]:
        """Return the headers, with those of the body."""
        return {"Content-Type": "application/json", **self.headers}


@dataclass(frozen=True, slots=True)
class _Clients:
    """Clients of one service: a cheap one, and a full one for streams."""

    plain: Connections
    streams: httpx.AsyncClient


class Generator:
    """Load generator for one service.

    Args:
        url: Address of the service, on loopback.
        headers: Headers of every request.
        observe: Called with every outcome as soon as it is known.
        most_open: Most requests that are open at once.
        grace: Seconds beyond a deadline after which a request without an answer counts as hung.

    Raises:
        ValueError: the address is not this machine's own: load is never sent elsewhere.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        observe: Callable[[Outcome], None] = lambda _: None,
        most_open: int = MOST_OPEN,
        grace: float = GRACE_S,
    ) -> None:
        _checked(url)
        self._url, self._headers, self._observe = url, dict(headers or {}), observe
        self._most_open, self._grace = most_open, grace
        self._open = 0
        self._start = 0.0

    @property
    def now(self) -> float:
        """Return the seconds since the load began."""
        return asyncio.get_running_loop().time() - self._start

    async def offer(
        self, due: Sequence[Arrival], ask: Callable[[Arrival], Question], *, until: asyncio.Event | None = None
    ) -> list[Outcome]:
        """Send every request when it is due, and return all outcomes in order of their numbers.

        Args:
            due: Arrivals from `schedule.arrivals`.
            ask: Maps an arrival to its question.
            until: Once set, no more requests are sent; open ones are waited for.
        """
        self._start = asyncio.get_running_loop().time()
        outcomes: list[Outcome] = []

        async def send(arrival: Arrival, client: _Clients) -> None:
            self._open += 1
            try:
                outcome = await self._asked(arrival, ask(arrival), client)
            finally:
                self._open -= 1
            self._note(outcome, outcomes)

        async with self._client() as client, asyncio.TaskGroup() as tasks:
            for arrival in due:
                await asyncio.sleep(max(0.0, arrival.at - self.now))
                if until is not None and until.is_set():
                    break
                if self._open >= self._most_open:
                    at = self.now
                    self._note(Outcome(arrival.number, arrival.phase, arrival.at, at, at, 0, Verdict.UNSENT), outcomes)
                    continue
                tasks.create_task(send(arrival, client))
        return sorted(outcomes, key=lambda outcome: outcome.number)

    async def saturate(self, ask: Callable[[Arrival], Question], *, clients: int, seconds: float) -> list[Outcome]:
        """Send requests in a closed loop, to find the rate that saturates: each client asks again when it is answered."""
        self._start = asyncio.get_running_loop().time()
        outcomes: list[Outcome] = []
        numbers = iter(range(1_000_000))

        async def client_loop(client: _Clients) -> None:
            while self.now < seconds:
                arrival = Arrival(next(numbers), self.now, 0)
                self._note(await self._asked(arrival, ask(arrival), client), outcomes)

        async with self._client() as client, asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(client_loop(client))
        return sorted(outcomes, key=lambda outcome: outcome.number)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[_Clients]:
        address = urlsplit(self._url)
        plain = Connections(address.hostname or "", address.port or 80, self._headers)
        async with self._stream_client() as streams:
            try:
                yield _Clients(plain, streams)
            finally:
                plain.close()

    def _stream_client(self) -> httpx.AsyncClient:
        # Tasks bound the requests: a pool that made them wait for a connection would hide that wait from the schedule.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        return httpx.AsyncClient(
            base_url=self._url,
            headers=self._headers,
            timeout=httpx.Timeout(None),  # each request has a deadline of its own
            limits=limits,
            trust_env=False,
        )

    def _note(self, outcome: Outcome, outcomes: list[Outcome]) -> None:
        outcomes.append(outcome)
        self._observe(outcome)

    async def _asked(self, arrival: Arrival, question: Question, client: _Clients) -> Outcome:
        sent = self.now
        nothing = Outcome(arrival.number, arrival.phase, arrival.at, sent, sent, 0, Verdict.FAILED)
        try:
            async with asyncio.timeout_at(self._start + arrival.at + question.deadline + self._grace):
                reply = await _exchange(client, question, clock=lambda: self.now)
        except TimeoutError:
            return replace(nothing, ended=self.now, verdict=Verdict.HUNG, error="no answer")
        except (httpx.HTTPError, OSError, ValueError) as error:
            return replace(nothing, ended=self.now, error=f"{type(error).__name__}: {error}")
        ended = self.now
        verdict = judged(reply.status, latency=ended - arrival.at, deadline=question.deadline, answer=reply.answer)
        hits = reply.answer.get("hits", ())
        return replace(
            nothing,
            ended=ended,
            status=reply.status,
            verdict=verdict,
            code=str(reply.answer.get("code", "")),
            first=reply.first,
            hits=tuple(hit["image_id"] for hit in hits),
            scores=tuple(hit["score"] for hit in hits),
            left_out=what_is_missing(reply.answer),
            retry_after=reply.retry_after,
        )


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    answer: Mapping[str, Any]
    first: float | None = None
    retry_after: float | None = None


async def _exchange(client: _Clients, question: Question, *, clock: Callable[[], float]) -> _Reply:
    """Send one request and read its complete answer: JSON, problem details, or a stream's last event.

    Raises:
        ValueError: the answer is broken.
    """
    if question.path != STREAM:
        whole = await client.plain.post(question.path, question.sent, question.sent_headers)
        read = _object if whole.status == 200 else _problem
        return _Reply(whole.status, read(whole.content), retry_after=_seconds(whole))
    body, headers = question.sent, question.sent_headers
    async with client.streams.stream("POST", question.path, content=body, headers=headers) as answer:
        if answer.status_code != 200:
            return _Reply(answer.status_code, _problem(await answer.aread()), retry_after=_seconds(answer))
        first = None
        async for event in _events(answer):
            if event["type"] == "results" and first is None:
                first = clock()
            elif event["type"] == "done":
                return _Reply(200, event["response"], first)
            elif event["type"] == "error":
                return _Reply(int(event["problem"]["status"]), event["problem"], first)
    raise ValueError("the stream ended without its last event")


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            yield _object(line.removeprefix("data:"))


def _object(content: bytes | str) -> dict[str, Any]:
    """Return the JSON object that an answer must be.

    Raises:
        ValueError: the answer is something else.
    """
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ValueError(f"not JSON: {content[:200]!r}") from error
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {content[:200]!r}")
    return value


def _problem(content: bytes) -> dict[str, Any]:
    """Return problem details; an answer without them (from a proxy, in plain text) gets the code `NOT_OURS`."""
    try:
        return _object(content)
    except ValueError:
        return {"code": NOT_OURS}


def _seconds(answer: httpx.Response | Answer) -> float | None:
    value = answer.headers.get("retry-after", "")
    return float(value) if value.replace(".", "", 1).isdigit() else None


def _checked(url: str) -> None:
    host = urlsplit(url).hostname or ""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ValueError(f"{url!r} is not this machine's own address; load is sent to loopback alone")
