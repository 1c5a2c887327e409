"""Results stay within reach: further ones, those that fly past, those beside a large picture, those called wrong.

The page and its files are the real service's. The answers are made up here, in the browser's network layer.
"""

from __future__ import annotations

from typing import Any

from tests.support.browser import ORDER, inaccessible, steady, until, until_asked
from tests.support.page_answers import QUERY, events, hit, image_id, response
from tests.support.search_page import answered, empty_site, finished, made_up_page, search, shared_browser  # noqa: F401 - fixtures

FIRST, ALL = 80, 120
FURTHER = "99999999-2222-4333-8444-555555555555"
PROBLEM = {"status": 503, "code": "overloaded", "detail": "the service has too much to do"}


def shown(page: Any, count: int = FIRST, **members: Any) -> list[dict[str, Any]]:
    """Show the answer to a question; returns the bodies that were asked."""
    asked = answered(page, count, **members)
    page.goto("/?q=dogs")
    finished(page)
    return asked


def further(page: Any, *, refused: list[bool] | None = None) -> list[dict[str, Any]]:
    """Answer what is asked for behind the first page, or refuse it as long as `refused` holds true; returns the bodies."""
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        asked.append(route.request.post_data_json)
        if refused and refused[0]:
            route.fulfill(status=503, json=PROBLEM, content_type="application/problem+json")
        else:
            hits = [hit(at) for at in range(FIRST - 1, ALL)]  # one of them is there already
            route.fulfill(json=response(hits, query_id=FURTHER, next_offset=None))

    page.route("**/v1/search", answer)
    return asked


def test_further_results_are_fetched_at_the_end_once_each(page: Any) -> None:
    asked = further(page)
    shown(page, next_offset=FIRST)
    page.locator(".status").get_by_text(f"The best {FIRST} pictures").wait_for()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator(".status").get_by_text(f"{ALL} pictures").wait_for()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator(f'[data-id="{image_id(ALL - 1)}"]:not(.loading)').wait_for()
    assert [(body["offset"], body["query"]) for body in asked] == [(FIRST, "dogs")]
    assert page.locator(".tile").last.get_attribute("aria-setsize") == str(ALL)


def test_further_results_that_cannot_be_loaded_say_why_and_are_tried_again_when_wished(page: Any) -> None:
    refused = [True]
    asked = further(page, refused=refused)
    shown(page, next_offset=FIRST)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.get_by_role("alert").get_by_text("the service has too much to do").wait_for()
    assert inaccessible(page) == []
    for share in (0, 1):  # what is seen changes, and the end is reached again
        page.evaluate("(share) => scrollTo(0, share * document.documentElement.scrollHeight)", share)
        page.wait_for_selector(f'[data-index="{share * (FIRST - 1)}"]')
    assert len(asked) == 1, "not again and again"
    refused[0] = False
    page.get_by_role("button", name="Try again").click()
    page.locator(".status").get_by_text(f"{ALL} pictures").wait_for()
    assert page.get_by_role("alert").count() == 0
    assert len(asked) == 2


def test_a_large_picture_leads_on_to_further_results_and_back_to_its_place(page: Any) -> None:
    refused = [True]
    asked = further(page, refused=refused)
    shown(page, next_offset=FIRST)
    page.locator('[data-index="0"] .open').click()
    heading = page.get_by_role("dialog").get_by_role("heading", name=" of ")
    heading.get_by_text(f"1 of {FIRST}").wait_for()
    assert asked == []
    for _ in range(FIRST - 1):
        page.keyboard.press("ArrowRight")
    page.get_by_role("dialog").get_by_role("alert").get_by_text("the service has too much to do").wait_for()
    assert heading.inner_text() == f"{FIRST} of {FIRST}"
    assert len(asked) == 1
    refused[0] = False
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    until(page, "document.querySelector('.facts h2').innerText", f"{FIRST} of {ALL}")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.facts h2').innerText", f"{FIRST + 1} of {ALL}")
    page.route("**/v1/queries/*", lambda route: route.fulfill(status=404, json={"status": 404, "code": "not_found"}))
    with page.expect_request("**/v1/queries/*") as explained:
        page.get_by_text("Why is it here?").click()
    assert explained.value.url.endswith(FURTHER), "further results have a record of their own"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    until(page, "document.activeElement.closest('.tile')?.dataset.id", image_id(FIRST))
    box = page.locator(f'[data-id="{image_id(FIRST)}"]').bounding_box()
    assert 0 <= box["y"] < page.evaluate("innerHeight")


