"""The search page and the API reference show what they should, without anything from elsewhere or inline."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import httpx
import pytest
from tests.support.fake_services import FakeServices

from lodestone.config.serve import ServeSettings
from lodestone_serve.http.application import create_app
from lodestone_serve.routes.browser_pages import ASSETS, CONTENT_SECURITY_POLICY
from lodestone_serve.routes.search_page import web_files

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FOLDER = resources.files("lodestone_serve").joinpath("assets")


class Page(HTMLParser):
    """The addresses that a page names, and what it holds inline."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._within = tag
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        address = given.get("src") or given.get("href")
        if address:
            (self.links if tag == "a" else self.loaded).append(address)

    def handle_data(self, data: str) -> None:
        if self._within in {"script", "style"} and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = ServeSettings.model_validate({"auth": {"keys": True}})
    app = create_app(FakeServices(tmp_path), settings=settings, token="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7860") as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/manage", "/docs"])
async def test_a_page_loads_only_what_the_service_has_and_runs_nothing_inline(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path, headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY, "no other site"
    assert answer.headers["x-frame-options"] == "DENY"
    page = Page(answer.text)
    assert page.inline == []
    assert page.loaded
    for address in [*page.loaded, *page.links]:
        found = await http.get(answer.url.join(address), headers=HTML)
        assert found.url.host == "127.0.0.1"
        assert found.status_code == 200, address


async def test_the_first_page_says_what_this_is_as_the_client_likes_it(http: httpx.AsyncClient) -> None:
    page = await http.get("/", headers=HTML)
    assert page.headers["vary"] == "Accept"
    assert (
        "curl &#x27;http://127.0.0.1:7860/v1/search?q=" in page.text or "curl 'http://127.0.0.1:7860/v1/search?q=" in page.text
    )
    assert "{" not in re.sub(r"<style.*?</style>", "", page.text)
    told = (await http.get("/", headers={"Accept": "application/json"})).json()
    assert told["links"]["reference"] == "/docs"
    for accept in ("*/*", "", "text/plain", "image/png"):
        plain = await http.get("/", headers={"Accept": accept})
        assert plain.headers["content-type"] == "text/plain; charset=utf-8"
        assert "/openapi.json" in plain.text
        assert "<" not in plain.text
    assert (await http.head("/")).content == b""


async def test_the_management_page_is_a_page_whatever_the_client_prefers(http: httpx.AsyncClient) -> None:
    for accept in (HTML["Accept"], "*/*", "application/json"):
        page = await http.get("/manage", headers={"Accept": accept})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "{version}" not in page.text
    assert "manage/main.js" in page.text
    assert (await http.post("/manage", headers={"Origin": "http://127.0.0.1:7860"})).status_code in {401, 405}


async def test_what_a_client_writes_as_its_host_is_not_markup(tmp_path: Path) -> None:
    settings = ServeSettings.model_validate({"auth": {"keys": True}, "public_hosts": ["*"]})
    app = create_app(FakeServices(tmp_path), settings=settings, token="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for host in ("<script>alert(1)</script>", "a'b", "{version}", "a b"):
            answer = await client.get("/", headers={**HTML, "Host": host})
            assert answer.status_code == 421 or host not in answer.text
            assert answer.headers["content-type"] == "application/problem+json" or answer.status_code == 200
        forwarded = {**HTML, "Host": "photos.example.org", "X-Forwarded-Proto": "https"}
        assert "https://photos.example.org/v1/search" in (await client.get("/", headers=forwarded)).text


async def test_the_document_that_the_reference_shows_names_no_page(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert not {"/", "/docs"} & set(paths)
    assert {"get", "post"} <= set(paths["/v1/search"])
    summaries = {method: told["summary"] for method, told in paths["/v1/search"].items()}
    assert summaries == {
        "get": "Find pictures by the words q",
        "post": "Find pictures by words, or by words and pictures together",
    }


@pytest.mark.parametrize("name", ASSETS)
async def test_a_file_is_served_small_and_once(http: httpx.AsyncClient, name: str) -> None:
    content = FOLDER.joinpath(*ASSETS[name].place.split("/")).read_bytes()
    plain = await http.get(f"/docs/assets/{name}", headers={"Accept-Encoding": "identity"})
    assert plain.content == content
    assert plain.headers["content-type"] == ASSETS[name].media_type
    assert "max-age" in plain.headers["cache-control"]
    async with http.stream("GET", f"/docs/assets/{name}", headers={"Accept-Encoding": "br, gzip"}) as packed:
        raw = b"".join([chunk async for chunk in packed.aiter_raw()])
        if "content-encoding" in packed.headers:
            assert len(raw) < len(content) / 2
            raw = gzip.decompress(raw)
        assert raw == content
    known = await http.get(f"/docs/assets/{name}", headers={"If-None-Match": plain.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "SOURCES.md", "reference.html", "..%2Fpolicy.py", "swagger-ui%2FLICENSE"])
async def test_no_other_file_is_served(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.get(f"/docs/assets/{name}")
    assert (answer.status_code, answer.json()["code"]) in {(404, "not_found"), (401, "unauthorized")}


@pytest.mark.parametrize("asset", [asset for asset in ASSETS.values() if asset.sha256], ids=lambda asset: asset.place)
def test_files_of_others_are_as_they_were_published(asset: object) -> None:
    place, digest = asset.place, asset.sha256  # type: ignore[attr-defined]
    assert hashlib.sha256(FOLDER.joinpath(*place.split("/")).read_bytes()).hexdigest() == digest
    assert (FOLDER / "swagger-ui" / "LICENSE").is_file()


async def test_every_file_of_the_search_page_is_served_and_asked_for_again(http: httpx.AsyncClient) -> None:
    assert {"main.js", "vendor/preact.js", "vendor/LICENSES", "styles/base.css"} <= set(web_files())
    for name, file in web_files().items():
        plain = await http.get(f"/web/files/{name}", headers={"Accept-Encoding": "identity"})
        assert (plain.status_code, plain.content, plain.headers["content-type"]) == (200, file.content, file.media_type)
        assert plain.headers["cache-control"] == "no-cache", "modules of two versions must not meet"
        assert (await http.get(f"/web/files/{name}")).content == file.content, "compressed"
        known = await http.get(f"/web/files/{name}", headers={"If-None-Match": plain.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "index.html", "__init__.py", "vendor/SOURCES.md", "..%2F__init__.py", "vendor"])
async def test_no_other_file_of_the_search_page_is_served(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.get(f"/web/files/{name}")
    assert (answer.status_code, answer.json()["code"]) in {(404, "not_found"), (401, "unauthorized")}


def test_the_page_imports_its_own_files_alone_and_is_small() -> None:
    imported = re.compile(r"""(?:(?:^|;)\s*(?:import|export)\b[^;"'=()]*|\bimport\()["']([^"']+)["']""", re.MULTILINE)
    files = web_files()
    assert len(imported.findall(files["views/app.js"].content.decode())) > 8
    for name, file in files.items():
        if name.endswith(".js"):
            for address in imported.findall(file.content.decode()):
                assert address.startswith("."), f"{name} imports {address}: import maps are inline scripts"
                assert posixpath.normpath(posixpath.join(posixpath.dirname(name), address)) in files, (name, address)
            assert "vendor/" in name or len(file.content.splitlines()) < 300, name
    later = "engine/zip.js"
    assert f'import("../{later}")' in files["query/export.js"].content.decode()
    others = ("assets/", "manage/", "manage.", "styles/manage", later)
    first = [file for name, file in files.items() if not name.endswith("LICENSES") and not name.startswith(others)]
    assert sum(len(file.packed) for file in first) < 100_000, "assets are loaded when they are needed, and the other page apart"


def test_the_outline_of_the_world_is_as_it_was_published() -> None:
    outline = resources.files("lodestone_web").joinpath("assets").joinpath("land-110m.json").read_bytes()
    notice = Path(__file__).parents[4].joinpath("NOTICE.md").read_text("utf-8")
    assert hashlib.sha256(outline).hexdigest() in notice


def test_libraries_of_the_search_page_are_as_their_table_says() -> None:
    folder = resources.files("lodestone_web").joinpath("vendor")
    told = dict(re.findall(r"^([0-9a-f]{64})  (\S+)$", folder.joinpath("SOURCES.md").read_text("utf-8"), re.MULTILINE))
    found = {hashlib.sha256(file.read_bytes()).hexdigest(): file.name for file in folder.iterdir() if file.name.endswith(".js")}
    assert found == told
