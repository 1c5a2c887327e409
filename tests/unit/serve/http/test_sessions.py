"""A key that was given once opens pictures for the service's own pages, and for nobody else's."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.datastructures import Headers
from tests.support.fake_services import KNOWN_ID, FakeServices

from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import ServeSettings
from lodestone.errors import InvalidRequestError, UnauthorizedError
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_serve.auth.sessions import COOKIE, HOLDS_S, TLS_COOKIE, Sessions, removals, sessions_of
from lodestone_serve.http.application import create_app
from lodestone_serve.policy import TABLE, WRITING_METHODS, RoutePolicy
from lodestone_serve.routes.sessions import sessions_router

URL = "http://127.0.0.1:7860"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
APART = "kept apart for each site"
BESIDE = [(TLS_COOKIE, "/", ""), (TLS_COOKIE, "/", APART), (COOKIE, "/", APART), (COOKIE, "/v1", APART)]
"""Cookies that programs on other ports of loopback can set, because browsers trust it as they trust TLS."""


class WithKeys(FakeServices):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.catalog = Catalog.open(folder / "catalog.sqlite")

    def key_store(self) -> Catalog:
        return self.catalog


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[WithKeys]:
    made = WithKeys(tmp_path)
    yield made
    made.catalog.close()


@pytest.fixture
async def http(services: WithKeys) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(services, settings=ServeSettings.model_validate({"auth": {"keys": True}}), token="a-secret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        yield client


def new_key(services: WithKeys, scope: Scope = Scope.SEARCH) -> str:
    key, written = ApiKey.new(KeyRequest(name="page", scopes=[scope], corpora=None))
    services.catalog.add_key(key)
    return written


async def begun(http: httpx.AsyncClient, key: str) -> str:
    """Give the key once; the value of the cookie that came back."""
    answer = await http.post("/v1/session", headers={**OWN_PAGE, "Authorization": f"Bearer {key}"})
    assert answer.status_code == 204, answer.text
    value = answer.cookies[COOKIE]
    http.cookies.clear()  # each test sends it itself
    return value


async def status(http: httpx.AsyncClient, cookie: str, method: str = "GET", **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"json": {"query": "dogs"}} if method == "POST" else {}
    path = "/v1/search" if method == "POST" else "/v1/status"
    return (await http.request(method, path, headers={"Cookie": cookie, **given}, **body)).status_code


async def test_a_key_given_once_opens_what_pages_ask_for(http: httpx.AsyncClient, services: WithKeys) -> None:
    key = new_key(services)
    cookie = f"{COOKIE}={await begun(http, key)}"
    assert key not in cookie
    assert await status(http, cookie, Sec_Fetch_Site="same-origin") == 200
    assert await status(http, cookie, "POST", Sec_Fetch_Site="same-origin", Origin=URL) == 200
    assert await status(http, cookie) == 200, "of browsers that do not send Sec-Fetch-Site"
    assert await status(http, f"theme=dark; {cookie}") == 200


@pytest.mark.parametrize(
    ("given", "name", "path"),
    [
        ({}, COOKIE, "/v1"),
        ({"X-Forwarded-Proto": "http"}, COOKIE, "/v1"),
        ({"X-Forwarded-Proto": "https"}, TLS_COOKIE, "/"),
        ({"Origin": URL.replace("http:", "https:")}, TLS_COOKIE, "/"),  # behind a proxy that says nothing
    ],
)
async def test_no_script_reads_the_cookie_and_no_other_site_sends_it(
    http: httpx.AsyncClient, services: WithKeys, given: dict[str, str], name: str, path: str
) -> None:
    headers = {"Authorization": f"Bearer {new_key(services)}", **given}
    for method, age in (("POST", HOLDS_S), ("DELETE", 0)):
        lines = (await http.request(method, "/v1/session", headers=headers)).headers.get_list("set-cookie")
        written = lines[-1].lower().split("; ")  # behind those that remove what was planted
        assert written[0].startswith(f"{name.lower()}=")
        assert {"httponly", "samesite=strict", f"path={path}", f"max-age={age}"} <= set(written)
        assert ("secure" in written) is (name == TLS_COOKIE)


async def test_over_tls_nobody_beside_the_service_can_plant_a_session(http: httpx.AsyncClient, services: WithKeys) -> None:
    sealed = await begun(http, new_key(services))
    tls = {"X-Forwarded-Proto": "https", "Sec-Fetch-Site": "same-origin"}
    assert await status(http, f"{TLS_COOKIE}={sealed}", **tls) == 200
    assert await status(http, f"{COOKIE}={sealed}", **tls) == 401
    assert await status(http, f"{COOKIE}=planted; {TLS_COOKIE}={sealed}", **tls) == 200
    assert await status(http, f"{COOKIE}=planted; {TLS_COOKIE}={sealed}", **OWN_PAGE) == 200, "behind a proxy that says nothing"
    assert await status(http, f"{TLS_COOKIE}={sealed}; {TLS_COOKIE}={sealed}", **tls) == 200
    for name, expected in ((TLS_COOKIE, 200), (COOKIE, 401)):  # where the service itself ends TLS
        own = {"Cookie": f"{name}={sealed}", **OWN_PAGE}
        assert (await http.get(URL.replace("http:", "https:") + "/v1/status", headers=own)).status_code == expected


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("GET", {"Sec_Fetch_Site": "same-site"}, 403),
        ("GET", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("GET", {"Origin": "http://127.0.0.1:9999"}, 403),
        ("POST", {}, 401),
        ("POST", {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:9999"}, 403),
    ],
)
async def test_other_pages_cannot_use_a_session(
    http: httpx.AsyncClient, services: WithKeys, method: str, headers: dict[str, str], expected: int
) -> None:
    cookie = f"{COOKIE}={await begun(http, new_key(services))}"
    assert await status(http, cookie, method, **headers) == expected


@pytest.mark.parametrize("row", [row for row in TABLE if row.method in WRITING_METHODS], ids=lambda row: row.name)
async def test_no_other_page_changes_anything_by_a_session_that_may_do_everything(
    http: httpx.AsyncClient, services: WithKeys, row: RoutePolicy
) -> None:
    cookie = f"{COOKIE}={await begun(http, new_key(services, Scope.ADMIN))}"
    path = re.sub(r"\{[^}]+\}", "11111111-2222-4333-8444-555555555555", row.path)
    for headers, expected in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Origin": "http://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),  # another port of this host
        ({}, 401),
    ):
        answer = await http.request(row.method, path, headers={"Cookie": cookie, **headers}, json={})
        assert answer.status_code == expected, (headers, answer.text)
    assert services.removed == []


async def test_a_session_ends_with_its_key_and_where_it_is_forgotten(http: httpx.AsyncClient, services: WithKeys) -> None:
    key = new_key(services)
    value = await begun(http, key)
    services.catalog.revoke_key(key.split("_")[1])
    app = create_app(services, settings=ServeSettings.model_validate({"auth": {"keys": True}}), token="a-secret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as later:  # (keys are held for two seconds)
        assert await status(later, f"{COOKIE}={value}", **OWN_PAGE) == 401
    forgotten = await http.delete("/v1/session", headers={**OWN_PAGE, "Authorization": f"Bearer {new_key(services)}"})
    assert forgotten.status_code == 204
    assert "max-age=0" in forgotten.headers["set-cookie"].lower()


async def test_a_session_is_forgotten_though_its_key_has_used_up_its_rate(http: httpx.AsyncClient, services: WithKeys) -> None:
    key, written = ApiKey.new(KeyRequest(name="page", scopes=[Scope.SEARCH], corpora=None, rate="1/minute"))
    services.catalog.add_key(key)
    own = {**OWN_PAGE, "Origin": URL, "Cookie": f"{COOKIE}={await begun(http, written)}"}
    assert [(await http.get("/v1/status", headers=own)).status_code for _ in range(2)] == [200, 429]
    forgotten = await http.delete("/v1/session", headers=own)
    assert forgotten.status_code == 204, forgotten.text
    assert "max-age=0" in forgotten.headers["set-cookie"].lower()


async def test_a_token_that_browsers_would_not_keep_is_refused() -> None:
    app = FastAPI()
    app.include_router(sessions_router(Sessions("a-secret"), asks=True))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        with pytest.raises(InvalidRequestError, match="4000 characters"):
            await client.post("/v1/session", headers={"Authorization": f"Bearer {'x' * 4_000}"})


async def test_what_the_service_did_not_seal_is_refused(http: httpx.AsyncClient, services: WithKeys) -> None:
    key = new_key(services)
    value = await begun(http, key)
    for other in ("", "x", key, value[:-4] + "AAAA", "%C3%A9", Sessions("another").seal(key), "A" * 20_000):
        assert await status(http, f"{COOKIE}={other}", **OWN_PAGE) == 401, other[:40]
    assert await status(http, f"{COOKIE}={value}; {COOKIE}={value}", **OWN_PAGE) == 200, "both say the same"
    wrong = await http.post("/v1/session", headers={**OWN_PAGE, "Authorization": "Bearer lodestone_0_0"})
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)


class Browser:
    """The cookies of one host, as browsers keep them: by name, path and domain (or APART for each site), and for all ports."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.jar: dict[tuple[str, str, str], str] = {}

    async def send(self, method: str, path: str, **headers: str) -> httpx.Response:
        kept = sorted(self.jar.items(), key=lambda item: -len(item[0][1]))  # the narrowest path first
        sent = [f"{name}={value}" for (name, where, _), value in kept if self._matches(where, path)]
        given = {**OWN_PAGE, **headers, **({"Cookie": "; ".join(sent)} if sent else {})}
        answer = await self.http.request(method, path, headers=given, json={"query": "dogs"} if method == "POST" else None)
        self.http.cookies.clear()
        for line in answer.headers.get_list("set-cookie"):
            (name, _, value), *attributes = (part.strip().partition("=") for part in line.split(";"))
            of = {key.lower(): content for key, _, content in attributes}
            assert "secure" in of or not (name == TLS_COOKIE or "partitioned" in of), "browsers ignore it otherwise"
            key = (name, of["path"], APART if "partitioned" in of else of.get("domain", ""))
            if of.get("max-age") == "0":
                self.jar.pop(key, None)
            else:
                self.jar[key] = value
        return answer

    @staticmethod
    def _matches(where: str, path: str) -> bool:
        return path == where or path.startswith(where if where.endswith("/") else f"{where}/")


