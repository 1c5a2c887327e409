"""Askers are counted apart and within bounds, and a write with a key is done once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.asgi_caller import Call
from tests.support.fake_services import FakeServices

from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import WriteKey, WriteRecord
from lodestone.config.serve import ServeSettings
from lodestone.errors import CatalogError
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.access import KeyRequest
from lodestone_schemas.access import Scope as Access
from lodestone_schemas.api import SearchOptions, SearchResponse
from lodestone_serve.auth.authentication import holder_of
from lodestone_serve.auth.principal import ANYBODY, LOCAL, Principal
from lodestone_serve.http.application import create_app
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.idempotency import Idempotency
from lodestone_serve.traffic.rate_limits import RateLimits
from lodestone_serve.traffic.request_guards import PromptBodies

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def key_of(owner: str, rate: str | None = None) -> Principal:
    return Principal(owner, frozenset(Access), rate=rate)


def asked_by(app: ASGIApp, principal: Principal | None, *, address: str = "127.0.0.1") -> httpx.AsyncClient:
    """A client whose requests come from that principal and address."""

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = (address, 1)
        scope["state"] = {} if principal is None else {"principal": principal}
        await app(scope, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(known), base_url="http://127.0.0.1")


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("fine")(scope, receive, send)


# -- rate limits -------------------------------------------------------------------------------------------------------------


async def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    metrics = Metrics()
    http = asked_by(RateLimits(fine, rate="3/hour", metrics=metrics), None)
    answers = [await http.get("/v1/corpora") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[0].headers["ratelimit-policy"] == '"default";q=3;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"default";r=2;t=')
    refused = answers[-1]
    assert refused.json()["code"] == "rate_limited"
    assert 1 <= int(refused.headers["retry-after"]) <= 3600
    assert refused.json()["retry_after"] == int(refused.headers["retry-after"])
    assert metrics.registry.get_sample_value("lodestone_queries_shed_total", {"reason": "rate_limited"}) == 1
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await http.get(path)).status_code == 200


async def test_keys_are_counted_apart_and_may_have_rates_of_their_own() -> None:
    limits = RateLimits(fine, rate="1/hour", metrics=Metrics())
    for principal, allowed in [(key_of("key:a"), 1), (key_of("key:b"), 1), (key_of("key:c", rate="3/hour"), 3), (LOCAL, 9)]:
        http = asked_by(limits, principal)
        answers = [(await http.get("/v1/corpora")).status_code for _ in range(9)]
        assert answers.count(200) == allowed, principal.owner
    everybody = RateLimits(fine, rate=None, metrics=Metrics())
    assert "ratelimit" not in (await asked_by(everybody, None).get("/v1/corpora")).headers


async def test_addresses_are_counted_apart_but_not_those_of_one_network() -> None:
    limits = RateLimits(fine, rate="1/hour", metrics=Metrics())

    async def status(address: str) -> int:
        return (await asked_by(limits, None, address=address).get("/v1/corpora")).status_code

    assert await status("192.0.2.1") == 200
    assert await status("192.0.2.2") == 200
    assert await status("::ffff:192.0.2.1") == 429, "the same address in another coat"
    assert await status("2001:db8:1:2::1") == 200
    assert await status("2001:db8:1:2:3:4:5:6") == 429, "one customer has the whole /64"
    assert await status("2001:db8:1:3::1") == 200


async def test_many_addresses_take_bounded_memory() -> None:
    limits = RateLimits(fine, rate="5/hour", metrics=Metrics(), most_askers=50)
    for number in range(300):
        await asked_by(limits, None, address=f"10.0.{number // 250}.{number % 250}").get("/v1/corpora")
    assert len(limits._askers) == 50
    assert len(limits._limiter.storage.storage) <= 2 * 50


# -- idempotency -------------------------------------------------------------------------------------------------------------


class Ledger:
    """A real catalog, asked as the service does."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.fail = False

    async def claim_write(self, write: WriteKey) -> WriteRecord | None:
        if self.fail:
            raise CatalogError("the catalog is gone", hint="start it")
        return await asyncio.to_thread(self.catalog.claim_write, write)

    async def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        await asyncio.to_thread(self.catalog.answer_write, write, status=status, body=body)

    async def forget_write(self, write: WriteKey) -> None:
        await asyncio.to_thread(self.catalog.forget_write, write)


class Work:
    """Counts what it is asked, and answers as it is told."""

    def __init__(self) -> None:
        self.begun = 0
        self.done: list[bytes] = []
        self.status = 200
        self.fail: Exception | None = None
        self.pause: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        self.begun += 1
        if self.pause:
            await self.pause.wait()
        self.done.append(body)
        if self.fail:
            raise self.fail
        number = len(self.done)
        answer = Response(status_code=204) if self.status == 204 else JSONResponse({"number": number}, self.status)
        await answer(scope, receive, send)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path / "catalog.sqlite")


