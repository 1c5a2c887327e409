"""Parts, weights and steps of a query stay together in requests, in the address and in the browser's history.

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tests.support.browser import PHONE, inaccessible, page_of, until
from tests.support.page_answers import PIXEL, hit, image_id, response
from tests.support.search_page import (  # noqa: F401 - fixtures
    MOST_ABOVE,
    TOAST,
    answered,
    browsing,
    empty_site,
    finished,
    first_picture,
    made_up_page,
    shared_browser,
    stocked,
)
from tests.support.served import Served

STEPS = "document.querySelectorAll('.steps li').length"
TWO_PARTS = [{"name": "words", "weight": 0.5}, {"name": "picture", "weight": 0.5}]


def given(page: Any, kind: str, *files: tuple[str, str]) -> None:
    """Drop or paste files, each with a name and a media type."""
    page.evaluate(
        """([kind, files]) => {
          const transfer = new DataTransfer();
          for (const [name, type] of files) transfer.items.add(new File(["content"], name, { type }));
          if (kind === "drop") dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
          else dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true }));
        }""",
        [kind, files],
    )


def test_the_skip_link_goes_to_the_results_and_leaves_the_question(page: Any) -> None:
    asked = answered(page)
    page.goto("/?q=dogs")
    finished(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id", "results")
    assert page.url.endswith("/?q=dogs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    assert len(asked) == 1


def test_words_that_are_written_before_the_page_is_ready_stay(page: Any) -> None:
    held: list[Any] = []
    page.route("**/v1/corpora*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks its listeners
    asked = answered(page)
    page.goto("/?q=dogs")
    page.get_by_role("combobox").fill("boats")
    held[0].fulfill(json={"corpora": [], "next_cursor": None})
    finished(page)
    assert page.get_by_role("combobox").input_value() == "boats"
    page.keyboard.press("Enter")
    until(page, "new URLSearchParams(location.search).get('q')", "boats")
    finished(page)
    assert [body["query"] for body in asked] == ["dogs", "boats"]


def test_steps_can_be_undone_after_the_page_was_left_loaded_again_and_gone_back_to(page: Any) -> None:
    asked = answered(page)
    page.goto("/?q=dogs")
    finished(page)
    for name, count in (("Add to query", 2), ("Less like this", 3)):
        page.locator(".tile .open").nth(count - 2).click()
        page.get_by_role("button", name=name).click()
        until(page, STEPS, count)
    assert (asked[-1]["like"], asked[-1]["unlike"]) == ([image_id(0)], [image_id(1)])
    page.reload()
    until(page, STEPS, 3)
    page.go_back()
    until(page, STEPS, 2)
    page.go_forward()
    until(page, STEPS, 3)
    page.goto("/manage")
    page.go_back()
    until(page, STEPS, 3)
    page.get_by_role("button", name="Undo").click()
    until(page, STEPS, 2)
    finished(page)
    assert "unlike" not in asked[-1]


def test_a_search_from_the_history_can_be_undone(page: Any) -> None:
    asked = answered(page)
    for address in ("/?q=boats", f"/?q=dogs&like={image_id(1)}"):
        page.goto(address)
        finished(page)
        page.get_by_role("button", name="Search", exact=True).click()  # which keeps the words
        finished(page)
    page.get_by_role("combobox").fill("b")
    page.get_by_role("option", name="boats").click()
    until(page, "new URLSearchParams(location.search).get('q')", "boats")
    finished(page)
    page.get_by_role("button", name="Undo").click()
    until(page, "new URLSearchParams(location.search).get('q')", "dogs")
    finished(page)
    assert (asked[-1]["query"], asked[-1]["like"]) == ("dogs", [image_id(1)])


def test_weights_are_part_of_the_address_and_stay_with_their_parts(page: Any) -> None:
    asked = answered(page, parts=TWO_PARTS)
    page.goto(f"/?q=dogs&like={image_id(1)}&weight=words:0.9&weight=picture:0.1&weight=nobody:1&weight=picture:x")
    finished(page)
    assert asked[-1]["weights"] == {"words": 0.9, "picture": 0.1}
    assert page.get_by_label("Weight of words").input_value() == "0.9"
    page.get_by_role("button", name="Draw a region of picture").click()
    page.locator(".region .box").wait_for()
    page.get_by_role("button", name="Search this region").click()
    until(page, "document.querySelector('.chip .draw').title !== ''")
    finished(page)
    assert asked[-1]["region"] == {"x": 0.25, "y": 0.25, "w": 0.5, "h": 0.5}
    assert asked[-1]["weights"] == {"words": 0.9, "picture": 0.1}, "another region of it weighs as much"
    assert page.url.endswith("&weight=words%3A0.9&weight=picture%3A0.1")
    page.reload()
    finished(page)
    assert asked[-1]["weights"] == {"words": 0.9, "picture": 0.1}


def test_weights_follow_their_pictures_when_the_order_of_parts_changes(page: Any) -> None:
    page.goto("/")
    weights = page.evaluate("""async () => {
      const { EMPTY, replaced } = await import("./web/files/query/draft.js");
      const [one, other] = ["a", "b"].map((id) => ({ kind: "like", id }));
      const draft = { ...EMPTY, text: "dogs", parts: [one, other], weights: { words: 0.2, picture: 0.3, picture2: 0.5 } };
      return replaced(draft, one, { ...one, region: { x: 0, y: 0, w: 0.5, h: 0.5 } }).weights;
    }""")
    assert weights == {"words": 0.2, "picture": 0.5, "picture2": 0.3}, (
        "a region beside another picture is sent, so it comes second"
    )


def test_parts_that_stay_keep_their_weights_when_others_come_and_go(page: Any) -> None:
    asked = answered(page, parts=[*TWO_PARTS, {"name": "without", "weight": 0.2}])
    page.goto(f"/?q=dogs&like={image_id(1)}&weight=words:0.9&weight=picture:0.3")
    finished(page)
    page.get_by_label("What the picture should not show").fill("people")
    page.keyboard.press("Enter")
    until(page, STEPS, 2)
    finished(page)
    chosen = {"words": 0.9, "picture": 0.3}
    assert asked[-1]["weights"] == {**chosen, "without": 0.33}, (
        "half of what is usual for both others, and they have 1.2 of 1.8"
    )
    assert page.get_by_label("Weight of words").input_value() == "0.9"
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Add to query").click()
    until(page, STEPS, 3)
    finished(page)
    assert asked[-1]["weights"].items() > chosen.items()
    page.get_by_role("button", name="Remove picture:").click()
    until(page, STEPS, 4)
    finished(page)
    second = asked[-2]["weights"]["picture2"]
    assert asked[-1]["like"] == [image_id(0)]
    assert asked[-1]["weights"] == {"words": 0.9, "without": 0.33, "picture": second}, "the second is the only one now"
    page.get_by_role("button", name="Remove words").click()
    until(page, STEPS, 5)
    finished(page)
    assert asked[-1]["weights"] == {"without": 0.33, "picture": second}
    page.get_by_role("combobox").fill("boats")
    page.keyboard.press("Enter")
    until(page, "new URLSearchParams(location.search).get('q')", "boats")
    finished(page)
    assert asked[-1]["weights"].items() > {"without": 0.33, "picture": second}.items()
    assert 0 < asked[-1]["weights"]["words"] <= 1
    for name in ("Remove without", "Remove picture"):
        page.get_by_role("button", name=name).click()
        finished(page)
    until(page, "document.querySelectorAll('.chip').length", 0)
    finished(page)
    assert "weights" not in asked[-1], "words alone have none"


def test_what_is_left_to_look_for_is_never_without_weight(page: Any) -> None:
    page.goto("/")
    weights = page.evaluate("""async () => {
      const { EMPTY, namedParts, withoutPart, withPart } = await import("./web/files/query/draft.js");
      const [one, without] = [{ kind: "like", id: "a" }, { kind: "without", text: "people" }];
      const draft = { ...EMPTY, text: "dogs", parts: [one, without], weights: { words: 1, picture: 0, without: 0.5 } };
      const [words] = namedParts(draft);
      return [withoutPart(draft, words).weights, withPart({ ...draft, weights: {} }, { kind: "like", id: "b" }).weights];
    }""")
    assert weights == [{}, {}], "the service's own weights count"


def test_conditions_on_fields_of_parts_are_chips_of_the_address_that_are_taken_away(page: Any) -> None:
    asked = answered(page)
    sets = {"none": [{"filters": {"where": {"colour": ["blue", "a=b"], "faces": ["..2"]}}}]}
    page.goto(f"/?{urlencode([('q', 'dogs'), ('sets', json.dumps(sets)), ('where', 'colour=red'), ('where', 'note=a=b')])}")
    finished(page)
    assert asked[-1]["filters"] == {"where": ["colour=red", "note=a=b"]} and asked[-1]["match"] == sets
    assert page.locator('[aria-label="Sets"] .label').all_inner_texts() == ["not (colour blue or a=b, faces ..2)"]
    chips = page.locator('[aria-label="Filters"] .label')
    assert chips.all_inner_texts() == ["colour red", "note a=b"]
    page.get_by_role("button", name="Remove the filter: colour red").click()
    until(page, "new URLSearchParams(location.search).getAll('where').join()", "note=a=b")
    finished(page)
    assert asked[-1]["filters"] == {"where": ["note=a=b"]} and chips.all_inner_texts() == ["note a=b"]
    page.get_by_role("button", name="Remove the filter: note a=b").click()
    until(page, "new URLSearchParams(location.search).has('where')", False)
    finished(page)
    assert "filters" not in asked[-1]


def test_a_new_part_gets_the_weight_that_the_service_says_is_usual_in_the_composition(page: Any) -> None:
    usual = {"words": 0.5, "picture": 1, "without": 0.25, "unlike": 0.1}
    access = {"scopes": ["search"], "paths": False, "compositions": ["default", "shoes"], "weights": {"shoes": usual}}
    page.route("**/v1/access", lambda route: route.fulfill(json=access))
    answered(page)
    page.goto("/?q=dogs")
    finished(page)
    weights = page.evaluate("""async () => {
      const { EMPTY, withPart } = await import("./web/files/query/draft.js");
      const draft = { ...EMPTY, text: "dogs", parts: [{ kind: "like", id: "a" }], weights: { words: 0.4, picture: 0.8 } };
      const without = { kind: "without", text: "people" };
      return ["shoes", ""].map((composition) => withPart({ ...draft, composition }, without).weights.without);
    }""")
    assert weights == [0.2, 0.6], "scaled by .8; all count alike in a composition that the service told nothing of"


def test_compositions_are_offered_where_there_are_several(page: Any) -> None:
    access = {"scopes": ["search"], "paths": False, "compositions": ["default", "shoes"]}
    page.route("**/v1/access", lambda route: route.fulfill(json=access))
    asked = answered(page, parts=TWO_PARTS)
    page.goto(f"/?q=dogs&like={image_id(1)}")
    finished(page)
    choice = page.get_by_label("Compare by")
    assert choice.locator("option").all_inner_texts() == ["default", "shoes"]
    choice.select_option("shoes")
    until(page, "new URLSearchParams(location.search).get('composition')", "shoes")
    finished(page)
    assert ["composition" in body and body["composition"] for body in asked] == [False, "shoes"]
    assert page.locator(".steps li").last.inner_text().strip() == "compared by shoes"
    assert inaccessible(page) == []
    page.reload()
    finished(page)
    assert choice.input_value() == "shoes"
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Similar").click()
    page.wait_for_selector("dialog[open]", state="detached")
    finished(page)
    assert (asked[-1]["like"], asked[-1]["composition"]) == ([image_id(0)], "shoes")
    choice.select_option("default")
    until(page, "new URLSearchParams(location.search).has('composition')", False)
    finished(page)
    assert "composition" not in asked[-1]


def test_a_single_composition_is_no_choice(page: Any) -> None:
    answered(page, parts=TWO_PARTS)
    with page.expect_response("**/v1/access") as told:
        page.goto(f"/?q=dogs&like={image_id(1)}")
    assert told.value.json()["compositions"] == ["default"]
    finished(page)
    assert page.get_by_label("Compare by").count() == 0


def test_steps_are_whole_on_a_phone(browser: Any, site: Served) -> None:
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone) as page:
        answered(page, parts=TWO_PARTS)
        page.goto("/?q=two+dogs+that+run+after+a+red+ball+in+the+snow+of+a+park")
        finished(page)
        for words in ("people who look at them", "trees", "a fence"):
            page.get_by_label("What the picture should not show").fill(words)
            page.keyboard.press("Enter")
            finished(page)
        assert first_picture(page) <= MOST_ABOVE, "steps do not push the pictures down"
        page.get_by_role("button", name="4 steps").click()
        for step in page.locator(".steps li bdi").all():
            assert step.evaluate("(text) => text.scrollWidth <= text.clientWidth && text.scrollHeight <= text.clientHeight + 1")
        for step in page.locator(".steps li").all():
            box = step.bounding_box()
            assert 0 <= box["x"] < box["x"] + box["width"] <= page.evaluate("innerWidth")
        assert page.locator(".steps ol").evaluate("(list) => list.scrollWidth <= list.clientWidth"), "nothing lies beside it"
        page.locator(".steps li button").nth(1).click()
        page.get_by_role("button", name="2 steps").wait_for()
        assert page.locator(".steps ol").count() == 0, "it folds when a step was chosen"


def test_a_slider_that_is_moved_on_is_one_entry_of_the_browsers_history(page: Any) -> None:
    asked = answered(page, parts=TWO_PARTS)
    page.goto(f"/?q=dogs&like={image_id(1)}")
    finished(page)
    before = page.evaluate("history.length")
    page.get_by_label("Weight of words").focus()
    for weight in ("0.55", "0.6", "0.65"):
        page.keyboard.press("ArrowRight")
        until(page, f"new URLSearchParams(location.search).getAll('weight').includes('words:{weight}')")
        finished(page)
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    until(page, "new URLSearchParams(location.search).has('weight')", False)
    finished(page)
    assert "weights" not in asked[-1]


def test_a_ninth_part_is_refused_with_a_reason(page: Any) -> None:
    asked = answered(page)
    page.goto("/?" + "&".join(f"like={image_id(at)}" for at in range(8)))
    finished(page)
    page.get_by_label("What the picture should not show").fill("people")
    page.keyboard.press("Enter")
    page.locator(TOAST).get_by_text("A query has at most 8 parts. Remove one first.").wait_for()
    assert page.get_by_label("What the picture should not show").input_value() == "people"
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Less like this").click()
    page.locator(f"dialog[open] {TOAST}").get_by_text("at most 8 parts").wait_for()
    page.keyboard.press("Escape")
    given(page, "drop", ("ninth.png", "image/png"))
    page.locator(TOAST).get_by_text("at most 8 parts").wait_for()
    assert len(asked) == 1


def test_files_of_unknown_kinds_are_sent_and_others_refused_with_a_reason(page: Any) -> None:
    page.goto("/")
    page.route("**/v1/search/image", lambda route: route.fulfill(json=response([hit(0)], stage="picture")))
    page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    given(page, "drop", ("notes.txt", "text/plain"))
    page.locator(TOAST).get_by_text("“notes.txt” is not a picture.").wait_for()
    assert page.locator(".chip").count() == 0
    with page.expect_request("**/v1/search/image") as sent:
        given(page, "drop", ("phone.heic", ""))
    assert sent.value.method == "POST"
    finished(page)
    assert page.locator(".chip").count() == 1


def test_what_other_pages_drag_here_cannot_ask_or_load_anything(page: Any) -> None:
    asked = answered(page)
    page.goto("/?q=dogs")
    finished(page)
    drop = """(text) => {
      const transfer = new DataTransfer();
      transfer.setData("application/x-lodestone", text);
      const target = document.querySelector("header");
      target.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    for text in ("{", "null", '"text"', json.dumps({"image_id": 3}), json.dumps({"thumbnail": "/v1/keys"})):
        page.evaluate(drop, text)
    assert page.locator(".chip").count() == 0
    page.evaluate(drop, json.dumps({"image_id": image_id(2), "thumbnail": "https://elsewhere.example/a.png"}))
    page.locator(".chip img").wait_for()
    assert page.locator(".chip img").get_attribute("src") == f"v1/images/{image_id(2)}/thumbnail"
    finished(page)
    assert [body.get("like") for body in asked] == [None, [image_id(2)]]


def test_filters_alone_show_their_pictures_and_can_be_removed(page: Any) -> None:
    answered(page)
    stocked(page)
    bodies = browsing(page)
    page.goto("/?corpus=holidays&folder=2024")
    page.locator(".status").get_by_text("3 pictures").wait_for()
    chips = page.get_by_role("list", name="Filters").locator(".label")
    assert chips.all_inner_texts() == ["in holidays", "folder 2024"]
    page.get_by_role("button", name="Remove the filter: folder 2024").click()
    until(page, "location.search", "?corpus=holidays")
    page.get_by_role("button", name="Remove the filter: in holidays").click()
    page.get_by_role("list", name="Filters").wait_for(state="detached")
    page.get_by_role("heading", name="Find pictures by what you mean").wait_for()
    assert [body["filters"] for body in bodies] == [
        {"corpora": ["holidays"], "path_prefix": "2024"},
        {"corpora": ["holidays"]},
    ]


def test_all_collections_are_known_however_many_there_are(page: Any) -> None:
    names = [f"corpus-{at:03d}" for at in range(250)]

    def paged(route: Any) -> None:
        begin = 200 if "cursor=next" in route.request.url else 0
        corpora = [{"name": name, "images": 1, "roots": []} for name in names[begin : begin + 200]]
        route.fulfill(json={"corpora": corpora, "next_cursor": None if begin else "next"})

    page.route("**/v1/corpora*", paged)
    answered(page)
    page.goto("/?q=dogs")
    finished(page)
    page.get_by_role("button", name="Filter", exact=True).click()
    assert page.get_by_label("Collection").locator("option").count() == 1 + len(names)


def test_history_is_offered_whatever_its_case_and_can_be_cleared(page: Any) -> None:
    answered(page)
    page.goto("/?q=dogs")
    finished(page)
    page.get_by_role("combobox").fill("Boats on a lake")
    page.keyboard.press("Enter")
    until(page, "new URLSearchParams(location.search).get('q')", "Boats on a lake")
    finished(page)
    page.get_by_role("combobox").fill("bo")
    page.get_by_role("option", name="Boats on a lake").wait_for()
    page.get_by_role("button", name="Clear history").click()
    page.get_by_role("button", name="Clear history").wait_for(state="hidden")
    page.reload()
    finished(page)
    page.get_by_role("combobox").fill("b")
    assert page.get_by_role("option").count() == 0
    assert page.evaluate("localStorage.getItem('lodestone.history')") == "[]"


def test_the_theme_goes_round_and_is_kept(page: Any) -> None:
    page.goto("/")
    theme = "document.documentElement.dataset.theme"
    for before, name in (("auto", "light"), ("light", "dark"), ("dark", "auto"), ("auto", "light")):
        page.get_by_role("button", name=f"Theme: {before}. Change it.").click()
        until(page, theme, name)
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"
    page.reload()
    until(page, theme, "light")
    page.goto("/manage")
    until(page, theme, "light")
