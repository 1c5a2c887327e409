"""Tests of a service under a path of another site: the page and its sessions work behind a proxy that takes the path away."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.browser import page_of, until
from tests.support.home import settings_for
from tests.support.search_page import TILES, captioned_pictures, search, shared_browser  # noqa: F401 - a fixture
from tests.support.served import served_here

PREFIX = "/pictures"
_OF_A_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@contextmanager
def under_a_path(target: str) -> Iterator[str]:
    """Serve `target` below PREFIX of another address, as nginx does with `proxy_pass http://…/`; anything else is 404."""
    place = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            upstream = http.client.HTTPConnection(place.hostname, place.port)  # type: ignore[arg-type]
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            upstream.request(self.command, self.path.removeprefix(PREFIX), body, headers)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_POST = do_DELETE = do_PATCH = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{PREFIX}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.index import run_index

    folder = tmp_path_factory.mktemp("sub-path")
    captioned_pictures(folder / "pictures", drawn=2)
    settings = settings_for(folder / "home")
    with Runtime.open(settings) as runtime:
        run_index(runtime, [folder / "pictures"], corpus="family")
    with served_here(settings) as served, under_a_path(served.address.url) as url:
        yield url


def test_the_page_finds_shows_and_links_pictures_under_a_path(browser: Any, site: str, tmp_path: Path) -> None:
    with page_of(browser, site) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(site)
        search(page, "a cup of coffee")
        # Pictures come after the tiles, and only those near the screen are loaded at all.
        until(page, "document.querySelector('.grid img').naturalWidth > 0")
        page.locator(f"{TILES} .open").first.click()
        page.get_by_role("dialog").wait_for()
        page.goto(f"{site}manage")
        page.get_by_role("heading").first.wait_for()
        page.goto(f"{site}docs")
        page.wait_for_load_state("networkidle")

    elsewhere = [url for url in asked if url.startswith("http") and not url.startswith(site)]
    assert elsewhere == []
