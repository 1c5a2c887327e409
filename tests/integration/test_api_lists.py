"""One home over HTTP: lists go on where they ended, runs tell what failed, models work by themselves."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from PIL import Image
from tests.support.home import image_ids, settings_for, vectors_of
from tests.support.image_servers import ImageServer
from tests.support.pictures import write_photos

from lodestone.catalog.records import RunState, TagRecord
from lodestone.config.engines import EngineSettings
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.use_cases import Services
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services

TOKEN = {"X-Lodestone-Token": "secret"}
PICTURES = 9


@pytest.fixture(scope="module")
def server() -> Iterator[ImageServer]:
    with ImageServer() as server:
        yield server


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, server: ImageServer) -> Settings:
    folder = tmp_path_factory.mktemp("lists")
    settings = settings_for(folder)
    (folder / "pictures").mkdir()
    for place in range(5):
        (folder / "pictures" / f"broken{place}.jpg").write_bytes(b"no picture")
    for corpus, names in {"photos": ("pictures", "more"), "others": ("others",)}.items():
        for name in names:
            write_photos(folder / name, 6 if name == "pictures" else 3)
        with Runtime.open(settings) as runtime:
            index_paths(runtime, IndexRequest(tuple(folder / name for name in names), corpus=corpus))
    with Runtime.open(settings) as runtime:
        for kind in ("train-bridge", "train-gate", "verify"):
            runtime.catalog.finish_run(runtime.catalog.start_run(kind).run_id, RunState.DONE)
        ids = sorted(image_ids(runtime, "photos").values())
        for place, image_id in enumerate(ids[:7]):
            record = TagRecord.new(image_id, f"tag {place}", "user")
            same_moment = replace(record, created_at=record.created_at.replace(microsecond=0))
            runtime.catalog.add_tags([same_moment])
    engine = EngineSettings(kind="http", url=f"{server.url}/custom", size=128, cost=1.0)
    return settings.model_copy(update={"generators": {"painter": engine}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(settings: Settings) -> AsyncIterator[Services]:
    services = home_services(settings)
    await services.session.open()
    yield services
    await services.session.close()


@pytest_asyncio.fixture(loop_scope="module")
async def http(settings: Settings, services: Services) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(services, settings=settings.serve, token="secret")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", timeout=60) as client:
        yield client


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def got(http: httpx.AsyncClient, path: str, **params: Any) -> dict[str, Any]:
    answer = await http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def walked(http: httpx.AsyncClient, path: str, rows: str, **params: Any) -> list[dict[str, Any]]:
    """All rows, two a page, by cursors."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await got(http, path, limit=2, **params, **cursor)
        assert len(page[rows]) <= 2
        found += page[rows]
        if page["next_cursor"] is None:
            return found
        assert len(page[rows]) == 2
        cursor = {"cursor": page["next_cursor"]}


LISTS = {
    "/v1/corpora": ("corpora", "name", 2),
    "/v1/directories": ("directories", "directory_id", 3),
    "/v1/tags": ("tags", "tag_id", 7),
    "/v1/runs": ("runs", "run_id", 5),
}


@pytest.mark.parametrize("path", LISTS)
async def test_pages_by_cursor_are_the_list_in_its_order(http: httpx.AsyncClient, path: str) -> None:
    rows, key, count = LISTS[path]
    whole = await got(http, path, limit=200)
    assert (len(whole[rows]), whole["next_cursor"], whole["next_offset"]) == (count, None, None)
    by_cursor = await walked(http, path, rows)
    assert [row[key] for row in by_cursor] == [row[key] for row in whole[rows]]
    by_offset = [(await got(http, path, limit=1, offset=place))[rows][0] for place in range(count)]
    assert by_offset == by_cursor


async def test_queries_come_behind_the_cursor_though_newer_ones_are_asked_meanwhile(http: httpx.AsyncClient) -> None:
    for word in ("one", "two", "three", "four"):
        assert (await http.post("/v1/search", json={"query": word, "guides": 0})).status_code == 200
    first = await got(http, "/v1/queries", limit=2)
    assert [row["text"] for row in first["queries"]] == ["four", "three"]
    await http.post("/v1/search", json={"query": "five", "guides": 0})
    behind = await got(http, "/v1/queries", limit=2, cursor=first["next_cursor"])
    assert [row["text"] for row in behind["queries"]] == ["two", "one"]
    shifted = await got(http, "/v1/queries", limit=2, offset=2)
    assert [row["text"] for row in shifted["queries"]] == ["three", "two"]


