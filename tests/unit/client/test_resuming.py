"""A stream of the real service goes on where the network broke, and each event is told once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.support.cutting_proxy import cutting_proxy
from tests.support.driven import Driven
from tests.support.fake_services import FakeServices

from lodestone.config.settings import ServeSettings
from lodestone.errors import NotFoundError
from lodestone_client import Lodestone, RetryPolicy
from lodestone_serve.http.application import create_app

SOON = RetryPolicy(first_s=0.05)


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    return FakeServices(tmp_path)


@pytest.fixture
def service(services: FakeServices) -> Iterator[str]:
    """URL of the real app, on a real server."""
    app = create_app(services, settings=ServeSettings(), token="a-secret")
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(params=[Lodestone, Driven], ids=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return lambda url: request.param(url, policy=SOON, timeout_s=30.0)


def test_events_are_told_once_however_often_the_network_breaks(
    client: Callable[..., Any], service: str, services: FakeServices
) -> None:
    with cutting_proxy(service, b'"type":"plan"', b'"type":"results"') as network, client(network.url) as asker:
        told = [event.type for event in asker.stream("a boat")]
        assert network.cuts == []
    assert told == ["plan", "results", "guide", "done"]
    assert len(services.asked) == 1, "the query itself was asked once"


def test_a_finished_stream_is_told_again_to_those_who_know_its_id(client: Callable[..., Any], service: str) -> None:
    with client(service) as asker:
        query_id = next(event.query_id for event in asker.stream("a boat") if event.type == "plan")
        assert [event.type for event in asker.resume(query_id)][-1] == "done"
        with pytest.raises(NotFoundError):
            list(asker.resume("00000000-0000-5000-8000-000000000000"))
