"""The real service over a real home does what the API promises, in one process as on Ray Serve."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.support.homes import (
    Service,
    home_settings,
    index,
    read_line,
    running_service,
    start_service,
    stop,
    wait_until,
    write_pictures,
)
from tests.support.photos import CAT, photo
from tests.support.pictures import encoded, huge_png_bytes

from lodestone.config.home import Home
from lodestone.errors import ImageError, NotFoundError
from lodestone.home.running_service.address import find_service
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

pytestmark = pytest.mark.ray

UNKNOWN_ID = "00000000-0000-5000-8000-000000000000"


@pytest.fixture(scope="module")
def indexed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    write_pictures(folder / "pictures")
    index(home_settings(folder / "home"), folder / "pictures")
    return folder / "home"


@pytest.fixture(scope="module", params=["process", "ray"])
def service(indexed_home: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    with running_service(indexed_home, max_upload_mb=16, engine=request.param) as running:
        yield running


def is_on_ray(service: Service) -> bool:
    return len(psutil.Process(service.process.pid).children(recursive=True)) > 3


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def cat_id(service: Service) -> str:
    with service.client() as client:
        response = client.by_picture(encoded(photo(CAT), "JPEG"), SearchOptions(limit=1))
    return response.hits[0].image_id


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    return answer.json()


def test_words_find_the_right_photo(http: httpx.Client) -> None:
    answer = http.post("/v1/search", json={"query": "a photo of a cat", "limit": 5})
    assert answer.status_code == 200
    response = answer.json()
    assert "chelsea.jpg" in [hit["uri"] for hit in response["hits"]]
    assert len(response["hits"]) == 5
    assert response["next_offset"] == 5
    assert set(response["timings_ms"]) >= {"plan", "encode", "search"}


def test_pages_follow_each_other_without_overlap(http: httpx.Client) -> None:
    pages = [http.post("/v1/search", json={"query": "a cup", "limit": 4, "offset": at, "guides": 0}).json() for at in (0, 4)]
    both = http.post("/v1/search", json={"query": "a cup", "limit": 8, "guides": 0}).json()
    assert [hit["image_id"] for page in pages for hit in page["hits"]] == [hit["image_id"] for hit in both["hits"]]


def test_a_stream_begins_with_the_plan_and_ends_with_the_answer(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/search/stream", json={"query": "a rocket at night"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line.partition(": ")[2] for line in answer.iter_lines() if line.startswith(("id: ", "event: "))]
    numbers, names = events[::2], events[1::2]
    query_id = numbers[0].partition(".")[0]
    assert numbers == [f"{query_id}.{number}" for number in range(1, len(numbers) + 1)]
    assert names[:2] == ["plan", "results"]
    assert names[-1] == "done"
    assert "error" not in names


def test_filters_restrict_what_is_found(service: Service) -> None:
    with service.client() as client:
        people = client.search(SearchRequest(query="a cat", filters=SearchFilters(path_prefix="people")))
        assert [hit.uri for hit in people.hits] == ["people/person.png"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": ""}, 422, "invalid_request"),
        ({"query": "x" * 10_000}, 422, "invalid_request"),
        ({"query": "x", "limit": 201}, 422, "invalid_request"),
        ({"query": "x", "fusion": "magic"}, 404, "unknown_name"),
        ({"query": "x", "spaces": ["magic"]}, 404, "unknown_name"),
        ({"query": "x", "generators": ["magic"]}, 404, "unknown_name"),
        ({"query": "x", "filters": {"corpora": ["magic"]}}, 404, "unknown_name"),
    ],
)
def test_what_cannot_be_answered_is_a_problem_on_both_routes(http: httpx.Client, body: dict, status: int, code: str) -> None:
    for path in ("/v1/search", "/v1/search/stream"):
        assert_problem(http.post(path, json=body), status, code)


def test_an_uploaded_picture_finds_itself(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/search/image", files={"image": ("c.jpg", encoded(photo(CAT), "JPEG"))}, data={"options": '{"limit": 3}'}
    )
    hits = answer.json()["hits"]
    assert (len(hits), hits[0]["uri"]) == (3, "chelsea.jpg")


def test_a_picture_is_tagged_when_it_is_uploaded_and_by_its_id(service: Service, cat_id: str) -> None:
    with service.client() as client:
        uploaded, indexed = client.tag_picture(encoded(photo(CAT), "PNG")), client.tag_image(cat_id)
        with pytest.raises(NotFoundError):
            client.tag_image(UNKNOWN_ID)
    for tags in (uploaded, indexed):
        assert tags.labels and any("cat" in label.text for label in tags.labels[:3])
        assert tags.quality.sharpness > 10 and 0.2 < tags.quality.brightness < 0.8
    assert indexed.quality.brightness == pytest.approx(uploaded.quality.brightness, abs=0.01)


def test_uploads_that_are_no_usable_picture_are_refused(service: Service) -> None:
    with service.client() as client:
        for content in (b"", b"this is no picture", encoded(photo(CAT), "PNG")[:5000]):
            for ask in (client.by_picture, client.tag_picture):
                with pytest.raises(ImageError):
                    ask(content)
        for ask in (client.by_picture, client.tag_picture):
            with pytest.raises(ImageError) as caught:
                ask(huge_png_bytes())
            assert caught.value.code == "image_too_large"


def test_bodies_beyond_the_limits_are_refused(http: httpx.Client) -> None:
    assert_problem(http.post("/v1/search/image", files={"image": b"0" * (17 << 20)}), 413, "body_too_large")
    chunks = (b" " * 65_536 for _ in range(200))
    sent = http.post("/v1/search", content=chunks, headers={"Content-Type": "application/json"})
    assert_problem(sent, 413, "body_too_large")
    text = http.post("/v1/search", content=b'{"query": "a"}', headers={"Content-Type": "text/plain"})
    assert_problem(text, 415, "unsupported_media_type")


def test_a_picture_is_described_and_sent_by_id(http: httpx.Client, cat_id: str) -> None:
    info = http.get(f"/v1/images/{cat_id}").json()
    assert (info["uri"], info["corpus"], info["root"], info["format"]) == ("chelsea.jpg", "photos", "pictures", "JPEG")
    content = http.get(f"/v1/images/{cat_id}/content")
    assert content.headers["content-type"] == "image/jpeg"
    assert len(content.content) == info["size"]
    part = http.get(f"/v1/images/{cat_id}/content", headers={"Range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, content.content[:10])
    head = http.head(f"/v1/images/{cat_id}/content")
    assert (head.status_code, head.headers["content-length"]) == (200, str(info["size"]))


def test_a_thumbnail_is_sent_cached_and_made_again_when_it_is_missing(
    http: httpx.Client, cat_id: str, indexed_home: Path
) -> None:
    url = f"/v1/images/{cat_id}/thumbnail"
    first = http.get(url)
    assert first.headers["content-type"] == "image/jpeg"
    assert http.get(url, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    shutil.rmtree(indexed_home / "thumbnails")
    assert http.get(url).content == first.content


def test_similar_pictures_do_not_include_the_picture_itself(service: Service, cat_id: str) -> None:
    with service.client() as client:
        hits = client.similar(cat_id, SearchOptions(limit=5)).hits
        assert len(hits) == 5
        assert cat_id not in [hit.image_id for hit in hits]
        with pytest.raises(NotFoundError):
            client.similar(UNKNOWN_ID, SearchOptions())


@pytest.mark.parametrize("tail", ["", "/thumbnail", "/content", "/similar"])
def test_unknown_ids_and_paths_in_place_of_ids_lead_nowhere(http: httpx.Client, tail: str) -> None:
    assert_problem(http.get(f"/v1/images/{UNKNOWN_ID}{tail}"), 404, "not_found")
    assert_problem(http.get(f"/v1/images/etc{tail}"), 422, "invalid_request")
    for path in ("..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/%2e%2e/etc/passwd", "%00"):
        answer = http.get(f"/v1/images/{path}{tail}")
        assert answer.status_code in {404, 422}
        assert b"root:" not in answer.content


def test_corpora_are_listed(http: httpx.Client) -> None:
    page = http.get("/v1/corpora").json()
    assert [(corpus["name"], corpus["images"]) for corpus in page["corpora"]] == [("photos", 60)]
    assert page["corpora"][0]["roots"][0]["images"] == 60
    assert_problem(http.get("/v1/corpora", params={"limit": 0}), 422, "invalid_request")


def test_health_readiness_status_and_metrics_are_told(http: httpx.Client, service: Service) -> None:
    assert http.get("/healthz").json()["status"] == "ok"
    status = http.get("/readyz").json()
    assert (status["ready"], status["images"]) == (True, 60)
    assert set(status["checks"]) == {"models", "store", "catalog", "home"}
    with service.client() as client:
        assert client.status().ready
    http.post("/v1/search", json={"query": "a cat"})
    metrics = http.get("/metrics").text
    assert 'lodestone_http_requests_total{method="POST",route="/v1/search",status="200"}' in metrics
    assert 'lodestone_query_stage_seconds_count{stage="search"}' in metrics
    assert "lodestone_text_batch_size_count" in metrics


def test_other_hosts_origins_and_methods_are_refused(http: httpx.Client) -> None:
    assert_problem(http.get("/healthz", headers={"Host": "evil.example"}), 421, "misdirected_request")
    evil = http.post("/v1/search", json={"query": "a"}, headers={"Origin": "http://evil.example"})
    assert_problem(evil, 403, "forbidden")
    options = http.options("/v1/search")
    assert_problem(options, 405, "method_not_allowed")
    assert "access-control-allow-origin" not in options.headers
    assert_problem(http.get("/nothing/here"), 404, "not_found")
    answer = http.get("/healthz", headers={"X-Request-ID": "mine"})
    assert answer.headers.get_list("x-request-id") == ["mine"]


def test_nothing_of_the_service_listens_beyond_this_machine(service: Service, http: httpx.Client) -> None:
    """Ray's own ports too: some of them take pickled objects."""
    parent = psutil.Process(service.process.pid)
    ports = {
        (process.name(), connection.laddr.ip, connection.laddr.port)
        for process in (parent, *parent.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    own = httpx.URL(service.url).port
    assert any(port == own for _, _, port in ports)
    assert any(name == "gcs_server" for name, _, _ in ports) if is_on_ray(service) else {port for _, _, port in ports} == {own}
    assert {ip for _, ip, _ in ports} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}, sorted(ports)


def test_one_process_is_one_process_and_ray_is_not_even_loaded(service: Service) -> None:
    family = psutil.Process(service.process.pid).children(recursive=True)
    loaded = {Path(one.path).name for one in psutil.Process(service.process.pid).memory_maps()}
    assert ("_raylet.so" in loaded, bool(family)) == (is_on_ray(service), is_on_ray(service))


def test_concurrent_queries_share_passes_of_the_text_encoder(service: Service) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def passes() -> tuple[float, float]:
        values = dict(
            line.split(" ")
            for line in httpx.get(f"{service.url}/metrics").text.splitlines()
            if line.startswith("lodestone_text")
        )
        return float(values["lodestone_text_batch_size_count"]), float(values["lodestone_text_batch_size_sum"])

    for _ in range(8):  # few meet at the encoder where few run at once: some do, sooner or later
        before = passes()
        with ThreadPoolExecutor(32) as pool, service.client() as client:
            requests = [SearchRequest(query=f"query number {n}", guides=0, deadline_ms=60_000) for n in range(128)]
            assert all(response.hits for response in pool.map(client.search, requests))
        count, texts = (after - first for after, first in zip(passes(), before, strict=True))
        assert texts >= 128  # and those that an earlier test's search still asks for
        if count < texts:
            return
    pytest.fail("no two of a thousand queries shared a pass")


def test_a_sync_with_the_token_ends_well_and_without_it_is_refused(http: httpx.Client, service: Service) -> None:
    assert_problem(http.post("/v1/internal/sync", json={}), 401, "unauthorized")
    with service.client() as client:
        assert [step.type for step in client.sync()][-1] == "done"


def test_the_home_of_a_running_service_is_refused_to_a_second_one(service: Service, indexed_home: Path) -> None:
    second = start_service(indexed_home)
    assert read_line(second).startswith("store_locked: ")
    assert second.wait(180) != 0
    assert find_service(Home(indexed_home)) == service.address


@pytest.fixture
def small_home(tmp_path: Path) -> Path:
    write_pictures(tmp_path / "pictures", drawn=4)
    index(home_settings(tmp_path / "home"), tmp_path / "pictures")
    return tmp_path / "home"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.chaos
def test_a_killed_replica_is_replaced_and_a_stopped_service_leaves_nothing(small_home: Path) -> None:
    with running_service(small_home, engine="ray") as running:
        family = psutil.Process(running.process.pid).children(recursive=True)
        replica = next(one for one in family if "ServeReplica" in " ".join(one.cmdline()))
        replica.kill()
        replica.wait(180)
        wait_until(lambda: _is_ready(running.url), seconds=120)
        with running.client() as client:
            assert client.search(SearchRequest(query="a cat")).hits
        family = psutil.Process(running.process.pid).children(recursive=True)
        assert stop(running.process) == 0
        assert running.process.stdout is not None
        assert running.process.stdout.read().splitlines()[-1] == "stopped"  # Ray may have told of the killed worker before
        assert not running.home.service.exists()
        wait_until(lambda: not any(_is_alive(one) for one in family), seconds=30)
    index(home_settings(small_home), small_home.parent / "pictures")  # the store's lock is free


@pytest.mark.slow
@pytest.mark.chaos
def test_a_killed_service_frees_the_store_and_its_address_is_ignored(small_home: Path) -> None:
    with running_service(small_home) as running:
        running.process.kill()
        running.process.wait(180)
        assert running.home.service.exists()
        assert find_service(running.home) is None
        settings = home_settings(small_home, store={"lock_timeout_s": 60})
        index(settings, small_home.parent / "pictures")


@pytest.mark.slow
@pytest.mark.chaos
def test_a_service_whose_store_is_gone_is_not_ready(small_home: Path) -> None:
    with running_service(small_home) as running:
        shutil.rmtree(small_home / "store" / "collections")
        answers: list[httpx.Response] = []

        def refused() -> bool:  # a busy machine's time-out is no refusal
            answers.append(httpx.get(f"{running.url}/readyz", timeout=60))
            return not answers[-1].is_success

        wait_until(refused, seconds=120, every=0.2)
        problem = assert_problem(answers[-1], 503, "not_ready")
        assert not problem["checks"]["store"]["ok"]
        assert httpx.get(f"{running.url}/healthz", timeout=60).status_code == 200


def _is_ready(url: str) -> bool:
    time.sleep(0.2)
    try:
        return httpx.get(f"{url}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _value(http: httpx.Client, name: str) -> float:
    (found,) = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(found.split()[1])


def test_a_client_that_leaves_its_stream_frees_its_query_and_may_come_back(http: httpx.Client) -> None:
    seen: list[str] = []
    with http.stream("POST", "/v1/search/stream", json={"query": "a photo of a cat"}) as answer:
        for line in answer.iter_lines():
            seen += [line.removeprefix("id: ")] if line.startswith("id: ") else []
            if len(seen) == 2:
                break
    query_id, _, number = seen[-1].rpartition(".")
    assert number == "2"
    rest = http.get(f"/v1/search/stream/{query_id}", headers={"Last-Event-ID": seen[-1]})
    assert rest.status_code == 200
    assert f"id: {query_id}.3" in rest.text
    assert f"id: {query_id}.2" not in rest.text
    assert rest.text.count("event: done") == 1
    wait_until(lambda: _value(http, "lodestone_streams_open") == 0)
    wait_until(lambda: _value(http, "lodestone_queries_in_flight") == 0)
    assert _value(http, "lodestone_streams_resumed_total") >= 1
