"""The HTTP layer keeps its promises, whatever stands behind it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tests.support.fake_services import KNOWN_ID, UNKNOWN_ID, FakeServices

from lodestone.config.home import Home
from lodestone.config.settings import ServeSettings
from lodestone.errors import StoreError, UnknownNameError
from lodestone.home.running_service.address import ServiceAddress
from lodestone_schemas.api import SearchRequest
from lodestone_serve.http.application import create_app
from lodestone_serve.policy import TABLE
from lodestone_serve.routes.search import WordsParams

TOKEN = "a-secret"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 32


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    return FakeServices(tmp_path)


@pytest.fixture
def app(services: FakeServices) -> FastAPI:
    return create_app(services, settings=ServeSettings(max_ongoing=2, max_queued=1, max_upload_mb=1), token=TOKEN)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:lodestone:problem:{code}"
    assert problem["title"]
    return problem


def sse(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block.strip() and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


async def test_a_search_is_answered_and_its_stages_are_measured(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/search", json={"query": "a boat"})
    assert answer.status_code == 200
    assert answer.json()["hits"][0]["image_id"] == KNOWN_ID
    metrics = (await http.get("/metrics")).text
    assert 'lodestone_http_requests_total{method="POST",route="/v1/search",status="200"} 1.0' in metrics
    assert 'lodestone_query_stage_seconds_count{stage="encode"} 1.0' in metrics


async def test_no_request_changes_threads_for_its_parameters(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI calls plain functions that a route depends on in a thread, for each request."""
    threads: list[object] = []

    async def noted(function: Callable[..., object], *given: object, **named: object) -> object:
        threads.append(function)
        return function(*given, **named)

    monkeypatch.setattr("fastapi.dependencies.utils.run_in_threadpool", noted)
    assert (await http.post("/v1/search?fields=hits.image_id", json={"query": "a boat"})).status_code == 200
    assert (await http.get("/v1/corpora?limit=1")).status_code == 200
    assert threads == []


async def test_streamed_events_come_in_order_with_ids(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/search/stream", json={"query": "a boat"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = sse(answer.text)
    assert [event["event"] for event in events] == ["plan", "results", "guide", "done"]
    assert [event["id"] for event in events] == ["q1.1", "q1.2", "q1.3", "q1.4"]
    assert [json.loads(event["data"])["type"] for event in events] == ["plan", "results", "guide", "done"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tags", '{"text": "boat", "image_ids": ["\\ud800"]}'),
        ("/v1/feedback", '{"query_id": "q", "relevant": ["\\ud800"]}'),
    ],
)
async def test_an_id_that_is_no_text_is_refused_before_anything_is_learnt(
    http: httpx.AsyncClient, path: str, body: str
) -> None:
    answer = await http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, 422, "invalid_request")


async def test_a_stream_that_cannot_be_planned_is_an_ordinary_problem(http: httpx.AsyncClient, services: FakeServices) -> None:
    services.fail = UnknownNameError.among("fusion", "magic", ["rrf"])
    problem = assert_problem(await http.post("/v1/search/stream", json={"query": "a", "fusion": "magic"}), 404, "unknown_name")
    assert problem["known"] == ["rrf"]
    assert "rrf" in problem["hint"]


@pytest.mark.parametrize(
    ("error", "code"), [(StoreError("the store broke", hint="wait"), "store_failed"), (ValueError("s3cret"), "internal_error")]
)
async def test_a_failure_after_the_first_event_is_the_last_event(
    http: httpx.AsyncClient, services: FakeServices, error: Exception, code: str
) -> None:
    services.fail_late = error
    answer = await http.post("/v1/search/stream", json={"query": "a"})
    events = sse(answer.text)
    assert [event["event"] for event in events] == ["plan", "results", "error"]
    assert json.loads(events[-1]["data"])["problem"]["code"] == code
    assert "s3cret" not in answer.text