async def test_the_pictures_of_a_corpus_are_listed_by_root_and_path(http: httpx.AsyncClient, settings: Settings) -> None:
    found = await walked(http, "/v1/images", "images", corpus="photos")
    places = [(one["root"], one["uri"]) for one in found]
    assert len(places) == PICTURES
    assert places == sorted(places)
    assert {one["corpus"] for one in found} == {"photos"}
    assert found[0] == await got(http, f"/v1/images/{found[0]['image_id']}")
    assert (await http.get("/v1/images", params={"corpus": "nobody's"})).json()["code"] == "unknown_name"
    assert (await http.get("/v1/images")).status_code == 422


@pytest.mark.parametrize("path", [*LISTS, "/v1/queries"])
async def test_a_cursor_of_another_list_or_of_nobody_is_refused(http: httpx.AsyncClient, path: str) -> None:
    of_another = (await got(http, "/v1/images", corpus="photos", limit=1))["next_cursor"]
    for cursor in (of_another, "nonsense", ""):
        refused = await http.get(path, params={"cursor": cursor})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), refused.text
    both = await http.get(path, params={"cursor": of_another, "offset": 1})
    assert "offset 1 and behind a cursor" in both.json()["detail"]


async def test_lists_and_answers_are_sent_in_part(http: httpx.AsyncClient) -> None:
    assert (await got(http, "/v1/corpora", fields="corpora.name"))["corpora"] == [{"name": "others"}, {"name": "photos"}]
    answer = await http.post("/v1/search", params={"fields": "hits.image_id"}, json={"query": "dots", "guides": 0, "limit": 2})
    assert [list(hit) for hit in answer.json()["hits"]] == [["image_id"], ["image_id"]]
    assert list(answer.json()) == ["hits"]
    similar = f"/v1/images/{answer.json()['hits'][0]['image_id']}/similar"
    assert list(await got(http, similar, fields="query_id")) == ["query_id"]
    for path in ("/v1/tags", "/v1/runs", similar):
        assert (await http.get(path, params={"fields": "nothing"})).status_code == 422


