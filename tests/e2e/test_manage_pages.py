"""The service can be looked after in a browser, with a session or with this machine's token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import PHONE, inaccessible, matches, page_of, until
from tests.support.home import image_ids, settings_for
from tests.support.homes import home_settings, index
from tests.support.pictures import write_photos
from tests.support.search_page import shared_browser  # noqa: F401 - a fixture
from tests.support.served import TOKEN, Served, served_here

from lodestone.access.keys import ApiKey
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.home.runtime import Runtime
from lodestone_schemas.access import KeyRequest, Scope

PAGES = ("corpora", "runs", "tags", "trust", "models", "keys", "settings")
DARK = ("corpora", "keys")  # with the colours of all pages; each look takes a second
BROKEN = 60  # more than a page of failures
TOPIC = {
    "topic": "topic-00000001",
    "words": ["a cat", "<b>a dog</b>"],
    "queries": 7,
    "weights": {"bridge": 1.25, "labels": 0.75},
}


OUTLINES = {
    "corpora": """
- main:
  - heading "Corpora" [level=1]
  - group: Add a folder
  - region "Corpus photos":
    - heading "photos" [level=2]
    - link "Search in photos"
    - button "Rename photos"
    - button "Remove photos"
    - term: Pictures
    - definition: "4"
    - term: Files that failed
    - definition:
      - link "Why?"
    - list:
      - listitem:
        - heading "pictures folder" [level=3]
        - button "Index pictures now"
        - button "Remove pictures"
        - paragraph:
          - switch "Pictures of pictures are found" [checked]
          - switch "pictures is watched"
        - group: Folders inside
""",
    "runs": """
- main:
  - heading "Runs" [level=1]
  - combobox "Corpus"
  - combobox "State"
  - list:
    - listitem:
      - heading "index photos done" [level=2]:
        - link "index photos"
      - paragraph: 4 pictures embedded, 60 files failed
""",
    "run": """
- main:
  - paragraph:
    - link "All runs"
  - heading /Run [0-9a-f]+/ [level=1]
  - region "The run":
    - heading "index photos done" [level=2]
    - button "Try failed files again"
    - term: Began
    - term: Took
  - region "Failures":
    - heading "60 files failed" [level=2]
    - region "Files that failed":
      - table:
        - rowgroup:
          - row:
            - columnheader "File"
            - columnheader "Why"
            - columnheader "Code"
    - navigation "Pages of failures":
      - button "Previous" [disabled]
      - button "Next"
""",
    "tags": """
- main:
  - heading "Tags" [level=1]
  - search:
    - searchbox "Text of the tag"
    - combobox "Source"
    - button "Find"
  - list "Tags":
    - listitem:
      - link "dots 1 picture"
    - listitem:
      - link "stripes 1 picture"
""",
    "trust": """
- main:
  - heading "Trust" [level=1]
  - heading "Nothing is learnt yet" [level=2]
""",
    "models": """
- main:
  - heading "Models" [level=1]
  - heading "Generators" [level=2]
  - list:
    - listitem:
      - heading "exemplar answers" [level=3]
      - paragraph: /Licence/
  - heading "Spaces" [level=2]
  - list:
    - listitem:
      - heading "bridge" [level=3]
  - heading "Text encoders" [level=2]
  - heading "Image models" [level=2]
""",
    "keys": """
- main:
  - heading "Keys" [level=1]
  - group: Make a key
  - list:
    - listitem "Key admin":
      - heading "admin valid" [level=2]
      - combobox "Old one ends"
      - button "Rotate admin"
      - button "Revoke admin"
      - term: Scopes
      - definition: admin
""",
    "settings": """
- main:
  - heading "Settings" [level=1]
  - region "The service":
    - heading "The service ready" [level=2]
    - term: Version
    - region "Parts of the service":
      - table:
        - rowgroup:
          - row:
            - columnheader "Part"
            - columnheader "State"