async def test_an_unexpected_error_tells_the_request_id_and_nothing_else(
    http: httpx.AsyncClient, services: FakeServices
) -> None:
    services.fail = ValueError("/home/someone/secret")
    answer = await http.post("/v1/search", json={"query": "a"}, headers={"X-Request-ID": "abc-1"})
    problem = assert_problem(answer, 500, "internal_error")
    assert problem["request_id"] == "abc-1"
    assert "secret" not in answer.text


async def test_an_errors_status_code_and_hint_reach_the_client(http: httpx.AsyncClient, services: FakeServices) -> None:
    services.fail = StoreError("the store broke", hint="start it", store="edge")
    answer = await http.post("/v1/search", json={"query": "a"})
    problem = assert_problem(answer, 503, "store_failed")
    assert (problem["detail"], problem["hint"], problem["store"]) == ("the store broke", "start it", "edge")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "x" * 1001}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": 201}, "limit"),
        ({"query": "x", "offset": 1001}, "offset"),
        ({"query": "x", "filters": {"corpora": 3}}, "filters.corpora"),
        ({"query": "x", "surprise": 1}, "surprise"),
        ([], "body"),
    ],
)
async def test_a_body_out_of_bounds_is_named_by_field(http: httpx.AsyncClient, body: object, field: str) -> None:
    problem = assert_problem(await http.post("/v1/search", json=body), 422, "invalid_request")
    assert problem["errors"][0]["field"] == field
    assert field in problem["detail"]


