"""The window that tests open on a page tells of requests to other hosts, which the page must not make."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.browser import page_of
from tests.support.search_page import shared_browser  # noqa: F401 - a fixture

SITE = "http://127.0.0.1:9"


@pytest.mark.parametrize("host", ["pictures.example", "192.0.2.1", "[2001:db8::1]"])
def test_a_request_elsewhere_is_told(browser: Any, host: str) -> None:
    with pytest.raises(AssertionError, match=r"/a\.png"), page_of(browser, SITE, expected=("Failed to load resource",)) as page:
        page.goto(f'data:text/html,<img src="http://{host}/a.png">')


def test_what_the_page_holds_itself_is_no_request_elsewhere(browser: Any) -> None:
    with page_of(browser, SITE) as page:
        page.goto("data:text/html,<img src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='>")
