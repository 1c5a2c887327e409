"""Requests are let in by host, page and key, and every answer carries security headers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from tests.support.fake_services import KNOWN_ID, FakeServices

from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.errors import ConfigurationError
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_serve.auth.exposure import checked_exposure
from lodestone_serve.http.application import create_app
from lodestone_serve.traffic.request_guards import CONTENT_SECURITY_POLICY

TOKEN = "a-secret"
SEARCH = {"query": "a boat"}
ORIGIN = "https://photos.example.org"


class Guarded(FakeServices):
    """Stand-in services over a real catalog's keys."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.catalog = Catalog.open(folder / "catalog.sqlite")

    def key_store(self) -> Catalog:
        return self.catalog

    def add(self, *scopes: Scope, **more: Any) -> str:
        key, written = ApiKey.new(KeyRequest(name="k", scopes=list(scopes) or [Scope.SEARCH], **more))
        self.catalog.add_key(key)
        return written


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Guarded]:
    services = Guarded(tmp_path)
    yield services
    services.catalog.close()


def app_of(services: FakeServices, **settings: Any) -> FastAPI:
    return create_app(services, settings=ServeSettings(**settings), token=TOKEN)


def client_of(app: FastAPI, base: str = "http://127.0.0.1:7860") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url=base)


@pytest.fixture
async def http(services: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    app = app_of(services, auth=AuthSettings(keys=True))
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    return answer.json()


# -- keys ----------------------------------------------------------------------------------------------------------------------


async def test_a_key_opens_what_its_scopes_say(http: httpx.AsyncClient, services: Guarded) -> None:
    key = services.add(Scope.SEARCH)
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer  {key}"}, {"X-API-Key": key}):
        assert (await http.post("/v1/search", json=SEARCH, headers=headers)).status_code == 200
    headers = {"X-API-Key": key}
    told = problem(await http.post("/v1/tags", json={"image_ids": [KNOWN_ID], "text": "x"}, headers=headers), 403, "forbidden")
    assert told["scope"] == "feedback"
    problem(await http.post("/v1/internal/sync", json={}, headers=headers), 403, "forbidden")
    problem(await http.get("/v1/keys", headers=headers), 403, "forbidden")
    problem(await http.get("/metrics", headers=headers), 403, "forbidden")
    admin = {"X-API-Key": services.add(Scope.ADMIN)}
    assert (await http.get("/metrics", headers=admin)).status_code == 200
    assert (await http.get("/v1/keys", headers=admin)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer lodestone_0000000000000000_" + "A" * 43},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic bG9kZXN0b25lOnNlY3JldA=="},
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
        {"X-API-Key": "lodestone_short"},
        {"X-API-Key": "' OR 1=1 --"},
        {"X-API-Key": "x" * 10_000},
        {"X-Lodestone-Token": "guess"},
    ],
)
async def test_whoever_is_not_named_is_told_how_and_nothing_else(
    http: httpx.AsyncClient, services: Guarded, headers: dict[str, str]
) -> None:
    for method, path in (("POST", "/v1/search"), ("GET", "/v1/status"), ("GET", "/metrics"), ("GET", "/v1/nothing")):
        answer = await http.request(method, path, headers=headers, **({"json": SEARCH} if method == "POST" else {}))
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert services.asked == []


async def test_a_key_is_refused_in_parts_altered_expired_and_twice(http: httpx.AsyncClient, services: Guarded) -> None:
    key = services.add()
    other = "A" if key[-1] != "A" else "B"
    for wrong in (key[:-1] + other, key[:-1], key + "x", key.upper(), key.replace("lodestone_", "")):
        problem(await http.get("/v1/status", headers={"X-API-Key": wrong}), 401, "unauthorized")
    both = {"X-API-Key": key, "Authorization": f"Bearer {key}"}
    problem(await http.get("/v1/status", headers=both), 401, "unauthorized")
    twice = [("X-API-Key", key), ("X-API-Key", key)]
    problem(await http.get("/v1/status", headers=twice), 400, "bad_request")
    soon = services.add(expires_at=datetime.now(UTC) + timedelta(seconds=0.2))
    await asyncio.sleep(0.25)
    assert "expired" in problem(await http.get("/v1/status", headers={"X-API-Key": soon}), 401, "unauthorized")["detail"]


