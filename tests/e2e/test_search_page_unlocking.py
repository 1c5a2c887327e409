"""`lodestone serve --open` unlocks the page for its own user without pasting a token, and for nobody else."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import inaccessible, page_of, until
from tests.support.home import settings_for
from tests.support.pictures import write_photos
from tests.support.search_page import shared_browser  # noqa: F401 - a fixture
from tests.support.served import TOKEN, Served, served_here

from lodestone.home.unlocking import offer

LOCKED = "Only this machine's user may do this"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_here(settings_for(tmp_path_factory.mktemp("unlocked"))) as served:
        yield served


def unlocking(site: Served) -> str:
    """The address that the page of a new offer leads to."""
    page = offer(site.services.session.runtime.home, site.address.url)
    found = re.search(r'href="([^"]+)"', page.read_text())
    assert found is not None
    return html.unescape(found.group(1))


def test_the_tab_that_was_opened_is_unlocked_and_no_other(browser: Any, site: Served) -> None:
    with page_of(browser, site.address.url, expected=("401",)) as page:
        page.goto(address := unlocking(site))
        page.get_by_role("heading", name="Add a folder").wait_for()
        until(page, "sessionStorage.getItem('lodestone.pass')?.startsWith('pass.') ?? false")
        assert page.url == f"{site.address.url}/", "the code left the address"
        assert page.evaluate("Object.values(localStorage).concat(document.cookie).join()").find("pass.") < 0
        assert TOKEN not in page.evaluate("Object.values(sessionStorage).join()")
        page.get_by_label("Folder", exact=True).wait_for()
        page.get_by_role("link", name="Manage").first.click()
        page.get_by_role("link", name="Keys").click()
        page.get_by_role("heading", name="No keys").wait_for()
        assert page.get_by_text(LOCKED).count() == 0
        other = page.context.new_page()
        other.goto(f"{site.address.url}/manage#/keys")
        other.get_by_text(LOCKED).wait_for()
        other.goto(f"{site.address.url}/")
        other.goto(address)
        other.reload()
        other.get_by_role("heading", name="Add a folder").wait_for()
        assert other.evaluate("sessionStorage.getItem('lodestone.pass')") is None, "it was used"
        other.close()
        page.get_by_role("button", name="Lock").click()
        page.get_by_text(LOCKED).wait_for()
        assert page.evaluate("sessionStorage.getItem('lodestone.pass')") is None


def test_a_code_that_was_used_is_said_to_be(browser: Any, site: Served) -> None:
    with page_of(browser, site.address.url, expected=("403",)) as page:
        page.goto(f"/#unlock={'a' * 43}")
        page.get_by_text("this code was used before").wait_for()
        assert page.url == f"{site.address.url}/"


def test_an_empty_home_takes_its_first_folder_in_place(browser: Any, site: Served, tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 3)
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as page:
        page.goto(unlocking(site))
        page.get_by_label("Folder", exact=True).fill(str(tmp_path / "nowhere"))
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        assert inaccessible(page) == []
