"""Connections whose headers do not come are ended, each client has only so many, and targets elsewhere are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lodestone.config.serve import ServeSettings
from lodestone.config.settings import Settings
from lodestone_serve.traffic import connections, proxy_middleware
from lodestone_serve.traffic.askers import network_of
from lodestone_serve.traffic.connections import GuardedConnection, GuardedH11, OpenConnections, connection_protocol
from lodestone_serve.traffic.proxy_middleware import Front, Waits
from lodestone_serve.traffic.request_guards import SiteGuard

GET = b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE_S = 120.0
PROTOCOLS = ("httptools", "h11")


async def path_app(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"{scope['type']} {scope['path']}")(scope, receive, send)


class Server:
    """A guarded uvicorn on a free port; `say` is what a client gets for its bytes until the connection ends."""

    def __init__(self, port: int, protocol: type[GuardedConnection]) -> None:
        self.port = port
        self.open = protocol.open_connections

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, *sent: bytes, pause_s: float = 0.0) -> bytes:
        reader, writer = await self.connect()
        try:
            async with asyncio.timeout(PATIENCE_S):
                for chunk in sent:
                    writer.write(chunk)
                    await asyncio.sleep(pause_s)
                return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def serving(app: Any = path_app, *, kind: str = "httptools", **limits: Any) -> AsyncIterator[Server]:
    protocol: Any = connection_protocol(**limits)
    if kind == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol

        limited = {name: getattr(protocol, name) for name in ("open_connections", "headers_s", "body_s")}
        protocol = type("Guarded", (GuardedH11, H11Protocol), limited)
    config = uvicorn.Config(app, port=0, http=protocol, lifespan="off", log_level="critical", timeout_keep_alive=30)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield Server(server.servers[0].sockets[0].getsockname()[1], protocol)
    finally:
        server.should_exit = True
        await task


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("sent", [(b"",), (b"G",), (GET,), (GET, b"X-A: b\r\n", b"X-B: c\r\n", b"X-C: d\r\n")])
async def test_headers_that_do_not_come_end_the_connection(kind: str, sent: tuple[bytes, ...]) -> None:
    async with serving(kind=kind, headers_s=0.5) as server:
        answer = await server.say(*sent, pause_s=0.02)
    assert status_of(answer) == 408
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "deadline_exceeded"


@pytest.mark.parametrize("sent", [b"X-A: " + b"a" * 400_000, b"X-A: b\r\n" * 60_000])
@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
async def test_headers_without_end_are_not_kept(sent: bytes, before: bytes) -> None:
    async with serving() as server:
        reader, writer = await server.connect()
        writer.write(before)
        async with asyncio.timeout(PATIENCE_S):
            if before:
                await reader.readuntil(b"http /v1/status")
            writer.write(GET + sent)
            answer = await _rest(reader)
        writer.close()
        while len(server.open):
            await asyncio.sleep(0.002)
    assert answer.startswith(b"HTTP/1.1 431") or (before and answer == b""), "after an earlier answer there is none"


OPENS = b"Host: 127.0.0.1\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"
COOKIES = b"Cookie: " + b"; ".join(b"planted%d=%b" % (number, b"a" * 4_000) for number in range(170)) + b"\r\n\r\n"


async def test_somebody_with_too_many_cookies_is_told_in_a_page_and_a_program_by_a_problem() -> None:
    async with serving() as server:
        for headers, is_page in ((OPENS, True), (b"Host: 127.0.0.1\r\nAccept: */*\r\n", False)):
            answer = await server.say(b"GET / HTTP/1.1\r\n" + headers + COOKIES)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert status_of(answer) == 431
            assert (b"content-type: text/html" in head, b"<a href=forget-cookies>" in body) == (is_page, is_page)
            assert (b"content-security-policy: default-src 'none'" in head) is is_page
            assert b"clear-site-data" not in head, "nothing is removed that nobody asked for"
            assert is_page or "remove the cookies" in json.loads(body)["hint"]


@pytest.mark.parametrize(
    ("target", "sent_by", "removes"),
    [
        (b"/forget-cookies", b"", True),
        (b"/photos/forget-cookies", b"Sec-Fetch-Site: same-origin\r\n", True),
        (b"/forget-cookies", b"Sec-Fetch-Site: cross-site\r\n", False),
        (b"/forget-cookies", b"Sec-Fetch-Site: same-site\r\n", False),
        (b"/forget-cookies", b"Sec-Fetch-Site: none\r\n", True),
        (b"/forget-cookies", b"Sec-Fetch-Site: none\r\nSec-Purpose: prefetch\r\n", False),  # another page has it loaded ahead
        (b"/forget-cookies?" + b"a" * 300, b"", False),
        (b"/", b"Sec-Fetch-Site: none\r\n", False),
    ],
)
async def test_cookies_are_removed_where_somebody_asks_for_it(target: bytes, sent_by: bytes, removes: bool) -> None:
    async with serving() as server:
        answer = await server.say(b"GET " + target + b" HTTP/1.1\r\n" + OPENS + sent_by + COOKIES)
    assert status_of(answer) == 431
    assert (b'clear-site-data: "cookies"' in answer.partition(b"\r\n\r\n")[0]) is removes


async def test_the_answer_to_headers_that_are_too_long_comes_whole_though_the_client_still_sends() -> None:
    async with serving() as server, asyncio.timeout(PATIENCE_S):
        reader, writer = await server.connect()
        writer.write(b"GET / HTTP/1.1\r\n" + OPENS + COOKIES[:100_000])
        head = await reader.readuntil(b"\r\n\r\n")
        for _ in range(50):
            writer.write(b"a" * 10_000)
            await writer.drain()
        assert (await reader.read()).endswith(b"of your browser.</p>\n")
        assert status_of(head) == 431
        writer.close()


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_the_headers_of_a_second_request_must_come_as_well(kind: str) -> None:
    async with serving(kind=kind, headers_s=0.1) as server:
        answer = await server.say(GET + b"\r\n", GET, pause_s=0.05)
    assert status_of(answer) == 200
    assert answer.count(b"HTTP/1.1") == 1, "no answer to what may be no request"


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_neither_slow_work_nor_a_slow_body_nor_a_pause_between_requests_counts_as_late_headers(kind: str) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(0.2)
        await path_app(scope, receive, send)

    post = b"POST /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
    last = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with serving(slow, kind=kind, headers_s=0.1) as server:
        answer = await server.say(post, b"a", b"b", b"", last, pause_s=0.25)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.endswith(b"http /last")


POST = b"POST /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"
BODIES = {
    "length": (b"Content-Length: 6553600\r\n\r\n", [b" " * 65_536] * 100),
    "chunked": (b"Transfer-Encoding: chunked\r\n\r\n", [CHUNK] * 99 + [b"0\r\n\r\n"]),
}


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("body", BODIES)
async def test_a_body_that_nobody_reads_is_taken_to_its_end_and_the_connection_is_used_again(kind: str, body: str) -> None:
    """The application answers before the body is there, as a guard does that refuses it."""
    headers, chunks = BODIES[body]
    async with serving(kind=kind) as server, asyncio.timeout(PATIENCE_S):
        reader, writer = await server.connect()
        for _ in range(2):
            writer.write(POST + headers + chunks[0])
            await reader.readuntil(b"http /v1/status")
            for chunk in chunks[1:]:
                writer.write(chunk)
                await writer.drain()
        writer.write(GET + b"\r\n")
        assert status_of(await reader.readuntil(b"http /v1/status")) == 200
        writer.close()


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_body_without_end_that_nobody_reads_ends_the_connection(kind: str) -> None:
    async with serving(kind=kind, body_s=0.1) as server, asyncio.timeout(PATIENCE_S):
        reader, writer = await server.connect()
        writer.write(POST + BODIES["chunked"][0] + CHUNK)
        await reader.readuntil(b"http /v1/status")
        with suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(CHUNK)
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        while len(server.open):
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_headers_that_begin_with_the_end_of_such_a_body_must_come_as_well(kind: str) -> None:
    async with serving(kind=kind, headers_s=0.5) as server, asyncio.timeout(PATIENCE_S):
        reader, writer = await server.connect()
        writer.write(POST + BODIES["chunked"][0] + CHUNK)
        await reader.readuntil(b"http /v1/status")
        writer.write(b"0\r\n\r\n" + GET)
        await _rest(reader)
        writer.close()


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_a_client_has_only_so_many_connections_and_gets_new_ones_for_old(kind: str) -> None:
    async with serving(kind=kind, most=2) as server:
        held = [await server.connect() for _ in range(2)]
        while len(server.open) < 2:
            await asyncio.sleep(0.002)
        reader, writer = await server.connect()
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        assert status_of(answer) == 429
        assert b"retry-after: 1" in answer
        assert len(server.open) == 2, "one that is refused is not counted"
        held.pop()[1].close()
        while len(server.open) > 1:
            await asyncio.sleep(0.002)
        assert status_of(await server.say(GET + b"Connection: close\r\n\r\n")) == 200
        held.pop()[1].close()
        while len(server.open):
            await asyncio.sleep(0.002)


def test_clients_are_counted_apart_and_those_of_one_network_together() -> None:
    counted = OpenConnections(1)
    for address, taken in (("192.0.2.1", True), ("192.0.2.2", True), ("::ffff:192.0.2.1", False), ("2001:db8::1", True)):
        assert counted.take(network_of(address)) is taken, address
    assert not counted.take(network_of("2001:db8::2")), "one customer has the whole /64"
    counted.give_back(network_of("2001:db8::1"))
    assert counted.take(network_of("2001:db8::2"))


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("guard", ["replica", "proxy"])
@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/v1/status", 200),
        (b"http://evil.example/v1/status", 400),
        (b"http://evil.example/-/routes", 400),
        (b"https://evil.example:443/v1/status?a=http://127.0.0.1", 400),
        (b"http://127.0.0.1@evil.example/v1/status", 400),
        (b"http://evil.example@127.0.0.1/v1/status", 400),
        (b"http://evil.example?/v1/status", 400),
        (b"*", 400),
    ],
)
async def test_a_target_that_names_another_host_is_refused(kind: str, guard: str, target: bytes, status: int) -> None:
    waits = Waits(10.0, 10.0)
    guarded = SiteGuard(path_app, settings=ServeSettings()) if guard == "replica" else Front(path_app, waits=waits)
    async with serving(guarded, kind=kind) as server:
        answer = await server.say(b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert status_of(answer) == status, answer


@pytest.mark.parametrize("guard", ["replica", "proxy"])
async def test_a_target_that_names_this_host_is_answered(guard: str) -> None:
    waits = Waits(10.0, 10.0)
    guarded = SiteGuard(path_app, settings=ServeSettings()) if guard == "replica" else Front(path_app, waits=waits)
    async with serving(guarded) as server:
        asked = b"GET http://LocalHost:7860/v1/status HTTP/1.1\r\nHost: localhost:7860\r\nConnection: close\r\n\r\n"
        assert (await server.say(asked)).endswith(b"http /v1/status")


@pytest.mark.parametrize("kind", PROTOCOLS)
async def test_no_connection_becomes_a_websocket(kind: str) -> None:
    upgrade = (
        b"Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YQ==\r\n\r\n"
    )
    async with serving(kind=kind, headers_s=0.3) as server:
        answer = await server.say(GET + upgrade)
    assert status_of(answer) == 200
    assert b"http /v1/status" in answer, "it is a request as any other, which all guards see"


def test_the_proxies_of_ray_serve_use_it_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    from uvicorn.protocols.http import auto

    before = auto.AutoHTTPProtocol
    settings = Settings(serve=ServeSettings.model_validate({"load": {"connections": 7}}))
    for name, value in proxy_middleware.proxy_variables(settings).items():
        monkeypatch.setenv(name, value)
    try:
        proxy_middleware.middlewares()
        config = uvicorn.Config(path_app, lifespan="off")
        config.load()
        used: Any = config.http_protocol_class
        assert issubclass(used, GuardedConnection)
        assert (used.open_connections.most, used.headers_s) == (7, connections.HEADERS_S)
    finally:
        auto.AutoHTTPProtocol = before