async def test_a_revoked_key_ends_within_five_seconds_and_a_rotated_one_after_its_overlap(
    http: httpx.AsyncClient, services: Guarded
) -> None:
    admin = {"X-API-Key": services.add(Scope.ADMIN)}
    made = (await http.post("/v1/keys", json={"name": "app", "scopes": ["search"]}, headers=admin)).json()
    old = {"X-API-Key": made["secret"]}
    assert (await http.get("/v1/status", headers=old)).status_code == 200
    key_id = made["key"]["key_id"]
    rotated = (await http.post(f"/v1/keys/{key_id}/rotate", json={"overlap_s": 60}, headers=admin)).json()
    new = {"X-API-Key": rotated["secret"]}
    for headers in (old, new):
        assert (await http.get("/v1/status", headers=headers)).status_code == 200
    assert (await http.delete(f"/v1/keys/{key_id}", headers=admin)).json()["revoked_at"]
    async with asyncio.timeout(5):
        while (await http.get("/v1/status", headers=old)).status_code != 401:
            await asyncio.sleep(0.1)
    assert (await http.get("/v1/status", headers=new)).status_code == 200
    listed = (await http.get("/v1/keys", headers=admin)).text
    assert made["secret"] not in listed
    assert rotated["secret"] not in listed


async def test_last_use_is_written_behind_the_requests(tmp_path: Path) -> None:
    services = Guarded(tmp_path)
    app = app_of(services, auth=AuthSettings(keys=True))
    written = services.add()
    async with app.router.lifespan_context(app), client_of(app) as http:
        await http.get("/v1/status", headers={"X-API-Key": written})
        assert services.catalog.keys()[0].last_used_at is None
    assert services.catalog.keys()[0].last_used_at is not None


