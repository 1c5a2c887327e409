"""Tags of a picture are shown beside it with what left them, and are added and removed where the key allows it.

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

from typing import Any

from tests.support.browser import PHONE, inaccessible, matches, page_of, until
from tests.support.page_answers import image_id
from tests.support.search_page import answered, empty_site, finished, made_up_page, shared_browser  # noqa: F401 - fixtures
from tests.support.served import Served

PROBLEM = {"status": 503, "code": "overloaded", "detail": "the service <b>has too much</b> to do", "hint": "ask later"}
HTML, RIGHT_TO_LEFT, LONG = "<img src=x onerror=alert(1)>", "قطة على السطح", "word" * 50


class Tags:
    """Tags of one picture, as a service keeps them. What is in `refused` is answered with a problem."""

    def __init__(self, page: Any, *given: tuple[str, str]) -> None:
        self.rows = [self._row(text, source) for text, source in given]
        self.asked: list[str] = []
        self.refused: set[str] = set()
        page.route("**/v1/tags*", self._answer)
        page.route("**/v1/tags/*", self._answer)

    @staticmethod
    def _row(text: str, source: str) -> dict[str, Any]:
        return {
            "tag_id": f"{source}-{text}", "image_id": image_id(0), "text": text, "source": source, "score": None,
            "query_id": None, "created_at": "2026-01-02T03:04:05Z",
        }  # fmt: skip

    def _answer(self, route: Any) -> None:
        request = route.request
        self.asked.append(request.method)
        if request.method in self.refused:
            route.fulfill(status=503, json=PROBLEM, content_type="application/problem+json")
        elif request.method == "GET":
            assert f"image_id={image_id(0)}" in request.url
            route.fulfill(json={"tags": self.rows, "next_cursor": None})
        elif request.method == "POST":
            assert request.post_data_json["image_ids"] == [image_id(0)]
            added = self._row(" ".join(request.post_data_json["text"].split()), "user")
            self.rows = [added, *(row for row in self.rows if row["tag_id"] != added["tag_id"])]
            route.fulfill(json={"tags": [added]})
        else:
            (gone,) = [row for row in self.rows if request.url.endswith(row["tag_id"].replace(" ", "%20"))]
            self.rows = [row for row in self.rows if row is not gone]
            route.fulfill(status=204)


def opened(page: Any, scopes: tuple[str, ...] = ("search", "feedback")) -> None:
    """Show the first of some results."""
    access = {"scopes": scopes, "paths": False, "compositions": ["default"]}
    page.route("**/v1/access", lambda route: route.fulfill(json=access))
    answered(page)
    page.goto("/?q=dogs")
    finished(page)
    page.locator(".tile .open").first.click()


def texts(page: Any) -> list[str]:
    return list(page.locator(".tagged li .text").all_inner_texts())


def test_tags_are_listed_with_all_that_left_them(page: Any) -> None:
    Tags(page, ("a dog", "user"), ("in the snow", "feedback"), ("a dog", "implicit"), ("two dogs", "implicit"))
    opened(page)
    until(page, "document.querySelectorAll('.tagged li').length", 3)
    assert texts(page) == [
        "a dog by hand, by a search",
        "in the snow by a thumbs up",
        "two dogs by a search",
    ]
    outline = """
- region "Tags":
  - heading "Tags" [level=3]
  - list:
    - listitem:
      - text: a dog by hand, by a search
      - button "Remove the tag a dog"
    - listitem
    - listitem
  - textbox "Tag to add"
  - button "Add" [disabled]