@pytest.mark.parametrize("path", ["/v1/corpora", "/v1/images?corpus=photos", "/v1/images/{image_id}"])
async def test_what_has_not_changed_is_not_sent_again(http: httpx.AsyncClient, path: str) -> None:
    image_id = (await got(http, "/v1/images", corpus="photos", limit=1))["images"][0]["image_id"]
    path = path.format(image_id=image_id)
    first = await http.get(path)
    again = await http.get(path, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert (await http.get(path, headers={"If-None-Match": '"other"'})).status_code == 200


async def test_runs_tell_what_became_of_them_and_which_files_failed(http: httpx.AsyncClient, settings: Settings) -> None:
    runs = (await got(http, "/v1/runs", kind="index", corpus="photos"))["runs"]
    assert [(one["kind"], one["corpus"], one["state"]) for one in runs] == [("index", "photos", "done")]
    one = await got(http, f"/v1/runs/{runs[0]['run_id']}")
    assert one["failures"] == 5
    failures = await walked(http, f"/v1/runs/{runs[0]['run_id']}/failures", "failures")
    assert sorted(row["uri"] for row in failures) == [f"broken{place}.jpg" for place in range(5)]
    assert {(row["corpus"], row["root"], row["code"]) for row in failures} == {("photos", "pictures", "not_an_image")}
    assert str(Path(settings.home).parent) not in (await http.get("/v1/runs")).text  # no path of the service's disk
    assert (await got(http, "/v1/runs", state="running"))["runs"] == []


async def test_a_run_is_asked_to_stop_by_those_who_may(http: httpx.AsyncClient, services: Services) -> None:
    run = services.session.runtime.catalog.start_run("train-prior")
    path = f"/v1/runs/{run.run_id}/cancel"
    assert (await http.post(path)).status_code == 401
    stopped = await http.post(path, headers=TOKEN)
    assert (stopped.status_code, stopped.json()["cancel_requested"]) == (200, True)
    services.session.runtime.catalog.finish_run(run.run_id, RunState.CANCELLED)
    unknown = "00000000-0000-4000-8000-000000000000"
    for answer in (
        await http.get(f"/v1/runs/{unknown}"),
        await http.get(f"/v1/runs/{unknown}/failures"),
        await http.post(f"/v1/runs/{unknown}/cancel", headers=TOKEN),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await http.get("/v1/runs/latest")).status_code == 422


async def test_embedded_texts_and_pictures_are_those_that_searches_compare(http: httpx.AsyncClient, services: Services) -> None:
    runtime, engine = services.session.runtime, services.session.live.answering.engine
    texts = ["a boat on a lake", "dogs"]
    expected = await engine.encoder.encode_texts(texts)
    spaces = {one["id"]: one for one in (await got(http, "/v1/models"))["data"] if one["kind"] == "space"}
    for name, space in spaces.items():
        answer = (await http.post("/v1/embeddings", json={"model": name, "input": texts})).json()
        rows = np.array([row["embedding"] for row in answer["data"]], np.float32)
        assert rows.shape == (2, space["dim"])
        assert np.allclose(rows, expected.projected[space["collection"]], atol=1e-5)
    words = (await http.post("/v1/embeddings", json={"model": "minilm", "input": texts[0]})).json()["data"][0]["embedding"]
    assert np.allclose(words, expected.encoded["minilm"][0], atol=1e-5)

    first = (await got(http, "/v1/images", corpus="photos", limit=1))["images"][0]
    file = (await http.get(f"/v1/images/{first['image_id']}/content")).content
    url = f"data:image/jpeg;base64,{base64.b64encode(file).decode()}"
    mixed = (await http.post("/v1/embeddings", json={"model": "bridge", "input": ["dots", url, "dogs"]})).json()["data"]
    stored = vectors_of(runtime, "bridge")[first["image_id"]]
    assert float(np.dot(mixed[1]["embedding"], stored)) > 0.99
    assert np.allclose(mixed[2]["embedding"], expected.projected[spaces["bridge"]["collection"]][1], atol=1e-4)


async def test_what_no_model_takes_is_refused(http: httpx.AsyncClient) -> None:
    url = "data:image/png;base64," + base64.b64encode(b"no picture").decode()
    for body, status, code in (
        ({"model": "gpt", "input": "a"}, 404, "unknown_name"),
        ({"model": "painter", "input": "a"}, 404, "unknown_name"),
        ({"model": "minilm", "input": url}, 422, "invalid_request"),
        ({"model": "bridge", "input": url}, 422, "bad_image"),
    ):
        answer = await http.post("/v1/embeddings", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_a_generator_draws_within_its_budget(http: httpx.AsyncClient, server: ImageServer) -> None:
    server.mode = "good"
    answer = await http.post("/v1/images/generations", json={"prompt": "a red bicycle", "n": 2})
    assert answer.status_code == 200, answer.text
    drawn = answer.json()
    assert (drawn["model"], drawn["cost"], len(drawn["data"]), drawn["size"]) == ("painter", 2.0, 2, "128x128")
    assert Image.open(io.BytesIO(base64.b64decode(drawn["data"][0]["b64_json"]))).size == (128, 128)
    some = (await http.post("/v1/images/generations", json={"prompt": "a red bicycle", "n": 3, "budget": 1})).json()
    assert (len(some["data"]), some["cost"]) == (1, 1.0)
    for body, status, code in (
        ({"budget": 0.5}, 422, "invalid_request"),
        ({"model": "exemplar"}, 422, "invalid_request"),
        ({"model": "dall-e-3"}, 404, "unknown_name"),
        ({"size": "1024x1024"}, 422, "invalid_request"),
    ):
        refused = await http.post("/v1/images/generations", json={"prompt": "a", **body})
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text


async def test_a_generator_that_fails_says_why(http: httpx.AsyncClient, server: ImageServer) -> None:
    server.mode = "error"
    try:
        answer = await http.post("/v1/images/generations", json={"prompt": "a red bicycle"})
    finally:
        server.mode = "good"
    assert (answer.status_code, answer.json()["code"]) == (503, "model_unavailable")
    assert "painter" in answer.json()["detail"]