@pytest.fixture
def ledger(catalog: Catalog) -> Ledger:
    return Ledger(catalog)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(work: Work, ledger: Ledger, metrics: Metrics) -> Idempotency:
    return Idempotency(work, ledger=ledger, metrics=metrics)


@pytest.fixture
async def http(app: Idempotency) -> AsyncIterator[httpx.AsyncClient]:
    async with asked_by(app, key_of("key:a")) as client:
        yield client


async def test_a_write_with_a_key_is_done_once_and_answered_alike(
    http: httpx.AsyncClient, work: Work, metrics: Metrics
) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await http.post("/v1/feedback", json={"a": 1}, headers=headers)
    again = await http.post("/v1/feedback", json={"a": 1}, headers=headers)
    assert (first.json(), again.json()) == ({"number": 1}, {"number": 1})
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]
    assert metrics.registry.get_sample_value("lodestone_idempotent_replays_total") == 1
    assert (await http.post("/v1/feedback", json={"a": 1}, headers={"Idempotency-Key": "k2"})).json() == {"number": 2}
    assert (await http.post("/v1/feedback", json={"a": 1})).json() == {"number": 3}
    work.status = 204
    for _ in range(2):
        gone = await http.delete("/v1/tags/t", headers={"Idempotency-Key": "k3"})
        assert (gone.status_code, gone.content) == (204, b"")
    assert len(work.done) == 4


async def test_a_key_is_for_one_request_of_one_owner(http: httpx.AsyncClient, app: Idempotency, work: Work) -> None:
    headers = {"Idempotency-Key": "k1"}
    await http.post("/v1/feedback", json={"a": 1}, headers=headers)
    for call in (
        http.post("/v1/feedback", json={"a": 2}, headers=headers),
        http.post("/v1/tags", json={"a": 1}, headers=headers),
        http.post("/v1/feedback?x=1", json={"a": 1}, headers=headers),
    ):
        other = await call
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert len(work.done) == 1
    async with asked_by(app, key_of("key:b")) as somebody:
        assert (await somebody.post("/v1/feedback", json={"a": 2}, headers=headers)).json() == {"number": 2}


async def test_the_same_key_at_the_same_time_is_a_conflict_and_then_the_answer(
    http: httpx.AsyncClient, ledger: Ledger, work: Work
) -> None:
    work.pause = asyncio.Event()
    headers = {"Idempotency-Key": "k1"}
    first = asyncio.create_task(http.post("/v1/feedback", json={"a": 1}, headers=headers))
    while not ledger.catalog.writes():
        await asyncio.sleep(0.002)
    second = await http.post("/v1/feedback", json={"a": 1}, headers=headers)
    assert (second.status_code, second.headers["retry-after"]) == (409, "1")
    work.pause.set()
    assert (await first).json() == {"number": 1}
    assert (await http.post("/v1/feedback", json={"a": 1}, headers=headers)).json() == {"number": 1}
    assert len(work.done) == 1


async def test_two_replicas_with_one_catalog_do_a_write_once(ledger: Ledger, work: Work, metrics: Metrics) -> None:
    replicas = [Idempotency(work, ledger=ledger, metrics=metrics) for _ in range(2)]
    clients = [asked_by(replica, key_of("key:a")) for replica in replicas]
    for key in ("k1", "k2", "k3"):
        await asyncio.gather(
            *(client.post("/v1/tags", json={"a": key}, headers={"Idempotency-Key": key}) for client in clients * 3)
        )
    assert len(work.done) == 3


@pytest.mark.parametrize("status", [429, 500, 503, 403])
async def test_what_may_go_well_the_next_time_is_tried_again(http: httpx.AsyncClient, work: Work, status: int) -> None:
    work.status = status
    headers = {"Idempotency-Key": "k1"}
    assert (await http.post("/v1/feedback", json={}, headers=headers)).status_code == status
    work.status = 200
    assert (await http.post("/v1/feedback", json={}, headers=headers)).json() == {"number": 2}


async def test_a_defect_frees_the_key(http: httpx.AsyncClient, work: Work) -> None:
    work.fail = ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"):
        await http.post("/v1/feedback", json={}, headers={"Idempotency-Key": "k1"})
    work.fail = None
    assert (await http.post("/v1/feedback", json={}, headers={"Idempotency-Key": "k1"})).status_code == 200