async def test_broken_json_is_a_problem(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/search", content=b'{"query": ', headers={"Content-Type": "application/json"})
    assert_problem(answer, 422, "invalid_request")


async def test_unknown_routes_and_methods_are_problems(http: httpx.AsyncClient) -> None:
    assert_problem(await http.get("/v1/nothing"), 404, "not_found")
    for path, allowed in (
        ("/v1/search", "GET, POST"),
        ("/v1/search/image", "POST"),
        ("/v1/directories/x", "DELETE, GET, PATCH"),
    ):
        answer = await http.put(path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed
    assert_problem(await http.options("/v1/search"), 405, "method_not_allowed")


async def test_a_body_over_the_limit_is_refused_by_its_length_and_while_it_is_read(http: httpx.AsyncClient) -> None:
    kind = {"Content-Type": "application/json"}
    assert_problem(await http.post("/v1/search", content=b" " * 65_537, headers=kind), 413, "body_too_large")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b" " * 1024

    answer = await http.post("/v1/search", content=pieces(), headers=kind)
    assert "content-length" not in answer.request.headers
    assert_problem(answer, 413, "body_too_large")


async def test_an_upload_over_the_limit_is_refused(http: httpx.AsyncClient) -> None:
    big = {"image": ("a.png", PNG + b"0" * (2 << 20), "image/png")}
    assert_problem(await http.post("/v1/search/image", files=big), 413, "body_too_large")


async def test_a_body_of_another_kind_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/search", content=b'{"query": "a"}', headers={"Content-Type": "text/plain"})
    assert_problem(answer, 415, "unsupported_media_type")
    assert_problem(await http.post("/v1/search/image", json={}), 415, "unsupported_media_type")


async def test_search_by_an_uploaded_picture_takes_options(http: httpx.AsyncClient, services: FakeServices) -> None:
    answer = await http.post(
        "/v1/search/image", files={"image": ("a.png", PNG)}, data={"options": '{"limit": 3, "filters": {"corpora": ["c"]}}'}
    )
    assert answer.status_code == 200, answer.text
    assert services.asked[-1].limit == 3
    assert services.asked[-1].filters.corpora == ["c"]


async def test_a_bad_upload_or_bad_options_are_named(http: httpx.AsyncClient) -> None:
    assert_problem(await http.post("/v1/search/image", files={"image": ("a.png", b"hello")}), 422, "bad_image")
    files = {"image": ("a.png", PNG)}
    problem = assert_problem(
        await http.post("/v1/search/image", files=files, data={"options": '{"limit": 0}'}), 422, "invalid_request"
    )
    assert problem["errors"][0]["field"] == "options.limit"
    assert_problem(await http.post("/v1/search/image", files={"other": ("a", b"x")}), 422, "invalid_request")


async def test_similar_takes_every_option_as_a_query_parameter(http: httpx.AsyncClient, services: FakeServices) -> None:
    url = f"/v1/images/{KNOWN_ID}/similar"
    params = {"limit": 5, "corpora": ["a", "b"], "path_prefix": "x/y", "taken_from": "2024-01-01T00:00:00Z", "explain": True}
    assert (await http.get(url, params=params)).status_code == 200
    asked = services.asked[-1]
    assert (asked.limit, asked.explain, asked.filters.corpora, asked.filters.path_prefix) == (5, True, ["a", "b"], "x/y")
    assert asked.filters.taken_from.year == 2024
    problem = assert_problem(await http.get(url, params={"limit": 999}), 422, "invalid_request")
    assert problem["errors"][0]["field"] == "limit"


async def test_words_may_be_asked_in_the_address(http: httpx.AsyncClient, services: FakeServices) -> None:
    params = {"q": "two dogs", "limit": 5, "corpora": ["a", "b"], "guides": 0, "generators": "exemplar", "seed": 7}
    answer = await http.get("/v1/search", params={**params, "deadline_ms": 900, "taken_from": "2024-01-01T00:00:00Z"})
    assert answer.json() == (await http.post("/v1/search", json={"query": "two dogs"})).json()
    assert answer.headers["cache-control"] == "no-store"
    asked = services.asked[0]
    assert isinstance(asked, SearchRequest)
    assert (asked.query, asked.limit, asked.guides, asked.seed, asked.deadline_ms) == ("two dogs", 5, 0, 7, 900)
    assert (asked.generators, asked.filters.corpora) == (["exemplar"], ["a", "b"])
    assert SearchRequest(query="a") == WordsParams(q="a").request(), "what is left out is as in a body"
    assert set((await http.get("/v1/search?q=a&fields=query_id")).json()) == {"query_id"}


@pytest.mark.parametrize(
    ("query", "field"),
    [("", "q"), ("limit=3", "q"), ("q=a&limit=0", "limit"), ("q=a&query=b", "query"), ("q=" + "a" * 1001, "q")],
)
async def test_an_address_that_asks_nothing_sensible_is_refused_by_name(
    http: httpx.AsyncClient, query: str, field: str
) -> None:
    problem = assert_problem(await http.get(f"/v1/search?{query}"), 422, "invalid_request")
    assert problem["errors"][0]["field"] == field


async def test_pictures_are_served_by_known_id_only(http: httpx.AsyncClient) -> None:
    assert (await http.get(f"/v1/images/{KNOWN_ID}")).json()["uri"] == "a.png"
    for tail in ("", "/thumbnail", "/content", "/similar"):
        assert_problem(await http.get(f"/v1/images/{UNKNOWN_ID}{tail}"), 404, "not_found")
        assert_problem(await http.get(f"/v1/images/not-an-id{tail}"), 422, "invalid_request")
    for path in ("/v1/images/..%2F..%2Fetc%2Fpasswd", "/v1/images/%2e%2e/%2e%2e/etc/passwd/content", "//etc/passwd"):
        assert (await http.get(path)).status_code in {404, 422}


async def test_a_thumbnail_is_cached_by_its_etag(http: httpx.AsyncClient) -> None:
    url = f"/v1/images/{KNOWN_ID}/thumbnail"
    first = await http.get(url)
    assert (first.status_code, first.content) == (200, b"thumbnail bytes")
    assert first.headers["content-type"] == "image/jpeg"
    assert "max-age" in first.headers["cache-control"]
    again = await http.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await http.get(url, headers={"If-None-Match": '"other"'})).status_code == 200


async def test_files_cannot_run_as_pages_or_be_embedded_by_other_sites(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"/v1/images/{KNOWN_ID}/content")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "sandbox" in answer.headers["content-security-policy"]


async def test_head_answers_as_get_without_a_body(http: httpx.AsyncClient) -> None:
    answer = await http.head(f"/v1/images/{KNOWN_ID}/content")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(b"content bytes"))


