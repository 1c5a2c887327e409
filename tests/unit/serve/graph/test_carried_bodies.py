"""A replica takes the body that came with a request, and asks the proxy for all others."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from lodestone_serve.graph.replicas import take_carried_bodies
from lodestone_serve.traffic.arrivals import BODY

common: Any = pytest.importorskip("ray.serve._private.common")
http_util: Any = pytest.importorskip("ray.serve._private.http_util")


async def asked(_metadata: object) -> bytes:
    return pickle.dumps([{"type": "http.request", "body": b"asked", "more_body": False}, {"type": "http.disconnect"}])


@pytest.fixture(autouse=True)
def taking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.StreamingHTTPRequest, "receive_asgi_messages", common.StreamingHTTPRequest.receive_asgi_messages)
    take_carried_bodies()
    take_carried_bodies()  # a second time changes nothing


def received(scope: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return what Serve's replica makes of a request, as it does so."""
    request = common.StreamingHTTPRequest(asgi_scope=scope, receive_asgi_messages=asked)
    return http_util.ASGIReceiveProxy(scope, object(), request.receive_asgi_messages), scope


async def test_a_carried_body_is_received_without_asking_and_no_end_of_the_connection_follows() -> None:
    receive, scope = received({"type": "http", BODY: b'{"query": "a dog"}'})
    fetching = asyncio.create_task(receive.fetch_until_disconnect())
    assert await receive() == {"type": "http.request", "body": b'{"query": "a dog"}', "more_body": False}
    await asyncio.sleep(0)
    assert not fetching.done()  # Serve cancels it with the request
    assert BODY not in scope
    fetching.cancel()


async def test_an_empty_body_is_carried_too() -> None:
    receive, _ = received({"type": "http", BODY: b""})
    fetching = asyncio.create_task(receive.fetch_until_disconnect())
    assert (await receive())["body"] == b""
    fetching.cancel()


async def test_other_bodies_are_asked_for_as_before() -> None:
    receive, _ = received({"type": "http"})
    await receive.fetch_until_disconnect()
    assert (await receive())["body"] == b"asked"
    assert (await receive())["type"] == "http.disconnect"