""",
}
FRAME = """
- link "Skip to the content"
- banner:
  - link "Lodestone"
  - navigation "Manage":
    - link "Corpora"
    - link "Runs"
    - link "Tags"
    - link "Trust"
    - link "Models"
    - link "Keys"
    - link "Settings"
  - navigation "Page":
    - link "Search"
    - link "API"
    - button "Sign out"
    - button /Theme/
- main
"""
"""What assistive technology reads on each page, in its order; more may be there besides."""


RUNNING = "fetch('/v1/runs?state=running').then((answer) => answer.json()).then((page) => page.runs.length)"
"""How many runs go on."""


@dataclass(frozen=True)
class Site:
    """A service that asks for keys, with one indexed folder, and a key of each kind."""

    served: Served
    folder: Path
    keys: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("manage")
    write_photos(folder / "pictures", 4)
    write_photos(folder / "more", 2)
    for number in range(BROKEN):
        (folder / "pictures" / f"broken-{number:02d}.jpg").write_bytes(b"no picture")
    settings = home_settings(folder / "home")
    index(settings, folder / "pictures")
    keys = {}
    with Runtime.open(settings) as runtime:
        for name, scopes in (("viewer", [Scope.SEARCH]), ("admin", [Scope.ADMIN])):
            key, keys[name] = ApiKey.new(KeyRequest(name=name, scopes=scopes, corpora=None))
            runtime.catalog.add_key(key)
        images = [image for name, image in sorted(image_ids(runtime, "photos").items()) if "broken" not in name]
        runtime.tags.add(images[:1], "dots", source="implicit")
        runtime.tags.add(images[1:2], "stripes", source="implicit")
    settings = settings.model_copy(update={"serve": ServeSettings(auth=AuthSettings(keys=True))})
    with served_here(settings) as served:
        yield Site(served, folder, keys)


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of an empty home that asks for no keys."""
    with served_here(settings_for(tmp_path_factory.mktemp("keyless"))) as served:
        yield served


@pytest.fixture(scope="module")
def session(browser: Any, site: Site) -> dict[str, Any]:
    """What a browser holds after an admin's key was given once, as Playwright stores it."""
    with page_of(browser, site.served.address.url, expected=("Failed to load resource",)) as opened:
        opened.goto("/manage")
        opened.get_by_role("heading", name="This service asks for a key").wait_for()
        assert inaccessible(opened) == []
        sign_in(opened, site.keys["admin"])
        held: dict[str, Any] = opened.context.storage_state()
    return held


@pytest.fixture
def page(browser: Any, site: Site, session: dict[str, Any]) -> Iterator[Any]:
    """A page of a browser with that session."""
    with page_of(browser, site.served.address.url, expected=("Failed to load resource",), storage_state=session) as opened:
        yield opened


def sign_in(page: Any, key: str) -> None:
    page.get_by_label("API key or token").fill(key)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("button", name="Sign out").wait_for()


def show(page: Any, name: str) -> None:
    page.goto(f"/manage#/{name}")
    page.locator(f"main[data-page={name.partition('/')[0].partition('?')[0]}] h1").wait_for()
    page.locator(".lines").wait_for(state="detached")


def test_the_pages_are_reached_from_the_search_page_and_lead_back(browser: Any, keyless: Served) -> None:
    with page_of(browser, keyless.address.url) as page:
        page.goto("/")
        page.get_by_role("link", name="Manage").click()
        page.get_by_role("heading", name="Corpora", level=1).wait_for()
        page.get_by_role("heading", name="Nothing is indexed yet").wait_for()
        page.get_by_role("link", name="Runs").click()
        page.get_by_role("heading", name="No runs").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Runs", "the heading is read out"
        assert page.title() == "Runs · Lodestone"
        page.go_back()
        page.get_by_role("heading", name="Corpora", level=1).wait_for()
        page.keyboard.press("Tab")
        page.get_by_role("link", name="Search", exact=True).click()
        page.get_by_role("heading", name="Add a folder").wait_for()


def test_each_page_is_outlined_for_those_who_do_not_see_it(page: Any) -> None:
    for name in PAGES:
        show(page, name)
        matches(page.locator("main"), OUTLINES[name])
    matches(page.locator("body"), FRAME)
    show(page, "runs")
    page.get_by_role("link", name="index photos").last.click()
    page.get_by_role("heading", name=f"{BROKEN} files failed").wait_for()
    matches(page.locator("main"), OUTLINES["run"])


