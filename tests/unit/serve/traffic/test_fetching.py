"""A picture's URL reaches nothing that only the service can reach, and costs no more than a bounded amount."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.support.fake_services import FakeServices

from lodestone.config.serve import ServeSettings
from lodestone.errors import FetchRefusedError, InvalidRequestError, LodestoneError
from lodestone.remote.http_fetch import MAX_REDIRECTS
from lodestone_serve.http.application import create_app
from lodestone_serve.traffic.fetching import Fetcher, checked_url

PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 500
LIMIT = 100_000
Respond = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def site(respond: Respond) -> AsyncIterator[tuple[int, list[str]]]:
    """A web site on loopback: its port, and the first lines of the requests it got."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            asked.append(head)
            await respond(head.split(" ")[1], writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def names(host: str, _port: int) -> list[str]:
    """A resolver that knows public.example (which the tests let be this machine), and some that must not be reached."""
    known = {"public.example": "127.0.0.1", "inside.example": "127.0.0.2", "both.example": "127.0.0.1"}
    found = [known[host]] if host in known else [host]
    return [*found, "10.0.0.1"] if host == "both.example" else found


def outside(address: str) -> bool:
    """127.0.0.1 stands for the public internet here."""
    return address == "127.0.0.1"


def fetcher(**more: object) -> Fetcher:
    options = {"enabled": True, "max_bytes": LIMIT, "allowed": outside, "resolve": names, **more}
    return Fetcher(**options)  # type: ignore[arg-type]


async def reason(fetch: Awaitable[bytes]) -> str:
    with pytest.raises(FetchRefusedError) as caught:
        await fetch
    return str(caught.value.details["reason"])


async def test_a_public_picture_is_fetched_and_nothing_of_ours_is_sent() -> None:
    async def respond(_path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK", PICTURE, "Content-Type: image/png", "Set-Cookie: a=b"))
        await writer.drain()

    async with site(respond) as (port, asked):
        one = fetcher()
        assert await one.fetch(f"http://public.example:{port}/a.png?q=1#fragment") == PICTURE
        assert await one.fetch(f"http://public.example:{port}/b.png") == PICTURE
    assert asked[0].startswith("GET /a.png?q=1 HTTP/1.1")
    assert f"Host: public.example:{port}" in asked[0]
    assert not any(name in head.lower() for head in asked for name in ("cookie", "authorization", "referer"))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433", "0177.0.0.1", "127.1", "0", "0.0.0.0",
        "169.254.169.254", "[fe80::1]", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fd00::1]", "224.0.0.1", "255.255.255.255",
        "198.18.0.1", "192.0.0.192", "168.63.129.16", "[3fff::1]",
        "localhost.", "ip6-localhost", "no-such-host.invalid", "127。0。0。1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_addresses_that_are_not_public_are_refused_however_they_are_written(scheme: str, host: str) -> None:
    async def never(_path: str, _writer: asyncio.StreamWriter) -> None:
        return

    async with site(never) as (port, asked):
        real = Fetcher(enabled=True, max_bytes=LIMIT)
        with pytest.raises((FetchRefusedError, InvalidRequestError)) as caught:
            await real.fetch(f"{scheme}://{host}:{port}/latest/meta-data")
        if isinstance(caught.value, FetchRefusedError):
            assert caught.value.details["reason"] == "not_public"
        await asyncio.sleep(0)
    assert asked == []


async def test_a_name_one_of_whose_addresses_is_inside_is_refused() -> None:
    assert await reason(fetcher().fetch("http://inside.example/")) == "not_public"
    assert await reason(fetcher().fetch("http://both.example/")) == "not_public"


async def test_a_name_that_changes_its_mind_is_resolved_once() -> None:
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1" if len(asked) == 1 else "10.0.0.1"]

    async def respond(_path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK", PICTURE))
        await writer.drain()

    async with site(respond) as (port, _):
        assert await fetcher(resolve=rebinding).fetch(f"http://public.example:{port}/") == PICTURE
    assert asked == ["public.example"]


@pytest.mark.parametrize(
    "place",
    [
        "http://inside.example/", "http://127.0.0.2/", "http://[::1]/", "//inside.example/", "http://169.254.169.254/latest",
        "file:///etc/passwd", "gopher://public.example/", "ftp://public.example/a.png", "http://user:pw@public.example/",
        "http://public.example:22/", "javascript:alert(1)", "http://a b/", "\\\\inside.example\\a",
    ],
)  # fmt: skip
async def test_redirects_lead_nowhere_that_a_url_may_not_name(place: str) -> None:
    async def respond(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK", b"secret") if path != "/start" else answer("302 Found", b"", f"Location: {place}"))
        await writer.drain()

    async with site(respond) as (port, asked):
        with pytest.raises(LodestoneError) as caught:
            await fetcher().fetch(f"http://public.example:{port}/start")
        assert caught.value.code in {"fetch_refused", "invalid_request"}
        assert len(asked) == 1
        assert "pw" not in caught.value.message


async def test_redirects_are_followed_a_few_times(caplog: pytest.LogCaptureFixture) -> None:
    async def respond(path: str, writer: asyncio.StreamWriter) -> None:
        left = int(path.strip("/"))
        writer.write(answer("200 OK", PICTURE) if left == 0 else answer("307 Again", b"", f"Location: /{left - 1}"))
        await writer.drain()

    async with site(respond) as (port, asked):
        assert await fetcher().fetch(f"http://public.example:{port}/{MAX_REDIRECTS}") == PICTURE
        assert await reason(fetcher().fetch(f"http://public.example:{port}/{MAX_REDIRECTS + 1}")) == "redirects"
    assert len(asked) == 2 * (MAX_REDIRECTS + 1)


async def test_a_redirect_to_nowhere_and_other_statuses_are_refused() -> None:
    async def respond(path: str, writer: asyncio.StreamWriter) -> None:
        place = ["Location: http://["] if path == "/d" else []
        writer.write(answer({"/b": "404 Not Found", "/c": "204 No Content"}.get(path, "302 Found"), b"", *place))
        await writer.drain()

    async with site(respond) as (port, _):
        found = [await reason(fetcher().fetch(f"http://public.example:{port}/{path}")) for path in "abcd"]
    assert found == ["redirects", "status", "status", "redirects"]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_not_read_to_its_end(announced: bool) -> None:
    sent = 0

    async def respond(_path: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        length = "Content-Length: 1000000000\r\n" if announced else ""
        writer.write(f"HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n".encode())
        for _ in range(2_000):
            writer.write(b"0" * 65_536)
            await writer.drain()
            sent += 65_536

    async with site(respond) as (port, _):
        assert await reason(fetcher().fetch(f"http://public.example:{port}/")) == "too_large"
    assert sent < 50 * LIMIT


async def test_what_is_packed_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    assert len(bomb) < LIMIT

    async def respond(_path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("200 OK", bomb, "Content-Encoding: gzip"))
        await writer.drain()

    async with site(respond) as (port, asked):
        assert await fetcher().fetch(f"http://public.example:{port}/") == bomb
    assert "Accept-Encoding: identity" in asked[0]


async def test_a_site_that_dawdles_is_given_up() -> None:
    async def respond(_path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"0")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with site(respond) as (port, _):
        assert await reason(fetcher(total_s=0.3).fetch(f"http://public.example:{port}/")) == "slow"


async def test_a_site_that_speaks_nonsense_or_nothing_is_refused() -> None:
    async def respond(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.0\r\n" if path == "/a" else b"")
        await writer.drain()

    async with site(respond) as (port, _):
        assert await reason(fetcher().fetch(f"http://public.example:{port}/a")) == "unreachable"
        assert await reason(fetcher().fetch(f"http://public.example:{port}/b")) == "unreachable"
    assert await reason(fetcher().fetch(f"http://public.example:{port}/")) == "unreachable"


@pytest.mark.parametrize(
    "url",
    [
        "", "a.png", "/etc/passwd", "file:///etc/passwd", "ftp://example.org/a", "data:image/png;base64,AA", "http://",
        "http:///a", "https://[", "http://example.org:port/", "http://example.org:99999/", "http://a b.example/", "http://a\r\nb/",
        "http://example.org\\@evil/", "http://" + "a" * 3_000, "unix:///var/run/docker.sock",
    ],
)  # fmt: skip
def test_what_is_no_url_is_named_as_such(url: str) -> None:
    with pytest.raises(InvalidRequestError):
        checked_url(url)


@pytest.mark.parametrize(
    "url", ["http://u@example.org/", "http://u:p@example.org/", "http://example.org:22/", "http://example.org:25/"]
)
def test_users_and_other_services_ports_are_refused(url: str) -> None:
    with pytest.raises(FetchRefusedError):
        checked_url(url)


def test_a_url_has_one_form() -> None:
    assert checked_url("https://Example.org") == "https://example.org/"
    assert checked_url("http://bücher.example/ä b.png".replace(" ", "%20")) == "http://xn--bcher-kva.example/%C3%A4%20b.png"
    assert checked_url("http://example.org:8080/a?b=c#d") == "http://example.org:8080/a?b=c"


async def test_fetching_is_off_unless_the_settings_turn_it_on(tmp_path: Path) -> None:
    services = FakeServices(tmp_path)
    for on in (False, True):
        app = create_app(services, settings=ServeSettings(fetch_urls=on), token="t")
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answered = await http.post("/v1/search/url", json={"url": "http://127.0.0.1:8080/a.png"})
        told = answered.json()
        assert (answered.status_code, told["code"]) == (422, "fetch_refused")
        assert told["reason"] == ("not_public" if on else "off")
    assert services.asked == []
