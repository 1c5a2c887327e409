"""Nothing is lost silently of texts that are longer than the service takes.

The page and its files are the real service's. Where answers matter, they are made up in the browser's network layer.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.browser import PHONE, inaccessible, page_of, until
from tests.support.page_answers import image_id
from tests.support.search_page import answered, empty_site, finished, made_up_page, shared_browser, stocked  # noqa: F401 - fixtures
from tests.support.served import Served

WORDS = "two dogs running in the snow "
LONG = WORDS * 345  # 10,005 characters, of which the last is a space


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
def test_words_that_are_too_long_stay_are_counted_and_can_be_shortened(
    browser: Any, site: Served, device: dict[str, Any]
) -> None:
    with page_of(browser, site.address.url, **device) as page:
        asked = answered(page)
        stocked(page)
        page.goto("/")
        box = page.get_by_role("combobox")
        box.fill(LONG)
        page.keyboard.press("Enter")
        note = page.locator("#words-limit")
        note.get_by_text("10,004 characters are 9,004 more than can be sent. Nothing is cut off.").wait_for()
        assert box.input_value() == LONG
        assert box.get_attribute("aria-invalid") == "true"
        assert inaccessible(page) == []
        page.get_by_role("switch", name="Words only").click()
        page.wait_for_timeout(200)
        assert asked == []
        page.get_by_role("button", name="Keep the first 1,000").click()
        kept = box.input_value()
        assert LONG.startswith(f"{kept} "), "whole words"
        assert 990 < len(kept) <= 1000
        assert note.inner_text() == ""
        until(page, "document.activeElement.name", "q")
        page.keyboard.press("Enter")
        finished(page)
        assert [(body["query"], body["guides"]) for body in asked] == [(kept, 0)], "the switch was not forgotten"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_characters_are_counted_as_the_service_counts_them(page: Any) -> None:
    answered(page)
    page.goto("/")
    told = page.evaluate("""async () => {
      const { beginning, excess } = await import("./web/files/query/limits.js");
      const dogs = "🐕".repeat(1000);
      return [excess(dogs, 1000), excess(`${dogs}🐕`, 1000), excess(` ${dogs} `, 1000), beginning(`${dogs}🐕`, 1000) === dogs,
        beginning("one two three", 7), beginning("one two three", 9), beginning("abcdef", 3)];
    }""")
    assert told == [0, 1, 0, True, "one two", "one two", "abc"]
    page.get_by_role("combobox").fill("🐕" * 1000)
    page.keyboard.press("Enter")
    finished(page)


def test_an_address_with_too_many_words_is_refused_with_a_reason(page: Any) -> None:
    page.goto("/?q=" + "a" * 1100)
    page.get_by_role("heading", name="This could not be answered").wait_for()
    page.locator("#words-limit").get_by_text("1,100 characters are 100 more than can be sent.").wait_for()
    assert page.get_by_role("combobox").input_value() == "a" * 1100


@pytest.mark.nightly
@pytest.mark.slow
def test_other_fields_count_too(page: Any) -> None:
    asked = answered(page)
    page.goto("/?q=dogs")
    finished(page)
    without = page.get_by_label("What the picture should not show")
    without.fill(LONG)
    page.keyboard.press("Enter")
    page.locator("#without-limit").get_by_text("9,004 more than can be sent").wait_for()
    assert without.input_value() == LONG
    assert inaccessible(page) == []
    page.locator("#without-limit").get_by_role("button").click()
    assert 0 < len(without.input_value()) <= 1000
    without.fill("")
    page.get_by_role("button", name="Filter", exact=True).click()
    folder = page.get_by_label("Folder inside")
    folder.fill("a/" * 3000)
    page.get_by_role("button", name="Apply").click()
    page.locator("#folder-limit").get_by_text("6,000 characters are 1,904 more").wait_for()
    assert folder.input_value() == "a/" * 3000
    page.keyboard.press("Escape")
    page.locator(".tile .open").first.click()
    but = page.get_by_label("Like this picture, but")
    but.fill(LONG)
    page.keyboard.press("Enter")
    page.locator("#but-limit").get_by_text("9,004 more").wait_for()
    assert but.input_value() == LONG
    tag = page.get_by_label("Tag to add")
    tag.fill("a" * 201)
    page.keyboard.press("Enter")
    page.locator("#tag-limit").get_by_text("201 characters are 1 more").wait_for()
    assert tag.input_value() == "a" * 201
    assert inaccessible(page) == []
    assert len(asked) == 1
    but.fill("x" * 1000)
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.chip').length", 2)
    assert (asked[-1]["query"], asked[-1]["like"]) == ("x" * 1000, [image_id(0)])