async def test_a_client_that_leaves_gets_the_answer_when_it_asks_again(app: Idempotency, work: Work) -> None:
    work.pause = asyncio.Event()
    headers = {"idempotency-key": "k1"}
    call = Call(app, "POST", "/v1/feedback", body={"a": 1}, headers=headers)
    while not work.begun:
        await asyncio.sleep(0.002)
    call.task.cancel()  # as Serve does when a connection closes
    await asyncio.wait([call.task])
    work.pause.set()
    async with asyncio.timeout(120):
        while (again := await Call(app, "POST", "/v1/feedback", body={"a": 1}, headers=headers).done()).status == 409:
            await asyncio.sleep(0.005)
    assert again.json() == {"number": 1}
    assert again.headers["idempotency-replayed"] == "true"
    assert len(work.done) == 1


@pytest.mark.parametrize(
    "other",
    [
        Principal("key:a", frozenset({Access.SEARCH})),
        Principal("key:a", frozenset(Access), corpora=frozenset({"holidays"})),
        Principal("key:a", frozenset(Access), corpora=frozenset()),
        Principal("key:a", frozenset(Access), local=True),
        ANYBODY,
    ],
)
async def test_an_answer_is_kept_for_a_name_with_its_rights(app: Idempotency, work: Work, other: Principal) -> None:
    async with asked_by(app, key_of("key:a")) as privileged, asked_by(app, other) as lesser:
        headers = {"Idempotency-Key": "k1"}
        assert (await privileged.post("/v1/feedback", json={}, headers=headers)).json() == {"number": 1}
        work.status = 403
        refused = await lesser.post("/v1/feedback", json={}, headers=headers)
        assert (refused.status_code, refused.json()) == (403, {"number": 2}), "decided anew"
        assert (await privileged.post("/v1/feedback", json={}, headers=headers)).json() == {"number": 1}


async def test_the_answer_to_a_local_command_is_not_given_to_whoever_has_no_token(app: Idempotency, work: Work) -> None:
    async with asked_by(app, LOCAL) as command, asked_by(app, ANYBODY) as anybody:
        headers = {"Idempotency-Key": "k1"}
        await command.delete("/v1/directories/d", headers=headers)
        assert "idempotency-replayed" not in (await anybody.delete("/v1/directories/d", headers=headers)).headers
    assert len(work.done) == 2


async def test_a_rotated_key_gets_the_answer_of_the_one_before(app: Idempotency, work: Work) -> None:
    key, _ = ApiKey.new(KeyRequest(name="k", scopes=[Access.FEEDBACK], corpora=["b", "a"]))
    for held in (key, key.rotated(2, now=NOON)[0]):
        async with asked_by(app, holder_of(held)) as client:
            answer = await client.post("/v1/feedback", json={}, headers={"Idempotency-Key": "k1"})
            assert answer.json() == {"number": 1}
    assert len(work.done) == 1


async def test_a_request_that_is_cancelled_while_it_claims_its_key_frees_it(app: Idempotency, ledger: Ledger) -> None:
    claiming, go_on = asyncio.Event(), asyncio.Event()
    claim = ledger.claim_write

    async def slow(write: WriteKey) -> WriteRecord | None:
        found = await claim(write)  # the row is there, the middleware does not know it yet
        claiming.set()
        await go_on.wait()
        return found

    ledger.claim_write = slow  # type: ignore[method-assign]
    call = Call(app, "POST", "/v1/feedback", body={}, headers={"idempotency-key": "k1"})
    await claiming.wait()
    call.task.cancel()
    await asyncio.wait([call.task])
    assert ledger.catalog.writes() == 1
    go_on.set()
    async with asyncio.timeout(120):
        while ledger.catalog.writes():
            await asyncio.sleep(0.002)
    again = await Call(app, "POST", "/v1/feedback", body={}, headers={"idempotency-key": "k1"}).done()
    assert again.json() == {"number": 1}


async def test_a_request_that_is_cancelled_while_it_claims_does_not_free_the_key_of_another(
    app: Idempotency, ledger: Ledger, work: Work
) -> None:
    async with asked_by(app, key_of("key:a")) as http:
        await http.post("/v1/feedback", json={}, headers={"Idempotency-Key": "k1"})
    claim = ledger.claim_write
    claimed = asyncio.Event()

    async def slow(write: WriteKey) -> WriteRecord | None:
        found = await claim(write)
        claimed.set()
        await asyncio.sleep(0)
        return found

    ledger.claim_write = slow  # type: ignore[method-assign]

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"principal": key_of("key:a")}
        await app(scope, receive, send)

    call = Call(known, "POST", "/v1/feedback", body={}, headers={"idempotency-key": "k1"})
    await claimed.wait()
    call.task.cancel()
    await asyncio.wait([call.task])
    async with asyncio.timeout(120):
        while app._tasks:
            await asyncio.sleep(0.002)
    assert ledger.catalog.writes() == 1
    assert len(work.done) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\u00fc"])
