"""Can one see what the engine imagined, and search by it: guides with pictures, and those that a result stands for?

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.browser import chromium, inaccessible, page_of, until
from tests.support.home import settings_for
from tests.support.page_answers import PIXEL, answering, events, guide, hit, image_id, response
from tests.support.served import Served, served_here


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_here(settings_for(tmp_path_factory.mktemp("empty"))) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Any, site: Served) -> Iterator[Any]:
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as made:
        yield made


def answered(page: Any, *guides: dict[str, Any]) -> list[dict[str, Any]]:
    """Show an answer with guides; returns the bodies that were asked."""
    told = response([hit(at) for at in range(4)], stage="guides", guides=list(guides))
    asked = answering(page, events({"type": "done", "response": told}))
    page.goto("/?q=dogs")
    finished(page)
    return asked


def finished(page: Any) -> None:
    page.wait_for_selector("main[aria-busy=false] .tile:not(.loading)")


def test_a_guide_of_the_collection_is_searched_by(page: Any) -> None:
    asked = answered(page, guide("exemplar/0", provenance={"image_id": image_id(7), "caption": "a dog"}))
    page.get_by_role("button", name="Search by exemplar/0: a dog").click()
    until(page, "new URLSearchParams(location.search).get('like')", image_id(7))
    finished(page)
    assert (asked[-1]["like"], asked[-1]["query"]) == ([image_id(7)], "")
    assert page.locator(".chip .label").all_inner_texts() == ["like this"]


def test_a_guide_that_was_drawn_is_sent_as_a_picture(page: Any) -> None:
    answered(page, guide("painter/0", engine="openai", picture="/v1/guides/painter-0", provenance={"prompt": "a dog in oil"}))
    page.route("**/v1/guides/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    page.route("**/v1/search/image", lambda route: route.fulfill(json=response([hit(9)], stage="picture")))
    with page.expect_request("**/v1/search/image"):
        page.get_by_role("button", name="Search by painter/0: a dog in oil").click()
    page.locator(f'[data-id="{image_id(9)}"]').wait_for()
    assert page.locator(".chip").count() == 2, "beside the words"


def test_the_nearest_result_stands_for_a_guide_without_a_picture(page: Any) -> None:
    part = {"guide": "prior/0", "space": "image", "score": 0.5, "weight": 0.1, "part": 0.05}
    ranks = {0: 3, 1: 0, 2: None, 3: 1}
    hits = [
        {"image_id": image_id(at), "rank": at + 1, "score": 1.0, "parts": [{**part, "rank": rank}]}
        for at, rank in ranks.items()
    ]
    told = {"text": "dogs", "parts": [], "guides": [], "hits": hits}
    page.route("**/v1/queries/*", lambda route: route.fulfill(json=told))
    vector: dict[str, Any] = {"engine": "prior", "picture": None, "provenance": {}}
    asked = answered(page, guide("prior/0", **vector), guide("prior/1", **vector))
    guides = page.locator(".guide")
    guides.first.get_by_text("nearest").wait_for()
    assert guides.first.locator("img").get_attribute("src") == f"v1/images/{image_id(1)}/thumbnail"
    assert guides.nth(1).get_by_role("button", name="Search by prior/1").is_disabled(), "no result is near to it"
    assert inaccessible(page) == []
    page.get_by_role("button", name="Search by prior/0: prior: the nearest picture stands for it").click()
    until(page, "new URLSearchParams(location.search).get('like')", image_id(1))
    finished(page)
    assert asked[-1]["like"] == [image_id(1)]


def test_what_was_rejected_says_why_and_is_not_counted(page: Any) -> None:
    answered(page, guide("painter/0"), guide("painter/1", status="rejected"), guide("painter/2", status="dropped"))
    page.get_by_role("heading", name="Imagined 1 of 3 used").wait_for()
    reasons = page.locator(".guide > button:first-child").evaluate_all("(all) => all.map((one) => one.title)")
    assert reasons == ["exemplar", "exemplar. unlike the others, not used", "exemplar. not needed or too late"]
