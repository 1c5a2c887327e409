"""Pictures can be found, composed, refined and judged in a browser, against the real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import PHONE, inaccessible, page_of, until
from tests.support.cutting_proxy import cutting_proxy
from tests.support.home_copies import copy_folder
from tests.support.homes import home_settings, index
from tests.support.photos import COFFEE, photo_path
from tests.support.search_page import TILES, captioned_pictures, finished, search, shared_browser  # noqa: F401 - a fixture
from tests.support.served import Served, served_here

from lodestone.access.keys import ApiKey
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.home.runtime import Runtime
from lodestone_schemas.access import KeyRequest, Scope


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One indexed home, twice."""
    folder = tmp_path_factory.mktemp("search-page")
    captioned_pictures(folder / "pictures", drawn=30)
    index(home_settings(folder / "home"), folder / "pictures")
    copy_folder(folder / "home", folder / "keyed")
    return folder / "home", folder / "keyed"


@pytest.fixture(scope="module")
def site(homes: tuple[Path, Path]) -> Iterator[Served]:
    with served_here(home_settings(homes[0], serve={"upkeep": False})) as served:
        yield served


@pytest.fixture
def page(browser: Any, site: Served) -> Iterator[Any]:
    with page_of(browser, site.address.url) as opened:
        opened.goto("/")
        yield opened


def first(page: Any) -> str:
    """Name of the file of the first result, as the lightbox tells it."""
    page.locator(f"{TILES} .open").first.click()
    name = page.locator(".facts dd").first.inner_text()
    page.keyboard.press("Escape")
    until(page, "document.activeElement.className", "open")
    return str(name)


@pytest.mark.nightly
@pytest.mark.slow
def test_folders_of_a_path_keep_their_order_whatever_direction_their_names_run_in(page: Any) -> None:
    search(page, "a cat looks at the camera")
    page.locator(f"{TILES} .open").first.click()
    file = page.locator(".facts dd").first
    assert len(names := file.inner_text().split("/")) > 1
    assert file.locator("bdi[dir=ltr] > bdi").all_inner_texts() == names, (
        "each name is isolated, and their row runs left to right"
    )


def test_words_find_pictures_that_stream_and_can_be_gone_back_to(page: Any) -> None:
    page.get_by_role("heading", name="Find pictures by what you mean").wait_for()
    search(page, "a cat looks at the camera")
    assert first(page).endswith("chelsea.jpg")
    assert "q=a+cat" in page.url
    assert "ms" in page.locator(".status").inner_text()
    assert page.locator(".strip .guide").count() >= 1, "guides made of the captions"
    page.get_by_role("switch", name="Words only").click()
    page.wait_for_selector(".strip", state="detached")
    finished(page)
    assert "words=1" in page.url
    search(page, "a rocket")
    page.go_back()
    page.go_back()
    page.wait_for_selector(".strip")
    finished(page)
    assert page.get_by_role("combobox").input_value() == "a cat looks at the camera"
    page.reload()
    finished(page)
    page.get_by_role("combobox").fill("a")
    assert page.get_by_role("option").all_inner_texts()[:2] == ["a rocket", "a cat looks at the camera"], "the history"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.searchbox input').value", "a rocket")
    finished(page)


