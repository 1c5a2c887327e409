"""The search page stays usable when answers are empty, huge, hostile, late, broken off or refused.

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import PHONE, inaccessible, page_of, until
from tests.support.page_answers import PIXEL, QUERY, answering, events, hit, image_id, response
from tests.support.search_page import answered, empty_site, long_press, made_up_page, shared_browser, stocked  # noqa: F401 - fixtures
from tests.support.served import Served


def opened(page: Any, words: str = "dogs") -> None:
    page.goto("/")
    page.get_by_role("combobox").fill(words)
    page.keyboard.press("Enter")


def test_an_empty_home_says_what_to_do(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([])}))
    opened(page)
    page.get_by_role("heading", name="No pictures").wait_for()
    assert page.locator(".instead").inner_text().endswith("Begin with a folder"), "no commands for visitors"
    assert inaccessible(page) == []


def test_doubtful_answers_say_so(page: Any) -> None:
    told = response([hit(0)], confidence=0.04, probably_nothing=True, warnings=["slow today"], corrected_query="dogs")
    answering(page, events({"type": "done", "response": told}))
    opened(page, "dgos")
    page.locator(".status").get_by_text("Probably nothing here shows it. The nearest 1 picture").wait_for()
    assert "best" not in page.locator(".status").inner_text()
    assert not page.get_by_text("slow today").is_visible(), "what the service says unfolds"
    page.get_by_text("Details").click()
    page.get_by_text("slow today").wait_for()


def test_what_words_cannot_do_has_a_button_that_does_it(page: Any) -> None:
    notes = [
        {"code": "leave_out_by_option", "phrase": "not a dog", "message": "m", "option": "--without dog", "query": "a cat",
         "without": ["dog"], "taken_from": None, "taken_to": None},
        {"code": "dates_by_filter", "phrase": "from 2019", "message": "m", "option": "o", "query": "a cat, not a dog",
         "without": [], "taken_from": "2019-01-01", "taken_to": "2020-01-01"},
        {"code": "of_tomorrow", "phrase": "p", "message": "A newer service says this", "option": "", "query": "",
         "without": []},
    ]  # fmt: skip
    answering(page, events({"type": "done", "response": response([hit(0)], notes=notes)}))
    opened(page, "a cat, not a dog from 2019")
    page.get_by_text("Words leave nothing out: “not a dog”").wait_for()
    page.get_by_text("A newer service says this.").wait_for()
    with page.expect_request(lambda request: request.method == "POST" and "2019-01-01" in (request.post_data or "")) as asked:
        page.get_by_role("button", name="Only pictures taken since 2019-01-01, before 2020-01-01").click()
    assert '"a cat, not a dog"' in str(asked.value.post_data)
    with page.expect_request(lambda request: request.method == "POST" and "without" in (request.post_data or "")) as asked:
        page.get_by_role("button", name="Leave out dog").click()
    assert '"a cat"' in str(asked.value.post_data) and '"dog"' in str(asked.value.post_data)


def test_ten_thousand_results_keep_few_tiles_in_the_page(page: Any) -> None:
    many = [hit(number, width=300 + number % 7 * 100) for number in range(10_000)]
    answering(page, events({"type": "done", "response": response(many)}))
    opened(page)
    page.wait_for_selector(".tile")
    for share in (0, 0.5, 1):
        page.evaluate("(share) => scrollTo(0, share * document.documentElement.scrollHeight)", share)
        until(page, "document.querySelectorAll('.tile').length > 0")
        page.wait_for_timeout(200)
        assert page.locator(".tile").count() < 150
    page.wait_for_selector('[data-index="9999"]')
    page.locator('[data-index="9999"] .open').focus()
    page.keyboard.press("Home")
    until(page, "document.activeElement.closest('[data-index]')?.dataset.index", "0")


def test_the_layout_fills_rows_and_maps_heights_that_browsers_cannot_scroll(page: Any) -> None:
    page.goto("/")
    told = page.evaluate("""async () => {
      const { between, clamped, justified, TALLEST, vertical } = await import("./web/files/views/layout.js");
      const sizes = [[300, 400], [1200, 800], [90000, 300], [100, 5000]].map(([width, height]) => ({ width, height }));
      const items = Array.from({ length: 500 }, (_, at) => sizes[at % 4]);
      const { boxes, height } = justified(items, { width: 1000, rowHeight: 200, gap: 6 });
      const rows = Object.values(Object.groupBy(boxes, (box) => box.top));
      const heights = rows.slice(0, -1).map((row) => row[0].height);
      const tall = 40_000_000;
      return {
        count: boxes.length,
        height: height === Math.max(...boxes.map((box) => box.top + box.height)),
        filled: rows.slice(0, -1).every((row) => Math.abs(row.at(-1).left + row.at(-1).width - 1000) < 0.01),
        inside: rows.every((row) => row.at(-1).left + row.at(-1).width < 1000.01),
        rowHeights: [Math.min(...heights), Math.max(...heights)],
        seen: between(boxes, 0, 100)[0] === 0 && between(boxes, height + 1, height + 2)[0] === 500,
        top: clamped(tall, 0, 900), bottom: clamped(tall, TALLEST - 900, 900), short: clamped(500, 100, 900),
        down: boxes[vertical(boxes, 0, 1)].top > 0, up: vertical(boxes, vertical(boxes, 0, 1), -1),
        none: justified([], { width: 1000, rowHeight: 200, gap: 6 }),
      };
    }""")
    assert (told["count"], told["height"], told["filled"], told["inside"], told["seen"]) == (500, True, True, True, True)
    assert told["rowHeights"][0] > 100
    assert told["rowHeights"][1] < 420
    assert (told["top"]["shift"], told["short"]) == (0, {"height": 500, "shift": 0})
    assert told["bottom"]["shift"] == 40_000_000 - told["bottom"]["height"], "the last row is where the scroll box ends"
    assert (told["down"], told["up"], told["none"]) == (True, 0, {"boxes": [], "height": 0})


def test_events_are_parsed_however_they_are_cut(page: Any) -> None:
    page.goto("/")
    told = page.evaluate("""async () => {
      const { eventParser } = await import("./web/files/engine/events.js");
      const blocks = [": ping", 'id: q.1\\nevent: plan\\ndata: {"a":\\ndata: 1}', "id: q.2\\nevent: done\\ndata: ü: x"];
      const text = blocks.map((block) => `${block}\\n\\n`).join("");
      return [1, 2, 3, 5, 1000].map((size) => {
        const parse = eventParser();
        const found = [];
        for (let at = 0; at < text.length; at += size) found.push(...parse(text.slice(at, at + size)));
        return JSON.stringify(found);
      });
    }""")
    assert set(told) == {'[{"id":"q.1","type":"plan","data":"{\\"a\\":\\n1}"},{"id":"q.2","type":"done","data":"ü: x"}]'}


def test_a_better_order_moves_tiles_unless_less_motion_is_wished(browser: Any, site: Served) -> None:
    before = [hit(number) for number in range(8)]
    after = [before[7], *before[:7]]
    for wish, moves in (("no-preference", True), ("reduce", False)):
        with page_of(browser, site.address.url, reduced_motion=wish) as page:
            page.add_init_script(
                """const own = Element.prototype.animate;
                window.moved = 0;
                Element.prototype.animate = function (frames, how) {
                  if (frames[0].translate) window.moved += 1;
                  return own.call(this, frames, how);
                };"""
            )
            answering(
                page, events({"type": "results", "response": response(before)}, {"type": "done", "response": response(before)})
            )
            opened(page)
            page.wait_for_selector("main[aria-busy=false] .tile")
            page.wait_for_timeout(300)
            page.unroute("**/v1/search/stream")
            answering(page, events({"type": "done", "response": response(after)}))
            page.get_by_role("button", name="Search", exact=True).click()
            page.wait_for_selector(f'[data-index="0"][data-id="{after[0]["image_id"]}"]')
            if moves:
                until(page, "window.moved > 0")
            else:
                page.wait_for_timeout(300)
                assert page.evaluate("window.moved") == 0


def test_a_stream_that_breaks_off_is_taken_up_again(page: Any) -> None:
    answering(page, events({"type": "results", "response": response([hit(0)])}))
    resumed: list[str] = []

    def resume(route: Any) -> None:
        resumed.append(route.request.headers["last-event-id"])
        route.fulfill(
            content_type="text/event-stream", body=events({"type": "done", "response": response([hit(0), hit(1)])}, first=2)
        )

    page.route(f"**/v1/search/stream/{QUERY}", resume)
    opened(page)
    until(page, "document.querySelectorAll('.tile').length", 2)
    assert resumed == [f"{QUERY}.1"]


def test_a_stream_that_a_service_forgot_is_asked_for_anew(page: Any) -> None:
    asked = answering(page, events({"type": "results", "response": response([hit(0)])}))
    gone = json.dumps({"status": 404, "code": "not_found", "detail": "no such stream"})

    def forgot(route: Any) -> None:
        page.unroute("**/v1/search/stream")
        asked.extend(answering(page, events({"type": "done", "response": response([hit(0), hit(1)])})))
        route.fulfill(status=404, content_type="application/problem+json", body=gone)

    page.route(f"**/v1/search/stream/{QUERY}", forgot)
    opened(page)
    until(page, "document.querySelectorAll('.tile').length", 2)
    page.wait_for_selector("main[aria-busy=false]")
    assert page.locator(".error, .banner").count() == 0


def test_a_service_that_is_gone_in_mid_stream_is_said_and_what_came_stays(page: Any) -> None:
    answering(page, events({"type": "results", "response": response([hit(0)])}))
    page.route(f"**/v1/search/stream/{QUERY}", lambda route: route.abort())
    page.route("**/healthz", lambda route: route.abort())
    opened(page)
    page.get_by_role("heading", name="The service is out of reach").wait_for()
    assert page.locator(".tile").count() == 1
    page.unroute("**/v1/search/stream")
    page.unroute("**/healthz")
    answering(page, events({"type": "done", "response": response([hit(0), hit(1)])}))
    until(page, "document.querySelectorAll('.tile').length", 2)
    assert page.locator(".banner").count() == 0


def test_the_same_question_keeps_its_pictures_when_the_service_is_gone_and_another_does_not(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([hit(0), hit(1)])}))
    opened(page)
    until(page, "document.querySelectorAll('.tile').length", 2)
    page.unroute("**/v1/search/stream")
    page.route("**/v1/search/stream", lambda route: route.abort())
    page.route("**/healthz", lambda route: route.abort())
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("The pictures below are what came before.").wait_for()
    assert page.locator(".tile").count() == 2
    page.get_by_role("combobox").fill("boats")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.tile').length", 0)
    page.get_by_role("heading", name="The service is out of reach").wait_for()


def test_filters_that_leave_nothing_say_so(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([])}))
    page.route(
        "**/v1/corpora*",
        lambda route: route.fulfill(json={"corpora": [{"name": "c", "images": 5, "roots": []}], "next_cursor": None}),
    )
    page.goto("/?q=dogs&folder=2024")
    page.get_by_text("No picture passes these filters.").wait_for()
    page.get_by_role("button", name="Search without filters").click()
    page.get_by_text("Nothing was found for “dogs”.").wait_for()


def test_text_from_right_to_left_stands_as_it_is_read(page: Any) -> None:
    name, caption, words = "صورة قطة.jpg", "قطة على السطح", "כלב בשלג"
    answering(page, events({"type": "done", "response": response([hit(0, uri=f"أرشيف/{name}", captions=[caption]), hit(1)])}))
    opened(page, words)
    page.wait_for_selector(".tile")
    direction = "(node) => getComputedStyle(node).direction"
    assert page.get_by_role("combobox").evaluate(direction) == "rtl"
    page.locator(".tile .open").first.click()
    page.get_by_label("Like this picture, but").fill("بالليل")
    assert page.locator(".facts .caption").evaluate(direction) == "rtl"
    assert page.locator(".facts dd").first.inner_text() == f"r/أرشيف/{name}"
    with page.expect_request("**/v1/search/stream") as asked:
        page.get_by_label("Like this picture, but").press("Enter")
    assert asked.value.post_data_json["query"] == "بالليل"
    page.locator(".chip .label bdi").get_by_text("بالليل").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_refusal_shows_its_reason_and_its_hint(page: Any) -> None:
    problem = {
        "type": "about:blank",
        "title": "x",
        "status": 429,
        "code": "overloaded",
        "detail": "too many <b>queries</b>",
        "hint": "later",
    }
    page.route(
        "**/v1/search/stream",
        lambda route: route.fulfill(status=429, content_type="application/problem+json", body=json.dumps(problem)),
    )
    opened(page)
    page.get_by_role("heading", name="Too many searches at once").wait_for()
    assert not page.get_by_text("overloaded").is_visible()
    page.get_by_text("Details").click()
    page.get_by_text("too many <b>queries</b>").wait_for()
    page.get_by_text("Hint: later").wait_for()
    assert inaccessible(page) == []
    page.unroute("**/v1/search/stream")
    answering(page, events({"type": "done", "response": response([hit(0)])}))
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".tile")


def test_names_are_text_and_damaged_pictures_leave_a_name(page: Any) -> None:
    names = ["<img src=x onerror=alert(1)>.jpg", "صورة قطة.jpg", "a" * 400 + ".jpg"]
    hits = [
        hit(number, uri=f"folder/{name}", captions=["<script>alert(2)</script>"] if number else [])
        for number, name in enumerate(names)
    ]
    answering(page, events({"type": "done", "response": response(hits)}), pictures=False)
    page.route("**/v1/images/*/*", lambda route: route.fulfill(status=404, body=""))
    opened(page)
    until(page, "document.querySelectorAll('.tile.damaged').length", 3)
    assert names[0] in page.locator(".missing").first.inner_text()
    assert page.locator("img[src=x]").count() == 0
    page.locator(".tile .open").nth(1).click()
    page.get_by_text("<script>alert(2)</script>").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
def test_pictures_to_begin_with_stand_in_full_rows(browser: Any, site: Served, device: dict[str, Any]) -> None:
    shapes = [(400, 300), (300, 400), (600, 300), (300, 300)]
    pictures = [hit(at, width=shapes[at % 4][0], height=shapes[at % 4][1]) for at in range(23)]
    with page_of(browser, site.address.url, expected=("Failed to load resource",), **device) as page:
        page.route(
            "**/v1/corpora*",
            lambda route: route.fulfill(json={"corpora": [{"name": "c", "images": 23, "roots": []}], "next_cursor": None}),
        )
        page.route("**/v1/images?*", lambda route: route.fulfill(json={"images": pictures, "next_cursor": None}))
        page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
        page.route(f"**/v1/images/{image_id(2)}/*", lambda route: route.fulfill(status=404, body=""))
        page.goto("/")
        page.locator(".mosaic img.there").first.wait_for()
        page.locator(f'.mosaic img[src*="{image_id(2)}"]').wait_for(state="detached")
        places = page.locator(".mosaic li").evaluate_all(
            "(all) => all.map((one) => [one.offsetTop, one.offsetLeft, one.offsetLeft + one.offsetWidth])"
        )
        width = page.locator(".mosaic").evaluate("(list) => list.clientWidth")
        rows: dict[int, list[tuple[int, int]]] = {}
        for top, left, right in places:
            rows.setdefault(top, []).append((left, right))
        assert len(rows) >= 2
        for row in rows.values():
            assert (row[0][0], round(row[-1][1] / width, 2)) == (0, 1), "from one edge to the other"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert inaccessible(page) == []


def test_few_pictures_to_begin_with_stand_in_the_middle(page: Any) -> None:
    page.route(
        "**/v1/corpora*",
        lambda route: route.fulfill(json={"corpora": [{"name": "c", "images": 2, "roots": []}], "next_cursor": None}),
    )
    page.route("**/v1/images?*", lambda route: route.fulfill(json={"images": [hit(0), hit(1)], "next_cursor": None}))
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    page.goto("/")
    page.locator(".mosaic img.there").first.wait_for()
    first, last = (page.locator(".mosaic li").nth(at).bounding_box() for at in (0, 1))
    middle = page.locator(".mosaic").bounding_box()
    assert first["x"] + last["x"] + last["width"] == pytest.approx(2 * middle["x"] + middle["width"], abs=2)


def test_what_is_avoided_stands_in_the_line_of_the_answer(page: Any) -> None:
    answered(page)
    opened(page)
    page.wait_for_selector("main[aria-busy=false] .tile")
    field, count = (page.locator(where).first.bounding_box() for where in (".without input", ".status p"))
    assert field["y"] < count["y"] + count["height"] / 2 < field["y"] + field["height"]


def test_circles_of_small_pictures_are_small_and_easy_to_press(browser: Any, site: Served) -> None:
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone) as page:
        answered(page, 6)
        opened(page)
        page.wait_for_selector("main[aria-busy=false] .tile")
        circle = page.locator(".tile .check").first
        box = circle.bounding_box()
        assert min(box["width"], box["height"]) >= 24, "what is pressed"
        seen = circle.evaluate("(check) => parseFloat(getComputedStyle(check, '::before').width)")
        assert seen <= 20
        assert circle.evaluate("(check) => getComputedStyle(check).opacity") == "0", "a long press selects"
        long_press(page, page.locator(".tile .open").first)
        page.get_by_role("region", name="Selection").get_by_text("1 selected").wait_for()
        until(page, "getComputedStyle(document.querySelector('[data-index=\"1\"] .check')).opacity", "1")
        page.locator(".tile .check").nth(1).tap()
        page.get_by_role("region", name="Selection").get_by_text("2 selected").wait_for()
        assert inaccessible(page) == []


def test_a_huge_panorama_is_a_tile_among_others_and_is_shown_whole(page: Any) -> None:
    hits = [hit(0, width=60_000, height=400), hit(1, width=20, height=9_000), hit(2), hit(3, width=None, height=None)]
    answering(page, events({"type": "done", "response": response(hits)}))
    opened(page)
    until(page, "document.querySelectorAll('.tile:not(.loading)').length", 4)
    sizes = page.evaluate("[...document.querySelectorAll('.tile')].map((tile) => [tile.offsetWidth, tile.offsetHeight])")
    assert all(40 < width <= 1280 and 80 < height < 500 for width, height in sizes), sizes
    for number in range(3):
        page.locator(".tile .open").nth(number).click()
        page.wait_for_selector(".whole:not([hidden])")
        assert page.evaluate("document.querySelector('dialog[open]').scrollWidth <= innerWidth")
        assert page.get_by_role("button", name="Close").is_visible()
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog[open]", state="detached")


def test_pictures_of_the_user_can_be_gone_back_to(page: Any, tmp_path: Path) -> None:
    answering(page, events({"type": "done", "response": response([hit(0)])}))
    told = json.dumps(response([hit(1), hit(2)], stage="picture"))
    page.route("**/v1/search/image", lambda route: route.fulfill(content_type="application/json", body=told))
    (tmp_path / "own.svg").write_bytes(PIXEL)
    stocked(page)
    page.goto("/")
    page.locator("input[type=file]").set_input_files(tmp_path / "own.svg")
    until(page, "document.querySelectorAll('.tile').length", 2)
    page.get_by_role("button", name="Remove picture").click()
    page.get_by_role("heading", name="Find pictures").wait_for()
    page.get_by_role("combobox").fill("dogs")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.tile').length", 1)
    page.go_back()
    page.get_by_role("heading", name="Find pictures").wait_for()
    page.go_back()
    until(page, "document.querySelectorAll('.tile').length", 2)
    assert page.locator(".chip img").count() == 1
    page.go_forward()
    page.get_by_role("heading", name="Find pictures").wait_for()
    page.go_back()
    page.reload()  # which forgets pictures of the user, and only those
    page.get_by_role("heading", name="Find pictures").wait_for()


def test_a_key_that_ends_is_asked_for_again_and_the_question_is_kept(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([hit(number) for number in range(80)], next_offset=80)}))
    ended = json.dumps({"status": 401, "code": "unauthorized", "detail": "the session has ended", "hint": "give the key again"})
    page.route("**/v1/search", lambda route: route.fulfill(status=401, content_type="application/problem+json", body=ended))
    opened(page)
    page.wait_for_selector(".tile")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")  # further results are asked for, and refused
    page.get_by_label("API key or token").wait_for()
    page.unroute("**/v1/search")
    page.route("**/v1/session", lambda route: route.fulfill(status=204))
    page.get_by_label("API key or token").fill("lodestone_1_2")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector(".tile")
    assert page.get_by_role("combobox").input_value() == "dogs"


def test_a_picture_that_is_too_large_is_refused_before_it_is_sent(page: Any, tmp_path: Path) -> None:
    stocked(page)
    page.goto("/")
    sent: list[str] = []
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(200 << 20)
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.locator("input[type=file]").set_input_files(huge)
    page.get_by_text("has 200 MB").wait_for()
    assert sent == []
    assert page.get_by_role("heading", name="Find pictures").is_visible(), "what was there stays"
    page.locator(".toast").get_by_role("button", name="Try another picture").wait_for()


def test_two_tabs_share_the_history(browser: Any, site: Served) -> None:
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as page:
        answering(page, events({"type": "done", "response": response([])}))
        page.goto("/")
        other = page.context.new_page()
        other.goto("/")
        opened(page, "boats on a lake")
        page.get_by_role("heading", name="No pictures").wait_for()
        other.get_by_role("combobox").focus()
        other.get_by_role("option", name="boats on a lake").wait_for()
