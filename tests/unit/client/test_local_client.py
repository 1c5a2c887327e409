"""A running service is found, a dead one is ignored, and the client hands out answers and errors as they were made."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvicorn
from tests.support.fake_services import KNOWN_ID, UNKNOWN_ID, FakeServices

from lodestone.config.home import Home
from lodestone.config.settings import ServeSettings
from lodestone.errors import (
    ImageError,
    NotFoundError,
    ServiceUnavailableError,
    StoreError,
    UnauthorizedError,
    UnknownNameError,
)
from lodestone.home.running_service.address import ServiceAddress, find_service, read_address
from lodestone.home.running_service.client import ServiceClient
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest
from lodestone_serve.http.application import create_app

TOKEN = "a-secret"


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    return FakeServices(tmp_path)


@pytest.fixture
def address(services: FakeServices) -> Iterator[ServiceAddress]:
    """The address of a real server on a free port of this machine."""
    app = create_app(services, settings=ServeSettings(), token=TOKEN)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield ServiceAddress(f"http://127.0.0.1:{port}", os.getpid(), TOKEN, "0.1.0", datetime(2026, 1, 2, tzinfo=UTC))
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def client(address: ServiceAddress) -> Iterator[ServiceClient]:
    with ServiceClient(address) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def test_a_published_service_is_found_until_it_is_withdrawn(address: ServiceAddress, home: Home) -> None:
    assert find_service(home) is None
    address.write(home)
    assert home.service.stat().st_mode & 0o777 == 0o600
    assert find_service(home) == address
    replace(address, token="another run's").withdraw(home)
    assert read_address(home) == address
    address.withdraw(home)
    assert find_service(home) is None
    assert not home.service.exists()


def test_what_a_dead_service_left_behind_is_ignored(address: ServiceAddress, home: Home) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    replace(address, pid=ended.pid).write(home)
    assert find_service(home) is None
    replace(address, url="http://127.0.0.1:9").write(home)  # nobody listens
    assert find_service(home) is None


def test_another_service_at_the_same_address_is_not_mistaken_for_ours(address: ServiceAddress, home: Home) -> None:
    replace(address, token="of an earlier service").write(home)
    assert find_service(home) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 3}', '{"url": "x", "pid": "y"}'])
def test_a_damaged_address_file_is_as_good_as_none(home: Home, text: str) -> None:
    home.service.write_text(text)
    assert find_service(home) is None


def test_searches_and_listings_come_back_typed(client: ServiceClient, services: FakeServices) -> None:
    assert client.search(SearchRequest(query="a boat")).hits[0].image_id == KNOWN_ID
    events = list(client.stream(SearchRequest(query="a boat")))
    assert [event.type for event in events] == ["plan", "results", "guide", "done"]
    options = SearchOptions(
        limit=7,
        filters=SearchFilters(
            corpora=["x", "y"],
            taken_from=datetime(2024, 5, 1, tzinfo=UTC),
            where={"colour": ["red", "a=b"], "faces": ["2.."]},
        ),
        spaces=["bridge"],
    )
    assert client.similar(KNOWN_ID, options).stage == "picture"
    assert services.asked[-1] == options
    assert client.by_picture(b"\x89PNG...", options).stage == "picture"
    assert services.asked[-1] == SearchRequest(**dict(options))  # which may have words too
    assert client.image(KNOWN_ID).uri == "a.png"
    assert [corpus.name for corpus in client.corpora(limit=2).corpora] == ["a", "b"]
    assert client.status().ready
    assert [step.type for step in client.sync()] == ["progress", "done"]
    client.remove_corpus("a")
    assert services.removed == ["a"]


def test_errors_arrive_as_the_class_they_were(client: ServiceClient, services: FakeServices) -> None:
    with pytest.raises(NotFoundError, match=UNKNOWN_ID):
        client.similar(UNKNOWN_ID, SearchOptions())
    with pytest.raises(ImageError) as caught:
        client.by_picture(b"hello", SearchOptions())
    assert caught.value.details["reason"] == "not_an_image"
    with pytest.raises(UnknownNameError) as unknown:
        client.remove_corpus("no such/corpus?")
    assert unknown.value.details["name"] == "no such/corpus?"
    services.fail = StoreError("the store broke", hint="start it")
    with pytest.raises(StoreError) as broken:
        client.search(SearchRequest(query="a"))
    assert (broken.value.message, broken.value.hint) == ("the store broke", "start it")
    with pytest.raises(StoreError):
        list(client.sync())
    services.fail, services.fail_late = None, StoreError("late")
    with pytest.raises(StoreError, match="late"):
        list(client.stream(SearchRequest(query="a")))


def test_what_takes_long_for_a_reason_is_waited_for(
    address: ServiceAddress, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("answer", "similar", "by_picture", "remove_corpus"):
        monkeypatch.setattr(services, name, _slowly(getattr(services, name)))
    with ServiceClient(address, timeout_s=0.2) as client:
        with pytest.raises(ServiceUnavailableError):
            client.search(SearchRequest(query="a boat"))
        assert client.search(SearchRequest(query="a boat", deadline_ms=120_000)).hits
        assert client.similar(KNOWN_ID, SearchOptions(deadline_ms=120_000)).hits
        assert client.by_picture(b"\x89PNG...", SearchOptions(deadline_ms=120_000)).hits
        client.remove_corpus("a")
    assert services.removed == ["a"]


def _slowly(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    async def later(*arguments: object, **options: object) -> object:
        await asyncio.sleep(0.5)
        return await method(*arguments, **options)

    return later


def test_a_wrong_token_names_nobody(address: ServiceAddress) -> None:
    with ServiceClient(replace(address, token="wrong")) as client, pytest.raises(UnauthorizedError, match="index"):
        list(client.sync())


def test_a_service_that_is_not_there_is_unavailable(address: ServiceAddress) -> None:
    with ServiceClient(replace(address, url="http://127.0.0.1:9")) as client:
        for ask in (client.status, lambda: list(client.sync()), lambda: client.search(SearchRequest(query="a"))):
            with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1:9"):
                ask()


def test_the_address_file_holds_what_others_rely_on(address: ServiceAddress, home: Home) -> None:
    address.write(home)
    assert set(json.loads(home.service.read_text())) == {"url", "pid", "token", "version", "started_at", "certificate"}
