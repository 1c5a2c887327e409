"""Large pictures, copies, uploads, notes and touch work as visitors of the search page expect.

The page and its files are the real service's. Most answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.support.browser import PHONE, inaccessible, matches, page_of, steady, until
from tests.support.page_answers import PIXEL, answering, events, guide, hit, image_id, response
from tests.support.search_page import (  # noqa: F401 - fixtures
    MOST_ABOVE,
    answered,
    browsing,
    empty_site,
    finished,
    first_picture,
    long_press,
    made_up_page,
    shared_browser,
    stocked,
)
from tests.support.served import Served

SMALL_PHONE: dict[str, Any] = {**PHONE, "viewport": {"width": 360, "height": 640}}
LARGE = "document.querySelector('dialog.lightbox').open"
GERMAN = (
    "the text encoder 'minilm' speaks English; this looks like German, so expect poor results. To search in about 100 "
    "languages: pip install -r requirements-multilingual.txt"
)
HEADER_BOTTOM = "document.querySelector('header.top').getBoundingClientRect().bottom"
_SENT_BYTES = "import('./web/files/query/store.js').then((store) => store.asked.value.parts[0].blob.size)"
BELOW_TOAST = """() => {
  const toast = document.querySelector(".toast");
  const box = toast.getBoundingClientRect();
  const found = [];
  for (let x = box.left + 2; x < box.right; x += 12) {
    for (let y = box.top + 2; y < box.bottom; y += 6) {
      for (const part of document.elementsFromPoint(x, y)) {
        const needed = part.matches(".tile, .tile *, a, button, input, summary, img") && !toast.contains(part);
        if (needed) found.push(part.outerHTML.slice(0, 80));
      }
    }
  }
  return [...new Set(found)];
}"""


def shown(page: Any, words: str = "dogs", **more: Any) -> None:
    page.goto(f"/?q={words}")
    finished(page)


def test_back_closes_the_large_picture_and_forward_opens_it_again(page: Any) -> None:
    asked = answered(page)
    shown(page)
    page.locator('[data-index="1"] .open').click()
    until(page, LARGE)
    assert page.url.endswith(f"&picture={image_id(1)}")
    page.keyboard.press("ArrowRight")
    until(page, "location.search.slice(-12)", image_id(2)[-12:])
    page.go_back()
    until(page, LARGE, False)
    assert page.url.endswith("/?q=dogs"), "moving on made no entries of its own"
    page.go_forward()
    until(page, LARGE)
    page.get_by_role("heading", name="3 of 3").wait_for()
    assert len(asked) == 1, "the results were there"


@pytest.mark.parametrize("way", ["Escape", "button"])
def test_a_large_picture_that_is_closed_leaves_nothing_to_go_back_to(page: Any, way: str) -> None:
    answered(page)
    stocked(page)
    page.goto("/")
    page.get_by_role("combobox").fill("dogs")
    page.keyboard.press("Enter")
    finished(page)
    page.locator('[data-index="0"] .open').click()
    until(page, LARGE)
    page.keyboard.press("ArrowRight")
    until(page, "location.search.slice(-12)", image_id(1)[-12:])
    if way == "Escape":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("button", name="Close", exact=True).click()
    until(page, "location.search", "?q=dogs")
    assert page.evaluate(LARGE) is False
    page.go_back()
    page.get_by_role("heading", name="Find pictures").wait_for()


def test_the_address_of_a_large_picture_opens_it_and_closing_leaves_its_results(page: Any) -> None:
    answered(page)
    shown(page, f"dogs&picture={image_id(2)}")
    until(page, LARGE)
    page.get_by_role("heading", name="3 of 3").wait_for()
    page.keyboard.press("Escape")
    until(page, "location.search", "?q=dogs")
    assert page.locator(".tile").count() == 3


def test_a_picture_that_is_no_result_is_shown_alone_and_one_that_is_gone_is_said_to_be(page: Any) -> None:
    answered(page)
    stocked(page)
    page.route(f"**/v1/images/{image_id(9)}", lambda route: route.fulfill(json=hit(9)))
    page.goto(f"/?picture={image_id(9)}")
    page.get_by_role("heading", name="One picture").wait_for()
    page.keyboard.press("Escape")
    until(page, "location.search", "")
    page.route("**/v1/images/gone", lambda route: route.fulfill(status=422, json={"detail": "no id"}))
    page.goto("/?picture=gone")
    page.get_by_text("The picture of this address is not here any more.").wait_for()


def test_a_search_from_a_large_picture_goes_back_to_it(page: Any) -> None:
    answered(page)
    shown(page)
    page.locator('[data-index="1"] .open').click()
    page.get_by_role("button", name="Similar").click()
    until(page, LARGE, False)
    finished(page)
    assert "like=" in page.url
    assert "picture=" not in page.url
    page.go_back()
    until(page, LARGE)
    page.get_by_role("heading", name="2 of 3").wait_for()


def test_a_folder_alone_shows_its_pictures_by_date_and_further_ones_follow(page: Any) -> None:
    stocked(page)
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    bodies: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        bodies.append(route.request.post_data_json)
        later = "cursor" in bodies[-1]
        images = [hit(at) for at in (range(3, 5) if later else range(3))]
        route.fulfill(json={"images": images, "next_cursor": None if later else "next"})

    page.route("**/v1/images/browse", answer)
    page.goto("/?folder=2024/summer")
    until(page, "document.querySelectorAll('.tile:not(.loading)').length", 5)
    assert [body["filters"] for body in bodies] == [{"path_prefix": "2024/summer"}] * 2
    assert bodies[1]["cursor"] == "next"
    page.locator(".status").get_by_text("5 pictures, newest first").wait_for()
    assert page.title() == "pictures in the folder 2024/summer – Lodestone"
    page.locator('[data-index="4"] .open').click()
    page.get_by_role("heading", name="5 of 5").wait_for()
    assert page.get_by_text("Why is it here?").count() == 0, "nothing was asked"
    page.go_back()
    until(page, LARGE, False)
    assert inaccessible(page) == []


def test_the_start_page_has_filters(page: Any) -> None:
    stocked(page)
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    bodies = browsing(page)
    page.goto("/")
    page.get_by_role("button", name="Filter").click()
    page.get_by_label("Folder inside").fill("2019")
    page.get_by_role("button", name="Apply").click()
    until(page, "document.querySelectorAll('.tile').length", 3)
    assert page.url.endswith("/?folder=2019")
    assert bodies[0]["filters"] == {"path_prefix": "2019"}
    page.go_back()
    page.get_by_role("heading", name="Find pictures").wait_for()


def test_copies_stand_together_and_can_be_shown(page: Any) -> None:
    told = response([hit(0, copies=2), hit(1), hit(2, copies=1)])
    asked = answering(page, events({"type": "done", "response": told}))
    shown(page)
    assert asked[0]["collapse"] is True
    assert page.locator(".copies").all_inner_texts() == ["×3", "×2"]
    page.get_by_role("button", name="Show 3 copies").click()
    until(page, "location.search", "?q=dogs&copies=1")
    finished(page)
    assert asked[1]["collapse"] is False
    page.get_by_role("button", name="Copies together").click()
    until(page, "location.search", "?q=dogs")
    finished(page)
    page.locator('[data-index="0"] .open').click()
    page.get_by_text("2 copies of it are left out.").wait_for()
    page.get_by_role("button", name="Show all copies").click()
    finished(page)
    assert asked[-1]["collapse"] is False


def refused(page: Any, tmp_path: Path, status: int, code: str) -> None:
    stocked(page)
    problem = {"status": status, "code": code, "detail": "cannot identify image file", "hint": "send a JPEG"}
    page.route("**/v1/search/image", lambda route: route.fulfill(status=status, json=problem))
    (tmp_path / "own.jpg").write_bytes(b"no picture at all")
    page.goto("/")
    page.locator(".searchbox input[type=file]").set_input_files(tmp_path / "own.jpg")


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(
    ("status", "code", "title"),
    [(422, "bad_image", "This picture cannot be read"), (413, "invalid_request", "This picture is too large")],
)
def test_a_refused_picture_has_plain_words_a_placeholder_and_a_button(
    page: Any, tmp_path: Path, status: int, code: str, title: str
) -> None:
    refused(page, tmp_path, status, code)
    page.get_by_role("heading", name=title).wait_for()
    page.locator(".chip .part-picture.broken").wait_for()
    assert not page.get_by_text(code).is_visible(), "codes unfold"
    assert page.get_by_role("button", name="Try again").count() == 0, "the same picture is refused again"
    assert inaccessible(page) == []
    page.unroute("**/v1/search/image")
    told = json.dumps(response([hit(1)], stage="picture"))
    page.route("**/v1/search/image", lambda route: route.fulfill(content_type="application/json", body=told))
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    (tmp_path / "other.svg").write_bytes(PIXEL)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Try another picture").click()
    chooser.value.set_files(tmp_path / "other.svg")
    finished(page)
    assert page.locator(".chip").count() == 1, "it takes the place of the first"


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_picture_that_is_cut_is_sent_as_it_is_and_the_page_says_how_much_of_it_counts(
    page: Any, tmp_path: Path, kind: str
) -> None:
    stocked(page)
    noisy = np.random.default_rng(3).integers(0, 255, (900, 900, 3), dtype=np.uint8)
    Image.fromarray(noisy).save(tmp_path / f"own.{kind}", quality=95)
    whole = (tmp_path / f"own.{kind}").read_bytes()
    cut = whole[: len(whole) * 3 // 5]
    (tmp_path / f"cut.{kind}").write_bytes(cut)
    note = "the picture that was sent ends early: 61% of it could be decoded, and the answer is for that part; copy it again"
    warnings = [note]

    def answer(route: Any) -> None:
        told = response([hit(1)], stage="picture", warnings=warnings)
        route.fulfill(content_type="application/json", body=json.dumps(told))

    page.route("**/v1/search/image", answer)
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    page.goto("/")
    page.locator(".searchbox input[type=file]").set_input_files(tmp_path / f"cut.{kind}")
    page.get_by_text("A picture of yours is cut short: 61 % of it could be read, and the search is for that part.").wait_for()
    assert page.evaluate(_SENT_BYTES) == len(cut), "as it is: a browser would make a whole picture of what it can show"
    warnings.clear()
    page.goto("/")
    page.locator(".searchbox input[type=file]").set_input_files(tmp_path / f"own.{kind}")
    finished(page)
    assert page.evaluate(_SENT_BYTES) < len(whole), "a whole one is reduced"


def test_words_that_were_asked_with_a_refused_picture_can_be_searched_alone(page: Any, tmp_path: Path) -> None:
    asked = answered(page)
    refused(page, tmp_path, 422, "bad_image")
    page.get_by_role("heading", name="This picture cannot be read").wait_for()
    page.get_by_role("combobox").fill("dogs")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Search by the words alone").click()
    finished(page)
    assert [body["query"] for body in asked] == ["dogs"]


def test_notes_are_in_words_of_visitors_and_those_of_the_service_unfold(page: Any) -> None:
    only = "only files of equal content are shown once: for pictures that look alike, run `lodestone duplicates find` first"
    late = "guides: none of the generators drawn edits pictures"
    told = response([hit(0)], warnings=[GERMAN, only], dropped=[late])
    answering(page, events({"type": "done", "response": told}))
    shown(page)
    status = page.locator(".status")
    status.get_by_text("This looks like German.").wait_for()
    status.get_by_text("A part of the search took too long and was left out.").wait_for()
    seen = status.inner_text()
    assert not any(word in seen for word in ("pip", "encoder", "lodestone", "generators"))
    page.get_by_text("Details").click()
    assert "pip install" in status.inner_text()
    assert "equal content" not in status.inner_text(), "the page always asks so"


def test_the_hint_of_a_picture_says_its_day_and_folder(page: Any) -> None:
    hits = [
        hit(0, taken_at="2024-01-01T07:30:00Z", taken_local="2023-12-31T23:30:00", uri="2023/new year/a.jpg"),
        hit(1, taken_at="2024-01-01T03:00:00Z", utc_offset_minutes=-300),
        hit(2, taken_local="1993-06"),
        hit(3),
    ]
    answering(page, events({"type": "done", "response": response(hits)}))
    shown(page)
    titles = page.evaluate("[...document.querySelectorAll('.tile .open')].map((tile) => tile.title)")
    assert titles == ["December 31, 2023\nr/2023/new year", "December 31, 2023\nr", "June 1993\nr", "r"]


def test_a_camera_is_named_once(page: Any) -> None:
    cameras = [
        ("Canon", "Canon EOS 5D", "Canon EOS 5D"),
        ("NIKON CORPORATION", "NIKON D90", "NIKON D90"),
        ("HUAWEI", "HUAWEI P30", "HUAWEI P30"),
        ("EASTMAN KODAK COMPANY", "KODAK DX4900", "KODAK DX4900"),
        ("OLYMPUS IMAGING CORP.", "E-M10", "OLYMPUS E-M10"),
        ("LG Electronics", "LG-H815", "LG-H815"),
        ("Apple", "iPhone 12", "Apple iPhone 12"),
        ("SONY", "", "SONY"),
        (None, "DSC-H1", "DSC-H1"),
    ]
    page.goto("/")
    told = page.evaluate(
        """async (cameras) => {
          const { cameraName } = await import('/web/files/views/shown.js');
          return cameras.map(([make, model]) => cameraName(make, model));
        }""",
        [[make, model] for make, model, _ in cameras],
    )
    assert told == [name for *_, name in cameras]


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(
    "device",
    [pytest.param(PHONE, id="390", marks=[pytest.mark.nightly, pytest.mark.slow]), pytest.param(SMALL_PHONE, id="360")],
)
def test_pictures_begin_near_the_top_of_a_phone(browser: Any, site: Served, device: dict[str, Any]) -> None:
    answers = {
        "q=dogs": response([hit(0)], guides=[guide("g1"), guide("g2")], next_offset=80),
        "q=dgos": response([hit(0)], confidence=0.04, probably_nothing=True, warnings=[GERMAN], corrected_query="dogs"),
        f"q=dogs&like={image_id(1)}&without=people&folder=2024/summer&corpus=c&since=2024-01-01": response(
            [hit(0, copies=3)], parts=[{"name": name, "weight": 0.3, "kind": name} for name in ("words", "picture", "without")]
        ),
    }
    for query, told in answers.items():
        with page_of(browser, site.address.url, **device) as page:
            answering(page, events({"type": "done", "response": told}))
            page.goto(f"/?{query}")
            finished(page)
            assert first_picture(page) <= MOST_ABOVE, query
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), query
            left = page.locator(".asked").evaluate("(line) => line.firstElementChild.getBoundingClientRect().left + scrollX")
            assert left >= 0, "nothing is cut at the left edge"
            assert inaccessible(page) == []


def test_what_is_folded_on_a_phone_unfolds(browser: Any, site: Served) -> None:
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone) as page:
        told = response([hit(0)], guides=[guide("g1"), guide("g2")], warnings=[GERMAN])
        answering(page, events({"type": "done", "response": told}))
        shown(page)
        page.get_by_role("button", name="Note", exact=True).click()
        page.get_by_text("This looks like German.").wait_for()
        page.keyboard.press("Escape")
        page.get_by_text("This looks like German.").wait_for(state="detached")
        page.get_by_role("button", name="From your pictures (2)").click()
        page.wait_for_selector(".strip .guide")
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("link", name="Manage").wait_for()
        page.get_by_role("button", name="Filter").scroll_into_view_if_needed()
        page.get_by_role("button", name="Filter").click()
        panel = page.locator("#filter-panel")
        box = panel.bounding_box()
        assert (box["x"], round(box["x"] + box["width"])) == (0, 390)
        assert inaccessible(page) == []


def test_a_long_press_selects_and_a_scroll_does_not(browser: Any, site: Served) -> None:
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone, expected=("Failed to load resource",)) as page:
        answered(page, 6)
        shown(page)
        selection = page.get_by_role("region", name="Selection")
        long_press(page, page.locator('[data-index="1"] .open'), ms=150)
        until(page, LARGE)
        assert selection.count() == 0, "a short press opens"
        page.go_back()
        until(page, LARGE, False)
        long_press(page, page.locator('[data-index="1"] .open'), moved=40)
        assert selection.count() == 0, "a finger that moves scrolls"
        long_press(page, page.locator('[data-index="1"] .open'))
        selection.get_by_text("1 selected").wait_for()
        assert page.evaluate(LARGE) is False
        page.locator('[data-index="2"] .open').tap()
        selection.get_by_text("2 selected").wait_for()
        page.locator('[data-index="1"] .open').tap()
        selection.get_by_text("1 selected").wait_for()
        selection.get_by_role("button", name="Clear").click()
        page.locator('[data-index="2"] .open').tap()
        until(page, LARGE)


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("moved", [9, 11])
def test_a_finger_that_trembles_presses_and_one_that_goes_further_does_not(browser: Any, site: Served, moved: int) -> None:
    # By made-up events: a browser reports no movement so small where the page could scroll, and ends the touch where it does.
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone, expected=("Failed to load resource",)) as page:
        answered(page)
        shown(page)
        page.locator('[data-index="1"] .open').evaluate(
            """(button, moved) => [["pointerdown", 200], ["pointermove", 200 - moved]].forEach(([type, clientY]) =>
              button.dispatchEvent(
                new PointerEvent(type, { bubbles: true, pointerType: "touch", isPrimary: true, clientX: 100, clientY })))""",
            moved,
        )
        selection = page.get_by_role("region", name="Selection")
        if moved < 10:
            selection.get_by_text("1 selected").wait_for()
        else:
            page.wait_for_timeout(700)
            assert selection.count() == 0


def test_a_small_picture_is_not_blown_up(page: Any) -> None:
    told = response([hit(0, width=40, height=30), hit(1, width=4000, height=3000)])
    answering(page, events({"type": "done", "response": told}))
    page.route("**/v1/images/*/content", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    shown(page)
    tile = page.locator('[data-index="0"] img').bounding_box()
    assert (tile["width"], tile["height"]) == (80, 60)
    page.locator('[data-index="0"] .open').click()
    page.wait_for_selector(".stage img.whole:visible")
    large = page.locator(".stage img.whole").bounding_box()
    assert (large["width"], large["height"]) == (80, 60)
    page.get_by_role("button", name="Search a region").click()
    page.wait_for_selector(".region .box")
    assert page.locator(".region .picture").bounding_box()["width"] <= 80
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".stage img.whole:visible")
    assert page.locator(".stage img.whole").bounding_box()["width"] > 500, "large ones fill the frame"


@pytest.mark.parametrize(("scopes", "count"), [(["search"], 0), (["search", "feedback"], 1)])
def test_thumbs_are_for_keys_that_may_judge(page: Any, scopes: list[str], count: int) -> None:
    answered(page, 1)
    page.route("**/v1/access", lambda route: route.fulfill(json={"scopes": scopes, "paths": False, "compositions": []}))
    shown(page)
    assert page.locator(".tile .thumbs").count() == count
    page.locator(".tile .open").click()
    page.wait_for_selector(".facts .tagged")
    assert page.locator(".judge .thumbs").count() == count


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(
    "device",
    [
        pytest.param({}, id="desktop"),
        pytest.param(PHONE, id="390", marks=[pytest.mark.nightly, pytest.mark.slow]),
        pytest.param(SMALL_PHONE, id="360"),
    ],
)
def test_a_toast_covers_nothing(browser: Any, site: Served, device: dict[str, Any]) -> None:
    with page_of(browser, site.address.url, **device, expected=("Failed to load resource",)) as page:
        answered(page, 40)
        page.route("**/v1/feedback", lambda route: route.fulfill(status=500, json={"detail": "no", "hint": "later " * 30}))
        shown(page)
        for scrolled in (0, 900):
            page.evaluate(f"scrollTo(0, {scrolled})")
            tile = page.locator(".tile").nth(4)
            name = tile.get_attribute("data-id")
            below = f"document.querySelector('[data-id=\"{name}\"]').getBoundingClientRect().top - {HEADER_BOTTOM}"
            before = steady(page, below)
            tile.locator(".thumbs button").first.evaluate("(thumb) => thumb.click()")
            page.wait_for_selector(".toast")
            if scrolled == 0:
                until(page, BELOW_TOAST, [])
            moved = steady(page, below) - before
            assert abs(moved) <= 1, "what was seen below the header still is"
            page.locator(".toast").get_by_role("button", name="Hide this").click()
        page.evaluate("scrollTo(0, 0)")
        page.locator(".tile .open").first.evaluate("(tile) => tile.click()")
        page.get_by_role("dialog").get_by_role("button", name="Right: 0.jpg").click()
        page.wait_for_selector("dialog .toast")
        until(page, BELOW_TOAST, [])
        steady(page, "document.querySelector('dialog .toast').getBoundingClientRect().bottom")
        toast = page.locator("dialog .toast").bounding_box()
        assert toast["y"] + toast["height"] <= page.evaluate("innerHeight") + 1, "it is seen whole"


def test_an_empty_home_begins_with_adding_a_folder(page: Any) -> None:
    page.goto("/")
    page.get_by_role("heading", name="Add a folder").wait_for()
    assert page.locator("h1").count() == 1
    page.get_by_role("link", name="Add a folder").click()
    page.get_by_label("Folder on the service's machine").wait_for()


def test_whoever_may_index_adds_the_first_folder_in_place(page: Any) -> None:
    corpora: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    jobs = [{"job_id": "j", "state": "running", "done": 3, "total": 8, "error": ""}]
    scopes = ["search", "feedback", "index"]
    page.route("**/v1/access", lambda route: route.fulfill(json={"scopes": scopes, "paths": True, "compositions": []}))
    page.route("**/v1/corpora*", lambda route: route.fulfill(json={"corpora": corpora, "next_cursor": None}))
    page.route("**/v1/images?*", lambda route: route.fulfill(json={"images": [], "next_cursor": None}))
    page.route("**/v1/jobs", lambda route: route.fulfill(json={"jobs": jobs}))

    def add(route: Any) -> None:
        sent.append(route.request.post_data_json)
        if sent[-1]["path"] == "/nowhere":
            route.fulfill(status=422, json={"detail": "there is no folder '/nowhere'", "hint": "name one that exists"})
        else:
            route.fulfill(json={"directory": {"name": "Pictures"}, "job": {"job_id": "j"}})

    page.route("**/v1/directories", add)
    page.goto("/")
    field = page.get_by_label("Folder", exact=True)
    field.fill("/nowhere")
    page.keyboard.press("Enter")
    page.get_by_text("there is no folder '/nowhere' – name one that exists").wait_for()
    assert field.input_value() == "/nowhere", "what was written stays"
    field.fill("/home/ada/Pictures")
    page.keyboard.press("Enter")
    page.get_by_text("Indexing: 3 of 8 (37 %)").wait_for()
    matches(page.locator("main"), '- heading "Add a folder" [level=1]')
    assert inaccessible(page) == []
    corpora.append({"name": "default", "images": 8, "roots": []})
    page.get_by_role("heading", name="Find pictures").wait_for()
    assert [body["path"] for body in sent] == ["/nowhere", "/home/ada/Pictures"]


def indexing(page: Any, done: int) -> list[dict[str, Any]]:
    """Let an index run go on, until what is returned is cleared."""
    runs = [{"kind": "verify", "progress": None}, {"kind": "index", "progress": {"done": done, "total": 1557}}]

    def answer(route: Any) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        found = [run for run in runs if asked["state"] == ["running"] and run["kind"] in asked.get("kind", [run["kind"]])]
        route.fulfill(json={"runs": found[: int(asked["limit"][0])], "next_cursor": None})

    page.route("**/v1/runs?*", answer)
    return runs


def test_a_question_before_the_first_pictures_are_indexed_says_how_far_it_is_and_can_be_asked_again(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([])}))
    runs = indexing(page, 0)
    page.goto("/?q=dogs")
    page.get_by_text("Pictures are being indexed: 0 of 1,557. Not all can be found yet.").wait_for()
    assert page.get_by_role("link", name="Begin with a folder").count() == 0, "somebody has begun"
    assert inaccessible(page) == []
    page.unroute("**/v1/search/stream")
    answered(page)
    stocked(page)
    runs[1]["progress"] = {"done": 40, "total": 1557}
    page.get_by_role("button", name="Search again").click()
    finished(page)
    page.locator(".status").get_by_text("Pictures are being indexed: 40 of 1,557. Not all can be found yet.").wait_for()
    runs.clear()
    until(page, "document.querySelector('.status').textContent.includes('indexed')", False)


def test_an_empty_home_says_how_far_its_first_pictures_are_and_shows_them_when_they_come(page: Any) -> None:
    indexing(page, 12)
    page.goto("/")
    page.get_by_text("There are no pictures here yet. Pictures are being indexed: 12 of 1,557.").wait_for()
    stocked(page)
    page.get_by_role("heading", name="Find pictures").wait_for()