def test_a_folder_is_added_followed_hidden_and_removed(page: Any, site: Site) -> None:
    show(page, "corpora")
    page.get_by_text("Add a folder").click()
    page.get_by_label("Folder on the service's machine").fill(str(site.folder / "nowhere"))
    page.get_by_role("button", name="Add and index").click()
    page.get_by_text("no such folder").wait_for()
    page.get_by_label("Folder on the service's machine").fill(str(site.folder / "more"))
    page.get_by_role("combobox", name="Corpus").fill("new")
    page.get_by_role("button", name="Add and index").click()
    page.get_by_role("region", name="Indexing").wait_for()
    corpus = page.get_by_role("region", name="Corpus new")
    corpus.get_by_text("done").wait_for()
    assert corpus.locator(".facts dd").first.inner_text() == "2"

    page.get_by_role("switch", name="Pictures of more are found").uncheck()
    page.reload()
    assert not page.get_by_role("switch", name="Pictures of more are found").is_checked()

    corpus.get_by_role("button", name="Remove new").click()
    window = page.get_by_role("dialog", name="Remove this corpus?")
    assert window.get_by_role("button", name="Remove it").is_disabled(), "until its name is written"
    page.keyboard.press("Escape")
    window.wait_for(state="detached")
    until(page, "document.activeElement.getAttribute('aria-label')", "Remove new")  # the focus is where it was
    corpus.get_by_role("button", name="Remove new").click()
    window.get_by_label("Write new to confirm").fill("new")
    window.get_by_role("button", name="Remove it").click()
    page.get_by_text("The corpus new was removed.").wait_for()
    corpus.wait_for(state="detached")


def test_a_corpus_gets_another_name_and_folders_inside_are_left_out_and_listed_alone(page: Any, site: Site) -> None:
    for number, name in enumerate(("drafts", "summer", "winter"), 2):
        write_photos(site.folder / "inside" / name, 2, size=(64 * number, 48))
    show(page, "corpora")
    page.get_by_text("Add a folder").click()
    page.get_by_label("Folder on the service's machine").fill(str(site.folder / "inside"))
    page.get_by_role("combobox", name="Corpus").fill("old")
    page.get_by_role("button", name="Add and index").click()
    page.get_by_role("region", name="Corpus old").get_by_text("done").wait_for()

    page.get_by_role("button", name="Rename old").click()
    window = page.get_by_role("dialog", name="Rename this corpus?")
    assert window.get_by_role("button", name="Rename it").is_disabled(), "until a name is written"
    window.get_by_label("New name").fill("photos")
    page.keyboard.press("Enter")
    page.locator(".toast.note").get_by_text("photos").wait_for()  # a corpus that has the name
    window.wait_for(state="detached")
    page.get_by_role("button", name="Rename old").click()
    window.get_by_label("New name").fill("family")
    page.keyboard.press("Enter")
    page.get_by_text("The corpus old is called family now.").wait_for()
    corpus = page.get_by_role("region", name="Corpus family")
    corpus.get_by_text("Folders inside").click()

    assert corpus.get_by_role("button", name="Leave out", exact=True).is_disabled(), "until something is written"
    corpus.get_by_label("Leave out of inside").fill(" /drafts/ ")
    page.keyboard.press("Enter")
    page.get_by_text("/drafts/ is left out.").wait_for()
    corpus.get_by_text("1 left out").wait_for()
    until(page, "document.querySelector('[aria-label=\"Corpus family\"] li .facts dd').textContent", "4")
    assert inaccessible(page) == []
    until(page, RUNNING, 0)  # until then the corpus is taken

    corpus.get_by_label("Folder of inside to list by itself").fill("nowhere")
    page.keyboard.press("Enter")
    page.locator(".toast.note").get_by_text("nowhere").wait_for()
    assert corpus.get_by_label("Folder of inside to list by itself").input_value() == "nowhere", "what was written stays"
    corpus.get_by_label("Folder of inside to list by itself").fill("summer")
    page.keyboard.press("Enter")
    page.get_by_text("summer is listed by itself.").wait_for()
    corpus.get_by_role("button", name="Remove summer").click()
    window = page.get_by_role("dialog", name="Remove this folder?")
    window.get_by_text("2 pictures of “summer” in “family” will not be found any more.").wait_for()
    window.get_by_role("button", name="Remove it").click()
    page.get_by_text("The folder summer was removed.").wait_for()

    corpus.get_by_role("button", name="Index /drafts/ of inside again").click()
    page.get_by_text("/drafts/ is indexed again.").wait_for()
    until(page, "document.querySelector('[aria-label=\"Corpus family\"] li .facts dd').textContent", "4")
    assert sorted(path.name for path in (site.folder / "inside").iterdir()) == ["drafts", "summer", "winter"]


