"""Routes that are made of the table of operations: what they read, check, call and answer."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.paging import PageRequest
from lodestone_schemas.api import TagRequest
from lodestone_schemas.operation_rows import Row, answers, operations_of
from lodestone_schemas.service import Alive
from lodestone_serve.auth.principal import caller_of
from lodestone_serve.responses import problems
from lodestone_serve.routes import operation_routes

ID = "5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"
OFF = "?limit=3&offset=4"


class Toys:
    """Operations of a toy box."""

    @answers(Row("GET /v1/toys/{toy_id}", "toys.get"))
    def toy(self, toy_id: str) -> Alive:  # type: ignore[empty-body]
        """Return one toy."""

    @answers(Row("GET /v1/toys/all", "toys.page"))
    def toys(  # type: ignore[empty-body]
        self, offset: int = 0, limit: int = 50, *, cursor: str | None = None, colour: str | None = None, new: bool = False
    ) -> Alive:
        """Return one page of toys."""

    @answers(Row("POST /v1/toys", "toys.add", status=201))
    def add_toy(self, request: TagRequest, *, idempotency_key: str | None = None) -> Alive:  # type: ignore[empty-body]
        """Add a toy."""

    @answers(Row("DELETE /v1/images/{image_id}", "toys.remove"))
    def remove_toy(self, image_id: str) -> None:
        """Remove a toy."""

    @answers(Row("GET /v1/mine", "toys.mine"))
    def mine(self) -> Alive:  # type: ignore[empty-body]
        """Return what another router answers."""


class ToyUseCases:
    """Notes how it is called."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.threads: dict[str, bool] = {}

    def _note(self, name: str, **arguments: Any) -> Alive:
        self.asked.append((name, arguments))
        self.threads[name] = threading.current_thread() is threading.main_thread()
        return Alive(version=name, instance="i")

    def get(self, toy_id: str, caller: Caller) -> Alive:
        return self._note("get", toy_id=toy_id, caller=caller)

    async def page(self, page: PageRequest, colour: str | None, *, new: bool, caller: Caller) -> Alive:
        return self._note("page", page=page, colour=colour, new=new)

    def add(self, request: TagRequest, caller: Caller) -> Alive:
        return self._note("add", request=request)

    async def remove(self, image_id: str, caller: Caller) -> None:
        self._note("remove", image_id=image_id)


@pytest.fixture
def toys() -> ToyUseCases:
    return ToyUseCases()


@pytest.fixture
def app(toys: ToyUseCases, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setattr(operation_routes, "OPERATIONS", operations_of(Toys))
    by_hand = APIRouter(prefix="/v1/mine")

    @by_hand.get("")
    async def mine() -> str:
        return "by hand"

    made = FastAPI()
    problems.install(made)
    services: Any = SimpleNamespace(toys=toys)
    for router in (by_hand, operation_routes.operations_router(services, [by_hand])):
        made.include_router(router)
    made.dependency_overrides[caller_of] = lambda: LOCAL_CALLER
    return made


@pytest.fixture
def http(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://toys.example")


async def test_a_part_of_the_path_and_the_caller_are_handed_over_in_a_thread(
    http: httpx.AsyncClient, toys: ToyUseCases
) -> None:
    answer = await http.get("/v1/toys/bear")
    assert (answer.status_code, answer.json()["version"]) == (200, "get")
    assert toys.asked == [("get", {"toy_id": "bear", "caller": LOCAL_CALLER})]
    assert toys.threads == {"get": False}


async def test_a_page_and_its_filters_are_handed_over_by_a_path_that_is_tried_first(
    http: httpx.AsyncClient, toys: ToyUseCases
) -> None:
    assert (await http.get(f"/v1/toys/all{OFF}&colour=red&new=true")).status_code == 200
    assert toys.asked == [("page", {"page": PageRequest(3, 4), "colour": "red", "new": True})]
    assert toys.threads == {"page": True}


@pytest.mark.parametrize(
    ("asked", "status"),
    [(f"{OFF}&cursor=c", 422), ("?cursor=c", 200), ("?limit=0", 422), ("?limit=201", 422), (f"?colour={'r' * 1001}", 422)],
)
async def test_what_a_query_asks_for_is_checked(http: httpx.AsyncClient, asked: str, status: int) -> None:
    assert (await http.get(f"/v1/toys/all{asked}")).status_code == status


async def test_a_message_is_the_body_and_the_answer_has_the_rows_status(http: httpx.AsyncClient, toys: ToyUseCases) -> None:
    message = TagRequest(image_ids=[ID], text="bear")
    answer = await http.post("/v1/toys", content=message.model_dump_json(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    assert toys.asked == [("add", {"request": message})]
    assert (await http.post("/v1/toys", json={})).status_code == 422


async def test_an_id_is_checked_and_handed_over_as_text_and_nothing_is_answered_by_204(
    http: httpx.AsyncClient, toys: ToyUseCases
) -> None:
    answer = await http.delete(f"/v1/images/{UUID(ID).hex}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert toys.asked == [("remove", {"image_id": ID})]
    assert (await http.delete("/v1/images/bear")).status_code == 422


async def test_a_route_that_is_declared_by_hand_is_not_made_again(http: httpx.AsyncClient, app: FastAPI) -> None:
    assert (await http.get("/v1/mine")).json() == "by hand"
    assert sorted(app.openapi()["paths"]) == [
        "/v1/images/{image_id}",
        "/v1/mine",
        "/v1/toys",
        "/v1/toys/all",
        "/v1/toys/{toy_id}",
    ]