def test_the_results_stay_at_the_picture_that_was_shown_last_where_the_browser_goes_back_late(page: Any) -> None:
    shown(page, 60)
    page.evaluate("() => { const back = history.back; history.back = () => setTimeout(() => back.call(history), 300); }")
    page.locator('[data-index="0"] .open').click()
    for _ in range(59):
        page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.facts h2').innerText", "60 of 60")
    page.keyboard.press("Escape")
    until(page, "document.activeElement.closest('.tile')?.dataset.id", image_id(59))
    until(page, "new URLSearchParams(location.search).has('picture')", False)
    assert steady(page, "scrollY") > 0
    assert page.evaluate("document.activeElement.closest('.tile')?.dataset.id") == image_id(59)


def test_tiles_that_fly_past_keep_their_place_and_load_when_the_page_scrolls_slower(page: Any) -> None:
    page.clock.install()
    shown(page, 2000)
    page.locator('[data-index="0"] img[src]').wait_for()
    page.clock.pause_at(page.evaluate("Date.now()") + 60_000)
    frame, seconds = 20, 1000
    waiting = "document.querySelectorAll('.tile').length > 5 && document.querySelectorAll('.tile img:not([src])').length"

    def scroll(pixels: float) -> None:
        page.evaluate(
            """(pixels) => new Promise((done) => {
              addEventListener("scroll", done, { once: true });
              scrollBy(0, pixels);
            })""",
            pixels,
        )
        page.clock.run_for(frame)

    scroll(1)
    passed = []
    for _ in range(4):
        scroll(10_000)
        tiles = page.locator(".tile").count()
        assert page.evaluate(waiting) == tiles > 5, "each has its place, and no picture"
        passed.append(page.locator(".tile").first.get_attribute("data-id"))
    fewer = page.locator(".tile").count()
    page.clock.run_for(seconds)
    until(page, "document.querySelectorAll('.tile img:not([src])').length", 0)
    assert page.locator(".tile").count() > fewer, "those around come then, too"
    for _ in range(3):
        page.clock.run_for(seconds)
        scroll(300)
        assert page.locator(".tile img:not([src])").count() == 0, "slow scrolling shows pictures at once"
    assert page.locator(f'[data-id="{passed[0]}"]').count() == 0