async def test_many_unknown_keys_cost_one_lookup_each_and_no_memory_without_end(
    http: httpx.AsyncClient, services: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodestone.access import key_cache

    monkeypatch.setattr(key_cache, "MOST_HELD", 5)
    asked: list[str] = []
    real = services.catalog.key
    monkeypatch.setattr(services.catalog, "key", lambda key_id: asked.append(key_id) or real(key_id))
    guesses = [f"lodestone_{number:016x}_{'A' * 43}" for number in range(20)]
    answers = await asyncio.gather(*(http.get("/v1/status", headers={"X-API-Key": one}) for one in [*guesses, *guesses]))
    assert {one.status_code for one in answers} == {401}
    assert len(asked) <= 40
    for _ in range(10):
        await http.get("/v1/status", headers={"X-API-Key": guesses[-1]})
    assert len(asked) <= 41


async def test_probes_need_no_key_and_tell_no_counts(http: httpx.AsyncClient, services: Guarded) -> None:
    pod = {"Host": "10.1.2.3:8000"}
    assert (await http.get("/healthz", headers=pod)).status_code == 200
    ready = await http.get("/readyz", headers=pod)
    assert (ready.status_code, ready.json()["images"]) == (200, 0)
    problem(await http.get("/v1/status", headers=pod), 421, "misdirected_request")
    services.ready = False
    assert "the store is gone" not in (await http.get("/readyz")).text
    assert (await http.get("/openapi.json")).status_code == 200


async def test_lodestones_own_commands_need_no_key(http: httpx.AsyncClient) -> None:
    local = {"X-Lodestone-Token": TOKEN}
    assert (await http.get("/v1/status", headers=local)).status_code == 200
    assert (await http.post("/v1/internal/sync", json={}, headers=local)).status_code == 200


async def test_keys_do_not_count_where_only_tokens_are_asked_for(services: Guarded) -> None:
    issuer = {"oidc_issuer": "https://id.example", "oidc_audience": "l"}
    sent = {"X-API-Key": services.add(Scope.SEARCH)}
    async with client_of(app_of(services, auth=AuthSettings(**issuer))) as http:
        told = problem(await http.get("/v1/status", headers=sent), 401, "unauthorized")
        assert (told["detail"], "serve.auth.keys" in told["hint"]) == ("this service takes no API keys", True)
    async with client_of(app_of(services, auth=AuthSettings(keys=True, **issuer))) as http:
        assert (await http.get("/v1/status", headers=sent)).status_code == 200


async def test_the_stream_of_a_local_command_is_not_read_without_its_token(services: Guarded) -> None:
    local = {"X-Lodestone-Token": TOKEN}
    async with client_of(app_of(services)) as http:
        assert (await http.post("/v1/search/stream", json=SEARCH, headers=local)).status_code == 200
        problem(await http.get("/v1/search/stream/q1"), 404, "not_found")
        assert (await http.get("/v1/search/stream/q1", headers=local)).status_code == 200


async def test_who_sent_no_key_is_told_so_in_plain_words(services: Guarded) -> None:
    async with client_of(app_of(services)) as http:
        told = problem(await http.post("/v1/internal/sync", json={}), 401, "unauthorized")
    assert told["detail"] == "this needs the scope 'index', and the request came without a key or token"
    assert "serve.auth.keys" in told["hint"]


async def test_keys_are_made_only_as_they_can_be_kept(http: httpx.AsyncClient, services: Guarded) -> None:
    admin = {"X-API-Key": services.add(Scope.ADMIN)}
    for body in (
        {"name": " "},
        {"name": "a\nb"},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["admin"], "corpora": ["a"]},
        {"name": "x", "corpora": []},
        {"name": "x", "corpora": [str(one) for one in range(101)]},
        {"name": "x", "rate": "fast"},
        {"name": "x", "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "x", "expires_at": "2999-01-01T00:00:00"},
    ):
        problem(await http.post("/v1/keys", json=body, headers=admin), 422, "invalid_request")
    misspelt = {"name": "x", "corpora": ["a", "b"]}
    services.catalog.ensure_corpus("a")
    told = problem(await http.post("/v1/keys", json=misspelt, headers=admin), 404, "unknown_name")
    assert (told["name"], told["known"]) == ("b", ["a"])
    problem(await http.delete("/v1/keys/nope", headers=admin), 404, "not_found")
    problem(await http.post("/v1/keys/nope/rotate", json={}, headers=admin), 404, "not_found")
    assert len(services.catalog.keys()) == 1


async def test_a_catalog_that_fails_lets_nobody_in(http: httpx.AsyncClient, services: Guarded, monkeypatch) -> None:
    from lodestone.errors import CatalogError

    def broken(_: str) -> None:
        raise CatalogError("the catalog is gone")

    monkeypatch.setattr(services.catalog, "key", broken)
    answer = await http.post("/v1/search", json=SEARCH, headers={"X-API-Key": f"lodestone_{'0' * 16}_{'A' * 43}"})
    problem(answer, 503, "catalog_failed")
    assert services.asked == []


# -- where it may be bound -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "192.168.1.5"},
        {"host": "example.org"},
        {"host": "0.0.0.0", "public_hosts": ["a.example"]},
        {"host": "0.0.0.0", "auth": {"keys": True}},
        {"public_hosts": ["*"]},
        {"cors_origins": ["*"]},
        {"cors_origins": ["photos.example.org"]},
        {"cors_origins": ["https://photos.example.org/"]},
        {"cors_origins": ["https://["]},
        {"cors_origins": ["null"]},
        {"auth": {"oidc_issuer": "https://id.example"}},
    ],
)
def test_a_service_that_others_could_reach_unasked_does_not_start(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        create_app(FakeServices(tmp_path), settings=ServeSettings.model_validate(settings), token=TOKEN)
    assert caught.value.hint


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "0.0.0.0", "auth": {"keys": True}, "public_hosts": ["a.example"]},
        {"host": "0.0.0.0", "auth": {"oidc_issuer": "https://id.example", "oidc_audience": "l"}, "public_hosts": ["*"]},
        {"cors_origins": [ORIGIN]},
    ],
)
def test_a_service_that_asks_or_stays_at_home_starts(settings: dict[str, Any]) -> None:
    assert checked_exposure(ServeSettings.model_validate(settings))


# -- hosts, origins, headers ---------------------------------------------------------------------------------------------------


async def test_public_names_are_answered_and_no_others(services: Guarded) -> None:
    async with client_of(app_of(services, public_hosts=["Photos.example.org"])) as http:
        for host in ("photos.example.org", "PHOTOS.EXAMPLE.ORG:443", "127.0.0.1"):
            assert (await http.get("/v1/status", headers={"Host": host})).status_code == 200
        others = ("evil.example", "photos.example.org.evil.example", "photos.example.org@evil.example", "a b", "[::1")
        for host in (*others, "evil.example@127.0.0.1", "127.0.0.1/evil.example", "127.0.0.1#", "127.0.0.1?a"):
            problem(await http.get("/v1/status", headers={"Host": host}), 421, "misdirected_request")


