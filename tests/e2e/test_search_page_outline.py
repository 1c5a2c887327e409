"""Outlines of the search page as assistive technology reads them: names, roles and order of what is on it.

A change here is a change for people who do not see the page. An outline lists what must be there, in its order; more may be
there besides. The answers are made up, so that every line is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.browser import matches, page_of
from tests.support.page_answers import answering, events, hit, response
from tests.support.search_page import empty_site, search, shared_browser, stocked  # noqa: F401 - fixtures
from tests.support.served import Served

GUIDE = {"guide_id": "drawn:0", "engine": "drawn", "status": "used", "weight": 0.6, "provenance": {"prompt": "a dog"}}
ANSWER = response(
    [hit(0, captions=["a dog in the snow"]), hit(1)],
    stage="guides",
    guides=[
        {**GUIDE, "picture": "/v1/images/1/thumbnail"},
        {**GUIDE, "guide_id": "drawn:1", "status": "rejected", "picture": "/v1/images/2/thumbnail"},
    ],
    parts=[{"name": "words", "weight": 0.4}, {"name": "picture", "weight": 0.6}],
)


@pytest.fixture
def page(browser: Any, site: Served) -> Iterator[Any]:
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as made:
        answering(made, events({"type": "done", "response": ANSWER}))
        stocked(made)
        made.goto("/")
        yield made


def refused(page: Any, status: int, detail: str) -> None:
    told = json.dumps({"status": status, "code": "x", "detail": detail, "hint": "look there"})
    answered = {"status": status, "content_type": "application/problem+json", "body": told}
    page.route("**/v1/search/stream", lambda route: route.fulfill(**answered))


def test_the_beginning_has_a_search_and_examples(page: Any) -> None:
    outline = """
- link "Skip to the results"
- banner:
  - link "Lodestone"
  - search:
    - combobox "What the picture shows"
    - button "Add a picture"
    - button "Search"
    - switch "Words only"
  - navigation "Page":
    - link "API"
    - button /Theme/
- main:
  - heading "Find pictures by what you mean" [level=1]
  - list "Examples":
    - listitem:
      - button "two dogs running in the snow"
"""
    matches(page.locator("body"), outline)


def test_results_are_a_list_below_what_was_imagined(page: Any) -> None:
    search(page, "dogs")
    outline = """
- main:
  - heading "Pictures that were found" [level=1]
  - region "Parts of the query":
    - textbox "What the picture should not show"
  - paragraph: /2 pictures by words and guides/
  - region "What the engine imagined":
    - heading /Imagined 1 of 2 used/ [level=2]
    - list:
      - listitem:
        - button /drawn:0/
      - listitem:
        - button /unlike the others, not used/
  - list "Results":
    - listitem:
      - 'button "Open 1: a dog in the snow"'
      - 'button "Right: a dog in the snow"'
      - 'button "Wrong: a dog in the snow"'
    - listitem:
      - 'button "Open 2: 1.jpg"'
"""
    matches(page.locator("main"), outline)
    assert page.get_by_role("status").filter(has_text="2 pictures for “dogs”.").count() == 1, "what screen readers say"


def test_a_large_picture_is_a_dialog_with_what_can_be_done(page: Any) -> None:
    search(page, "dogs")
    page.locator(".tile .open").first.click()
    outline = """
- dialog "Picture":
  - group "Zoom":
    - button "Zoom out" [disabled]
    - button "Fit the picture" [disabled]
    - button "Zoom in"
  - button "Previous picture" [disabled]
  - button "Next picture"
  - complementary:
    - heading "1 of 2" [level=2]
    - button "Close"
    - paragraph: a dog in the snow
    - button "Similar"
    - button "Add to query"
    - button "Less like this"
    - button "Search a region"
    - link "Original"
    - link "Download"
    - textbox "Like this picture, but"
    - paragraph:
      - 'button "Right: a dog in the snow"'
    - group:
      - text: About this picture
    - group: /Why is it here/
"""
    matches(page.get_by_role("dialog", name="Picture"), outline)


def test_a_region_is_drawn_in_a_dialog_that_says_where_it_is(page: Any) -> None:
    search(page, "dogs")
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Search a region").click()
    page.locator(".region .box").wait_for()
    outline = """
- dialog "Search a region":
  - heading "Search a region" [level=2]
  - button "Close"
  - img "The picture"
  - group "Region of the picture"
  - paragraph: /Arrow keys move it/
  - status: From 25 % left and 25 % top, 50 % wide and 50 % high
  - button "Search this region"
"""
    matches(page.get_by_role("dialog", name="Search a region"), outline)


def test_parts_have_weights_that_can_be_named_and_removed(page: Any) -> None:
    search(page, "dogs")
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Add to query").click()
    page.wait_for_selector(".chip .share")
    outline = """
- region "Parts of the query":
  - navigation "Steps of this search":
    - button "Undo"
    - list:
      - listitem:
        - button "“dogs”"
      - listitem: /like a picture/
  - list:
    - listitem:
      - slider "Weight of words"
      - 'button "Remove words: dogs"'
    - listitem:
      - slider "Weight of picture"
      - button /Remove picture/
"""
    matches(page.get_by_role("region", name="Parts of the query"), outline)


def test_nothing_errors_and_keys_say_what_to_do(page: Any) -> None:
    page.unroute("**/v1/search/stream")
    answering(page, events({"type": "done", "response": response([])}))
    page.get_by_role("combobox").fill("dogs")
    page.keyboard.press("Enter")
    matches(page.locator("main"), '- status:\n  - heading "No pictures" [level=2]\n  - paragraph: /Nothing was found/')
    for status, detail in ((500, "it broke"), (401, "no key")):
        page.unroute("**/v1/search/stream")
        refused(page, status, detail)
        page.get_by_role("button", name="Search", exact=True).click()
        if status == 500:
            outline = """
- alert:
  - heading "This could not be answered" [level=2]
  - paragraph: it broke
  - paragraph:
    - button "Try again"
"""
            matches(page.locator("main"), outline)
    outline = """
- main:
  - heading "This service asks for a key" [level=1]
  - textbox "API key or token"
  - button "Open"
"""
    matches(page.locator("main"), outline)