def test_pictures_are_counted_after_their_run_was_seen_to_be_done(page: Any) -> None:
    asked: list[str] = []

    def held(route: Any) -> None:
        answered = route.fetch()
        page.wait_for_timeout(300)  # time enough to ask for the counts beside it
        asked.append("runs are answered")
        route.fulfill(response=answered)

    page.route("**/v1/runs?*", held)
    page.on("request", lambda request: asked.append("corpora") if "/v1/corpora" in request.url else None)
    show(page, "corpora")
    assert asked[:2] == ["runs are answered", "corpora"]


def test_runs_say_what_failed_page_by_page_and_try_it_again(page: Any) -> None:
    show(page, "runs?corpus=photos&state=done")
    assert page.get_by_label("State").input_value() == "done"
    page.get_by_role("link", name="index photos").last.click()
    page.get_by_role("heading", name=f"{BROKEN} files failed").wait_for()
    assert (
        page.get_by_role("region", name="Files that failed").locator("tbody tr").first.inner_text().split("\t")[0]
        == "pictures/broken-00.jpg"
    )
    page.get_by_role("button", name="Next").click()
    page.get_by_text(f"51 to {BROKEN} of {BROKEN}").wait_for()
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("1 to 50 of").wait_for()
    before = page.url
    page.get_by_role("button", name="Try failed files again").click()
    page.get_by_text("tried again, in a new run").wait_for()
    page.get_by_role("link", name="index photos").nth(1).wait_for()
    page.get_by_role("link", name="index photos").first.click()
    page.get_by_role("heading", name=f"{BROKEN} files failed").wait_for()
    assert page.url != before, "the new run tried them, though they had not changed"


def test_a_run_that_goes_on_tells_its_progress_and_can_be_stopped(page: Any) -> None:
    run_id = "00000000-0000-4000-8000-000000000001"
    told: dict[str, Any] = {
        "run_id": run_id,
        "kind": "index",
        "corpus": "photos",
        "state": "running",
        "stage": "embed",
        "error": "",
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": None,
        "heartbeat_at": None,
        "cancel_requested": False,
        "counts": {"embedded": 30},
        "failures": 0,
        "progress": {
            "stage": "embed",
            "detail": "",
            "done": 30,
            "total": 120,
            "rate": 12.5,
            "seconds_left": 7.2,
            "limited_by": "decode",
            "gpus": [],
            "stages": [{"stage": "decode", "pictures": 30, "rate": 12.5, "busy": 0.9, "waiting": 3}],
        },
    }
    asked = []

    def cancel(route: Any) -> None:
        asked.append(route.request.method)
        told["cancel_requested"] = True
        route.fulfill(json=told)

    page.route(f"**/v1/runs/{run_id}", lambda route: route.fulfill(json=told))
    page.route(f"**/v1/runs/{run_id}/failures*", lambda route: route.fulfill(json={"failures": [], "next_cursor": None}))
    page.route(f"**/v1/runs/{run_id}/cancel", cancel)
    show(page, f"runs/{run_id}")
    page.get_by_text("30 of 120, 13 a second, about 7 s left, limited by decode").wait_for()
    assert page.get_by_role("progressbar").get_attribute("value") == "30"
    told["progress"]["done"] = 90
    page.get_by_role("status").filter(has_text="embed, 75 percent").wait_for(state="attached")
    assert inaccessible(page) == []
    page.get_by_role("button", name="Stop …").click()
    page.get_by_role("button", name="Stop it").click()
    page.get_by_text("It was asked to stop.").wait_for()
    assert asked == ["POST"]
    told.update(state="cancelled", finished_at="2026-01-01T00:01:00Z")
    page.get_by_role("status").filter(has_text="The run is cancelled.").wait_for(state="attached")