@pytest.mark.parametrize("where", ["/", "/v1/", "/v1/status", "/v1/status/"])
async def test_a_cookie_planted_from_another_port_neither_locks_out_nor_stays(
    http: httpx.AsyncClient, services: WithKeys, where: str
) -> None:
    browser = Browser(http)
    key = new_key(services)
    assert (await browser.send("POST", "/v1/session", Authorization=f"Bearer {key}")).status_code == 204
    own = dict(browser.jar)
    assert list(own) == [(COOKIE, "/v1", "")]
    for planted in ("planted", "x" * 4_000, Sessions("another").seal(key)):
        browser.jar[COOKIE, where, ""] = planted
        answer = await browser.send("GET", "/v1/status")
        assert answer.status_code == 200
        if where != "/v1/status/":  # which is not sent to /v1/status
            assert browser.jar == own, "the sound one is kept, and the planted one removed"
    browser.jar.pop((COOKIE, where, ""), None)
    assert "set-cookie" not in (await browser.send("GET", "/v1/status")).headers


@pytest.mark.parametrize("where", ["/", "/v1", "/v1/", "/v1/session"])
async def test_signing_in_works_whatever_was_planted_before(http: httpx.AsyncClient, services: WithKeys, where: str) -> None:
    browser = Browser(http)
    for number in range(20):
        browser.jar[COOKIE, where, ""] = f"planted{number}"
    refused = await browser.send("GET", "/v1/status")
    if where != "/v1/session":
        assert refused.status_code == 401
        assert browser.jar == {}, "nothing of it is sound"
    browser.jar[COOKIE, where, ""] = "planted"
    assert (await browser.send("POST", "/v1/session", Authorization=f"Bearer {new_key(services)}")).status_code == 204
    assert list(browser.jar) == [(COOKIE, "/v1", "")]
    assert (await browser.send("GET", "/v1/status")).status_code == 200


