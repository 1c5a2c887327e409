"""Tests of what the service does with each route, parametrised over the table of policies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from tests.support.fake_services import FakeServices
from tests.support.route_expectations import (
    ADMITTED,
    BODIES,
    EVERY_ROUTE,
    IDEMPOTENT,
    PROBES,
    UNOBSERVED,
    WITHOUT_KEY,
    WITHOUT_RATE,
    path_of,
)

from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import ServeSettings
from lodestone.errors import NotFoundError
from lodestone.services.writes import WriteUseCases
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_serve.http.application import create_app
from lodestone_serve.policy import LINES, PICTURE, RoutePolicy

pytestmark = pytest.mark.asyncio(loop_scope="module")  # an app is made once for all rows, and belongs to one loop
LOCAL = {"x-lodestone-token": "a-secret"}


class Nothing:
    """Stands in for the use cases of one subject in a home where nothing exists."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> Any:
            raise NotFoundError(f"{name} knows nothing of it")

        return missing


class Guarded(FakeServices):
    """Stand-in services over a real catalog's keys and writes, in which nothing else exists."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.catalog = Catalog.open(folder / "catalog.sqlite")
        self.writes = WriteUseCases(SimpleNamespace(runtime=SimpleNamespace(catalog=self.catalog)))  # type: ignore[arg-type]
        self.corpora = self.queries = self.learning = self.tags = self.directories = self.runs = Nothing()

    def key_store(self) -> Catalog:
        return self.catalog

    def key(self, *scopes: Scope) -> dict[str, str]:
        """Return the headers of a new key."""
        key, written = ApiKey.new(KeyRequest(name="k", scopes=list(scopes)))
        self.catalog.add_key(key)
        return {"X-API-Key": written}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    services = Guarded(tmp_path_factory.mktemp("services"))
    yield services
    services.catalog.close()


def client_of(services: FakeServices, **settings: Any) -> httpx.AsyncClient:
    """Return a client of a service that asks for keys, in which uploads have 1 MB and batches 2 MB."""
    load = {"batch_mb": 2, **settings.pop("load", {})}
    given = ServeSettings.model_validate({"max_upload_mb": 1, "auth": {"keys": True}, "load": load, **settings})
    app = create_app(services, settings=given, token=LOCAL["x-lodestone-token"])
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(services: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(services) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyless(services: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(services, auth={"keys": False}) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def once_a_minute(services: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(services, load={"rate": "1/minute"}) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a service whose only place is taken by a query that goes on."""
    services = Guarded(tmp_path_factory.mktemp("full"))
    services.pause = asyncio.Event()
    async with client_of(services, max_ongoing=1, max_queued=0) as client:
        query = asyncio.create_task(client.post("/v1/search", json={"query": "a boat"}, headers=LOCAL))
        while not services.running:
            await asyncio.sleep(0.001)
        yield client
        services.pause.set()
        assert (await query).status_code == 200
    services.catalog.close()


async def ask(http: httpx.AsyncClient, row: RoutePolicy, **more: Any) -> httpx.Response:
    """Send a request to the route, with a body of the right kind that says nothing."""
    if row.method not in {"POST", "PATCH"}:
        return await http.request(row.method, path_of(row), **more)
    if row.body is PICTURE:
        return await http.request(row.method, path_of(row), files={"image": b"no picture"}, **more)
    headers = {"Content-Type": row.body.media_type, **more.pop("headers", {})}
    return await http.request(row.method, path_of(row), content=b"\n" if row.body is LINES else b"{}", headers=headers, **more)


# -- each route is treated as its row says -------------------------------------------------------------------------------------


@EVERY_ROUTE
async def test_without_a_key_only_open_routes_answer(http: httpx.AsyncClient, row: RoutePolicy) -> None:
    answer = await ask(http, row)
    if row.name in WITHOUT_KEY:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@EVERY_ROUTE
