"""A query without time or place is answered before anything is spent on it, and what proxies refused is counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fastapi import FastAPI
from tests.support.asgi_caller import Call
from tests.support.fake_services import FakeServices

from lodestone.access.key_cache import KeyRing
from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import AuthSettings, LoadSettings, ServeSettings
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_serve.http.application import create_app
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.arrivals import ARRIVED
from lodestone_serve.traffic.load_reports import ALLOWED, LOAD, RATE_LIMITED, REFUSED, LoadReport, encode_refused

QUESTION = {"query": "a red boat"}


class SlowCatalog(Catalog):
    """A catalog that counts the keys that are looked up, and may take its time."""

    looked_up = 0
    wait_s = 0.0

    def key(self, key_id: str) -> ApiKey | None:
        self.looked_up += 1
        time.sleep(self.wait_s)
        return super().key(key_id)


class KeyedServices(FakeServices):
    """Stand-in services over a real catalog's keys."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.catalog = SlowCatalog.open(folder / "catalog.db")
        key, self.written = ApiKey.new(KeyRequest(name="k", scopes=[Scope.SEARCH]))
        self.catalog.add_key(key)

    def key_store(self) -> Catalog:
        return self.catalog

    def stamped(self, *, ago_s: float = 0.0, allowed_ms: int = 10_000, **more: str) -> dict[str, str]:
        """Return the headers of a request that a proxy has passed on, with a valid key."""
        arrived = f"{time.time() - ago_s:.6f}"
        return {ARRIVED.decode(): arrived, ALLOWED.decode(): str(allowed_ms), "x-api-key": self.written, **more}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[KeyedServices]:
    services = KeyedServices(tmp_path)
    yield services
    services.catalog.close()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(services: KeyedServices, metrics: Metrics) -> FastAPI:
    settings = ServeSettings(auth=AuthSettings(keys=True), max_ongoing=1, max_queued=0, load=LoadSettings(adaptive=False))
    return create_app(services, settings=settings, token="t", metrics=metrics)


async def answered(app: FastAPI, headers: Mapping[str, str], *, path: str = "/v1/search", method: str = "POST") -> Call:
    call = Call(app, method, path, body=QUESTION if method == "POST" else None, headers=headers)
    await call.task
    return call


def counted(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


async def test_a_query_whose_deadline_passed_on_the_way_costs_nothing(
    app: FastAPI, services: KeyedServices, metrics: Metrics
) -> None:
    call = Call(app, "POST", "/v1/search", headers=services.stamped(ago_s=3.0, allowed_ms=2_000))
    call.hold_body()  # it is never sent, so the answer shows that nobody waits for it
    await call.task
    assert (call.status, json.loads(call.body)["code"]) == (504, "deadline_exceeded")
    assert services.catalog.looked_up == 0
    assert services.asked == []
    assert counted(metrics, "lodestone_queries_shed_total", reason="deadline") == 1
    assert counted(metrics, "lodestone_http_requests_total", method="POST", route="/v1/search", status="504") == 1
    assert (await answered(app, services.stamped(ago_s=3.0, allowed_ms=60_000))).status == 200


async def test_a_query_without_a_place_is_refused_without_its_body_and_its_key(
    app: FastAPI, services: KeyedServices, metrics: Metrics
) -> None:
    services.pause = asyncio.Event()
    working = Call(app, "POST", "/v1/search", body=QUESTION, headers=services.stamped())
    async with asyncio.timeout(120):
        while not services.running:
            await asyncio.sleep(0.01)
    before = services.catalog.looked_up
    for _ in range(3):
        call = Call(app, "POST", "/v1/search", headers={**services.stamped(), "x-api-key": "lodestone_never_seen"})
        call.hold_body()
        await call.task
        assert (call.status, json.loads(call.body)["code"]) == (429, "overloaded")
        report = LoadReport.decode(call.headers[LOAD.decode()].encode())
        assert report is not None
        assert (report.busy, report.places) == (1, 1)
    assert services.catalog.looked_up == before
    assert counted(metrics, "lodestone_queries_shed_total", reason="overloaded") == 3
    for path in ("/healthz", "/readyz"):
        assert (await answered(app, services.stamped(), path=path, method="GET")).status == 200
    services.pause.set()
    await working.task
    assert working.status == 200


async def test_what_a_proxy_refused_is_counted_once_and_presses_the_others(
    app: FastAPI, services: KeyedServices, metrics: Metrics
) -> None:
    told = {REFUSED.decode(): encode_refused({"POST /v1/search": 7, "GET /v1/search": 1}).decode()}
    call = await answered(app, services.stamped(**told), path="/v1/status", method="GET")
    assert LOAD.decode() not in call.headers
    assert counted(metrics, "lodestone_queries_shed_total", reason="overloaded") == 8
    assert counted(metrics, "lodestone_http_requests_total", method="POST", route="/v1/search", status="429") == 7
    assert counted(metrics, "lodestone_errors_total", code="overloaded", status="429") == 8
    await answered(app, services.stamped())
    assert counted(metrics, "lodestone_queries_shed_total", reason="text_only") == 1


async def test_what_a_proxy_refused_for_rates_is_counted_and_presses_nobody(
    app: FastAPI, services: KeyedServices, metrics: Metrics
) -> None:
    told = {RATE_LIMITED.decode(): encode_refused({"POST /v1/search": 5, "GET /v1/corpora": 2}).decode()}
    await answered(app, services.stamped(**told), path="/v1/status", method="GET")
    assert counted(metrics, "lodestone_queries_shed_total", reason="rate_limited") == 7
    assert counted(metrics, "lodestone_http_requests_total", method="GET", route="/v1/corpora", status="429") == 2
    assert counted(metrics, "lodestone_errors_total", code="rate_limited", status="429") == 7
    await answered(app, services.stamped())
    assert not counted(metrics, "lodestone_queries_shed_total", reason="text_only")


async def test_who_comes_by_no_proxy_sees_no_report(app: FastAPI, services: KeyedServices) -> None:
    call = await answered(app, {"x-api-key": services.written, REFUSED.decode(): "9 POST /v1/search"})
    assert call.status == 200
    assert LOAD.decode() not in call.headers


async def test_a_slow_look_up_of_a_key_ends_at_the_deadline(app: FastAPI, services: KeyedServices) -> None:
    services.catalog.wait_s = 1.0
    call = await answered(app, services.stamped(allowed_ms=100))
    assert (call.status, json.loads(call.body)["code"]) == (504, "deadline_exceeded")
    assert services.asked == []


async def test_a_key_in_use_is_looked_up_again_before_it_is_forgotten(services: KeyedServices) -> None:
    ring = KeyRing(lambda: services.catalog, holds_s=3_600.0)
    await ring.find(services.written)
    (key_id,) = ring._held
    at, key = ring._held[key_id]
    ring._held[key_id] = (at - 1_900.0, key)  # more than half of its time
    services.catalog.wait_s = 0.2
    found = [await ring.find(services.written) for _ in range(5)]
    assert ring._asked, "nobody waited for it"
    assert len(found) == 5
    await asyncio.gather(*ring._asked.values())
    assert services.catalog.looked_up == 2
    assert ring._held[key_id][0] > at
    ring._held[key_id] = (at - 3_700.0, key)
    services.catalog.revoke_key(key_id)
    with pytest.raises(Exception, match="revoked"):
        await ring.find(services.written)
    await ring.close()