async def test_corpora_come_in_pages(http: httpx.AsyncClient) -> None:
    first = (await http.get("/v1/corpora", params={"limit": 2})).json()
    assert ([corpus["name"] for corpus in first["corpora"]], first["next_offset"]) == (["a", "b"], 2)
    last = (await http.get("/v1/corpora", params={"limit": 2, "offset": 2})).json()
    assert ([corpus["name"] for corpus in last["corpora"]], last["next_offset"]) == (["c"], None)
    assert_problem(await http.get("/v1/corpora", params={"limit": 10_000}), 422, "invalid_request")


async def test_readiness_names_what_does_not_answer(http: httpx.AsyncClient, services: FakeServices) -> None:
    assert (await http.get("/readyz")).json()["ready"] is True
    services.ready = False
    problem = assert_problem(await http.get("/readyz"), 503, "not_ready")
    assert "store" in problem["detail"]
    assert problem["checks"]["store"]["detail"] == "the store is gone"
    assert (await http.get("/healthz")).json()["status"] == "ok"
    assert (await http.get("/v1/status")).status_code == 200


async def test_internal_routes_need_the_token(http: httpx.AsyncClient, services: FakeServices) -> None:
    assert_problem(await http.post("/v1/internal/sync", json={}), 401, "unauthorized")
    assert_problem(await http.post("/v1/internal/sync", json={}, headers={b"X-Lodestone-Token": b"\xe9"}), 401, "unauthorized")
    assert_problem(await http.delete("/v1/corpora/a"), 401, "unauthorized")
    assert services.asked == []
    assert services.removed == []
    headers = {"X-Lodestone-Token": TOKEN}
    lines = (await http.post("/v1/internal/sync", json={}, headers=headers)).text.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["progress", "done"]
    assert (await http.delete("/v1/corpora/a", headers=headers)).status_code == 204
    assert_problem(await http.delete("/v1/corpora/zz", headers=headers), 404, "unknown_name")


async def test_a_failed_sync_ends_with_its_problem(http: httpx.AsyncClient, services: FakeServices) -> None:
    services.fail = StoreError("no room")
    answer = await http.post("/v1/internal/sync", json={}, headers={"X-Lodestone-Token": TOKEN})
    assert json.loads(answer.text.splitlines()[-1])["problem"]["code"] == "store_failed"


def published(folder: Path, token: str) -> ServiceAddress:
    address = ServiceAddress("http://127.0.0.1:7860", os.getpid(), token, "1", datetime.now(UTC))
    address.write(Home(folder))
    return address