@pytest.mark.nightly
@pytest.mark.slow
def test_older_runs_follow_without_gaps_or_doubles_though_new_ones_begin(page: Any) -> None:
    run = {"kind": "index", "corpus": "photos", "state": "done", "stage": "", "error": "", "failures": 0, "progress": None}
    run |= {"heartbeat_at": None, "cancel_requested": False, "counts": {}, "finished_at": "2026-01-01T00:00:01Z"}
    total = [60]

    def listed(route: Any) -> None:
        begin = int(route.request.url.partition("cursor=")[2] or total[0])
        runs = [
            {
                **run,
                "run_id": f"00000000-0000-4000-8000-{at:012d}",
                "started_at": f"2026-01-01T00:{at:02d}:00Z",
                "kind": f"run {at}",
            }
            for at in range(begin - 1, max(-1, begin - 26), -1)
        ]
        route.fulfill(json={"runs": runs, "next_cursor": str(begin - 25) if begin > 25 else None})

    page.route("**/v1/runs?*", listed)
    shown = "[...document.querySelectorAll('.cards h2 a')].map((link) => Number(link.textContent.split(' ')[1]))"
    show(page, "runs")
    until(page, shown, list(range(59, 34, -1)))
    page.get_by_role("button", name="Show older runs").click()
    until(page, shown, list(range(59, 9, -1)))
    for more in (3, 40):  # some of the first page, and more than all of it
        total[0] += more
        until(page, shown, list(range(total[0] - 1, 9, -1)))
    page.get_by_role("button", name="Show older runs").click()
    until(page, shown, list(range(total[0] - 1, -1, -1)))
    assert page.get_by_role("button", name="Show older runs").count() == 0


def test_runs_of_all_kinds_say_what_they_did(page: Any) -> None:
    run = {"corpus": None, "state": "done", "stage": "", "error": "", "failures": 0, "progress": None, "heartbeat_at": None}
    run |= {"cancel_requested": False, "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01Z"}
    told = {
        "train-bridge": ({"pictures": 784, "texts": 1475}, "Learnt from 784 pictures and 1,475 texts."),
        "train-complexity": ({"judged": 1, "feedback": 0}, "Learnt from 1 judged query."),
        "train-weights": ({"pairs": 40}, "Learnt from 40 queries with their right pictures."),
        "duplicates": ({"exact": 2, "near": 1}, "2 exact copies, 1 near copy"),
        "compact": ({"replaced": 4, "written": 1}, "4 slices rewritten as 1"),
        "model-swap": ({"embedded": 3, "adopted": 1}, "3 pictures embedded, 1 picture was embedded before"),
        "index": ({"new": 0, "gone": 2, "embedded": 0}, "2 files gone"),
        "catalog-rebuild": ({"pictures": 12, "left_out": 1}, "pictures: 12, left out: 1"),
    }
    runs = [
        {**run, "run_id": f"00000000-0000-4000-8000-{at:012d}", "kind": kind, "counts": counts}
        for at, (kind, (counts, _)) in enumerate(told.items())
    ]
    page.route("**/v1/runs?*", lambda route: route.fulfill(json={"runs": runs, "next_cursor": None}))
    show(page, "runs")
    page.locator(".cards li").nth(len(told) - 1).wait_for()
    assert page.locator(".cards li > p").all_inner_texts() == [line for _, line in told.values()]
    assert inaccessible(page) == []