async def test_pages_of_named_origins_may_ask_and_read(services: Guarded) -> None:
    async with client_of(app_of(services, cors_origins=[ORIGIN])) as http:
        cross = {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
        asked = {
            **cross,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        preflight = await http.options("/v1/search", headers=asked)
        assert preflight.status_code == 200, preflight.text
        assert preflight.headers["access-control-allow-origin"] == ORIGIN
        assert "access-control-allow-credentials" not in preflight.headers
        answer = await http.post("/v1/search", json=SEARCH, headers=cross)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
        evil = {**cross, "Origin": "https://evil.example"}
        for refused in (
            await http.post("/v1/search", json=SEARCH, headers=evil),
            await http.options("/v1/search", headers=evil),
        ):
            problem(refused, 403, "forbidden")
            assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    ("path", "dest", "allowed"),
    [
        ("/", "document", True),
        ("/v1/status", "document", True),
        ("/v1/status", "iframe", False),
        ("/v1/search?q=a", "document", False),
        (f"/v1/images/{KNOWN_ID}/similar", "document", False),
    ],
)
async def test_a_link_of_another_site_may_show_something_and_not_make_the_service_work(
    services: Guarded, path: str, dest: str, allowed: bool
) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": dest}
    async with client_of(app_of(services)) as http:
        answer = await http.get(path, headers=link)
        own = await http.get(path, headers={**link, "Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, own.status_code) == (200 if allowed else 403, 200)


WORKING = [
    ("GET", "/v1/search?q=dots"),
    ("GET", f"/v1/images/{KNOWN_ID}/similar"),
    ("GET", f"/v1/images/{KNOWN_ID}/tags"),
    ("POST", "/v1/search"),
    ("POST", "/v1/search/stream"),
    ("DELETE", "/v1/corpora/photos"),
    ("GET", "/v1/status"),
    ("GET", "/v1/queries"),
]


@pytest.mark.parametrize(("method", "path"), WORKING)
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "Same-Site"},
        {"Sec-Fetch-Site": "something new"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
    ],
)
async def test_a_page_on_another_port_of_this_host_makes_the_service_do_nothing(
    services: Guarded, method: str, path: str, headers: dict[str, str]
) -> None:
    async with client_of(app_of(services)) as http:
        problem(await http.request(method, path, headers=headers, json=SEARCH if method == "POST" else None), 403, "forbidden")
    assert services.asked == []


async def test_a_link_from_another_port_shows_a_page_and_runs_no_query(services: Guarded) -> None:
    link = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with client_of(app_of(services)) as http:
        assert (await http.get("/", headers=link)).status_code == 200
        problem(await http.get("/v1/search?q=dots", headers=link), 403, "forbidden")
    assert services.asked == []


@pytest.mark.parametrize(
    "purpose", [{"Sec-Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}]
)
async def test_what_another_page_has_the_browser_load_ahead_runs_no_query(services: Guarded, purpose: dict[str, str]) -> None:
    ahead = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", **purpose}
    async with client_of(app_of(services)) as http:
        for path in ("/v1/search?q=dots", f"/v1/images/{KNOWN_ID}/similar"):
            problem(await http.get(path, headers=ahead), 403, "forbidden")
        assert services.asked == []
        assert (await http.get("/", headers=ahead)).status_code == 200
        assert (await http.get("/v1/search?q=dots", headers={**ahead, "Sec-Fetch-Site": "same-origin"})).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/images/browse"), ("POST", "/v1/feedback"), ("DELETE", "/v1/session")]
)
async def test_a_form_that_another_page_sends_is_no_link(services: Guarded, site: str, method: str, path: str) -> None:
    form = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with client_of(app_of(services)) as http:
        problem(await http.request(method, path, headers=form, json={}), 403, "forbidden")


async def test_a_browser_that_names_no_site_is_known_by_its_referer(services: Guarded) -> None:
    async with client_of(app_of(services)) as http:
        own = str(http.base_url)
        others = ("http://127.0.0.1:9999/page", "https://elsewhere.example/")
        for referer, expected in [*((other, 403) for other in others), (own, 200), ("", 200)]:
            answer = await http.get("/v1/search?q=dots", headers={"Referer": referer})
            assert answer.status_code == expected, referer
        assert (await http.get("/v1/status", headers={"Referer": "https://elsewhere.example/"})).status_code == 200


async def test_programs_that_send_none_of_these_headers_are_answered(services: Guarded) -> None:
    async with client_of(app_of(services)) as http:
        assert (await http.get("/v1/search?q=dots")).status_code == 200
        assert (await http.post("/v1/search", json=SEARCH)).status_code == 200
        typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await http.get("/v1/search?q=dots", headers=typed)).status_code == 200


async def test_without_a_name_in_the_settings_no_origin_is_let_in(services: Guarded) -> None:
    async with client_of(app_of(services)) as http:
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
        answer = await http.options("/v1/search", headers=asked)
        assert "access-control-allow-origin" not in answer.headers
        problem(await http.post("/v1/search", json=SEARCH, headers={"Origin": ORIGIN}), 403, "forbidden")


@pytest.mark.parametrize("path", ["/v1/status", "/healthz", "/v1/nothing", "/openapi.json", "/v1/corpora?limit=0", "/metrics"])
async def test_every_answer_may_run_nothing_be_framed_nowhere_and_be_kept_by_nobody(services: Guarded, path: str) -> None:
    async with client_of(app_of(services)) as http:
        headers = (await http.get(path)).headers
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers
        assert "server" not in headers


async def test_refusals_and_failures_carry_the_same_headers(services: Guarded) -> None:
    async with client_of(app_of(services)) as http:
        services.fail = ValueError("a defect")
        broken = await http.post("/v1/search", json=SEARCH)
        foreign = await http.get("/healthz", headers={"Host": "evil.example"})
        assert (broken.status_code, foreign.status_code) == (500, 421)
        for answer in (broken, foreign):
            assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


async def test_pictures_cannot_run_and_tls_is_remembered(services: Guarded) -> None:
    async with client_of(app_of(services), "https://127.0.0.1") as http:
        picture = await http.get(f"/v1/images/{KNOWN_ID}/content")
        assert "sandbox" in picture.headers["content-security-policy"]
        assert "max-age" in picture.headers["strict-transport-security"]


# -- over a real connection ----------------------------------------------------------------------------------------------------


@pytest.fixture
def port(services: Guarded) -> Iterator[int]:
    server = uvicorn.Server(uvicorn.Config(app_of(services), host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(30)


def exchange(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        told = b""
        while chunk := connection.recv(65_536):
            told += chunk
    return told


def request(*lines: str, body: str = "") -> bytes:
    return ("\r\n".join(["POST /v1/search HTTP/1.1", "Host: 127.0.0.1", *lines]) + "\r\n\r\n" + body).encode()


SMUGGLED = "GET /v1/internal HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        request(
            "Content-Type: application/json", "Content-Length: 5", "Transfer-Encoding: chunked", body=f"0\r\n\r\n{SMUGGLED}"
        ),
        request("Content-Type: application/json", "Content-Length: 5", "Content-Length: 90", body=SMUGGLED),
        request("Content-Type: application/json", "Transfer-Encoding: xchunked", body=f"0\r\n\r\n{SMUGGLED}"),
        request("Content-Type: application/json", "Transfer-Encoding: chunked, identity", body=f"0\r\n\r\n{SMUGGLED}"),
        request("Content-Type: application/json", "Content-Length: -5", body=SMUGGLED),
        request("Content-Type: application/json", "Content-Length: +5", body=SMUGGLED),
        request("Host: evil.example", "Content-Type: application/json", "Content-Length: 2", body="{}"),
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(port: int, services: Guarded, sent: bytes) -> None:
    told = exchange(port, sent)
    assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421")), told[:300]
    assert services.asked == []
    assert b"HTTP/1.1 200" not in told


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a%0d%0aX-Evil:%201", "a\nX-Evil: 1", "a\x00b", "é"])
def test_no_header_of_an_answer_is_made_by_what_was_sent(port: int, value: str) -> None:
    lines = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-ID: {value}\r\nConnection: close\r\n\r\n"
    told = exchange(port, lines.encode())
    head = told.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nx-evil:" not in head
