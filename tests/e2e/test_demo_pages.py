"""A whole visit to the search page goes well over the pictures of the demonstration, from the first question to an export."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import PHONE, inaccessible, page_of, until
from tests.support.homes import home_settings
from tests.support.search_page import (  # noqa: F401 - a fixture
    TILES,
    TOAST,
    finished,
    long_press,
    part_labels,
    search,
    shared_browser,
)
from tests.support.served import Served, served_here

from lodestone_cli.demo import pictures as demo_pictures


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demonstration's photos, and a sixth of its named drawings, whose names are their captions."""
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.index import run_index

    folder = tmp_path_factory.mktemp("demonstration")
    all_drawings = demo_pictures._drawings()
    few = [drawing for number, drawing in enumerate(all_drawings) if number % 6 == 0 or "cat" in drawing.name.split()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_pictures, "_drawings", lambda: few)
        pictures = demo_pictures.write_pictures(folder / "pictures")
    settings = home_settings(folder / "home", serve={"upkeep": False})
    with Runtime.open(settings) as runtime:
        run_index(runtime, [pictures.photos], corpus="photos")
        run_index(runtime, [pictures.named], corpus="named", captions=pictures.named_captions)
    with served_here(settings) as served:
        yield served


def first_uri(page: Any) -> str:
    """The path of the first result, which its large picture names."""
    shown = page.locator(TILES).first.get_attribute("data-id")
    found: str = page.request.get(f"/v1/images/{shown}").json()["uri"]
    return found


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
def test_a_visit(browser: Any, demonstration: Served, device: dict[str, Any], tmp_path: Path) -> None:
    words = f"our favourite {'one' if device else 'thing'} of all"
    with page_of(browser, demonstration.address.url, **device) as page:
        page.goto("/")
        page.wait_for_selector(".welcome img")
        assert inaccessible(page) == []

        search(page, "a cat")  # guides are drawings whose names fit
        if device:  # pictures come first on a phone: guides are folded behind a button
            page.get_by_role("button", name=re.compile("^From your pictures")).wait_for()
        else:
            page.get_by_role("region", name="Your pictures that guide the search").wait_for()
        assert inaccessible(page) == []

        page.locator(f"{TILES} .open").nth(3).click()
        dialog = page.get_by_role("dialog")
        shown = page.locator(TILES).nth(3).get_attribute("data-id")
        dialog.get_by_text("Why is it here?").wait_for()
        dialog.get_by_role("textbox", name="Tag to add").fill(words)
        dialog.get_by_role("button", name="Add", exact=True).click()
        dialog.get_by_role("button", name=f"Remove the tag {words}").wait_for()
        assert inaccessible(page) == []
        page.keyboard.press("Escape")

        search(page, words)  # no model sees that: the tag decides
        assert page.locator(TILES).first.get_attribute("data-id") == shown

        search(page, "a cat")
        until(page, f"document.querySelector('{TILES}').dataset.id !== '{shown}'")
        page.locator(f"{TILES} .open").first.click()
        dialog.get_by_role("button", name="Right: ").click()
        dialog.get_by_role("button", name="Undo").click()
        dialog.locator(TOAST).get_by_text("Taken back").wait_for()
        page.keyboard.press("Escape")

        page.get_by_placeholder("but without …").fill("a smile")
        page.keyboard.press("Enter")
        finished(page)
        until(page, "document.querySelectorAll('.chips .chip').length", 2)
        assert part_labels(page) == ["a cat", "without a smile"]
        assert inaccessible(page) == []
        page.get_by_role("button", name="Undo").first.click()
        finished(page)

        if device:
            long_press(page, page.locator('[data-index="0"] .open'))
        else:
            page.locator(".tile .check").first.click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Paths", exact=True).click()
        download.value.save_as(tmp_path / "paths.txt")
        (path,) = (tmp_path / "paths.txt").read_text(encoding="utf-8").splitlines()
        assert Path(path).is_absolute()
        assert Path(path).is_file()
        assert path.endswith(first_uri(page))