async def test_a_planted_session_of_another_key_signs_nobody_in_with_it(http: httpx.AsyncClient, services: WithKeys) -> None:
    browser = Browser(http)
    await browser.send("POST", "/v1/session", Authorization=f"Bearer {new_key(services)}")
    own = dict(browser.jar)
    browser.jar[COOKIE, "/v1/status", ""] = await begun(http, new_key(services))
    assert (await browser.send("GET", "/v1/status")).status_code == 401
    assert browser.jar == own
    assert (await browser.send("GET", "/v1/status")).status_code == 200


@pytest.mark.parametrize("place", BESIDE)
async def test_cookies_that_need_tls_elsewhere_neither_lock_out_nor_stay(
    http: httpx.AsyncClient, services: WithKeys, place: tuple[str, str, str]
) -> None:
    browser = Browser(http)
    browser.jar[place] = "planted"
    assert (await browser.send("GET", "/v1/status")).status_code == 401
    assert browser.jar == {}
    browser.jar[place] = "planted"
    key = new_key(services)
    assert (await browser.send("POST", "/v1/session", Authorization=f"Bearer {key}")).status_code == 204
    own = dict(browser.jar)
    assert list(own) == [(COOKIE, "/v1", "")]
    for planted, expected in (("planted", 200), (await begun(http, new_key(services)), 401)):
        browser.jar[place] = planted
        assert (await browser.send("GET", "/v1/status")).status_code == expected, "never the session of another key"
        assert browser.jar == own
        assert (await browser.send("GET", "/v1/status")).status_code == 200


