"""The guarded fetcher by itself: where it connects, how much it reads, how far it follows redirects."""

from __future__ import annotations

import httpcore
import pytest
from tests.support.scripted_server import Scripted, answer, scripted

from lodestone.remote.http_fetch import (
    MAX_REDIRECTS,
    AddressRefusedError,
    BodyTooLargeError,
    GuardedFetcher,
    Reply,
    follow,
    is_public,
    resolve_host,
)


async def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def is_here(address: str) -> bool:
    return address == "127.0.0.1"


def port_of(server: Scripted) -> str:
    return server.url.rpartition(":")[2]


async def body(fetcher: GuardedFetcher, url: str, most: int = 100) -> bytes:
    async with fetcher.get(url, {"Host": "public.example"}) as reply:
        return await reply.read(most)


async def test_a_name_is_reached_at_its_checked_address_and_keeps_its_name() -> None:
    with scripted(answer(200, b"picture")) as server:
        assert (
            await body(GuardedFetcher(allowed=is_here, resolve=here), f"http://public.example:{port_of(server)}/a")
            == b"picture"
        )
        (request,) = server.asked
    assert request.headers["host"] == "public.example"
    assert request.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("addresses", [[], ["10.0.0.1"], ["127.0.0.1", "10.0.0.1"]])
async def test_one_refused_address_of_a_host_refuses_the_host(addresses: list[str]) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return addresses

    with scripted(b"") as server:
        with pytest.raises(AddressRefusedError) as caught:
            await body(GuardedFetcher(allowed=is_here, resolve=resolve), f"http://public.example:{port_of(server)}/")
        assert server.asked == []
    assert caught.value.unknown is None


async def test_an_unknown_host_is_told_from_a_refused_one() -> None:
    with pytest.raises(AddressRefusedError) as caught:
        await body(GuardedFetcher(allowed=is_public, resolve=resolve_host), "http://no-such-host.invalid/")
    assert isinstance(caught.value.unknown, OSError)


async def test_proxies_of_the_environment_are_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(b"") as proxy, scripted(answer(200, b"picture")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await body(GuardedFetcher(allowed=is_here, resolve=here), f"http://a.example:{port_of(server)}/") == b"picture"
        assert proxy.asked == []


async def test_a_connection_that_is_refused_is_an_error_of_transport() -> None:
    with scripted() as server:
        port = port_of(server)
    with pytest.raises(httpcore.ConnectError):
        await body(GuardedFetcher(allowed=is_here, resolve=here), f"http://public.example:{port}/")


@pytest.mark.parametrize("announced", ["5", "", "nonsense"])
async def test_a_body_is_given_up_as_soon_as_it_is_too_large(announced: str) -> None:
    read = 0

    async def parts():
        nonlocal read
        while True:
            read += 1
            yield b"ab"

    with pytest.raises(BodyTooLargeError):
        await Reply(200, {"content-length": announced}, parts()).read(4)
    assert read == (0 if announced == "5" else 3)


async def test_redirects_are_counted() -> None:
    async def hop(left: int) -> bytes | int:
        return b"there" if left == 0 else left - 1

    assert await follow(MAX_REDIRECTS, hop, too_many=ValueError) == b"there"
    with pytest.raises(ValueError, match=r"^0$"):
        await follow(MAX_REDIRECTS + 1, hop, too_many=ValueError)
