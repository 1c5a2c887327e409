"""What tests of the search page share: a browser, a service without pictures, a window on it, and the usual first steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import chromium, page_of
from tests.support.home import settings_for
from tests.support.homes import write_pictures
from tests.support.page_answers import answering, events, hit, response
from tests.support.served import Served, served_here

TILES = ".grid .tile:not(.loading)"
TOAST = ".toast"
MOST_ABOVE = 120  # pixels above the first picture on a phone


@pytest.fixture(name="browser", scope="module")
def shared_browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(name="site", scope="module")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without pictures, for tests that make the answers up in the browser's network layer."""
    with served_here(settings_for(tmp_path_factory.mktemp("empty"))) as served:
        yield served


@pytest.fixture(name="page")
def made_up_page(browser: Any, site: Served) -> Iterator[Any]:
    """A window on `site` in which requests may fail."""
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as made:
        yield made


def captioned_pictures(folder: Path, *, drawn: int) -> None:
    """Write drawn pictures and the photos, of which three have captions: these make guides of them."""
    write_pictures(folder, drawn=drawn)
    for name, caption in (
        ("chelsea", "a cat looks at the camera"),
        ("coffee", "a cup of coffee"),
        ("rocket", "a rocket at night"),
    ):
        (folder / f"{name}.txt").write_text(caption)


def answered(page: Any, count: int = 3, **members: Any) -> list[dict[str, Any]]:
    """Answer every search with some pictures; returns the bodies that were asked."""
    return answering(page, events({"type": "done", "response": response([hit(at) for at in range(count)], **members)}))


def stocked(page: Any, *names: str, images: int = 5) -> None:
    """Let the service have collections of some pictures, so that the page does not begin with adding a folder."""
    corpora = [{"name": name, "images": images, "roots": []} for name in names or ("photos",)]
    page.route("**/v1/corpora*", lambda route: route.fulfill(json={"corpora": corpora, "next_cursor": None}))
    page.route("**/v1/images?*", lambda route: route.fulfill(json={"images": [], "next_cursor": None}))


def browsing(page: Any, count: int = 3) -> list[dict[str, Any]]:
    """Answer every listing by date with some pictures; returns the bodies that were asked."""
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(json={"images": [hit(at) for at in range(count)], "next_cursor": None})

    page.route("**/v1/images/browse", answer)
    return asked


def first_picture(page: Any) -> float:
    """Return how many pixels lie above the first picture of a page that is not scrolled."""
    page.evaluate("scrollTo(0, 0)")
    return float(page.locator(".tile").first.bounding_box()["y"])


def long_press(page: Any, target: Any, ms: int = 700, moved: int = 0) -> None:
    """Keep a finger on a part of the page for a while, as a touch screen reports it; it moves up by some pixels first."""
    box = target.bounding_box()
    point = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point})
    if moved:
        there = [{"x": point[0]["x"], "y": point[0]["y"] - moved}]
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": there})
    page.wait_for_timeout(ms)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.detach()


def search(page: Any, words: str) -> None:
    """Ask for words, and wait for the whole answer."""
    page.get_by_role("combobox", name="What the picture shows").fill(words)
    page.keyboard.press("Enter")
    finished(page)


def finished(page: Any) -> None:
    """Wait until the answer is whole, and its first pictures are there."""
    page.wait_for_selector("main[aria-busy=false]")
    page.wait_for_selector(TILES)


def part_labels(page: Any) -> list[str]:
    """Return what the chips of parts and filters say."""
    return list(page.locator(".chips .chip .label").all_inner_texts())