async def test_over_tls_a_session_that_is_kept_apart_is_removed(http: httpx.AsyncClient, services: WithKeys) -> None:
    tls = {"X-Forwarded-Proto": "https"}
    browser = Browser(http)
    await browser.send("POST", "/v1/session", Authorization=f"Bearer {new_key(services)}", **tls)
    own = dict(browser.jar)
    assert list(own) == [(TLS_COOKIE, "/", "")]
    browser.jar[TLS_COOKIE, "/", APART] = await begun(http, new_key(services))
    assert (await browser.send("GET", "/v1/status", **tls)).status_code == 401
    assert browser.jar == own
    assert (await browser.send("GET", "/v1/status", **tls)).status_code == 200


def test_a_session_does_not_count_for_what_another_page_has_the_browser_load_ahead() -> None:
    typed = {"host": "photos.example", "cookie": f"{COOKIE}=own", "sec-fetch-site": "none"}
    assert sessions_of(Headers(typed), method="GET") == ("own",)
    assert sessions_of(Headers({**typed, "sec-purpose": "prefetch"}), method="GET") == ()


def test_elsewhere_without_tls_a_proxy_may_have_ended_it() -> None:
    headers = Headers({"host": "photos.example", "cookie": f"{COOKIE}=planted; {TLS_COOKIE}=own", **OWN_PAGE})
    assert sessions_of(headers, method="GET") == ("own",)


async def test_signing_out_forgets_planted_cookies_too(http: httpx.AsyncClient, services: WithKeys) -> None:
    browser = Browser(http)
    await browser.send("POST", "/v1/session", Authorization=f"Bearer {new_key(services)}")
    browser.jar[COOKIE, "/", ""] = "planted"
    assert (await browser.send("DELETE", "/v1/session")).status_code == 204
    assert browser.jar == {}


