"""One home over HTTP: a query is explained, replayed and judged; tags and trust change what is found, and are taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from tests.support.home import settings_for
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.sessions import serving
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services
from lodestone_serve.telemetry.metrics import Metrics

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the home is opened once, and belongs to one loop


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a home that has learnt nothing, and that nothing has open."""
    folder = tmp_path_factory.mktemp("learning")
    write_photos(folder / "pictures", 12)
    (folder / "pictures" / "000000.txt").write_text("a harbour with fishing boats at dawn\n")
    settings = settings_for(folder)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
    return settings


@pytest.fixture(scope="module")
def settings(indexed: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the home of all tests but those that look at all that it has learnt."""
    return indexed.model_copy(update={"home": copy_folder(indexed.home, tmp_path_factory.mktemp("shared") / "home")})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(settings) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def untaught(indexed: Settings, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a home of the test's own, which has learnt nothing."""
    async with asking(indexed.model_copy(update={"home": copy_folder(indexed.home, tmp_path / "home")})) as client:
        yield client


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    metrics = Metrics()
    services = home_services(settings, observe_engines=metrics.engines)
    app = create_app(services, settings=settings.serve, token="secret", metrics=metrics)
    await services.session.open()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client
    await services.session.close()


async def asked(http: httpx.AsyncClient, query: str, **options) -> dict:
    """Ask with time enough for guides and tags, however busy the machine is."""
    answer = await http.post("/v1/search", json={"query": query, "deadline_ms": 60_000, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_query_is_explained_and_replayed(http: httpx.AsyncClient) -> None:
    await asked(http, "fishing boats in a harbour at dawn")  # may leave tags, which change the next answer
    await http.get("/v1/queries")  # waits for what is left behind answers
    answer = await asked(http, "fishing boats in a harbour at dawn")
    assert answer["guides"]
    explained = (await http.get(f"/v1/queries/{answer['query_id']}")).json()
    assert explained["text"] == "fishing boats in a harbour at dawn"
    assert [hit["image_id"] for hit in explained["hits"]] == [hit["image_id"] for hit in answer["hits"]]
    assert all(hit["explained"] == pytest.approx(1.0, abs=1e-5) for hit in explained["hits"])
    for fresh in ("false", "true"):
        replayed = (await http.post(f"/v1/queries/{answer['query_id']}/replay", params={"fresh": fresh})).json()
        assert (replayed["identical"], replayed["moved"]) == (True, []), fresh
    listed = (await http.get("/v1/queries", params={"limit": 2})).json()
    assert len(listed["queries"]) == 2
    assert listed["next_offset"] == 2 or len((await http.get("/v1/queries")).json()["queries"]) == 2


@pytest.mark.parametrize("path", ["/v1/queries/nope", "/v1/queries/nope/guides/exemplar/0"])
async def test_an_unknown_query_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


async def test_feedback_teaches_trust_and_tags_once(untaught: httpx.AsyncClient) -> None:
    http = untaught
    answer = await asked(http, "coloured dots on paper", guides=0)
    right, wrong = answer["hits"][0]["image_id"], answer["hits"][-1]["image_id"]
    said = {"query_id": answer["query_id"], "relevant": [right], "irrelevant": [wrong]}
    first = (await http.post("/v1/feedback", json=said)).json()
    assert first["applied"]
    assert sum(first["after"].values()) == pytest.approx(len(first["after"]))
    again = (await http.post("/v1/feedback", json=said)).json()
    assert not again["applied"]
    assert (await http.get("/v1/trust")).json()["topics"][0]["weights"] == first["after"]
    history = (await http.get("/v1/trust/events", params={"topic": first["topic"], "limit": 1})).json()
    (event,) = history["events"]
    assert (event["kind"], event["cause"], event["after"]) == ("feedback", answer["query_id"], first["after"])
    assert (history["next_offset"], event["event_id"]) == (None, first["event_id"])
    assert (await http.get("/v1/trust/events", params={"topic": "nothing"})).json()["events"] == []
    tags = (await http.get("/v1/tags", params={"text": "coloured dots on paper"})).json()["tags"]
    assert [(tag["image_id"], tag["source"]) for tag in tags] == [(right, "feedback")]
    later = await asked(http, "coloured dots on paper", guides=0, explain=True)
    assert later["topic"] == first["topic"]
    assert later["trust"] == first["after"]

    async def by_tag() -> bool:
        hits = (await asked(http, "coloured dots on paper", guides=0, explain=True))["hits"]
        top = next(hit for hit in hits if hit["image_id"] == right)
        return "tags" in {part["space"] for part in top["contributions"]}

    async with asyncio.timeout(60):  # tags are delivered to the store behind the answer
        while not await by_tag():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query_id": "nope", "relevant": ["x"]}, 404),
        ({"query_id": "nope", "eta": 7, "relevant": ["x"]}, 422),
        ({"relevant": ["x"]}, 422),
    ],
)
async def test_feedback_that_makes_no_sense_is_refused(http: httpx.AsyncClient, body: dict, status: int) -> None:
    answer = await http.post("/v1/feedback", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["hint"]


async def test_unknown_pictures_in_feedback_are_told_and_change_nothing(http: httpx.AsyncClient) -> None:
    answer = await asked(http, "a picture of stripes", guides=0)
    result = (await http.post("/v1/feedback", json={"query_id": answer["query_id"], "relevant": ["no-such-picture"]})).json()
    assert result["ignored"] == ["no-such-picture"]
    assert result["before"] == result["after"]


async def test_feedback_that_is_withdrawn_takes_its_tags_and_its_trust_along_and_nothing_else(
    untaught: httpx.AsyncClient,
) -> None:
    http = untaught
    words = "wavy lines on a wall"
    one, other = await asked(http, words, guides=0), await asked(http, words, guides=0, topic="walls")
    right, wrong = one["hits"][0]["image_id"], one["hits"][-1]["image_id"]
    await http.post("/v1/tags", json={"image_ids": [right], "text": words})
    said = {"query_id": one["query_id"], "relevant": [right], "irrelevant": [wrong]}
    elsewhere = {**said, "query_id": other["query_id"], "relevant": [one["hits"][1]["image_id"]]}
    given = (await http.post("/v1/feedback", json=said)).json()
    assert (await http.post("/v1/feedback", json=elsewhere)).json()["applied"]

    async def tags() -> set[tuple[str, str]]:
        found = (await http.get("/v1/tags", params={"text": words})).json()["tags"]
        return {(tag["image_id"], tag["source"]) for tag in found}

    kept = {(right, "user"), (elsewhere["relevant"][0], "feedback")}
    assert await tags() == kept | {(right, "feedback")}
    assert not (await http.post("/v1/feedback/withdraw", json={**said, "irrelevant": []})).json()["applied"], "never given"
    taken = (await http.post("/v1/feedback/withdraw", json=said)).json()
    assert (taken["applied"], taken["topic"], taken["before"]) == (True, given["topic"], given["after"])
    assert given["before"] | taken["after"] == given["before"], "neutral again"
    assert await tags() == kept
    assert not (await http.post("/v1/feedback/withdraw", json=said)).json()["applied"]
    assert (await http.post("/v1/feedback", json=said)).json()["applied"], "what was withdrawn may be said again"


async def test_a_tag_by_hand_is_found_and_taken_away(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SHOWN_S", 180.0)  # a busy machine does not deliver within a quarter of a second
    image_id = (await asked(http, "anything", guides=0))["hits"][7]["image_id"]
    put = (await http.post("/v1/tags", json={"image_ids": [image_id], "text": "zanzibar holiday"})).json()["tags"]
    assert [tag["source"] for tag in put] == ["user"]
    found = await asked(http, "zanzibar holiday", explain=True)
    assert found["hits"][0]["image_id"] == image_id
    assert any("tag_score" in guide["provenance"] for guide in found["guides"])
    assert (await http.delete(f"/v1/tags/{put[0]['tag_id']}")).status_code == 204
    assert (await http.delete(f"/v1/tags/{put[0]['tag_id']}")).status_code == 404
    after = await asked(http, "zanzibar holiday", explain=True)
    assert all(part["space"] != "tags" for hit in after["hits"] for part in hit["contributions"])


async def test_engines_are_listed_and_counted(http: httpx.AsyncClient) -> None:
    await asked(http, "fishing boats in a harbour")
    engines = (await http.get("/v1/generators")).json()
    (exemplar,) = [one for one in engines["engines"] if one["name"] == "exemplar"]
    assert (exemplar["enabled"], exemplar["breaker"]) == (True, "closed")
    metrics = (await http.get("/metrics")).text
    assert 'lodestone_generator_calls_total{engine="exemplar"' in metrics
    assert 'lodestone_guides_total{status="used"}' in metrics


async def test_an_engine_that_another_process_switches_is_listed_so_at_once(
    http: httpx.AsyncClient, settings: Settings
) -> None:
    await http.get("/v1/generators")
    with Catalog.open(Home(settings.home).catalog) as elsewhere:
        for wanted in (False, True):
            elsewhere.set_engine("exemplar", enabled=wanted)
            listed = (await http.get("/v1/generators")).json()["engines"]
            assert {one["name"]: one["enabled"] for one in listed}["exemplar"] is wanted


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/tags?source=nobody", None, 422),
        ("GET", "/v1/tags?limit=0", None, 422),
        ("GET", "/v1/tags?corpus=nowhere", None, 404),
        ("GET", "/v1/tags?txet=dog", None, 422),
        ("POST", "/v1/tags", {"image_ids": ["no-such-picture"], "text": "a dog"}, 404),
        ("POST", "/v1/tags", {"image_ids": [], "text": "a dog"}, 422),
        ("POST", "/v1/tags", {"image_ids": ["x"], "text": "  "}, 422),
        ("DELETE", "/v1/tags/nope", None, 404),
        ("GET", "/v1/queries?limit=0", None, 422),
        ("POST", "/v1/queries/nope/replay", None, 404),
        ("POST", "/v1/queries/nope/replay?fresh=perhaps", None, 422),
        ("GET", "/v1/queries/nope/guides/..%2F..%2Fcatalog.sqlite", None, 404),
    ],
)
async def test_wrong_requests_say_what_to_do(
    http: httpx.AsyncClient, method: str, path: str, body: object, status: int
) -> None:
    answer = await http.request(method, path, json=body) if body is not None else await http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]
    assert answer.json()["hint"]


async def test_a_picture_is_not_right_and_wrong_at_once(http: httpx.AsyncClient) -> None:
    answer = await asked(http, "stripes and dots", guides=0)
    one = answer["hits"][0]["image_id"]
    before = (await http.get("/v1/trust")).json()
    said = await http.post("/v1/feedback", json={"query_id": answer["query_id"], "relevant": [one], "irrelevant": [one]})
    assert said.status_code == 422
    assert one in said.json()["detail"]
    assert (await http.get("/v1/trust")).json() == before