"""
    matches(page.get_by_role("region", name="Tags"), outline)
    assert inaccessible(page) == []


def test_names_of_tags_are_text_whatever_is_in_them(browser: Any, site: Served) -> None:
    for device in ({}, PHONE):
        options: dict[str, Any] = device
        with page_of(browser, site.address.url, expected=("Failed to load resource",), **options) as page:
            Tags(page, (HTML, "user"), (RIGHT_TO_LEFT, "feedback"), (LONG, "user"))
            opened(page)
            until(page, "document.querySelectorAll('.tagged li').length", 3)
            names = page.locator(".tagged li bdi")
            assert names.all_inner_texts() == [HTML, RIGHT_TO_LEFT, LONG]
            assert page.locator("img[src=x]").count() == 0
            assert names.nth(1).evaluate("(name) => getComputedStyle(name).direction") == "rtl"
            assert page.locator(".facts").evaluate("(facts) => facts.scrollWidth <= facts.clientWidth"), "it is wrapped"
            for button in page.locator(".tagged li button").all():
                box = button.bounding_box()
                assert box["width"] >= 24
                assert box["x"] + box["width"] <= page.evaluate("innerWidth")


def test_a_tag_is_added_and_removed_with_all_its_sources(page: Any) -> None:
    tags = Tags(page, ("a dog", "user"), ("a dog", "implicit"))
    opened(page)
    field = page.get_by_label("Tag to add")
    field.fill("  our   old dog ")
    field.press("Enter")
    until(page, "[...document.querySelectorAll('.tagged li bdi')].map((name) => name.innerText)", ["our old dog", "a dog"])
    assert field.input_value() == ""
    page.get_by_role("status").filter(has_text="The tag our old dog was added.").wait_for(state="attached")
    page.get_by_role("button", name="Remove the tag a dog").click()
    until(page, "[...document.querySelectorAll('.tagged li bdi')].map((name) => name.innerText)", ["our old dog"])
    assert tags.asked.count("DELETE") == 2
    until(page, "document.activeElement.getAttribute('aria-label')", "Tag to add")
    page.keyboard.press("ArrowRight")
    assert page.locator(".facts h2").inner_text() == "1 of 3", "keys are the field's"
    page.get_by_role("button", name="Remove the tag our old dog").click()
    page.locator(".tagged").get_by_text("None yet.").wait_for()


def test_without_the_right_tags_are_shown_and_cannot_be_changed(page: Any) -> None:
    Tags(page, ("a dog", "user"))
    opened(page, scopes=("search",))
    page.locator(".tagged li").wait_for()
    assert page.locator(".tagged button, .tagged input").count() == 0
    page.locator(".tagged").get_by_text("Your key shows them, and does not change them.").wait_for()
    assert inaccessible(page) == []


def test_what_fails_is_said_and_nothing_that_was_written_is_lost(page: Any) -> None:
    tags = Tags(page, ("a dog", "user"))
    tags.refused = {"GET"}
    opened(page)
    trouble = page.locator(".tagged [role=alert]")
    trouble.get_by_text("the service <b>has too much</b> to do – ask later").wait_for()
    tags.refused = {"POST", "DELETE"}
    trouble.get_by_role("button", name="Try again").click()
    page.locator(".tagged li").wait_for()
    assert trouble.count() == 0
    page.get_by_label("Tag to add").fill("snow")
    page.get_by_role("button", name="Add", exact=True).click()
    trouble.get_by_text("has too much").wait_for()
    until(page, "document.querySelector('.tagged').getAttribute('aria-busy')", "false")
    assert page.get_by_label("Tag to add").input_value() == "snow"
    page.get_by_role("button", name="Remove the tag a dog").click()
    until(page, "document.querySelector('.tagged').getAttribute('aria-busy')", "false")
    trouble.get_by_text("has too much").wait_for()
    assert texts(page) == ["a dog by hand"]
    assert inaccessible(page) == []


def test_a_tag_that_was_removed_elsewhere_goes_here_too(page: Any) -> None:
    tags = Tags(page, ("a dog", "user"))
    opened(page)
    page.locator(".tagged li").wait_for()
    page.route("**/v1/tags/*", lambda route: route.fulfill(status=404, json={"status": 404, "code": "not_found"}))
    tags.rows = []
    page.get_by_role("button", name="Remove the tag a dog").click()
    page.locator(".tagged").get_by_text("None yet.").wait_for()
    assert page.locator(".tagged [role=alert]").count() == 0


def test_a_thumb_shows_the_tag_that_it_left(page: Any) -> None:
    tags = Tags(page)
    opened(page)
    page.locator(".tagged").get_by_text("None yet.").wait_for()
    page.unroute("**/v1/search/stream")
    answered(page, query_id="22222222-2222-4333-8444-555555555555")

    def learn(route: Any) -> None:
        tags.rows = [Tags._row("dogs", "feedback")]
        route.fulfill(json={"applied": True, "before": {}, "after": {}})

    page.route("**/v1/feedback", learn)
    page.get_by_role("dialog").get_by_role("button", name="Right: 0.jpg").click()
    until(page, "[...document.querySelectorAll('.tagged li .text')].map((row) => row.innerText)", ["dogs by a thumbs up"])


def test_a_session_that_ends_asks_for_the_key(page: Any) -> None:
    Tags(page)
    opened(page)
    page.locator(".tagged").get_by_text("None yet.").wait_for()
    page.unroute("**/v1/tags*")
    page.route("**/v1/tags*", lambda route: route.fulfill(status=401, json={"status": 401, "code": "unauthorized"}))
    page.get_by_label("Tag to add").fill("snow")
    page.keyboard.press("Enter")
    page.get_by_label("API key or token").wait_for()