async def test_a_key_that_cannot_be_used_is_refused(app: Idempotency, work: Work, key: str) -> None:
    answer = await Call(app, "POST", "/v1/feedback", body={}, headers={"idempotency-key": key}).done()
    assert (answer.status, answer.json()["code"]) == (422, "invalid_request")
    assert work.done == []


async def test_what_is_no_write_is_left_alone(http: httpx.AsyncClient, work: Work) -> None:
    headers = {"Idempotency-Key": "k1"}
    for _ in range(2):
        await http.get("/v1/tags", headers=headers)
        await http.post("/v1/search", json={}, headers=headers)
        await http.post("/v1/feedback", content=b"x" * 70_000, headers=headers)  # refused further in, by its size
    assert len(work.done) == 6


async def test_a_catalog_that_fails_is_told_and_nothing_is_done(http: httpx.AsyncClient, ledger: Ledger, work: Work) -> None:
    ledger.fail = True
    answer = await http.post("/v1/feedback", json={}, headers={"Idempotency-Key": "k1"})
    assert (answer.status_code, answer.json()["code"]) == (503, "catalog_failed")
    assert work.done == []


def test_keys_are_kept_for_a_day_and_those_of_the_dead_for_minutes(catalog: Catalog) -> None:
    one, other = WriteKey("o", "k", "f" * 64), WriteKey("o", "k", "0" * 64)
    at: Callable[[float], datetime] = lambda hours: NOON + timedelta(hours=hours)  # noqa: E731
    assert catalog.claim_write(one, now=NOON) is None
    running = catalog.claim_write(one, now=at(0.01))
    assert running is not None
    assert running.status is None
    assert catalog.claim_write(one, now=at(0.1)) is None, "whoever worked on it has died"
    catalog.answer_write(one, status=201, body=b"x\nyes")
    catalog.forget_write(one)  # what is answered is not given back
    done = catalog.claim_write(other, now=at(23))
    assert done is not None
    assert (done.fingerprint, done.status, done.body) == (one.fingerprint, 201, b"x\nyes")
    catalog.claim_write(WriteKey("o", "old", "f" * 64), now=at(1))
    assert catalog.claim_write(other, now=at(26)) is None, "a day is over"
    assert catalog.writes() == 1, "and what is older was pruned"


# -- bodies and pictures that take their time --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "length", "given_up"),
    [("/v1/search", 50, True), ("/v1/tags", 50, True), ("/v1/embeddings", 50, True), ("/v1/embeddings", 10**6, False)],
)
async def test_a_body_that_dawdles_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, length: int, given_up: bool
) -> None:
    monkeypatch.setattr("lodestone_serve.traffic.request_guards.BODY_S", 0.05)
    app = create_app(FakeServices(tmp_path), settings=ServeSettings(max_ongoing=1, max_queued=0), token="t")
    slow = Call(app, "POST", path, body={}, headers={"content-length": str(length), "idempotency-key": "k"})
    slow.hold_body()
    try:
        await asyncio.wait([slow.task], timeout=10 if given_up else 0.3)
        answer = await Call(app, "POST", "/v1/search", body={"query": "a boat"}).done()
        assert (slow.status, answer.status) == ((504, 200) if given_up else (0, 429))
    finally:
        await slow.leave()


async def test_a_picture_that_takes_too_long_ends_at_the_deadline(tmp_path: Path) -> None:
    class Dawdling(FakeServices):
        async def by_picture(
            self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
        ) -> SearchResponse:
            await asyncio.sleep(60)
            return await super().by_picture(picture, options, request_context=request_context)

    app = create_app(Dawdling(tmp_path), settings=ServeSettings(), token="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        options = {"options": '{"deadline_ms": 300}'}
        async with asyncio.timeout(120):
            answer = await http.post("/v1/search/image", files={"image": b"a picture"}, data=options)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")


async def test_a_body_that_dawdles_is_given_up_by_whoever_reads_it_first(
    app: Idempotency, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone_serve.traffic.request_guards.BODY_S", 0.05)
    slow = Call(PromptBodies(app), "POST", "/v1/feedback", headers={"idempotency-key": "k"})
    slow.hold_body()
    async with asyncio.timeout(120):
        assert (await slow.done()).status == 504
    assert work.done == []
