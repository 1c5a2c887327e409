"""The window that tests open on a page tells of requests to other hosts, which the page must not make."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.support.browser import page_of
from tests.support.search_page import shared_browser  # noqa: F401 - a fixture

SITE = "http://127.0.0.1:9"
LOADING = "Failed to load resource"


@pytest.mark.parametrize("host", ["pictures.example", "192.0.2.1", "[2001:db8::1]"])
def test_a_request_elsewhere_is_told(browser: Any, host: str) -> None:
    with pytest.raises(AssertionError, match=r"/a\.png"), page_of(browser, SITE, expected=(LOADING,)) as page:
        page.goto(f'data:text/html,<img src="http://{host}/a.png">')


class Answers(BaseHTTPRequestHandler):
    """Answers every request with the page of its class."""

    page = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def answering(host: str, page: str) -> Iterator[str]:
    """A server that answers with a page, as long as the block runs; yields its address."""
    handler = type("Answer", (Answers,), {"page": page})
    with ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}"
        server.shutdown()


def test_a_request_elsewhere_is_told_even_if_somebody_would_answer(browser: Any) -> None:
    with (
        answering("127.0.0.2", "") as elsewhere,
        answering("127.0.0.1", f'<iframe src="{elsewhere}/"></iframe>') as site,
        pytest.raises(AssertionError, match=elsewhere),
        page_of(browser, site, expected=(LOADING,)) as page,
    ):
        page.goto("/")


def test_what_the_page_holds_itself_is_no_request_elsewhere(browser: Any) -> None:
    with page_of(browser, SITE) as page:
        page.goto("data:text/html,<img src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='>")
