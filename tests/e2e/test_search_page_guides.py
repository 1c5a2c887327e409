"""The page shows what the engine imagined and searches by it: guides with pictures, and those that a result stands for.

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.browser import inaccessible, until
from tests.support.page_answers import PIXEL, guide, hit, image_id, response
from tests.support.search_page import answered, empty_site, finished, made_up_page, shared_browser  # noqa: F401 - fixtures


def guided(page: Any, *guides: dict[str, Any]) -> list[dict[str, Any]]:
    """Show an answer with guides; returns the bodies that were asked."""
    asked = answered(page, 4, stage="guides", guides=list(guides))
    page.goto("/?q=dogs")
    finished(page)
    return asked


def test_a_guide_of_the_collection_is_searched_by(page: Any) -> None:
    asked = guided(page, guide("exemplar/0", provenance={"image_id": image_id(7), "caption": "a dog"}))
    page.get_by_role("button", name="Search by exemplar/0: a dog").click()
    until(page, "new URLSearchParams(location.search).get('like')", image_id(7))
    finished(page)
    assert (asked[-1]["like"], asked[-1]["query"]) == ([image_id(7)], "")
    assert page.locator(".chip .label").all_inner_texts() == ["like this"]


def test_a_guide_that_was_drawn_is_sent_as_a_picture(page: Any) -> None:
    guided(page, guide("painter/0", engine="openai", picture="/v1/guides/painter-0", provenance={"prompt": "a dog in oil"}))
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
    asked = guided(page, guide("prior/0", **vector), guide("prior/1", **vector))
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
    statuses = ("used", "rejected", "dropped")
    guided(page, *(guide(f"painter/{at}", engine="openai", status=status) for at, status in enumerate(statuses)))
    page.get_by_role("heading", name="Imagined 1 of 3 used").wait_for()
    reasons = page.locator(".guide > button:first-child").evaluate_all("(all) => all.map((one) => one.title)")
    assert reasons == ["openai", "openai. unlike the others, not used", "openai. not needed or too late"]


@pytest.mark.nightly_beyond(2)
@pytest.mark.parametrize(
    ("guides", "title"),
    [
        ([guide("painter/0", engine="openai")], "Imagined"),
        ([guide("exemplar/0")], "From your pictures"),
        ([guide("mine/0", engine="mine", provenance={"image_id": image_id(7), "caption": "a dog"})], "From your pictures"),
        ([guide("exemplar/0"), guide("painter/0", engine="openai")], "Imagined, and from your pictures"),
    ],
)
def test_the_strip_says_whether_guides_were_drawn_or_are_pictures_of_ones_own(
    page: Any, guides: list[dict[str, Any]], title: str
) -> None:
    guided(page, *guides)
    assert page.locator(".strip h2").inner_text().splitlines()[0] == title
    assert page.get_by_role("region", name="Your pictures that guide the search", exact=True).count() == (
        title == "From your pictures"
    )
    assert page.get_by_role("button", name="Draw again").count() == ("Imagined" in title)