def test_the_name_of_a_key_that_is_too_long_is_refused_and_not_cut(page: Any) -> None:
    show(page, "keys")
    page.get_by_text("Make a key").click()
    name = page.get_by_label("What it is for")
    name.fill("n" * 201)
    page.get_by_role("button", name="Make the key").click()
    page.locator(".toast.note").get_by_text("name").wait_for()
    assert name.input_value() == "n" * 201


def test_tags_are_confirmed_and_removed(page: Any) -> None:
    show(page, "tags?source=implicit")
    page.get_by_role("link", name="dots 1 picture").click()
    page.get_by_role("button", name="Confirm dots").click()
    page.get_by_text("“dots” is confirmed.").wait_for()
    page.get_by_role("heading", name="dots").wait_for(state="detached")
    page.get_by_role("link", name="All tags").click()
    page.get_by_role("link", name="stripes 1 picture").click()
    page.get_by_role("button", name="Remove stripes").click()
    page.get_by_role("button", name="Remove it").click()
    page.get_by_role("heading", name="No tags").wait_for()
    page.get_by_role("link", name="All tags").click()
    page.get_by_text("No tag is like that.").wait_for()
    show(page, "tags")
    page.get_by_role("link", name="dots 1 picture").click()
    card = page.locator(".tile-card")
    card.get_by_text("by hand").wait_for()
    assert card.count() == 1
    card.locator("img").evaluate("(image) => image.decode()")
    page.get_by_label("Text of the tag").fill("nothing")
    page.keyboard.press("Enter")
    page.get_by_text("No picture has this tag.").wait_for()
    assert "text=nothing" in page.url


def test_trust_is_a_bar_for_each_space(page: Any) -> None:
    told = {"event_id": "e", "created_at": "2026-01-01T00:00:00Z", "topic": TOPIC["topic"], "cause": "", "kind": "feedback"}
    events = [
        {**told, "event_id": "later", "before": {"bridge": 1.1, "labels": 0.9}, "after": TOPIC["weights"]},
        {**told, "before": {"bridge": 1.0, "labels": 1.0}, "after": {"bridge": 1.1, "labels": 0.9}},
    ]
    page.route("**/v1/trust", lambda route: route.fulfill(json={"topics": [TOPIC]}))
    page.route("**/v1/trust/events*", lambda route: route.fulfill(json={"events": events, "next_offset": None}))
    show(page, "trust")
    page.get_by_role("heading", name="Searches like “a cat”").wait_for()
    assert page.locator(".bars b").all_inner_texts() == ["1.250", "0.750"]
    page.get_by_text("<b>a dog</b>").wait_for()
    assert page.locator("polyline").first.get_attribute("points") == "0.0,12.00 60.0,10.80 120.0,9.00"
    page.get_by_text("2 changes").click()
    page.get_by_text("bridge 1.100 → 1.250, labels 0.900 → 0.750").wait_for()
    more, less = (page.locator(".bar > span").nth(at).bounding_box() for at in (0, 1))
    assert less["x"] + less["width"] == pytest.approx(more["x"], abs=1), "they leave from the middle, where 1 is"
    assert more["width"] == pytest.approx(less["width"], abs=1)
    assert inaccessible(page) == []


def test_models_have_their_state_and_licence(page: Any) -> None:
    show(page, "models")
    page.get_by_role("heading", name="exemplar").get_by_text("answers").wait_for()
    cards = page.locator("main li.card")
    assert cards.count() >= 5
    assert cards.filter(has_text="licence that comes with its files").count() == 0, (
        "those of the profile embedded are all known"
    )
    assert cards.filter(has_text="efficientnet-lite0").get_by_text("Apache-2.0").count() == 1