async def test_each_scope_of_a_route_is_needed(http: httpx.AsyncClient, services: Guarded, row: RoutePolicy) -> None:
    for scope in row.scopes:
        others = set(Scope) - {scope, Scope.ADMIN}
        answer = await ask(http, row, headers=services.key(*others))
        assert (answer.status_code, answer.json()["code"], answer.json()["scope"]) == (403, "forbidden", scope.value)
    for headers in (services.key(*row.scopes), LOCAL) if row.scopes else (LOCAL,):
        assert (await ask(http, row, headers=headers)).status_code not in {401, 403}


@EVERY_ROUTE
async def test_a_service_that_asks_for_no_key_keeps_indexing_and_administration_to_itself(
    keyless: httpx.AsyncClient, row: RoutePolicy
) -> None:
    answer = await ask(keyless, row)
    expected = next((scope for scope in row.scopes if scope in {Scope.INDEX, Scope.ADMIN}), None)
    assert (answer.status_code == 401) == (expected is not None)
    assert expected is None or answer.json()["scope"] == expected.value


@EVERY_ROUTE
async def test_a_body_has_the_kind_and_the_size_of_its_row(http: httpx.AsyncClient, row: RoutePolicy) -> None:
    kind, limit = BODIES.get(row.name, ("application/json", 64 * 1024))
    for size, refused in ((limit, False), (limit + 1, True)):
        headers = {**LOCAL, "Content-Length": str(size), "Content-Type": kind}
        answer = await http.request(row.method, path_of(row), content=b"{", headers=headers)
        assert (answer.status_code == 413) is refused
        assert not refused or answer.json()["limit"] == limit
    if row.method in {"POST", "PATCH"}:
        answer = await http.request(row.method, path_of(row), content=b"{", headers={**LOCAL, "Content-Type": "text/plain"})
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
        assert kind in answer.json()["detail"]


@EVERY_ROUTE
async def test_a_write_is_replayed_where_the_row_says_so(http: httpx.AsyncClient, row: RoutePolicy) -> None:
    headers = {**LOCAL, "Idempotency-Key": row.name.replace(" ", ":")}
    first, second = await ask(http, row, headers=headers), await ask(http, row, headers=headers)
    assert "idempotency-replayed" not in first.headers
    assert ("idempotency-replayed" in second.headers) is (row.name in IDEMPOTENT), first.text
    assert second.status_code == first.status_code


@EVERY_ROUTE
async def test_a_probe_is_answered_by_any_name_and_nothing_else_is(http: httpx.AsyncClient, row: RoutePolicy) -> None:
    answer = await ask(http, row, headers={"Host": "10.1.2.3:8000"})
    assert answer.status_code == (200 if row.name in PROBES else 421)


@EVERY_ROUTE
async def test_a_full_service_refuses_queries_and_nothing_else(full: httpx.AsyncClient, row: RoutePolicy) -> None:
    answer = await ask(full, row, headers=LOCAL)
    assert (answer.status_code == 429) is (row.name in ADMITTED), answer.text


@EVERY_ROUTE
async def test_requests_count_against_the_rate_where_the_row_says_so(
    once_a_minute: httpx.AsyncClient, services: Guarded, row: RoutePolicy
) -> None:
    headers = services.key(Scope.ADMIN)
    first, second = await ask(once_a_minute, row, headers=headers), await ask(once_a_minute, row, headers=headers)
    assert ("ratelimit" in first.headers) is (row.name not in WITHOUT_RATE)
    assert (second.status_code == 429) is (row.name not in WITHOUT_RATE)


@EVERY_ROUTE
async def test_a_request_is_logged_under_its_row_unless_it_is_asked_all_the_time(
    http: httpx.AsyncClient, row: RoutePolicy
) -> None:
    with capture_logs() as lines:
        await ask(http, row, headers=LOCAL)
    routes = [line["route"] for line in lines if line["event"] == "request"]
    assert routes == ([] if row.name in UNOBSERVED else [row.path])
