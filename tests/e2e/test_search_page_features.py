"""Pictures are filtered, cut, judged by their guides, selected, exported and looked at closely in a browser."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from PIL import Image
from tests.support.browser import ORDER, PHONE, inaccessible, page_of, until
from tests.support.homes import home_settings, index
from tests.support.page_answers import answering, events, guide, hit, response
from tests.support.photos import CAT, COFFEE, PERSON, photo, photo_path
from tests.support.search_page import TILES, captioned_pictures, finished, part_labels, search, shared_browser  # noqa: F401 - a fixture
from tests.support.served import Served, served_here

COUNT = "document.querySelectorAll('.tile').length"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two corpora: drawn pictures and photos, of which three have captions; and one photo with a date and a place."""
    folder = tmp_path_factory.mktemp("features")
    captioned_pictures(folder / "pictures", drawn=8)
    facts = Image.Exif()
    facts.get_ifd(0x8769)[0x9003] = "2019:07:14 10:00:00"
    facts.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 36.0), 3: "E", 4: (151.0, 12.0, 36.0)})
    (folder / "trips" / "2019").mkdir(parents=True)
    photo(PERSON).save(folder / "trips" / "2019" / "sydney.jpg", exif=facts)
    photo(CAT).rotate(180).save(folder / "trips" / "cat.jpg")
    settings = home_settings(folder / "home", serve={"upkeep": False})
    index(settings, folder / "pictures")
    index(settings, folder / "trips", corpus="trips")
    with served_here(settings) as served:
        yield served


@pytest.fixture
def page(browser: Any, site: Served) -> Iterator[Any]:
    with page_of(browser, site.address.url, expected=("Failed to load resource",)) as opened:
        opened.goto("/")
        yield opened


def opened(page: Any, name: str) -> None:
    """Open the result of a file in the lightbox."""
    images = page.request.get("/v1/images?corpus=trips").json()["images"]
    (shown,) = [image["image_id"] for image in images if image["uri"].endswith(name)]
    page.locator(f'[data-id="{shown}"] .open').click()
    page.wait_for_selector(".whole:not([hidden])")