def test_a_key_is_made_shown_once_rotated_and_revoked(page: Any, site: Site) -> None:
    show(page, "keys")
    page.get_by_text("Make a key").click()
    page.get_by_label("What it is for").fill("photo app")
    page.get_by_role("checkbox", name="feedback").check()
    page.get_by_label("Rate (empty: the service's)").fill("6/minute")
    page.get_by_role("button", name="Make the key").click()
    secret = page.get_by_label("Key “photo app”").input_value()
    assert secret.startswith("lodestone_")
    for _ in range(3):
        page.keyboard.press("Escape")
    assert page.get_by_label("Key “photo app”").input_value() == secret, "not lost by a slip"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("The key is in the clipboard.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.get_by_role("button", name="I have kept it").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert secret not in page.content()
    card = page.locator("li.card").filter(has=page.get_by_role("heading", name="photo app"))
    assert "search, feedback" in card.inner_text()
    assert "6/minute" in card.inner_text()
    card.get_by_label("Old one ends").select_option("at once")
    card.get_by_role("button", name="Rotate photo app").click()
    rotated = page.get_by_label("Key “photo app”").input_value()
    page.get_by_role("button", name="I have kept it").click()
    card.filter(has_text="expired").wait_for()
    assert [answer(page, site, key) for key in (secret, rotated)] == [401, 200]
    card.get_by_role("button", name="Revoke photo app").click()
    page.get_by_role("button", name="Revoke it").click()
    card.filter(has_text="revoked").wait_for()
    show(page, "settings")
    assert secret not in page.content()


def answer(page: Any, site: Site, key: str) -> int:
    """Status of a request with a key, sent by something else than a browser."""
    answered = page.request.get(
        f"{site.served.address.url}/v1/corpora", headers={"Authorization": f"Bearer {key}", "Cookie": ""}
    )
    return int(answered.status)


def test_a_key_without_the_scope_is_told_which_and_another_can_be_given(browser: Any, site: Site) -> None:
    with page_of(browser, site.served.address.url, expected=("Failed to load resource",)) as page:
        page.goto("/manage")
        sign_in(page, site.keys["viewer"])
        page.get_by_role("button", name="Index pictures now").click()
        page.get_by_role("heading", name="Your key lacks the scope index").wait_for()
        page.get_by_role("button", name="Close").click()
        show(page, "keys")
        page.get_by_role("heading", name="Your key lacks the scope admin").wait_for()
        assert inaccessible(page) == []
        page.get_by_label("Another key").fill(site.keys["admin"])
        page.get_by_role("button", name="Use this key").click()
        page.get_by_text("Make a key").wait_for()
        assert page.evaluate("document.cookie") == "", "no script can read it"
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key or token").wait_for()


def test_without_keys_this_machine_s_token_opens_the_tab(browser: Any, keyless: Served) -> None:
    with page_of(browser, keyless.address.url, expected=("Failed to load resource",)) as page:
        page.goto("/manage#/keys")
        page.get_by_role("heading", name="Only this machine's user may do this").wait_for()
        for given in ("wrong", TOKEN):
            page.get_by_label("Token of this home").fill(given)
            page.get_by_role("button", name="Unlock this tab").click()
            if given == "wrong":
                page.get_by_text("This is not the token of the service that runs.").wait_for()
        page.get_by_role("heading", name="No keys").wait_for()
        assert TOKEN not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        page.get_by_role("button", name="Lock").click()
        page.get_by_role("heading", name="Only this machine's user may do this").wait_for()


def test_writes_of_another_site_are_refused_though_the_browser_has_a_session(page: Any, site: Site) -> None:
    url = site.served.address.url
    show(page, "keys")
    before = page.locator("li.card").count()
    window = page.context
    attack = """async (url) => {
      const body = JSON.stringify({ name: "stolen", scopes: ["admin"] });
      const tried = [
        { method: "POST", body, headers: { "Content-Type": "application/json" } },
        { method: "POST", body, mode: "no-cors" },
        { method: "POST", body: new URLSearchParams({ name: "stolen" }), mode: "no-cors" },
      ].map((options) => fetch(url + "/v1/keys", { credentials: "include", ...options }));
      tried.push(fetch(url + "/v1/corpora/photos", { method: "DELETE", credentials: "include" }));
      const read = (result) => result.status === "fulfilled" && result.value.type !== "opaque";
      return (await Promise.allSettled(tried)).map(read);
    }"""
    for origin in ("http://elsewhere.example", "http://localhost:1"):
        other = window.new_page()
        other.route(f"{origin}/", lambda route: route.fulfill(content_type="text/html", body="<h1>Another site</h1>"))
        other.goto(f"{origin}/")
        assert not any(other.evaluate(attack, url))
        other.close()
    page.reload()
    page.locator(".lines").wait_for(state="detached")
    assert page.locator("li.card").count() == before
    show(page, "corpora")
    page.get_by_role("region", name="Corpus photos").wait_for()


def test_what_loads_fails_or_is_out_of_reach_says_so(browser: Any, keyless: Served) -> None:
    problem = {"status": 503, "code": "catalog_failed", "detail": "the catalog is <locked>", "hint": "try later"}
    with page_of(browser, keyless.address.url, expected=("Failed to load resource",)) as page:
        waiting: list[Any] = []
        page.route("**/v1/models", lambda route: waiting.append(route))  # noqa: PLW0108 - Playwright marks its listeners
        page.goto("/manage#/models")
        page.locator(".lines").wait_for()
        page.get_by_role("status").filter(has_text="Loading").wait_for(state="attached")
        waiting[0].fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))
        page.get_by_text("the catalog is <locked>").wait_for()
        page.get_by_text("Hint: try later").wait_for()
        assert inaccessible(page) == []
        page.unroute("**/v1/models")
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("heading", name="Image models").wait_for()
        page.route("**/v1/status", lambda route: route.abort())
        show(page, "settings")
        page.get_by_role("heading", name="The service is out of reach").wait_for()
        page.unroute("**/v1/status")
        page.get_by_role("region", name="The service", exact=True).wait_for()  # by itself