def test_the_keyboard_moves_opens_and_explains(page: Any) -> None:
    search(page, "a cat")
    page.locator(f"{TILES} .open").first.focus()
    page.keyboard.press("ArrowRight")
    until(page, "document.activeElement.closest('[data-index]')?.dataset.index", "1")
    page.keyboard.press("ArrowLeft")
    until(page, "document.activeElement.closest('[data-index]')?.dataset.index", "0")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("^1 of")).wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name=re.compile("^2 of")).wait_for()
    page.wait_for_selector(".whole:not([hidden])")
    page.get_by_text("Why is it here?").click()
    page.wait_for_selector(".why tbody tr")
    shares = [float(text.strip()) for text in page.locator(".why tbody td:last-child").all_inner_texts()]
    assert any(share > 0 for share in shares)
    assert inaccessible(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    assert page.evaluate("document.activeElement.className") == "open", "back where it was opened"


def test_a_picture_and_words_are_composed_weighed_and_undone(page: Any) -> None:
    page.locator("input[type=file]").set_input_files(photo_path(COFFEE))
    finished(page)
    assert page.locator(".chip img").count() == 1
    assert first(page).endswith("coffee.jpg")
    page.get_by_label("What the picture should not show").fill("a cup")
    with page.expect_request("**/v1/search/image"):
        page.keyboard.press("Enter")
    finished(page)
    assert page.locator(".chips .chip .label").all_inner_texts() == ["your picture", "without a cup"]
    share = page.locator(".chip.avoid .share")
    before = int(share.inner_text().removesuffix(" %"))
    with page.expect_request("**/v1/search/image"):
        page.get_by_label("Weight of without").fill("0.1")
    finished(page)
    assert int(share.inner_text().removesuffix(" %")) < before
    for labels in (["your picture", "without a cup"], []):
        page.get_by_role("button", name="Undo").click()
        finished(page)
        assert page.locator(".chips .chip .label").all_inner_texts() == (labels or ["your picture"])
    page.get_by_role("button", name="Remove picture").click()
    page.get_by_role("heading", name="Find pictures by what you mean").wait_for()


def explained(page: Any) -> list[str]:
    """What the panel of the first result compares with. Its shares must sum to its score, and each part has a weight."""
    page.locator(f"{TILES} .open").first.click()
    page.get_by_text("Why is it here?").click()
    page.wait_for_selector(".why tbody tr")
    rows = [[cell.strip() for cell in row] for row in page.evaluate(_CELLS, ".why tbody tr")]
    score = float(page.locator(".why tfoot td").last.inner_text())
    assert sum(float(row[-1]) for row in rows) == pytest.approx(score, abs=0.0006 * (len(rows) + 1))
    assert all(row[-2].endswith(" %") for row in rows if not row[0].endswith(" more"))
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    until(page, "document.activeElement.className", "open")
    return [row[0] for row in rows]


_CELLS = "(rows) => [...document.querySelectorAll(rows)].map((row) => [...row.children].map((cell) => cell.textContent))"


def test_three_steps_of_refinement_are_each_explained_and_undone(page: Any) -> None:
    search(page, "a cat")
    page.locator(f"{TILES} .open").nth(1).click()
    page.get_by_role("button", name="Add to query").click()
    until(page, "document.querySelectorAll('.chips .share').length", 2)
    finished(page)
    assert {"“a cat”", "this picture"} <= set(explained(page))
    page.get_by_label("What the picture should not show").fill("a cup")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.chips .share').length", 3)
    finished(page)
    parts = explained(page)
    assert {"“a cat”", "this picture", "without “a cup”"} <= set(parts)
    before = page.locator(".chips .share").all_inner_texts()
    with page.expect_response("**/v1/search/stream"):
        page.get_by_label("Weight of words").fill("0.9")
    finished(page)
    assert set(explained(page)) == set(parts)
    after = page.locator(".chips .share").all_inner_texts()
    assert int(after[0].removesuffix(" %")) > int(before[0].removesuffix(" %"))
    assert abs(sum(int(share.removesuffix(" %")) for share in after) - 100) <= 1
    told = page.locator(".steps li").all_inner_texts()
    assert [text.strip() for text in told] == ["“a cat”", "like a picture", "without a cup", "other weights"]
    page.locator(".steps button.link").nth(1).click()
    until(page, "document.querySelectorAll('.chips .share').length", 2)
    finished(page)
    assert page.locator(".steps li").count() == 2


def test_weights_steps_and_dragged_results_by_mouse_and_by_keyboard(page: Any) -> None:
    search(page, "a cat")
    page.locator(f"{TILES} .open").nth(2).drag_to(page.get_by_role("combobox"))
    until(page, "document.querySelectorAll('.chips .share').length", 2)
    finished(page)
    slider = page.get_by_label("Weight of picture")
    box = slider.bounding_box()
    with page.expect_request("**/v1/search/stream") as asked:  # it waits for what moves the slider
        slider.click(position={"x": 0.9 * box["width"], "y": box["height"] / 2})
    finished(page)
    assert asked.value.post_data_json["weights"]["picture"] > 0.8
    page.get_by_label("Weight of words").focus()
    with page.expect_request("**/v1/search/stream") as asked:
        page.keyboard.press("Home")
    finished(page)
    assert asked.value.post_data_json["weights"]["words"] == 0
    assert page.locator(".chips .share").first.inner_text() == "0 %"
    assert page.locator(".steps li").count() == 4
    with page.expect_request("**/v1/search/stream") as asked:
        page.keyboard.press("ArrowRight")
    finished(page)
    assert asked.value.post_data_json["weights"]["words"] == 0.05
    assert page.locator(".steps li").count() == 4, "a slider that is moved on is one step"
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.steps li').length", 3)
    finished(page)
    assert page.locator(".chips .share").first.inner_text() != "0 %"
    page.keyboard.press("Space")
    until(page, "document.querySelectorAll('.steps li').length", 2)
    undo.click()
    until(page, "document.querySelectorAll('.steps').length", 0)
    finished(page)
    assert page.locator(".chip").count() == 0


def test_a_stream_that_the_network_cuts_goes_on_where_it_was(browser: Any, site: Served) -> None:
    with cutting_proxy(site.address.url, b"event: results") as proxy, page_of(browser, proxy.url, expected=("ERR_",)) as page:
        taken_up: list[str] = []
        page.on("request", lambda request: taken_up.append(request.headers.get("last-event-id", "")))
        page.goto("/")
        search(page, "a cat looks at the camera")
        assert proxy.cuts == []
        assert [last.rpartition(".")[2].isdigit() for last in taken_up if last] == [True], (
            "asked for once, and not from the start"
        )
        assert page.locator(".strip .guide").count() >= 1
        assert page.locator(".banner").count() == 0


def test_a_result_leads_to_similar_pictures_and_to_others_like_it(page: Any) -> None:
    search(page, "a cat")
    page.locator(f"{TILES} .open").first.click()
    page.get_by_role("button", name="Similar").click()
    page.wait_for_selector("dialog[open]", state="detached")
    finished(page)
    assert "like=" in page.url
    assert page.locator(".chip .label").all_inner_texts() == ["like this"]
    page.locator(f"{TILES} .open").first.click()
    page.get_by_label("Like this picture, but").fill("at night")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.chips .chip').length", 2)
    finished(page)
    assert page.locator(".steps li").count() >= 2


def test_pictures_are_dropped_and_pasted(page: Any) -> None:
    page.get_by_role("heading", name="Find pictures").wait_for()
    give = """async ([kind, address]) => {
      const content = await (await fetch(address)).blob();
      const given = new DataTransfer();
      given.items.add(new File([content], "given.svg.png", { type: "image/png" }));
      if (kind === "drop") dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true }));
      else dispatchEvent(new ClipboardEvent("paste", { clipboardData: given, bubbles: true }));
    }"""
    search(page, "a cat")
    thumbnail = page.locator(".tile img").first.get_attribute("src")
    for count, kind in enumerate(("drop", "paste"), 1):
        page.evaluate(give, [kind, thumbnail])
        until(page, "document.querySelectorAll('.chip img').length", count)
        finished(page)


def test_a_thumb_is_kept_and_the_answer_comes_again(page: Any) -> None:
    search(page, "a cat")
    with page.expect_response("**/v1/feedback") as judged, page.expect_response("**/v1/search/stream"):
        page.locator(TILES).first.hover()
        page.locator(".tile .thumbs button").first.click()
    assert judged.value.status == 200
    finished(page)
    page.wait_for_selector(".tile .thumbs button[aria-pressed=true]")
    page.wait_for_selector(".toast")


AT_NIGHT = (pytest.mark.nightly, pytest.mark.slow)


@pytest.mark.parametrize(
    ("scheme", "device"),
    [
        pytest.param("light", {}, id="desktop-light"),
        pytest.param("dark", PHONE, id="phone-dark"),
        pytest.param("dark", {}, id="desktop-dark", marks=AT_NIGHT),
        pytest.param("light", PHONE, id="phone-light", marks=AT_NIGHT),
    ],
)
def test_the_page_is_accessible_and_fits(browser: Any, site: Served, scheme: str, device: dict[str, Any]) -> None:
    with page_of(browser, site.address.url, color_scheme=scheme, **device) as page:
        page.goto("/")
        page.get_by_role("heading", name="Find pictures").wait_for()
        assert inaccessible(page) == []
        search(page, "a cat looks at the camera")
        page.get_by_label("What the picture should not show").fill("a dog")
        page.keyboard.press("Enter")
        page.wait_for_selector(".chip.avoid .share")
        finished(page)
        assert inaccessible(page) == []
        for steps in (1, 0):  # the panel hangs below the steps at the right, or below the parts
            assert page.locator(".steps").count() == steps
            page.get_by_role("button", name="Filter", exact=True).click()
            panel = page.locator(".panel").bounding_box()
            assert 0 <= panel["x"] < panel["x"] + panel["width"] <= page.evaluate("innerWidth")
            page.keyboard.press("Escape")
            page.goto("/?q=a+cat")
            finished(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off at the side"
        field = page.locator(".field").bounding_box()
        assert field["x"] + field["width"] < page.evaluate("innerWidth") - 5, "it ends before the page does"


def test_where_keys_are_asked_for_one_is_given_once(browser: Any, homes: tuple[Path, Path]) -> None:
    settings = home_settings(homes[1])
    with Runtime.open(settings) as runtime:
        key, written = ApiKey.new(KeyRequest(name="browser", scopes=[Scope.SEARCH, Scope.FEEDBACK], corpora=None))
        runtime.catalog.add_key(key)
    settings = settings.model_copy(update={"serve": ServeSettings(upkeep=False, auth=AuthSettings(keys=True))})
    with served_here(settings) as served, page_of(browser, served.address.url, expected=("401", "ERR_FAILED")) as page:
        page.goto("/?q=a+cat")
        for given in ("lodestone_0_0", written):
            page.get_by_label("API key or token").fill(given)
            page.get_by_role("button", name="Open").click()
            if given != written:
                page.get_by_text("the key is not known").wait_for()
                assert inaccessible(page) == []
        finished(page)
        until(page, "document.querySelector('.tile img').naturalWidth > 0")
        assert page.evaluate("document.cookie") == "", "no script can read it"
        page.reload()
        finished(page)
        page.route("**/v1/session", lambda route: route.abort())
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You are still signed in.").wait_for()
        page.unroute("**/v1/session")
        thumbnail = page.locator(".tile img").first.get_attribute("src")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key or token").wait_for()
        assert page.evaluate("(url) => fetch(url).then((answer) => answer.status)", thumbnail) == 401, "not even a kept one"
        page.reload()
        page.get_by_label("API key or token").wait_for()