async def test_a_session_of_a_revoked_key_beside_a_new_one_is_removed(http: httpx.AsyncClient, services: WithKeys) -> None:
    browser = Browser(http)
    old = new_key(services)
    browser.jar[COOKIE, "/", ""] = await begun(http, old)
    services.catalog.revoke_key(old.split("_")[1])
    browser.jar[COOKIE, "/v1", ""] = await begun(http, new_key(services))
    app = create_app(services, settings=ServeSettings.model_validate({"auth": {"keys": True}}), token="a-secret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as later:
        browser.http = later
        assert (await browser.send("GET", "/v1/status")).status_code == 200
    assert list(browser.jar) == [(COOKIE, "/v1", "")]


def test_cookies_of_a_domain_above_are_removed_too() -> None:
    named = removals(Headers({"host": "photos.home.example:7860"}), "/v1/status")
    domains = {part for value in named for part in value.split("; ") if part.startswith("Domain=")}
    assert domains == {"Domain=photos.home.example", "Domain=home.example"}
    assert not any("Domain" in value for value in removals(Headers({"host": "127.0.0.1:7860"}), "/v1/status"))
    assert not any("Domain" in value for value in removals(Headers({"host": "localhost"}), "/v1/status"))
    own = f"{TLS_COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=strict; Secure"
    assert removals(Headers({"host": "a.example"}), "/v1/x", https=True, but_own=True) == [f"{own}; Partitioned"]
    assert removals(Headers({"host": "a.example"}), "/v1/x", https=True) == [own, f"{own}; Partitioned"]


def test_only_so_many_cookies_are_tried() -> None:
    cookie = "; ".join(f"{COOKIE}=v{number}" for number in range(500))
    assert len(sessions_of(Headers({"cookie": cookie}), method="GET")) == 16


async def test_an_old_session_does_not_keep_a_new_key_out(http: httpx.AsyncClient, services: WithKeys) -> None:
    key = new_key(services)
    headers = {**OWN_PAGE, "Authorization": f"Bearer {key}", "Cookie": f"{COOKIE}=stale"}
    assert (await http.post("/v1/session", headers=headers)).status_code == 204


@pytest.mark.parametrize("what", ["thumbnail", "content"])
async def test_a_browser_shows_no_picture_that_it_kept_of_another_session(
    http: httpx.AsyncClient, services: WithKeys, what: str
) -> None:
    headers = {**OWN_PAGE, "Cookie": f"{COOKIE}={await begun(http, new_key(services))}"}
    url = f"/v1/images/{KNOWN_ID}/{what}"
    first = await http.get(url, headers=headers)
    known = await http.get(url, headers={**headers, "If-None-Match": first.headers["etag"]})
    part = await http.get(url, headers={**headers, "Range": "bytes=0-1"})
    assert [answer.status_code for answer in (first, known, part)] == [200, 304, 206]
    for answer in (first, known, part):
        assert "Cookie" in answer.headers["vary"].split(", ")


async def test_where_nobody_is_asked_nothing_is_kept(tmp_path: Path) -> None:
    app = create_app(FakeServices(tmp_path), settings=ServeSettings(), token="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        answer = await client.post("/v1/session", headers=OWN_PAGE)
        assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)
        assert await status(client, "theme=dark", **OWN_PAGE) == 200


def test_a_sealed_key_opens_for_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions("t")
    value = sessions.seal("lodestone_a_b")
    assert Sessions("t").open(value) == "lodestone_a_b", "every replica opens it"
    import time

    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + HOLDS_S + 60)
    with pytest.raises(UnauthorizedError, match="has ended"):
        sessions.open(value)


async def test_a_session_holds_for_a_week_and_no_second_longer(services: WithKeys, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/session", headers={**OWN_PAGE, "Authorization": f"Bearer {new_key(services)}"})
    assert "max-age=604800" in answer.headers["set-cookie"].casefold()
    sessions, now = Sessions("token"), int(time.time())
    for age, opens in ((0, True), (604_790, True), (604_810, False)):
        value = sessions._box().encrypt_at_time(b"a-key", now - age).decode()
        if opens:
            assert sessions.open(value) == "a-key"
        else:
            with pytest.raises(UnauthorizedError):
                sessions.open(value)