def test_an_address_of_no_page_says_so(browser: Any, keyless: Served) -> None:
    with page_of(browser, keyless.address.url) as page:
        for name in ("nowhere", "__proto__", "constructor", "<img src=x onerror=alert(1)>"):
            page.goto("/")
            page.goto(f"/manage#/{name}")
            page.get_by_role("heading", name="There is no such page").wait_for()


def test_numbers_times_and_addresses_are_written_for_people(browser: Any, keyless: Served) -> None:
    with page_of(browser, keyless.address.url, expected=("Failed to load resource",)) as page:
        page.goto("/manage#/runs/a%2Fb?corpus=my+photos&state=%C3%BC")
        told = page.evaluate("""async () => {
          const { between, bytes, count, lasting } = await import("./web/files/manage/wording.js");
          const { link, route } = await import("./web/files/manage/router.js");
          return {
            counts: [count(0, "file"), count(1, "file"), count(1234, "query", "queries")],
            times: [0.2, 61, 600, 7200].map(lasting),
            between: between("2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
            sizes: [0, 999, 1000, 268435456].map(bytes),
            route: route.value,
            link: link("runs", "a/b", { corpus: "my photos", state: "", other: null }),
          };
        }""")
    assert told["counts"] == ["0 files", "1 file", "1,234 queries"]
    assert told["times"] == ["under 1 s", "61 s", "10 min", "2.0 h"]
    assert told["between"] == 90
    assert told["sizes"] == ["0 B", "999 B", "1.0 kB", "268.4 MB"]
    assert told["route"] == {"page": "runs", "id": "a/b", "params": {"corpus": "my photos", "state": "ü"}}
    assert told["link"] == "#/runs/a%2Fb?corpus=my+photos"


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(("scheme", "device"), [("light", {}), ("dark", PHONE)], ids=["desktop-light", "phone-dark"])
def test_every_page_is_accessible_and_fits(
    browser: Any, site: Site, session: dict[str, Any], scheme: str, device: dict[str, Any]
) -> None:
    with page_of(browser, site.served.address.url, color_scheme=scheme, storage_state=session, **device) as page:
        for name in PAGES:
            show(page, name)
            closed = page.locator("details:not([open]) > summary")
            while closed.count():
                closed.first.click()
            if scheme == "light" or name in DARK:
                assert inaccessible(page) == [], name
            # Not `innerWidth`: a phone makes its window as wide as what is too wide for it.
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= page.viewport_size["width"], f"{name}: something is cut off at the side"
