"""What stands around Serve's proxy answers in its place at the right moment, and leaves everything else as it is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone_serve.traffic import proxy_exchange, proxy_middleware
from lodestone_serve.traffic.arrivals import ARRIVED, BODY
from lodestone_serve.traffic.load_reports import ALLOWED
from lodestone_serve.traffic.proxy_middleware import Front, Waits, proxy_variables

WAITS = Waits(deadline_s=10.0, patience_s=60.0)
SHORT = Waits(deadline_s=0.05, patience_s=0.05)


class Told:
    """What a client got."""

    def __init__(self, messages: list[Message]) -> None:
        self.status = messages[0]["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in messages[0]["headers"]}
        self.body = b"".join(message["body"] for message in messages[1:])

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        told = json.loads(self.body)
        assert (told["status"], told["instance"]) == (self.status, "/v1/search")
        return str(told["code"])


def ask(
    app: ASGIApp,
    *,
    path: str = "/v1/search",
    body: Iterable[bytes] = (b"{}",),
    waits: Waits = SHORT,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Told:
    """Ask through a front, as a client that says nothing of time to the proxy."""
    chunks, sent = list(body), []
    messages = [{"type": "http.request", "body": one, "more_body": True} for one in chunks]
    messages[-1]["more_body"] = False

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": list(headers)}
    asyncio.run(Front(app, waits=waits)(scope, receive, send))
    return Told(sent)


def proxy(then: Callable[[Send], Coroutine[Any, Any, None]]) -> ASGIApp:
    """Reads the request to its end as Serve's proxy does, in a task of its own, and then does something."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reading = asyncio.create_task(_drained(receive))
        await asyncio.wait([reading], timeout=0.01)
        try:
            await then(send)
        finally:
            reading.cancel()

    return app


async def _drained(receive: Receive) -> None:
    while True:
        await receive()


async def silent(_: Send) -> None:
    """As Serve's proxy while no replica is there; cancelled, it ends without a word."""
    try:
        await asyncio.Future()
    except asyncio.CancelledError:
        return


async def dead(_: Send) -> None:
    """As Serve's proxy when a replica died: nothing is sent."""


def says(status: int, kind: bytes, *parts: bytes, pause: float = 0.0) -> Callable[[Send], Coroutine[Any, Any, None]]:
    async def answer(send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for number, part in enumerate(parts, start=1):
            await asyncio.sleep(pause)
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    return answer


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_middleware, "GRACE_S", 0.0)


def test_silence_ends_at_the_deadline() -> None:
    told = ask(proxy(silent))
    assert (told.status, told.code) == (504, "deadline_exceeded")


def test_a_replica_that_died_is_a_problem_that_says_to_ask_again() -> None:
    told = ask(proxy(dead))
    assert (told.status, told.code, told.headers["retry-after"]) == (503, "service_unavailable", "1")


@pytest.mark.parametrize(
    ("status", "becomes", "code"),
    [(408, 504, "deadline_exceeded"), (429, 429, "overloaded"), (503, 503, "service_unavailable")],
)
def test_what_serve_says_in_plain_text_becomes_a_problem(status: int, becomes: int, code: str) -> None:
    told = ask(proxy(says(status, b"text/plain; charset=utf-8", b"Request 1 timed out after 2s.")))
    assert (told.status, told.code) == (becomes, code)
    assert b"Request 1" not in told.body


@pytest.mark.parametrize("answer", [(503, b"application/problem+json", b"{}"), (200, b"text/plain", b"metric 1")])
def test_answers_of_the_service_pass_as_they_are(answer: tuple[int, bytes, bytes]) -> None:
    told = ask(proxy(says(*answer)))
    assert (told.status, told.headers["content-type"].encode(), told.body) == answer


@pytest.mark.parametrize(
    ("asked", "ends"),
    [(b"0.02", True), (b"100", False), (b"0", False), (b"-1", False), (b"soon", False), (b"nan", False), (b"inf", False)],
)
def test_the_clients_header_makes_the_wait_shorter_and_never_longer(asked: bytes, ends: bool) -> None:
    waits = Waits(deadline_s=0.3, patience_s=0.3)
    started = time.perf_counter()
    told = ask(proxy(silent), waits=waits, headers=[(b"x-request-timeout-seconds", asked)])
    assert (told.status, told.code) == (504, "deadline_exceeded")
    assert (time.perf_counter() - started < 0.3) == ends


def test_an_answer_that_has_begun_is_not_cut() -> None:
    told = ask(proxy(says(200, b"text/event-stream", b"a", b"b", b"c", b"d", pause=0.05)))
    assert (told.status, told.body) == (200, b"abcd")


