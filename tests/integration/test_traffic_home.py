"""A real home: answers do not wait for their records, what people said survives a kill, and deadlines count from arrival."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.pictures import write_photos

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.errors import DeadlineExceededError
from lodestone.query.asking.request_context import RequestContext
from lodestone.services.use_cases import Services
from lodestone.store.base import VectorStore
from lodestone_schemas.api import SearchRequest

_SERVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from lodestone.config.settings import Settings
from tests.support.served import served_here
with served_here(Settings.model_validate_json(sys.argv[2])) as served:
    print(served.address.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("traffic")
    write_photos(folder / "pictures", 12)
    settings = settings_for(folder)
    index(settings, folder / "pictures")
    return settings


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_services(settings) as opened:
        yield opened


@pytest.fixture
async def app(services: Services, settings: Settings) -> FastAPI:
    return app_of(services, settings)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


async def tagged_for(http: httpx.AsyncClient, words: str) -> list[str]:
    """Pictures that a search finds by their tags."""
    found = (await http.post("/v1/search", json={"query": words, "guides": 0, "explain": True})).json()
    return [hit["image_id"] for hit in found["hits"] if "tags" in {part["space"] for part in hit["contributions"]}]


async def test_answers_do_not_wait_for_their_records_and_looking_back_does(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, real = threading.Event(), Catalog.add_queries
    monkeypatch.setattr(Catalog, "add_queries", lambda *arguments: go.wait(180) and real(*arguments))
    answers = [(await http.post("/v1/search", json={"query": "dots", "guides": 0})).json() for _ in range(3)]
    assert all(not answer["warnings"] for answer in answers), "and nobody was told of a record that failed"
    looks = [
        asyncio.create_task(http.get(f"/v1/queries/{answers[0]['query_id']}")),
        asyncio.create_task(http.post(f"/v1/queries/{answers[1]['query_id']}/replay")),
        asyncio.create_task(
            http.post(
                "/v1/feedback", json={"query_id": answers[2]["query_id"], "relevant": [answers[2]["hits"][0]["image_id"]]}
            )
        ),
    ]
    await asyncio.sleep(0.2)
    assert not any(look.done() for look in looks)
    go.set()
    assert [(await look).status_code for look in looks] == [200, 200, 200]


async def test_a_closing_service_writes_down_what_it_has_answered(settings: Settings) -> None:
    async with opened_services(settings) as services:
        asked = [
            await services.search.answer(SearchRequest(query=f"dots {number}", guides=0), LOCAL_CALLER) for number in range(5)
        ]
    with Catalog.open(Home(settings.home).catalog) as catalog:
        assert all(catalog.has_query(answer.query_id) for answer in asked)


async def test_a_tag_is_there_for_good_before_it_is_answered_though_the_store_fails(
    http: httpx.AsyncClient, settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = (await http.post("/v1/search", json={"query": "dots", "guides": 0})).json()["hits"][5]["image_id"]
    delivered = threading.Event()
    runtime = services.session.runtime
    store: VectorStore = runtime.store
    real = type(store).upsert_sparse

    def late(self: VectorStore, *arguments: object) -> None:
        delivered.wait(180)
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store), "upsert_sparse", late)
    answer = await http.post("/v1/tags", json={"image_ids": [image_id], "text": "zebra crossing"})
    assert answer.status_code == 200
    with Catalog.open(Home(settings.home).catalog) as elsewhere:
        assert [tag.text for tag in elsewhere.tags([image_id])[image_id]] == ["zebra crossing"]
        assert [change.image_id for change in elsewhere.tag_outbox()] == [image_id]
    assert await tagged_for(http, "zebra crossing") == []
    delivered.set()
    async with asyncio.timeout(120):
        while await tagged_for(http, "zebra crossing") != [image_id]:
            await asyncio.sleep(0.01)


async def test_deadlines_count_from_the_arrival_of_a_query(services: Services) -> None:
    asked = SearchRequest(query="dots", guides=0, deadline_ms=30_000)
    with pytest.raises(DeadlineExceededError):
        await services.search.answer(asked, LOCAL_CALLER, context=RequestContext(arrived=time.monotonic() - 30.1))
    answer = await services.search.answer(asked, LOCAL_CALLER, context=RequestContext(arrived=time.monotonic() - 0.5))
    assert answer.timings_ms["total"] >= 500


async def test_a_busy_service_answers_by_words_and_says_so(services: Services) -> None:
    request = SearchRequest(query="fishing boats", guides=4, generators=["exemplar"], gate=False)
    answer = await services.search.answer(request, LOCAL_CALLER, context=RequestContext(text_only="the service is busy"))
    assert (answer.stage, answer.guides, answer.dropped) == ("text", [], ["guides: the service is busy"])
    words = SearchRequest(query="fishing boats", guides=0)
    plain = await services.search.answer(words, LOCAL_CALLER, context=RequestContext(text_only="the service is busy"))
    assert plain.dropped == [], "who wanted no guides misses none"


async def test_a_feedback_with_a_key_teaches_once(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/v1/search", json={"query": "stripes", "guides": 0})).json()
    said = {"query_id": answer["query_id"], "relevant": [answer["hits"][0]["image_id"]]}
    first, again = [await http.post("/v1/feedback", json=said, headers={"Idempotency-Key": "f1"}) for _ in range(2)]
    assert first.json()["applied"]
    assert again.json() == first.json(), "not the answer to a second feedback, which would say: not applied"
    assert again.headers["idempotency-replayed"] == "true"
    other = await http.post("/v1/feedback", json={**said, "relevant": []}, headers={"Idempotency-Key": "f1"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def test_what_people_said_survives_a_kill_right_after_the_answer(settings: Settings) -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(root), settings.model_dump_json()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            answer = client.post("/v1/search", json={"query": "a kill", "guides": 0}).json()
            right = answer["hits"][0]["image_id"]
            said = client.post("/v1/feedback", json={"query_id": answer["query_id"], "relevant": [right]})
            tagged = client.post("/v1/tags", json={"image_ids": [right], "text": "survivor"})
            process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(180)
    assert (said.status_code, tagged.status_code) == (200, 200), json.dumps([said.json(), tagged.json()])
    with Catalog.open(Home(settings.home).catalog) as catalog:
        assert catalog.find_feedback(answer["query_id"], [right], []) is not None
        assert {"survivor", "a kill"} <= {tag.text for tag in catalog.tags([right])[right]}

    async def after_restart() -> None:
        async with opened_services(settings) as services:
            transport = httpx.ASGITransport(app=app_of(services, settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http, asyncio.timeout(120):
                while await tagged_for(http, "survivor") != [right]:
                    await asyncio.sleep(0.01)

    asyncio.run(after_restart())
