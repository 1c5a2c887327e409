"""A proxy refuses whom the replicas have just refused for their rate, nobody else, and not for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import pytest
from starlette.types import Message, Receive, Scope, Send

from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.load_reports import RATE_LIMITED, decode_refused
from lodestone_serve.traffic.proxy_middleware import Front, Waits
from lodestone_serve.traffic.proxy_rates import ProxyRates
from lodestone_serve.traffic.rate_headers import RateState
from lodestone_serve.traffic.rate_limits import RateLimits

Headers = Iterable[tuple[bytes, bytes]]
KEY = (b"x-api-key", b"lds_one")
OTHER_KEY = (b"authorization", b"Bearer lds_two")
EMPTY = RateState(amount=60, window_s=60, remaining=0, reset_s=30)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def scope_of(*headers: tuple[bytes, bytes], path: str = "/v1/corpora", address: str = "192.0.2.1") -> Scope:
    given = [(b"host", b"127.0.0.1:7860"), *headers]
    return {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": given, "client": (address, 1)}


def raw(state: RateState) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in state.headers().items()]


def refused(rates: ProxyRates, scope: Scope) -> bool:
    request = rates.arriving(scope)
    return request is not None and rates.refusal(request) is not None


def answered(rates: ProxyRates, scope: Scope, status: int = 429, state: RateState | None = EMPTY) -> None:
    request = rates.arriving(scope)
    assert request is not None
    rates.answered(request, status, [] if state is None else raw(state))


def test_headers_come_back_as_they_were_sent() -> None:
    assert RateState.of(raw(EMPTY)) == EMPTY
    for headers in ([], [(b"ratelimit", b"x"), (b"ratelimit-policy", b"x")], raw(RateState(0, 60, 0, 1))):
        assert RateState.of(headers) is None


def test_a_refused_sender_is_refused_until_its_rate_lets_one_more_in() -> None:
    clock = Clock()
    rates = ProxyRates(clock=clock)
    scope = scope_of(KEY)
    assert not refused(rates, scope)
    answered(rates, scope)
    assert refused(rates, scope)
    assert refused(rates, scope_of(KEY, path="/v1/search"))
    clock.now += 0.99
    assert refused(rates, scope)
    clock.now += 0.02  # 60 a minute: one a second
    assert not refused(rates, scope)
    assert rates.take_refused() == {"GET /v1/corpora": 2, "GET /v1/search": 1}
    assert rates.take_refused() == {}


@pytest.mark.parametrize(
    ("amount", "window_s", "reset_s", "pause"), [(6000, 60, 30, 0.1), (3, 3600, 900, 5.0), (1, 60, 2, 2.0)]
)
def test_nobody_is_refused_for_long(amount: int, window_s: int, reset_s: int, pause: float) -> None:
    clock = Clock()
    rates = ProxyRates(clock=clock)
    answered(rates, scope_of(KEY), state=RateState(amount, window_s, 0, reset_s))
    clock.now += pause - 0.01
    assert refused(rates, scope_of(KEY))
    clock.now += 0.02
    assert not refused(rates, scope_of(KEY))


@pytest.mark.parametrize(
    "other",
    [
        scope_of(OTHER_KEY),
        scope_of(),
        scope_of(KEY, address="192.0.2.2"),
        scope_of(KEY, OTHER_KEY),
        scope_of(KEY, path="/healthz"),
        scope_of(KEY, (b"x-lodestone-token", b"of this machine")),
        scope_of(KEY, (b"origin", b"https://elsewhere.example")),
    ],
    ids=["another key", "no key", "another address", "two keys", "a probe", "a local command", "a page of another site"],
)
def test_nobody_else_is_refused(other: Scope) -> None:
    rates = ProxyRates(clock=Clock())
    answered(rates, scope_of(KEY))
    assert not refused(rates, other)


@pytest.mark.parametrize(
    ("status", "state"),
    [(429, None), (429, RateState(60, 60, 3, 30)), (200, EMPTY), (503, EMPTY)],
    ids=["overloaded, without rates", "overloaded", "the last one of a window", "a failure"],
)
def test_other_answers_refuse_nobody(status: int, state: RateState | None) -> None:
    rates = ProxyRates(clock=Clock())
    answered(rates, scope_of(KEY), status, state)
    assert not refused(rates, scope_of(KEY))


def test_a_sender_that_is_let_in_again_is_forgotten_and_memory_is_bounded() -> None:
    rates = ProxyRates(clock=Clock())
    answered(rates, scope_of(KEY))
    answered(rates, scope_of(KEY), 200)
    assert not refused(rates, scope_of(KEY))
    for number in range(5_000):
        answered(rates, scope_of((b"x-api-key", b"%d" % number)))
    assert len(rates._senders) <= 4_096
    assert refused(rates, scope_of((b"x-api-key", b"4999")))
    assert not refused(rates, scope_of((b"x-api-key", b"0")))


class Replica:
    """A replica with a rate limit, behind a proxy that passes everything on."""

    def __init__(self, rate: str) -> None:
        self.seen: list[Scope] = []
        self._limits = RateLimits(self._answer, rate=rate, metrics=Metrics())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope)
        await self._limits(scope, receive, send)


async def asked(front: Front, scope: Scope) -> tuple[int, dict[str, str], bytes]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await front(scope, receive, send)
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])


async def test_requests_beyond_a_rate_do_not_reach_the_replica_and_get_its_answer() -> None:
    replica = Replica("20/minute")
    front = Front(replica, waits=Waits(deadline_s=10.0, patience_s=60.0))
    answers = [await asked(front, scope_of(KEY)) for _ in range(40)]
    assert [status for status, _, _ in answers] == [200] * 20 + [429] * 20
    assert len(replica.seen) == 21, "one refusal by the replica, and the others by the proxy"
    (_, by_replica, body), *_, (_, by_proxy, other_body) = answers[20:]
    told, again = json.loads(body), json.loads(other_body)
    assert told["code"] == again["code"] == "rate_limited"
    assert told.keys() == again.keys()
    for name in ("content-type", "retry-after", "ratelimit-policy", "ratelimit", "content-security-policy", "x-request-id"):
        assert name in by_proxy
        if name not in {"x-request-id", "retry-after", "ratelimit", "content-security-policy"}:
            assert by_proxy[name] == by_replica[name]
    assert by_proxy["ratelimit"].startswith('"default";r=0;t=')
    assert abs(int(by_proxy["retry-after"]) - int(by_replica["retry-after"])) <= 2

    status, _, _ = await asked(front, scope_of(OTHER_KEY, address="192.0.2.9"))
    assert status == 200
    counted = next(value for name, value in replica.seen[-1]["headers"] if name == RATE_LIMITED)
    assert decode_refused(counted) == {"GET /v1/corpora": 19}


async def test_a_sender_that_goes_on_beyond_its_rate_still_gets_its_rate() -> None:
    replica = Replica("20/second")
    front = Front(replica, waits=Waits(deadline_s=10.0, patience_s=60.0))
    loop = asyncio.get_running_loop()
    ends, good, offered = loop.time() + 2.0, 0, 0
    while loop.time() < ends:
        status, _, _ = await asked(front, scope_of(KEY))
        good, offered = good + (status == 200), offered + 1
        await asyncio.sleep(0.005)
    assert good > 20, "more than the first second's"
    assert len(replica.seen) < offered