def test_the_proxys_own_routes_pass() -> None:
    told = ask(proxy(says(503, b"text/plain", b"DRAINING")), path="/-/healthz")
    assert (told.status, told.body) == (503, b"DRAINING")


def test_the_deadline_in_the_body_counts_wherever_the_body_is_cut() -> None:
    """A body that names a longer deadline is waited for, however its bytes arrive."""
    body = json.dumps({"query": "x" * 300, "options": {"deadline_ms": 100_000}}).encode()
    answer = proxy(says(200, b"application/json", b"{}"))

    async def late(send: Send) -> None:
        await asyncio.sleep(0.2)
        await says(200, b"application/json", b"{}")(send)

    assert ask(answer, body=[body]).status == 200
    for size in (1, 7, len(body)):
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        assert ask(proxy(late), body=chunks).status == 200
    assert ask(proxy(late), body=[b'{"query": "\\"deadline_ms\\": 100000"}']).status == 504


@pytest.mark.parametrize(
    ("asked", "named_ms", "seconds"),
    [
        ("POST /v1/search", None, 10.0),
        ("POST /v1/search", 500, 0.5),
        ("POST /v1/search/image", 600_000, 600.0),
        ("POST /v1/search/stream", None, 10.0),
        ("GET /v1/search/stream/abc", None, 10.0),
        ("GET /v1/images/7f/similar", None, 10.0),
        ("POST /v1/search/batch", None, 610.0),
        ("POST /v1/images/generations", None, 600.0),
        ("POST /v1/images/generations", 2_000, 2.0),
        ("POST /v1/queries/7f/replay", None, 600.0),
        ("GET /v1/corpora", None, 60.0),
        ("POST /v1/feedback", None, 60.0),
        ("POST /v1/internal/sync", None, 60.0),
        ("POST /v1/internal/shadow", None, None),
        ("DELETE /v1/corpora/a/b", None, None),
        ("DELETE /v1/directories/7f", None, None),
        ("DELETE /v1/keys/7f", None, 60.0),
    ],
)
def test_each_request_may_take_as_long_as_its_route_may(asked: str, named_ms: int | None, seconds: float | None) -> None:
    method, path = asked.split()
    assert WAITS.allowed(method, path, named_ms) == seconds


def test_proxies_know_what_the_settings_say() -> None:
    settings = Settings(query={"deadline_ms": 2_500}, serve={"patience_s": 7})
    assert Waits.of_environment(proxy_variables(settings)) == Waits(2.5, 7.0)
    assert Waits.of_environment({}) == Waits(600.0, 60.0)  # too long rather than too short
    with pytest.raises(ConfigurationError, match="LODESTONE_SERVE__PATIENCE_S is 'a minute'"):
        Waits.of_environment({"LODESTONE_SERVE__PATIENCE_S": "a minute"})


def test_ray_serve_takes_it() -> None:
    from ray.serve._private.http_util import _apply_middlewares, validate_http_proxy_callback_return
    from ray.serve._private.utils import call_function_from_import_path

    path = proxy_middleware.PROXY_ENVIRONMENT["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"]
    made: list[Any] = validate_http_proxy_callback_return(call_function_from_import_path(path))
    assert isinstance(_apply_middlewares(proxy(dead), made), Front)


@pytest.mark.parametrize("name", [b"X-Request-ID", b"x-request-timeout-seconds", b"traceparent"])
def test_what_the_proxy_could_not_read_is_refused_before_it_tries(name: bytes) -> None:
    told = ask(proxy(silent), headers=[(name, b"a\xff")])
    assert (told.status, told.code) == (400, "bad_request")
    assert told.headers["content-security-policy"].startswith("default-src 'none'")
    assert ask(proxy(silent), headers=[(name, "é".encode()), (b"user-agent", b"a\xff")]).status == 504


def slow_ask(path: str, *, headers: Iterable[tuple[bytes, bytes]] = ()) -> tuple[list[str], list[Message]]:
    """A body that stops in its middle: what the proxy saw of the request, and what the client got."""
    seen: list[str] = []
    sent: list[Message] = []
    messages = [{"type": "http.request", "body": b'{"query"', "more_body": True}]

    async def receive() -> Message:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        assert (await receive())["more_body"]
        await says(422, b"application/problem+json", b"{}")(send)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": list(headers)}
    asyncio.run(Front(app, waits=WAITS)(scope, receive, send))
    return seen, sent