def saved(page: Any, name: str) -> bytes:
    """The file that a button of the selection saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return Path(download.value.path()).read_bytes()


def test_filters_are_added_from_a_menu_removed_one_by_one_and_part_of_the_address(page: Any) -> None:
    search(page, "a cat")
    everything = page.locator(".tile").count()
    page.get_by_role("button", name="Filter", exact=True).click()
    assert inaccessible(page) == []
    page.keyboard.press("Escape")
    page.locator(".panel form").wait_for(state="detached")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Collection").select_option("trips")
    until(page, COUNT, 2)
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Folder inside").fill("2019")
    page.get_by_label("Taken from").fill("2019-07-01")
    page.get_by_label("Taken before").fill("2019-08-01")
    page.get_by_role("button", name="Apply").click()
    until(page, COUNT, 1)
    assert part_labels(page) == ["in trips", "folder 2019", "since 2019-07-01", "before 2019-08-01"]
    assert page.url.endswith("?q=a+cat&corpus=trips&folder=2019&since=2019-07-01&before=2019-08-01")
    page.reload()
    until(page, COUNT, 1)
    assert len(part_labels(page)) == 4
    for name, count in (("folder 2019", 1), ("since 2019-07-01", 1), ("before 2019-08-01", 2), ("in trips", everything)):
        page.get_by_role("button", name=f"Remove the filter: {name}").click()
        until(page, COUNT, count)
    assert part_labels(page) == []
    page.go_back()
    until(page, COUNT, 2)


def test_places_and_times_are_suggested_and_filter(page: Any) -> None:
    search(page, "a cat")
    everything = page.locator(".tile").count()
    page.get_by_role("button", name="Filter", exact=True).click()
    until(page, "[...document.querySelectorAll('#known-during option')].map((one) => one.value).includes('July')", True)
    page.get_by_label("Season, month, day or holiday").fill(" july ")
    page.get_by_role("button", name="Apply").click()
    until(page, COUNT, 1)
    assert part_labels(page) == ["during july"]
    assert page.url.endswith("?q=a+cat&where=during%3Djuly")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Place").fill("Atlantis")
    page.get_by_role("button", name="Apply").click()
    until(page, COUNT, 0)
    assert part_labels(page) == ["during july", "place Atlantis"]
    for name, count in (("place Atlantis", 1), ("during july", everything)):
        page.get_by_role("button", name=f"Remove the filter: {name}").click()
        until(page, COUNT, count)


def test_a_region_is_drawn_by_pointer_and_by_keys_and_searched(page: Any) -> None:
    search(page, "an astronaut")
    opened(page, "sydney.jpg")
    page.get_by_role("button", name="Search a region").click()
    page.wait_for_selector(".region .box")
    told = page.locator(".region output")
    assert told.inner_text() == "From 25 % left and 25 % top, 50 % wide and 50 % high"
    until(page, "document.activeElement.className", "box")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    until(page, "document.querySelector('.region output').innerText", "From 23 % left and 25 % top, 50 % wide and 52 % high")
    assert inaccessible(page) == []
    frame = page.locator(".region .picture").bounding_box()
    at = lambda x, y: (frame["x"] + x * frame["width"], frame["y"] + y * frame["height"])  # noqa: E731
    for start, end, text in (
        ((0.1, 0.1), (0.4, 0.5), "From 10 % left and 10 % top, 30 % wide and 40 % high"),  # a new one
        ((0.2, 0.2), (0.9, 0.3), "From 70 % left and 20 % top, 30 % wide and 40 % high"),  # moved to the edge
        ((0.7, 0.6), (0.5, 0.7), "From 50 % left and 20 % top, 50 % wide and 50 % high"),  # its lower left corner
        ((0.1, 0.9), (0.1, 0.9), "From 0 % left and 50 % top, 50 % wide and 50 % high"),  # a click alone
    ):
        page.mouse.move(*at(*start))
        page.mouse.down()
        page.mouse.move(*at(*end), steps=2)
        page.mouse.up()
        until(page, "document.querySelector('.region output').innerText", text)
    with page.expect_request("**/v1/search/stream") as asked:
        page.get_by_role("button", name="Search this region").click()
    body = asked.value.post_data_json
    assert {name: round(share, 1) for name, share in body["region"].items()} == {"x": 0, "y": 0.5, "w": 0.5, "h": 0.5}
    assert (len(body["like"]), body["query"]) == (1, "")
    page.wait_for_selector("dialog[open]", state="detached")
    finished(page)
    assert part_labels(page) == ["like this region"]
    page.reload()
    page.wait_for_selector(".chip .draw")
    assert part_labels(page) == ["like this region"], "part of the address"


def test_regions_of_uploads_and_of_several_pictures_are_searched(page: Any) -> None:
    page.locator("input[type=file]").set_input_files(photo_path(COFFEE))
    finished(page)
    page.get_by_role("button", name="Draw a region of picture").click()
    page.wait_for_selector(".region .box")
    page.evaluate("""() => {
      const own = FormData.prototype.append;
      FormData.prototype.append = function (name, value) {
        if (name === "options") window.sent = value;
        own.apply(this, arguments);
      };
    }""")
    with page.expect_response("**/v1/search/image") as answered:
        page.get_by_role("button", name="Search this region").click()
    assert answered.value.status == 200
    assert json.loads(page.evaluate("window.sent"))["region"] == {"x": 0.25, "y": 0.25, "w": 0.5, "h": 0.5}
    finished(page)
    assert part_labels(page) == ["your picture’s region"]
    page.locator(f"{TILES} .open").first.click()
    with page.expect_response("**/v1/search/image") as answered:
        page.get_by_role("button", name="Add to query").click()
    page.wait_for_selector(".chip:nth-child(2) .share")
    assert part_labels(page) == ["like this", "your picture’s region"]
    parts = [(part["name"], part["region"]) for part in answered.value.json()["parts"]]
    assert parts == [("picture", None), ("picture2", None)], "beside another picture, the page cuts the region out"


def test_a_guide_is_left_out_and_used_again(page: Any) -> None:
    search(page, "a cat looks at the camera")
    used = page.locator(".guide:not(.rejected):not(.dropped)").first
    with page.expect_request("**/v1/search/stream") as asked:
        used.get_by_role("button", name="Leave out exemplar/0").click()
    assert asked.value.post_data_json["without_guides"] == ["exemplar/0"]
    again = page.get_by_role("button", name="Use exemplar/0")
    again.wait_for()
    finished(page)
    assert "left out" in str(page.locator(".guide.rejected button").first.get_attribute("aria-label"))
    assert inaccessible(page) == []
    page.reload()
    again.click()
    page.get_by_role("button", name="Leave out exemplar/0").wait_for()
    finished(page)
    page.get_by_role("button", name="Leave out exemplar/0").click()
    again.wait_for()
    finished(page)
    assert page.get_by_role("button", name="Draw again").count() == 0, "pictures of the collection are the same with any seed"


def test_guides_that_were_drawn_are_drawn_anew_with_another_seed(page: Any) -> None:
    guides = [guide("painter/0", engine="openai"), guide("exemplar/0")]
    asked = answering(page, events({"type": "done", "response": response([hit(0)], guides=guides)}))
    page.goto("/?q=dogs&leave=painter/0")
    finished(page)
    assert asked[0]["without_guides"] == ["painter/0"]
    page.get_by_role("button", name="Draw again").click()
    until(page, "new URLSearchParams(location.search).get('seed')", "1")
    finished(page)
    assert (asked[1]["seed"], "without_guides" in asked[1]) == (1, False)


def test_a_query_with_pictures_says_which_guides_it_does_without(page: Any) -> None:
    """Its pictures may be edited, by `target = "guide"` of the settings, and these are guides too."""
    body = """async (given) => {
        const { EMPTY, requestOf } = await import("./web/files/query/draft.js");
        return requestOf({ ...EMPTY, text: "at night", parts: [{ kind: "like", id: "a" }], ...given });
    }"""
    assert page.evaluate(body, {"withoutGuides": ["painter/0"]})["without_guides"] == ["painter/0"]
    words_only = page.evaluate(body, {"wordsOnly": True, "withoutGuides": ["painter/0"]})
    assert (words_only["guides"], "without_guides" in words_only) == (0, False)
    assert page.evaluate(body, {}).keys().isdisjoint({"guides", "without_guides"})


def test_pictures_are_selected_by_click_by_range_and_by_key_and_exported(page: Any) -> None:
    search(page, "a cat")
    page.locator(".tile .check").first.click()
    page.locator(".tile .check").nth(3).click(modifiers=["Shift"])
    status = page.get_by_role("region", name="Selection").get_by_role("status")
    assert status.inner_text() == "4 selected"
    page.locator(".tile .open").nth(1).focus()
    page.keyboard.press("x")
    until(page, "document.querySelectorAll('.check:checked').length", 3)
    assert inaccessible(page) == []
    shown = page.evaluate("[...document.querySelectorAll('.tile.selected')].map((tile) => tile.dataset.id)")
    rows = json.loads(saved(page, "JSON"))
    assert [row["image_id"] for row in rows] == shown
    paths = [f"{row['root']}/{row['uri']}" for row in rows]
    files = [Path(line) for line in saved(page, "Paths").decode().splitlines()]
    for row, file in zip(rows, files, strict=True):
        assert file.is_absolute()
        assert file.read_bytes() == page.request.get(f"/v1/images/{row['image_id']}/content").body()
    assert [Path(row["path"]) for row in rows] == files
    table = list(csv.DictReader(io.StringIO(saved(page, "CSV").decode(), newline="")))
    assert [f"{row['root']}/{row['uri']}" for row in table] == paths
    assert [Path(row["path"]) for row in table] == files
    search(page, "a rocket")
    assert status.inner_text() == "3 selected", "they stay while one searches on"
    with zipfile.ZipFile(io.BytesIO(saved(page, "Zip"))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == paths
        for row, path in zip(rows, paths, strict=True):
            content = page.request.get(f"/v1/images/{row['image_id']}/content").body()
            assert archive.read(path) == content
    page.locator(".tile .open").first.focus()
    page.keyboard.press("Control+a")
    until(page, "document.querySelectorAll('.tile:not(.selected)').length", 0)
    page.keyboard.press("Escape")
    page.locator(".selection").wait_for(state="detached")


def test_who_is_elsewhere_saves_folders_and_names_and_is_told_so(page: Any) -> None:
    access = {"scopes": ["search"], "paths": False, "compositions": ["default"]}
    page.route("**/v1/access", lambda route: route.fulfill(json=access))
    page.reload()
    search(page, "a cat")
    page.locator(".tile .check").first.click()
    assert page.get_by_role("button", name="Paths", exact=True).count() == 0
    button = page.get_by_role("button", name="Names", exact=True)
    assert button.get_attribute("title") == "The indexed folder and the path inside it, each in a line"
    (row,) = json.loads(saved(page, "JSON"))
    assert "path" not in row
    assert saved(page, "Names").decode() == f"{row['root']}/{row['uri']}\n"
    assert "path" not in saved(page, "CSV").decode().splitlines()[0].split(",")


def test_paths_that_cannot_be_asked_for_are_not_replaced_by_others(page: Any) -> None:
    search(page, "a cat")
    page.locator(".tile .check").first.click()
    problem = {"status": 503, "code": "overloaded", "detail": "the service has too much to do"}
    page.route("**/v1/images/paths", lambda route: route.fulfill(status=503, json=problem))
    page.get_by_role("button", name="Paths", exact=True).click()
    page.locator(".toast").get_by_text("Nothing was saved. the service has too much to do").wait_for()


def test_exports_hold_hostile_names_and_say_what_could_not_be_fetched(page: Any) -> None:
    names = ["../../etc/a.jpg", "=cmd.jpg", "two\nlines.jpg", 'q"uote, comma.jpg', "A.JPG", "a.jpg"]
    names += [".. /..\\... /Con.jpg", "\n=\x9b31m\u202egpj.exe.", "gone.jpg"]
    hits = [hit(number, root="=r" if number == 1 else "r", uri=name, captions=["@SUM(1)"]) for number, name in enumerate(names)]
    answering(page, events({"type": "done", "response": response(hits)}))
    page.route("**/v1/images/*/content", lambda route: route.fulfill(body=b"p", content_type="image/jpeg"))
    problem = json.dumps({"status": 404, "code": "not_found", "detail": "the file <b>is gone</b>"})
    gone = f"**/v1/images/{hits[-1]['image_id']}/content"
    page.route(gone, lambda route: route.fulfill(status=404, body=problem, content_type="application/problem+json"))
    search(page, "dogs")
    page.locator(".tile .open").first.focus()
    page.keyboard.press("Control+a")
    assert saved(page, "Paths").decode().splitlines()[2] == '"r/two\\nlines.jpg"'
    page.locator(".toast").get_by_text("9 of 9 pictures have no path that can be told").wait_for()
    table = list(csv.DictReader(io.StringIO(saved(page, "CSV").decode(), newline="")))
    assert [row["uri"] for row in table] == [names[0], "'=cmd.jpg", *names[2:7], f"'{names[7]}", names[8]]
    assert (table[1]["root"], table[1]["captions"]) == ("'=r", "'@SUM(1)")
    with zipfile.ZipFile(io.BytesIO(saved(page, "Zip"))) as archive:
        assert archive.namelist() == [
            "r/etc/a.jpg", "=r/=cmd.jpg", "r/two_lines.jpg", "r/q_uote, comma.jpg", "r/A.JPG", "r/a (2).jpg",
            "r/_Con.jpg", "r/_=_31m_gpj.exe", "failures.txt",
        ]  # fmt: skip
        assert archive.read("failures.txt") == b"r/gone.jpg: the file <b>is gone</b>\n"
    page.locator(".archive").get_by_text("8 pictures are saved, 1 could not be fetched.").wait_for()
    assert inaccessible(page) == []
    page.unroute(gone)
    page.route("**/v1/images/*/content", lambda route: route.abort())
    page.get_by_role("button", name="Zip", exact=True).click()
    page.get_by_role("alert").get_by_text("The service does not answer.").wait_for()
    page.get_by_role("button", name="Close").click()
    page.locator(".archive").wait_for(state="detached")


def test_an_archive_is_bounded_in_pictures_and_bytes(page: Any) -> None:
    answering(page, events({"type": "done", "response": response([hit(number) for number in range(1001)])}))
    search(page, "dogs")
    page.locator(".tile .open").first.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Zip", exact=True).click()
    page.get_by_text("at most 1,000 pictures").wait_for()
    told = page.evaluate("""async () => {
      const { saveArchive, archive } = await import("./web/files/query/export.js");
      const own = window.fetch;
      const large = { ok: true, headers: new Headers({ "Content-Length": 2 ** 30 + 1 }), body: { cancel() {} } };
      window.fetch = async () => large;
      await saveArchive([{ image_id: "a", root: "r", uri: "a.jpg" }]);
      window.fetch = own;
      return archive.value.message;
    }""")
    assert "more than 1 GB" in told


def test_the_original_is_shown_and_saved_as_it_is(page: Any) -> None:
    search(page, "an astronaut")
    opened(page, "sydney.jpg")
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Original").click()
    original = page.request.get(popup.value.url).body()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "sydney.jpg"
    assert Path(download.value.path()).read_bytes() == original
    with Image.open(io.BytesIO(original)) as shown:
        assert shown.getexif().get_ifd(0x8769)[0x9003] == "2019:07:14 10:00:00", "not a copy of the page"


def test_a_picture_that_is_avoided_falls(page: Any) -> None:
    search(page, "a cat looks at the camera")
    best = page.evaluate(ORDER)[0]
    page.locator(f"{TILES} .open").first.click()
    with page.expect_request("**/v1/search/stream") as asked:
        page.get_by_role("button", name="Less like this").click()
    assert asked.value.post_data_json["unlike"] == [best]
    page.locator(".chip.avoid .share").wait_for()
    finished(page)
    assert part_labels(page) == ["a cat looks at the camera", "unlike this"]
    until(page, f"{ORDER}[0] !== {best!r}")


def test_the_stages_of_an_answer_unfold_from_its_time(page: Any) -> None:
    search(page, "a cat")
    stages = page.locator(".timings dt")
    assert not stages.first.is_visible()
    page.locator(".timings summary").click()
    stages.first.wait_for()
    assert "total" in stages.all_inner_texts()
    assert all(text.endswith(" ms") for text in page.locator(".timings dd").all_inner_texts())
    assert inaccessible(page) == []


def test_a_guide_of_the_engine_is_searched_by(page: Any) -> None:
    search(page, "a cat looks at the camera")
    page.get_by_role("button", name="Search by exemplar/0").click()
    until(page, "document.querySelector('.chip img') !== null")
    finished(page)
    assert part_labels(page) == ["like this"]
    assert page.locator(".tile").count() > 0


def test_a_picture_is_zoomed_by_wheel_double_click_keys_and_buttons_and_moved(page: Any) -> None:
    search(page, "an astronaut")
    opened(page, "sydney.jpg")
    frame = page.locator(".frame").bounding_box()
    left, top = frame["x"] + 200, frame["y"] + 200
    scale = "document.querySelector('.zoom [aria-label=\"Fit the picture\"]').innerText"
    until(page, scale, "100 %")
    page.mouse.dblclick(left, top)
    until(page, scale, "300 %")
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 50, top + 3000, steps=2)
    page.mouse.up()
    until(page, "document.querySelector('.content').style.transform", "translate(-350px, 0px) scale(3)")
    page.keyboard.press("0")
    until(page, scale, "100 %")
    page.keyboard.press("+")
    until(page, scale, "150 %")
    page.get_by_role("button", name="Zoom out").click()
    until(page, scale, "100 %")
    page.mouse.move(left, top)
    page.mouse.wheel(0, -200)
    until(page, f"parseInt({scale}) > 120")
    page.keyboard.press("ArrowRight")
    until(page, scale, "100 %")
    first = page.get_by_role("dialog").get_by_role("heading", name=" of ").inner_text()
    page.keyboard.press("ArrowLeft")
    until(page, f"document.querySelector('.facts h2').innerText !== {first!r}")
    told = page.evaluate("""async () => {
      const { moved, scaled } = await import("./web/files/views/zoom.js");
      const frame = { width: 100, height: 50 };
      return [scaled({ scale: 1, x: 0, y: 0 }, 2, 100, 25, frame), scaled({ scale: 2, x: -100, y: -25 }, 0.1, 0, 0, frame),
        moved({ scale: 2, x: -50, y: 0 }, 70, -70, frame), scaled({ scale: 1, x: 0, y: 0 }, 99, 0, 0, frame).scale];
    }""")
    assert told == [{"scale": 2, "x": -100, "y": -25}, {"scale": 1, "x": 0, "y": 0}, {"scale": 2, "x": 0, "y": -50}, 8]


def test_fingers_zoom_and_swipe(browser: Any, site: Served) -> None:
    phone: dict[str, Any] = PHONE
    with page_of(browser, site.address.url, **phone) as page:
        page.goto("/")
        search(page, "an astronaut")
        page.locator(f"{TILES} .open").first.tap()
        page.wait_for_selector(".whole:not([hidden])")
        box = page.locator(".frame").bounding_box()
        middle, side = box["y"] + 100, box["x"] + 150
        touches = page.context.new_cdp_session(page)

        def touch(kind: str, *points: tuple[float, float]) -> None:
            places = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
            touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

        touch("touchStart", (side, middle), (side + 40, middle))
        touch("touchMove", (side - 20, middle), (side + 60, middle))
        touch("touchEnd")
        until(page, "document.querySelector('.zoom [aria-label=\"Fit the picture\"]').innerText", "200 %")
        page.get_by_role("button", name="Fit the picture").tap()
        touch("touchStart", (side + 60, middle))
        touch("touchMove", (side - 60, middle))
        touch("touchEnd")
        page.get_by_role("heading", name="2 of").wait_for()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=[pytest.mark.nightly, pytest.mark.slow])])
def test_a_place_is_a_dot_on_a_map_that_comes_with_the_page(browser: Any, site: Served, scheme: str) -> None:
    with page_of(browser, site.address.url, color_scheme=scheme) as page:
        page.goto("/")
        search(page, "an astronaut")
        opened(page, "sydney.jpg")
        page.get_by_role("img", name="Map of the world with the place of the picture: 33.8600° S, 151.2100° E").wait_for()
        until(page, "document.querySelector('.map .land').getAttribute('d').length > 20000")
        dot = page.locator(".map .dot")
        assert (round(float(dot.get_attribute("cx")), 2), round(float(dot.get_attribute("cy")), 2)) == (331.21, 123.86)
        on_land = """([longitude, latitude]) => {
          const land = document.querySelector(".map .land");
          return land.isPointInFill(new DOMPoint(longitude + 180, 90 - latitude));
        }"""
        places = {
            (10, 50): True,
            (134, -25): True,
            (-100, 40): True,
            (179, 67): True,
            (0, -85): True,
            (-30, 30): False,
            (90, 78): False,
        }
        assert {place: page.evaluate(on_land, list(place)) for place in places} == places
        assert "July 14, 2019" in page.locator(".facts dl").inner_text()
        assert inaccessible(page) == []
        page.keyboard.press("Escape")
        page.locator(f"{TILES} .open").first.focus()
        page.keyboard.press("x")
        page.get_by_role("button", name="Filter", exact=True).click()
        assert inaccessible(page) == []


def test_sets_of_an_address_are_chips_that_restrict_until_they_are_taken_away(page: Any, site: Served) -> None:
    sets = {
        "all": [
            {"any": [{"words": "a cat"}, {"words": "a cup of coffee"}]},
            {"none": [{"filters": {"corpora": ["trips"]}}, {"tagged": "x"}]},
        ]
    }
    page.goto(f"/?{urlencode({'sets': json.dumps(sets)})}")
    finished(page)
    chips = page.locator('[aria-label="Sets"] .label')
    assert chips.all_inner_texts() == ["(“a cat” or “a cup of coffee”)", "not (in trips)", "not (tagged x)"]
    assert "a cat" in page.title()
    kept = page.evaluate(COUNT)
    assert kept > 0 and page.locator('.tile:has-text("trips")').count() == 0
    page.get_by_role("button", name="Remove: not (in trips)").click()
    until(page, f"{COUNT} > {kept}")
    page.get_by_role("button", name="Remove: not (tagged x)").click()
    until(page, "document.querySelectorAll('[aria-label=\"Sets\"] li').length", 1)
    assert json.loads(parse_qs(urlsplit(page.url).query)["sets"][0]) == sets["all"][0]
    page.go_back()
    until(page, "document.querySelectorAll('[aria-label=\"Sets\"] li').length", 2)
    page.go_back()
    until(page, COUNT, kept)
    page.goto(f"/?{urlencode({'q': 'a cat', 'sets': 'no JSON'})}")
    finished(page)
    assert page.locator('[aria-label="Sets"]').count() == 0 and page.evaluate(COUNT) > 0