async def test_a_service_is_ready_only_while_the_home_names_it(services: FakeServices, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    app = create_app(services, settings=ServeSettings(), token=TOKEN, published_in=Home(home))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:7860") as client:

        async def refused(because: str) -> None:
            problem = assert_problem(await client.get("/readyz"), 503, "not_ready")
            assert because in problem["checks"]["home"]["detail"]
            assert str(home) not in json.dumps(problem)
            status = await client.get("/v1/status")
            assert (status.status_code, status.json()["ready"]) == (200, False)

        await refused("not there")  # not yet published
        own = published(home, TOKEN)
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/v1/status")).json()["checks"]["home"]["ok"] is True
        published(home, "another-service")
        await refused("names another service")
        for damaged in ("cut sho", '{"url": "", "pid": Infinity, "token": "t"}', "[" * 100_000):
            (home / "service.json").write_text(damaged)
            await refused("damaged")
        (home / "service.json").unlink()
        os.mkfifo(home / "service.json")  # which nobody writes to
        await refused("damaged")
        own.write(Home(home))
        assert (await client.get("/readyz")).status_code == 200
        shutil.rmtree(home)  # under the running service
        await refused("not there")


async def test_a_service_that_no_file_names_is_ready_without_one(http: httpx.AsyncClient) -> None:
    answer = await http.get("/readyz")
    assert (answer.status_code, "home" in answer.json()["checks"]) == (200, False)


PLAIN = sorted({row.path for row in TABLE if not row.has_parameters and row.path != "/"})


@pytest.mark.parametrize("path", PLAIN)
async def test_a_slash_too_much_is_not_found_alike_everywhere(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(f"{path}/")
    if path == "/v1/models":  # a model's name may be any path, so this one is the empty name
        assert_problem(answer, 404, "unknown_name")
    else:
        assert "slash" in assert_problem(answer, 404, "not_found")["hint"]
    assert (await http.head(f"{path}/")).status_code == 404


async def test_a_method_that_a_path_does_not_take_is_still_told(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/corpora/holidays")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, PATCH"
    assert_problem(await http.get("/v1/corpora/holidays/"), 405, "method_not_allowed")  # a name may end so


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "", "localhost:port"])
async def test_a_foreign_host_is_refused(http: httpx.AsyncClient, host: str) -> None:
    assert_problem(await http.get("/healthz", headers={"Host": host}), 421, "misdirected_request")


@pytest.mark.parametrize("host", ["localhost:7860", "127.0.0.1", "127.9.9.9:1", "[::1]:7860", "LOCALHOST"])
async def test_this_machines_own_names_are_answered(http: httpx.AsyncClient, host: str) -> None:
    assert (await http.get("/healthz", headers={"Host": host})).status_code == 200


async def test_requests_of_other_sites_pages_are_refused(http: httpx.AsyncClient, services: FakeServices) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        answer = await http.post("/v1/search", json={"query": "a"}, headers={"Origin": origin})
        assert_problem(answer, 403, "forbidden")
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert_problem(await http.get(f"/v1/images/{KNOWN_ID}/thumbnail", headers=headers), 403, "forbidden")
    assert services.asked == []
    own = await http.post("/v1/search", json={"query": "a"}, headers={"Origin": "http://127.0.0.1:7860"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


async def test_a_request_id_is_echoed_or_made(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz", headers={"X-Request-ID": "my.id-1"})).headers["x-request-id"] == "my.id-1"
    made = (await http.get("/healthz", headers={"X-Request-ID": "bad id\t{}" * 50})).headers["x-request-id"]
    assert len(made) == 32
    assert (await http.get("/v1/nothing")).headers["x-request-id"]


async def _until(condition, seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/stream"])
async def test_load_above_the_limits_is_shed_before_anything_is_streamed(
    app: FastAPI, services: FakeServices, path: str
) -> None:
    services.pause = asyncio.Event()
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        held = [asyncio.create_task(http.post(path, json={"query": "a"})) for _ in range(3)]
        while "lodestone_queries_waiting 1.0" not in (metrics := (await http.get("/metrics")).text):
            await asyncio.sleep(0.005)
        assert services.running == 2
        assert "lodestone_queries_in_flight 2.0" in metrics
        refused = await http.post(path, json={"query": "a"})
        assert_problem(refused, 429, "overloaded")
        assert refused.headers["retry-after"] == "1"
        assert (await http.get("/healthz")).status_code == 200
        services.pause.set()
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200, 200, 200]
        assert (await http.post(path, json={"query": "a"})).status_code == 200
        metrics = (await http.get("/metrics")).text
    assert 'lodestone_queries_shed_total{reason="overloaded"} 1.0' in metrics
    assert "lodestone_queries_in_flight 0.0" in metrics


async def test_a_client_that_leaves_stops_the_query_and_frees_its_slot(app: FastAPI, services: FakeServices) -> None:
    services.pause = asyncio.Event()
    body = b'{"query": "a"}'
    sent: list[dict] = []
    left = asyncio.Event()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/v1/search/stream", "raw_path": b"/v1/search/stream", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7860),
    }  # fmt: skip
    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict:
        if (message := next(received, None)) is not None:
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    request = asyncio.create_task(app(scope, receive, send))
    await _until(lambda: any(b"event: results" in message.get("body", b"") for message in sent))
    assert services.running == 1
    left.set()
    await asyncio.wait_for(request, 5)
    await asyncio.wait_for(services.cancelled.wait(), 5)
    assert services.running == 0
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert "lodestone_queries_in_flight 0.0" in (await http.get("/metrics")).text


async def test_services_live_as_long_as_the_app(app: FastAPI, services: FakeServices) -> None:
    async with app.router.lifespan_context(app):
        assert (services.open_count, services.close_count) == (1, 0)
    assert services.close_count == 1


def test_the_committed_openapi_document_is_current() -> None:
    from lodestone_serve.http.openapi import COMMITTED, document

    assert COMMITTED.read_text(encoding="utf-8") == document(), "run `python -m lodestone_serve.http.openapi`"


async def test_the_openapi_document_is_served_and_speaks_of_problems(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert "Problem" in document["components"]["schemas"]
    assert "HTTPValidationError" not in json.dumps(document)
    for operations in document["paths"].values():
        for operation in operations.values():
            refusals = {status: answer for status, answer in operation["responses"].items() if status >= "4"}
            assert {"400", "500", "503"} <= refusals.keys()
            for answer in refusals.values():
                refused = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
                assert list(refused["content"]) == ["application/problem+json"]


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "detail", "hint"),
    [
        ("GET", "/v1/nothing", b"", 404, "there is nothing at '/v1/nothing'", "see /openapi.json"),
        ("GET", "/v1/images/", b"", 404, "there is nothing at '/v1/images/'", "leave the slash at the end out"),
        ("PUT", "/v1/search", b"", 405, "PUT is not for '/v1/search'", "it takes GET, POST: see /openapi.json"),
        ("POST", "/v1/search", b"{,", 422, "body: no JSON at character 1: ", "see /openapi.json for what this route takes"),
        ("POST", "/v1/search", b"[" * 20_000, 400, "There was an error parsing", "see /openapi.json for what this route takes"),
        ("POST", "/v1/embeddings", b'{"model": "m", "input": []}', 422, "input: List should have at least 1 item", "see /op"),
        (
            "POST",
            "/v1/embeddings",
            b'{"model": "m", "input": [1, 2]}',
            422,
            "input.0: Input should be a valid string",
            "see /op",
        ),
        ("POST", "/v1/embeddings", b'{"model": "m", "input": {}}', 422, "input: Input should be a valid string", "see /op"),
    ],
)
async def test_what_the_framework_refuses_says_what_and_where_to_look(
    http: httpx.AsyncClient, method: str, path: str, content: bytes, status: int, detail: str, hint: str
) -> None:
    answer = await http.request(method, path, content=content, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert answer.status_code == status
    assert problem["detail"].startswith(detail)
    assert problem["hint"].startswith(hint)


async def test_the_instance_of_a_problem_is_a_reference(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/a%0a%22b%20c")).json()["instance"] == "/v1/a%0A%22b%20c"


async def test_a_query_that_came_to_the_proxy_too_long_ago_is_not_begun(http: httpx.AsyncClient) -> None:
    asked = {"query": "a boat", "deadline_ms": 2000}
    assert (await http.post("/v1/search", json=asked)).status_code == 200
    late = await http.post("/v1/search", json=asked, headers={"X-Lodestone-Arrived": str(time.time() - 3)})
    assert (late.status_code, late.json()["code"]) == (504, "deadline_exceeded")