def test_a_large_picture_holds_what_is_told_and_the_page_does_otherwise(page: Any) -> None:
    shown(page)
    page.route("**/v1/feedback", lambda route: route.fulfill(json={"applied": True, "before": {}, "after": {"words": 1.25}}))
    page.locator('[data-index="0"] .open').click()
    page.get_by_role("dialog").get_by_role("button", name="Right: 0.jpg").click()
    toast = page.locator("dialog[open] .toast")
    toast.get_by_text("Thank you. The search learnt from it.").wait_for()
    seen = (
        "(toast) => toast.contains(document.elementFromPoint(...['x', 'y'].map((at) => toast.getBoundingClientRect()[at] + 5)))"
    )
    assert toast.evaluate(seen), "nothing covers it"
    assert page.locator(".toast").count() == 1
    said = page.locator("[role=status][aria-live]")
    assert said.evaluate_all("(all) => all.map((one) => one.closest('dialog')?.className)") == ["lightbox"]
    page.get_by_role("button", name="Search a region").click()
    page.locator(".region .box").wait_for()
    assert said.evaluate_all("(all) => all.map((one) => one.closest('dialog')?.className)") == ["region"]
    assert inaccessible(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector(".region[open]", state="detached")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    until(
        page,
        "[...document.querySelectorAll('[role=status][aria-live]')].map((one) => one.closest('dialog') === null).join()",
        "true",
    )


def test_a_large_picture_says_when_the_service_is_gone(page: Any) -> None:
    shown(page)
    page.locator('[data-index="0"] .open').click()
    page.evaluate("import('./web/files/query/store.js').then((store) => { store.online.value = false; })")
    banner = page.locator("dialog[open] .banner")
    banner.get_by_text("The service does not answer.").wait_for()
    box = banner.bounding_box()
    assert box["y"] + box["height"] <= page.evaluate("innerHeight"), "it is seen"
    assert page.evaluate("document.querySelector('dialog[open]').scrollHeight <= innerHeight")


def test_a_picture_that_is_called_wrong_goes_behind_the_others(page: Any) -> None:
    asked = shown(page, 6)
    page.route("**/v1/feedback", lambda route: route.fulfill(json={"applied": True, "before": {}, "after": {}}))
    page.locator('[data-index="1"] .thumbs [title=Wrong]').focus()
    page.keyboard.press("Enter")
    moved = [image_id(at) for at in (0, 2, 3, 4, 5, 1)]
    until(page, ORDER, moved)
    until(page, "document.activeElement.closest('.tile')?.dataset.id", image_id(2))
    until_asked(page, asked, 2)
    finished(page)
    assert page.evaluate(ORDER) == moved, "the answer that comes again puts it there too"
    assert page.locator('[data-index="5"]').evaluate("(tile) => tile.classList.contains('wrong')")
    page.locator('[data-index="1"] .open').click()
    heading = page.get_by_role("dialog").get_by_role("heading", name=" of ")
    page.get_by_role("dialog").get_by_role("button", name="Wrong: 2.jpg").click()
    page.locator("dialog[open] .toast").wait_for()
    assert heading.inner_text() == "2 of 6", "it keeps its place while one looks at it"
    page.keyboard.press("Escape")
    until(page, f"{ORDER}.slice(0, 4)", [image_id(at) for at in (0, 3, 4, 5)])
    until(page, "document.activeElement.closest('.tile')?.dataset.id", image_id(3))
    page.get_by_role("combobox").fill("boats")
    page.keyboard.press("Enter")
    until(page, ORDER, [image_id(at) for at in range(6)])


def judging(page: Any) -> list[tuple[str, dict[str, Any]]]:
    """Take judgements, and take them back; returns what was asked, as the end of the address and the body."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def answer(route: Any) -> None:
        asked.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
        route.fulfill(json={"applied": True, "before": {}, "after": {"words": 1.25}})

    page.route("**/v1/feedback", answer)
    page.route("**/v1/feedback/withdraw", answer)
    return asked


def test_a_thumb_is_taken_back_from_what_is_told_or_by_pressing_it_again(page: Any) -> None:
    asked = shown(page, 4)
    judged = judging(page)
    order = [image_id(at) for at in range(4)]
    wrong = page.locator(f'[data-id="{image_id(1)}"] .thumbs button').last
    wrong.focus()
    page.keyboard.press("Enter")
    until(page, ORDER, [order[0], *order[2:], order[1]])
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    undo.wait_for()
    until_asked(page, asked, 2)
    finished(page)
    assert inaccessible(page) == []
    undo.focus()
    page.keyboard.press("Enter")
    page.locator(".toast").get_by_text("Taken back: this judgement does not count any more.").wait_for()
    until(page, ORDER, order)
    until_asked(page, asked, 3)
    finished(page)
    assert page.locator(".tile.wrong, .thumbs [aria-pressed=true]").count() == 0
    assert page.evaluate("document.activeElement.id") == "results", "the button is gone"
    body = {"query_id": QUERY, "irrelevant": [image_id(1)]}
    assert judged == [("feedback", body), ("withdraw", body)]
    right = page.locator(f'[data-id="{image_id(2)}"] .thumbs button').first
    for count, pressed in enumerate(("true", "false"), 4):
        right.focus()
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.toast')?.innerText.startsWith('T')")
        until(page, f"document.querySelector('[data-id=\"{image_id(2)}\"] .thumbs button').ariaPressed", pressed)
        until_asked(page, asked, count)  # again after each
        finished(page)
    body = {"query_id": QUERY, "relevant": [image_id(2)]}
    assert judged[2:] == [("feedback", body), ("withdraw", body)]


def test_whoever_changes_their_mind_takes_the_first_thumb_back(page: Any) -> None:
    shown(page, 4)
    judged = judging(page)
    page.locator('[data-index="0"] .open').click()
    dialog = page.get_by_role("dialog")
    for name, count in (("Right", 1), ("Wrong", 3)):
        dialog.get_by_role("button", name=f"{name}: 0.jpg").click()
        dialog.locator(f".thumbs [title^={name}][aria-pressed=true]").wait_for()
        until_asked(page, judged, count)
        until(page, "document.querySelector('main').getAttribute('aria-busy')", "false")
    until(page, "document.querySelector('.toast') !== null")
    assert [(name, *body.keys()) for name, body in judged] == [
        ("feedback", "query_id", "relevant"),
        ("withdraw", "query_id", "relevant"),
        ("feedback", "query_id", "irrelevant"),
    ]
    dialog.get_by_role("button", name="Undo").click()
    dialog.locator(".toast").get_by_text("Taken back").wait_for()
    assert dialog.locator("[aria-pressed=true]").count() == 0


def test_a_double_click_on_a_thumb_is_one_judgement(page: Any) -> None:
    shown(page, 4)
    judged = judging(page)
    page.locator('[data-index="0"]').hover()
    page.locator('[data-index="0"] .thumbs button').first.dblclick()
    page.locator(".toast").get_by_text("Thank you").wait_for()
    finished(page)
    assert [name for name, _ in judged] == ["feedback"]


def test_a_thumb_that_cannot_be_taken_back_stays(page: Any) -> None:
    shown(page, 4)
    judging(page)
    page.unroute("**/v1/feedback/withdraw")
    page.route(
        "**/v1/feedback/withdraw",
        lambda route: route.fulfill(status=503, json=PROBLEM, content_type="application/problem+json"),
    )
    page.locator('[data-index="0"] .thumbs button').first.focus()
    page.keyboard.press("Enter")
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.locator(".toast").get_by_text("the service has too much to do").wait_for()
    assert page.locator('[data-index="0"] .thumbs button').first.get_attribute("aria-pressed") == "true"


def test_words_that_are_searched_next_are_judged_by_themselves(page: Any) -> None:
    shown(page, 4)
    judged = judging(page)
    for count, words in enumerate(("dogs", "boats"), 1):
        search(page, words)
        page.locator('[data-index="0"] .thumbs button').first.focus()
        page.keyboard.press("Enter")
        until_asked(page, judged, count)
        until(page, "document.querySelector('.toast') !== null")
        finished(page)
    assert [name for name, _ in judged] == ["feedback", "feedback"], "what was said for other words stays"


def test_what_can_be_undone_stays_while_one_points_at_it(page: Any) -> None:
    page.clock.install()
    shown(page, 4)
    judging(page)
    page.locator('[data-index="0"] .thumbs button').first.focus()
    page.keyboard.press("Enter")
    toast = page.locator(".toast")
    toast.get_by_role("button", name="Undo").wait_for()
    toast.hover()
    page.clock.run_for(60_000)
    assert toast.count() == 1
    page.mouse.move(5, 5)
    page.clock.run_for(20_000)
    toast.wait_for(state="detached")


def test_a_judgement_that_is_refused_is_taken_back(page: Any) -> None:
    shown(page, 4)
    page.route("**/v1/feedback", lambda route: route.fulfill(status=503, json=PROBLEM, content_type="application/problem+json"))
    page.locator('[data-index="0"] .thumbs [title=Wrong]').focus()
    page.keyboard.press("Enter")
    page.locator(".toast").get_by_text("the service has too much to do").wait_for()
    until(page, ORDER, [image_id(at) for at in range(4)])
    until(page, "document.querySelectorAll('.tile.wrong').length", 0)


def test_the_record_of_a_query_is_asked_for_again_where_it_could_not_be_read(page: Any) -> None:
    shown(page, 2)
    part = {"guide": "text", "space": "image", "score": 0.3, "weight": 1.0, "part": 0.3, "rank": 0}
    told = {
        "text": "dogs",
        "parts": [],
        "guides": [],
        "hits": [{"image_id": image_id(0), "rank": 1, "score": 0.3, "parts": [part]}],
    }
    asked: list[str] = []

    def explain(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=503, json=PROBLEM, content_type="application/problem+json")
        else:
            route.fulfill(json=told)

    page.route("**/v1/queries/*", explain)
    page.locator('[data-index="0"] .open').click()
    summary = page.get_by_text("Why is it here?")
    with page.expect_response("**/v1/queries/*"):
        summary.click()
    page.get_by_text("The record of this query is being read, or is not kept.").wait_for()
    summary.click()
    page.locator(".why:not([open])").wait_for()
    summary.click()
    page.locator(".why tbody tr").get_by_text("the words “dogs”").wait_for()
    assert len(asked) == 2


def test_signing_out_leaves_nothing_of_the_session(page: Any) -> None:
    page.add_init_script("localStorage.setItem('lodestone.session', '1')")
    page.route("**/v1/session", lambda route: route.fulfill(status=204))
    explained: list[str] = []
    page.on("request", lambda request: explained.append(request.url) if "/v1/queries/" in request.url else None)
    page.route("**/v1/queries/*", lambda route: route.fulfill(json={"text": "", "parts": [], "guides": [], "hits": []}))
    shown(page, 3)
    page.locator('[data-index="0"] .open').click()
    with page.expect_response("**/v1/queries/*"):
        page.get_by_text("Why is it here?").click()
    page.keyboard.press("Escape")
    page.locator(".tile .check").first.check()
    page.get_by_role("region", name="Selection").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key or token").fill("lodestone_1_2")
    assert page.locator(".selection, .tile, dialog[open]").count() == 0
    page.get_by_role("button", name="Open").click()
    page.get_by_role("combobox").fill("dogs")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tile")
    assert page.locator(".selection").count() == 0
    page.locator('[data-index="0"] .open').click()
    with page.expect_response("**/v1/queries/*"):
        page.get_by_text("Why is it here?").click()
    assert len(explained) == 2, "what the first session was told is forgotten"


def test_a_key_that_ends_beside_a_large_picture_is_asked_for_where_it_can_be_given(page: Any) -> None:
    shown(page, 3)
    page.route(
        "**/v1/feedback",
        lambda route: route.fulfill(status=401, json={"status": 401, "code": "unauthorized", "detail": "ended"}),
    )
    page.locator('[data-index="0"] .open').click()
    page.get_by_role("dialog").get_by_role("button", name="Right: 0.jpg").click()
    page.get_by_label("API key or token").fill("lodestone_1_2")
    assert page.locator("dialog[open]").count() == 0


def test_mistakes_of_the_page_are_not_taken_for_a_lost_connection(page: Any) -> None:
    page.goto("/")
    told = page.evaluate(
        """async (body) => {
      const { streamSearch } = await import("./web/files/engine/events.js");
      const own = window.fetch;
      let asked = 0;
      const broken = [];
      window.fetch = async (path, ...rest) => {
        if (!String(path).includes("stream")) return own(path, ...rest); // the page asks for other things, too
        asked += 1;
        return new Response(body);
      };
      const onEvent = () => { null.nothing; };
      const error = await streamSearch({}, { onEvent, onBroken: () => broken.push(1) }).catch((raised) => raised);
      window.fetch = own;
      return [asked, broken.length, error.name];
    }""",
        events({"type": "done", "response": response([])}),
    )
    assert told == [1, 0, "TypeError"]


def test_a_stream_that_breaks_while_it_is_read_is_taken_up_again(page: Any) -> None:
    page.goto("/")
    told = page.evaluate(
        """async ([begin, end]) => {
      const { streamSearch } = await import("./web/files/engine/events.js");
      const own = window.fetch;
      const asked = [];
      let came;
      const read = new Promise((resolve) => { came = resolve; });
      const cut = () => new ReadableStream({
        start(control) { control.enqueue(new TextEncoder().encode(begin)); },
        async pull(control) { await read; control.error(new TypeError("network error")); },
      });
      window.fetch = async (path, ...rest) => {
        if (!String(path).includes("stream")) return own(path, ...rest); // the page asks for other things, too
        asked.push(path);
        return new Response(asked.length === 1 ? cut() : end);
      };
      const events = [];
      let broken = 0;
      const onEvent = (message) => { events.push(message.type); came(); };
      await streamSearch({}, { onEvent, onBroken: () => { broken += 1; } });
      window.fetch = own;
      return [asked.length, events, broken];
    }""",
        [events({"type": "results", "response": response([])}), events({"type": "done", "response": response([])}, first=2)],
    )
    assert told == [2, ["results", "done"], 1]
