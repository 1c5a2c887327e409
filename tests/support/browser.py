"""Debian's Chromium under Playwright: pages whose console is watched, and whose accessibility is checked.

Where there is no Chromium, tests that ask for it skip with the reason; with LODESTONE_REQUIRE_CHROMIUM=1 they fail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from benchmarks.harness.chromium import MISSING, browser_program

REQUIRE = "LODESTONE_REQUIRE_CHROMIUM"
NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
WAIT_MS = 120_000
SETTLED_MS = 600
OUTLINE_MS = 20_000
_POLL_MS = 25
ORDER = (
    "[...document.querySelectorAll('.tile')].sort((a, b) => a.dataset.index - b.dataset.index).map((tile) => tile.dataset.id)"
)
"""Ids of the results that are in the page, in their order."""
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
_FADING = """document.getAnimations()
  .filter((moves) => moves.playState === "running" && moves.effect.getComputedTiming().endTime !== Infinity).length"""
_AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; without one the test skips, or fails with LODESTONE_REQUIRE_CHROMIUM=1."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = browser_program()
    if program is None:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but {MISSING}", pytrace=False)
        pytest.skip(MISSING)
    playwright.expect.set_options(timeout=WAIT_MS)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", NO_OTHER_HOST])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Any, url: str, *, expected: tuple[str, ...] = (), **context: Any) -> Iterator[Any]:
    """A page in a window of its own, which must leave no error in the console but those that hold one of `expected`."""
    window = browser.new_context(base_url=url, **context)
    window.set_default_timeout(WAIT_MS)
    page = window.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(f"{error.name}: {error.message}"))
    own = (url, "data:", "blob:")
    # No other host is found (NO_OTHER_HOST), so requests elsewhere fail. To be told of every request, ninety of them when the
    # page is loaded, takes a fifth of a test's processor time.
    page.on("requestfailed", lambda request: None if request.url.startswith(own) else said.append(request.url))
    try:
        yield page
        wrong = [line for line in said if not any(text in line for text in expected)]
        assert wrong == [], wrong
    finally:
        window.close()


def until(page: Any, expression: str, value: Any = True) -> None:
    """Wait until a JavaScript expression has a value.

    `page.wait_for_function` compiles its expression in the page, which the content security policy forbids. Evaluating from
    outside is not under the policy.
    """
    end = time.monotonic() + WAIT_MS / 1000
    while (found := page.evaluate(expression)) != value:
        assert time.monotonic() < end, f"waited in vain for {expression} to be {value!r}; it is {found!r}"
        page.wait_for_timeout(_POLL_MS)


def until_asked(page: Any, asked: Sequence[object], count: int) -> None:
    """Wait until the page has made so many requests, which a route handler notes in `asked`; fail if it makes more.

    A page that follows up an answer with another request is at rest in between: `finished` alone may come too early.
    """
    end = time.monotonic() + WAIT_MS / 1000
    while len(asked) < count:
        assert time.monotonic() < end, f"waited in vain for {count} requests; there were {asked}"
        page.wait_for_timeout(_POLL_MS)
    assert len(asked) == count, asked


def steady(page: Any, expression: str) -> Any:
    """Return the value of a JavaScript expression as soon as two looks in a row find the same."""
    end, before = time.monotonic() + WAIT_MS / 1000, page.evaluate(expression)
    while True:
        page.wait_for_timeout(SETTLED_MS / 2)
        if (found := page.evaluate(expression)) == before:
            return found
        assert time.monotonic() < end, f"{expression} does not come to rest; it is {found!r}"
        before = found


def matches(part: Any, outline: str) -> None:
    """Fail unless a part of the page holds this outline, as assistive technology reads it."""
    from playwright.sync_api import expect

    expect(part).to_match_aria_snapshot(outline, timeout=OUTLINE_MS)


def inaccessible(page: Any) -> list[str]:
    """What axe-core finds wrong with the page as it is, one line for each rule."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.wait_for_timeout(SETTLED_MS)  # what fades in has another contrast on its way
    until(page, _FADING, 0)
    found = axe.run(page, options={"runOnly": {"type": "tag", "values": _AXE_RULES}, "resultTypes": ["violations"]})
    return [
        f"{fault['id']} ({fault['impact']}): " + " | ".join(node["html"][:160] for node in fault["nodes"][:3])
        for fault in found.response["violations"]
    ]
