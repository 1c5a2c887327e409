"""A proxy refuses what the replicas would refuse, and nothing else, without reading a body or asking a replica."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from lodestone_serve.traffic.arrivals import ARRIVED
from lodestone_serve.traffic.load_reports import LOAD, REFUSED, LoadReport, decode_refused, encode_refused
from lodestone_serve.traffic.proxy_admission import FRESH_S, Passing, ProxyAdmission
from lodestone_serve.traffic.proxy_middleware import Front, Waits

REPORT = LoadReport("a", busy=0, places=100, slots=4, held_s=0.4, words_s=0.2, sending_s=0.0, retry_after=3)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def scope_of(
    *, path: str = "/v1/search", method: str = "POST", address: str = "192.0.2.1", headers: Iterable[tuple[bytes, bytes]] = ()
) -> Scope:
    given = [(b"host", b"127.0.0.1:7860"), *headers]
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": given, "client": (address, 1)}


def arrived(admission: ProxyAdmission, **scope: Any) -> Passing:
    query = admission.arriving(scope_of(**scope))
    assert query is not None
    return query


def under_way(admission: ProxyAdmission, count: int, **scope: Any) -> list[Passing]:
    queries = [arrived(admission, **scope) for _ in range(count)]
    for query in queries:
        admission.passed_on(query, 600.0)
    return queries


def told(admission: ProxyAdmission, report: LoadReport, query: Passing | None = None) -> None:
    admission.answered(query or arrived(admission), 200, report.encode())


def test_reports_and_counts_come_back_as_they_were_sent() -> None:
    assert LoadReport.decode(REPORT.encode()) == REPORT
    for broken in (b"", b"a 1 2 3", b"a 0 1 0 1 1 1 1", b"a 0 1 2 nan 1 1 1", b"\xff"):
        assert LoadReport.decode(broken) is None, "a report that cannot be read is none"
    counts = {"POST /v1/search": 3, "GET /v1/images/{image_id}/similar": 1}
    assert decode_refused(encode_refused(counts)) == counts
    assert decode_refused(b"x POST /v1/search, 99999999999 GET /, 2") == {}


async def test_a_turn_that_comes_too_late_is_refused_and_a_longer_deadline_is_not() -> None:
    admission = ProxyAdmission(clock=Clock())
    under_way(admission, 12)
    assert admission.too_late(arrived(admission), 1.0) is None, "nothing is known yet"
    told(admission, REPORT)
    # One turn each .1 s. Of 1.0 s .1 are for the way and .2 for the words: seven turns after the four that run.
    refused = admission.too_late(arrived(admission), 1.0)
    assert refused is not None
    start, body = refused.messages("/v1/search")
    problem = json.loads(body["body"])
    assert (problem["code"], problem["status"], problem["instance"], problem["retry_after"]) == (
        "overloaded",
        429,
        "/v1/search",
        3,
    )
    assert (b"retry-after", b"3") in start["headers"]
    assert admission.too_late(arrived(admission), 2.0) is None
    assert admission.take_refused() == {"POST /v1/search": 1}
    assert admission.take_refused() == {}


async def test_time_that_has_passed_in_the_proxy_counts() -> None:
    clock = Clock()
    admission = ProxyAdmission(clock=clock)
    under_way(admission, 6)
    told(admission, REPORT)
    query = arrived(admission)
    assert admission.too_late(query, 1.0) is None
    clock.now += 0.6
    assert admission.too_late(query, 1.0) is not None


async def test_nobody_is_refused_for_batches_that_wait_and_batches_wait_for_all() -> None:
    batch = [(b"priority", b"u=6")]
    admission = ProxyAdmission(clock=Clock())
    under_way(admission, 12, headers=batch)
    told(admission, REPORT)
    assert admission.too_late(arrived(admission), 1.0) is None
    assert admission.too_late(arrived(admission, headers=batch), 1.0) is not None


async def test_all_places_taken_is_refused_whatever_the_deadline() -> None:
    admission = ProxyAdmission(clock=Clock())
    queries = under_way(admission, 100)
    assert admission.without_place(arrived(admission)) is None
    told(admission, REPORT)
    assert admission.without_place(arrived(admission)) is not None
    admission.ended(queries[0])
    admission.ended(queries[0])
    assert admission.without_place(arrived(admission)) is None


async def test_what_comes_by_other_proxies_counts_and_several_replicas_share_the_work() -> None:
    alone = ProxyAdmission(clock=Clock())
    under_way(alone, 2)
    told(alone, LoadReport("a", 20, 100, 4, 0.4, 0.2, 0.0, 1))
    assert alone.too_late(arrived(alone), 1.0) is not None, "twenty are there, whoever sent them"
    several = ProxyAdmission(clock=Clock())
    under_way(several, 20)
    told(several, LoadReport("a", 10, 100, 4, 0.4, 0.2, 0.0, 1))
    assert several.too_late(arrived(several), 1.0) is not None
    for name in "bcd":
        told(several, LoadReport(name, 5, 100, 4, 0.4, 0.2, 0.0, 1))
    assert several.too_late(arrived(several), 1.0) is None


async def test_old_reports_and_an_empty_service_refuse_nobody() -> None:
    clock = Clock()
    admission = ProxyAdmission(clock=clock)
    told(admission, LoadReport("a", 1_000, 10, 1, 60.0, 60.0, 60.0, 60))
    query = arrived(admission)
    assert admission.without_place(query) is None, "no answer is under way that would bring a better report"
    assert admission.too_late(query, 1.0) is None
    under_way(admission, 1)
    assert admission.without_place(query) is not None
    clock.now += FRESH_S + 1
    assert admission.without_place(query) is None


async def test_a_stream_counts_until_its_deadline_however_slowly_it_is_read() -> None:
    admission = ProxyAdmission()
    told(admission, REPORT)
    for _ in range(100):
        admission.passed_on(arrived(admission), 0.02)
    assert admission.without_place(arrived(admission)) is not None
    await asyncio.sleep(0.1)
    assert admission.without_place(arrived(admission)) is None


async def test_who_fills_the_queue_leaves_room_for_others() -> None:
    admission = ProxyAdmission(clock=Clock())
    told(admission, REPORT)
    under_way(admission, 9, address="192.0.2.1")
    assert admission.too_late(arrived(admission, address="192.0.2.1"), 1.0) is None, "alone, it may have all"
    under_way(admission, 1, address="198.51.100.7")
    assert admission.too_late(arrived(admission, address="192.0.2.1"), 1.0) is not None
    assert admission.too_late(arrived(admission, address="198.51.100.7"), 1.0) is None
    assert admission.too_late(arrived(admission, address="203.0.113.9"), 1.0) is None


async def test_senders_are_told_apart_by_keys_that_were_good_and_else_by_their_address() -> None:
    admission = ProxyAdmission(clock=Clock())
    key, other = [(b"x-api-key", b"lodestone_a_b")], [(b"authorization", b"Bearer x")]
    query = arrived(admission, headers=key)
    assert query.asker == arrived(admission, headers=other).asker == arrived(admission).asker
    admission.answered(query, 401, None)
    assert arrived(admission, headers=key).asker == query.asker
    admission.answered(query, 200, None)
    assert arrived(admission, headers=key).asker != query.asker
    assert arrived(admission, headers=other).asker == query.asker


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/v1/status"), ("POST", "/v1/keys"),
     ("POST", "/v1/feedback"), ("OPTIONS", "/v1/search"), ("GET", "/v1/images/7/thumbnail"), ("POST", "/v1/directories")],
)  # fmt: skip
def test_only_queries_are_ever_refused(method: str, path: str) -> None:
    assert ProxyAdmission().arriving(scope_of(method=method, path=path)) is None


def test_pages_of_other_sites_are_left_to_the_service_which_knows_their_headers() -> None:
    admission = ProxyAdmission()
    assert admission.arriving(scope_of(headers=[(b"origin", b"https://photos.example")])) is None
    assert admission.arriving(scope_of(headers=[(b"origin", b"http://127.0.0.1:7860")])) is not None


class Service:
    """A service behind a front: it answers when `go` is set, and tells its load."""

    def __init__(self, report: LoadReport) -> None:
        self.go = asyncio.Event()
        self.came: list[Scope] = []
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.came.append(scope)
        if scope["path"] == "/v1/search":
            await self.go.wait()
        headers = [(b"content-type", b"application/json"), (LOAD, self._report.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})


class Client:
    """One request through a front, and how many messages of its body were read."""

    def __init__(self, front: Front, scope: Scope, body: bytes = b'{"query": "x"}') -> None:
        self.reads = 0
        self.sent: list[Message] = []
        self._body = body
        self.task = asyncio.create_task(front(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        self.reads += 1
        if self.reads > 1:
            await asyncio.Future()
        return {"type": "http.request", "body": self._body}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


async def test_a_refusal_reaches_no_replica_reads_no_body_and_is_reported_with_the_next_request() -> None:
    service = Service(LoadReport("a", busy=1, places=2, slots=1, held_s=1.0, words_s=0.1, sending_s=0.0, retry_after=4))
    front = Front(service, waits=Waits(deadline_s=10.0, patience_s=60.0))
    service.go.set()
    first = Client(front, scope_of())
    await first.task
    assert LOAD not in first.headers, "what replicas report is for proxies alone"
    service.go.clear()
    waiting = [Client(front, scope_of()) for _ in range(2)]
    await asyncio.sleep(0)
    refused = [Client(front, scope_of(headers=[(b"x-request-id", b"mine")])) for _ in range(5)]
    for client in refused:
        await client.task
        assert client.reads == 0
        assert client.sent[0]["status"] == 429
        assert json.loads(client.sent[1]["body"])["code"] == "overloaded"
        assert client.headers[b"retry-after"] == b"4"
        assert client.headers[b"x-request-id"] == b"mine"
        assert client.headers[b"x-content-type-options"] == b"nosniff"
    assert len(service.came) == 3
    forged = [(REFUSED, b"9 POST /v1/search"), (ARRIVED, b"1")]
    await Client(front, scope_of(method="GET", path="/metrics", headers=forged)).task
    (told_of,) = [value for name, value in service.came[-1]["headers"] if name == REFUSED]
    assert decode_refused(told_of) == {"POST /v1/search": 5}
    service.go.set()
    for client in waiting:
        await client.task


async def test_a_deadline_in_the_body_decides_in_the_proxy() -> None:
    service = Service(LoadReport("a", busy=1, places=50, slots=1, held_s=1.0, words_s=0.1, sending_s=0.0, retry_after=4))
    front = Front(service, waits=Waits(deadline_s=10.0, patience_s=60.0))
    service.go.set()
    await Client(front, scope_of()).task
    service.go.clear()
    waiting = [Client(front, scope_of()) for _ in range(4)]
    await asyncio.sleep(0)
    short = Client(front, scope_of(), b'{"query": "x", "deadline_ms": 3000}')
    await short.task
    assert short.sent[0]["status"] == 429
    patient = Client(front, scope_of(), b'{"query": "x", "deadline_ms": 9000}')
    service.go.set()
    for client in [*waiting, patient]:
        await client.task
        assert client.sent[0]["status"] == 200
