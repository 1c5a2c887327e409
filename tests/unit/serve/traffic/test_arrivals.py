"""The time that a request waits between proxy and replica counts for its deadline, if it can be believed."""

from __future__ import annotations

import time

import pytest
from tests.unit.serve.traffic.test_proxy_middleware import ask

from lodestone_serve.traffic.arrivals import ARRIVED, BELIEVED_S, arrived_at, stamp
from lodestone_serve.traffic.load_reports import ALLOWED


def scope_of(*headers: tuple[bytes, bytes]) -> dict:
    return {"type": "http", "headers": list(headers)}


def test_the_time_since_the_stamp_counts() -> None:
    scope = scope_of((ARRIVED, f"{time.time() - 1.5:.6f}".encode()))
    assert 1.4 < time.monotonic() - arrived_at(scope) < 30


@pytest.mark.parametrize("given", ["", "soon", "nan", "-inf", "in a minute", "long ago"])
def test_what_cannot_be_believed_counts_as_now(given: str) -> None:
    skewed = {"in a minute": 60.0, "long ago": -BELIEVED_S - 60.0}
    given = str(time.time() + skewed[given]) if given in skewed else given
    before = time.monotonic()
    assert before <= arrived_at(scope_of((ARRIVED, given.encode()))) <= time.monotonic()
    assert arrived_at(scope_of()) >= before


def test_a_stamp_takes_the_place_of_what_clients_write_there() -> None:
    scope = scope_of((b"X-Lodestone-Arrived", b"1"), (b"accept", b"*/*"), (ARRIVED, b"2"))
    stamp(scope)
    assert [name for name, _ in scope["headers"]] == [b"accept", ARRIVED]
    assert abs(time.monotonic() - arrived_at(scope)) < 1e6


def test_the_front_stamps_what_it_passes_on() -> None:
    seen = {}

    async def app(scope, receive, send) -> None:
        seen.update(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    assert ask(app).status == 200
    assert [name for name, _ in seen["headers"]] == [ARRIVED, b"x-request-id", ALLOWED]