def test_a_body_that_dawdles_takes_no_replicas_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_exchange, "BODY_S", 0.05)
    for headers in ([(b"content-length", b"100")], [(b"transfer-encoding", b"chunked")]):
        seen, sent = slow_ask("/v1/search", headers=headers)
        assert (seen, Told(sent).status, Told(sent).code) == ([], 504, "deadline_exceeded")


@pytest.mark.parametrize("path", ["/v1/search/batch", "/v1/search/image", "/v1/embeddings"])
def test_large_bodies_are_passed_on_as_they_come(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_exchange, "BODY_S", 0.05)
    seen, sent = slow_ask(path, headers=[(b"content-length", b"5000000")])
    assert (seen, Told(sent).status) == ([path], 422)


def test_of_a_body_that_is_larger_than_it_may_be_no_more_is_held_than_that() -> None:
    taken: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive()).get("more_body"):
            taken.append(len(message["body"]))
        await says(413, b"application/problem+json", b"{}")(send)

    chunk = 16 * 1024
    assert ask(app, body=[b"x" * chunk] * 100, waits=WAITS).status == 413
    assert taken == [chunk] * 99, "everything arrives, in its order"


async def test_a_whole_body_goes_with_the_request_and_is_there_to_be_asked_for() -> None:
    came: list[tuple[bytes | None, bytes]] = []
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"query": ', "more_body": True},
        {"type": "http.request", "body": b'"a dog"}', "more_body": False},
    ]

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(_: Message) -> None:
        pass

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        came.append((scope[BODY], (await receive())["body"] + (await receive())["body"]))
        await says(200, b"application/json", b"{}")(send)

    scope = {"type": "http", "method": "POST", "path": "/v1/search", "query_string": b"", "headers": []}
    await Front(app, waits=WAITS)(scope, receive, send)
    assert came == [(b'{"query": "a dog"}', b'{"query": "a dog"}')]


@pytest.mark.parametrize("path", ["/v1/search/image", "/v1/search/batch"])
async def test_a_large_body_does_not_go_with_the_request(path: str) -> None:
    large = {"type": "http.request", "body": b"x" * 100_000, "more_body": True}
    came = await seen_by_the_service((b"content-length", b"5000000"), path=path, first=large)
    assert BODY not in came[0]


async def seen_by_the_service(
    *headers: tuple[bytes, bytes], path: str = "/v1/search", first: Message | None = None
) -> list[Scope]:
    """What comes through of a request whose first message is `first`."""
    came: list[Scope] = []

    async def receive() -> Message:
        return first or {"type": "http.request", "body": b"{}"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        came.append(scope)
        await says(200, b"application/json", b"{}")(send)

    async def send(_: Message) -> None:
        return

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": list(headers)}
    await Front(app, waits=WAITS)(scope, receive, send)
    return came


@pytest.mark.parametrize("path", ["/v1/search", "/-/", "/-/../v1/search", "/-/routes/x"])
async def test_headers_by_which_clients_could_steer_the_proxy_do_not_reach_it(path: str) -> None:
    steering = [(b"X-Request-Disconnect-Disabled", b"\xff"), (b"x_session_id", b"\xff"), (b"serve_multiplexed_model_id", b"m")]
    (scope,) = await seen_by_the_service(*steering, (b"x-request-id", b"mine"), path=path)
    assert [name for name, _ in scope["headers"] if name != ALLOWED] == [b"x-request-id", ARRIVED]


async def test_who_leaves_while_the_body_is_read_is_not_worked_for() -> None:
    assert await seen_by_the_service(first={"type": "http.disconnect"}) == []


@pytest.mark.parametrize("named", [b"", b"mine"])
def test_the_proxys_own_answers_name_the_request(named: bytes) -> None:
    told = ask(proxy(silent), headers=[(b"x-request-id", named)] if named else [])
    assert told.headers["x-request-id"] == (named.decode() or told.headers["x-request-id"])
    assert len(told.headers["x-request-id"]) in {len(named), 32}


def test_what_says_that_it_is_too_large_is_left_to_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_exchange, "BODY_S", 0.05)
    seen, sent = slow_ask("/v1/search", headers=[(b"content-length", b"5000000")])
    assert (seen, Told(sent).status) == (["/v1/search"], 422)


@pytest.mark.parametrize("body", [b'{"deadline_ms": 5e3}', b'{"deadline_ms": 5.5}'])
def test_a_number_that_is_no_count_of_milliseconds_says_nothing(body: bytes) -> None:
    told = ask(proxy(says(200, b"application/json", b"{}")), body=[body], waits=Waits(deadline_s=0.2, patience_s=0.2))
    assert told.status == 200
