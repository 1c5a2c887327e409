"""Tests of how a notebook shows what the client received: pictures inside the HTML, names escaped, no key, and no surprises."""

from __future__ import annotations

import asyncio
import base64
import copy
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser

import httpx
import pytest
from tests.support.pictures import jpeg_bytes

from lodestone_client import AsyncLodestone, Lodestone, RetryPolicy, notebook
from lodestone_schemas.api import DoneEvent, Hit, ImageInfo, SearchResponse
from lodestone_schemas.batch import BatchAnswer

KEY = "lodestone_of-tests_0123456789"
URL = "http://pictures.example"
PICTURE = jpeg_bytes((32, 24))
HOSTILE = '<img src=x onerror="alert(1)">&\'\u202e.jpg'


def hit(rank: int, **given: object) -> dict[str, object]:
    image_id = f"00000000-0000-5000-8000-{rank:012}"
    return {
        "rank": rank,
        "image_id": image_id,
        "score": 1 / rank,
        "corpus": "family",
        "root": "pictures",
        "uri": f"2024/{rank:06}.jpg",
        "width": 120,
        "height": 80,
        "thumbnail": f"/v1/images/{image_id}/thumbnail",
        **given,
    }


def answer(*hits: dict[str, object], **given: object) -> dict[str, object]:
    return {"query_id": "q", "stage": "text", "hits": list(hits), "fusion": "rrf", "space_weights": {}, **given}


class Service:
    """Answers searches with `found` and thumbnails with `picture`; counts who asked for which."""

    def __init__(self, found: dict[str, object], picture: bytes = PICTURE, status: int = 200) -> None:
        self.found, self.picture, self.status = found, picture, status
        self.asked: list[str] = []
        self.keys: set[str | None] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/thumbnail"):
            return httpx.Response(200, json=self.found)
        self.asked.append(request.url.path)
        self.keys.add(request.headers.get("Authorization"))
        return httpx.Response(self.status, content=self.picture, headers={"Content-Type": "image/jpeg"})

    def client(self) -> Lodestone:
        return Lodestone(URL, api_key=KEY, transport=httpx.MockTransport(self), policy=RetryPolicy(attempts=1))


def html_of(shown: SearchResponse | Hit | ImageInfo) -> str:
    html = shown._repr_html_()
    assert html is not None
    assert KEY not in html
    assert URL not in html
    return html


class Tags(HTMLParser):
    """Collects the elements of HTML, which must be closed in order, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_answer_shows_its_pictures_with_rank_score_and_name() -> None:
    service = Service(answer(hit(1, captions=["a red boat"]), hit(2)))
    with service.client() as client:
        html = html_of(client.search("a boat"))

    shown = Tags(html)
    pictures = [attributes for tag, attributes in shown.elements if tag == "img"]
    assert len(pictures) == 2
    for attributes in pictures:
        kind, _, content = (attributes["src"] or "").partition(",")
        assert kind == "data:image/jpeg;base64"
        assert base64.b64decode(content) == PICTURE
    assert [attributes["alt"] for attributes in pictures] == ["a red boat", "family/pictures/2024/000002.jpg"]
    for expected in ("2 pictures", "1 · 1.000", "2 · 0.500", "000001.jpg", "a red boat"):
        assert expected in shown.text
    assert service.keys == {f"Bearer {KEY}"}


def test_one_hit_and_the_facts_of_a_picture_show_one_picture() -> None:
    service = Service(answer(hit(1), hit(2)))
    with service.client() as client:
        html = html_of(client.search("a boat").hits[1])
    assert service.asked == [f"/v1/images/{hit(2)['image_id']}/thumbnail"]
    assert html.count("<img") == 1

    facts = {key: value for key, value in hit(1).items() if key not in {"rank", "score"}}
    service = Service({**facts, "hash": "0", "size": 1, "format": "JPEG"})
    with service.client() as client:
        assert html_of(client.image("an id")).count("<img") == 1


def test_names_captions_and_warnings_are_escaped() -> None:
    service = Service(answer(hit(1, uri=HOSTILE, captions=[HOSTILE, "\x00\n"]), warnings=[HOSTILE], corrected_query=HOSTILE))
    with service.client() as client:
        html = html_of(client.search("a boat"))

    shown = Tags(html)
    assert [tag for tag, _ in shown.elements if tag in {"img", "script"}] == ["img"]
    assert not any(name.startswith("on") for _, attributes in shown.elements for name in attributes)
    assert shown.text.count("onerror") == 4
    assert "bdi" in {tag for tag, _ in shown.elements}, "right-to-left names must not turn the line around"


def test_many_results_are_bounded_and_the_rest_is_told() -> None:
    service = Service(answer(*(hit(rank) for rank in range(1, 201)), next_offset=200))
    with service.client() as client:
        html = html_of(client.search("a boat"))

    assert html.count("<img") == len(service.asked) == notebook.MOST_PICTURES
    assert "200 pictures, and more on the next page; the first 24 are shown" in html


@pytest.mark.parametrize(
    ("picture", "status", "reason"),
    [
        (PICTURE, 404, "the service answered 404"),
        (b"<svg onload='alert(1)'/>", 200, "no JPEG, PNG, GIF or WebP"),
        (b"\xff\xd8\xff" + bytes(notebook.MOST_BYTES), 200, "too large"),
    ],
)
def test_a_picture_that_cannot_be_shown_leaves_its_reason(picture: bytes, status: int, reason: str) -> None:
    service = Service(answer(hit(1, missing=True)), picture, status)
    with service.client() as client:
        html = html_of(client.search("a boat"))
    assert "<img" not in html
    assert reason in html
    assert "the file is gone" in html


def test_an_answer_without_pictures_says_so() -> None:
    service = Service(answer(probably_nothing=True, dropped=["guides"]))
    with service.client() as client:
        html = html_of(client.search("a boat"))
    for expected in ("0 pictures", "Probably no picture", "Left out: guides"):
        assert expected in html


def test_a_service_that_went_away_leaves_the_answer_readable() -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/thumbnail"):
            raise httpx.ConnectError("gone", request=request)
        return httpx.Response(200, json=answer(hit(1)))

    with Lodestone(URL, api_key=KEY, transport=httpx.MockTransport(gone)) as client:
        html = html_of(client.search("a boat"))
    assert "the service cannot be reached (ConnectError)" in html
    assert "000001.jpg" in html


def test_pictures_for_which_no_time_is_left_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "SECONDS", 0.0)
    service = Service(answer(hit(1), hit(2)))
    with service.client() as client:
        html = html_of(client.search("a boat"))
    assert html.count("no time was left") == 2
    assert service.asked == []


def test_a_transport_that_only_event_loops_can_use_leaves_its_reason() -> None:
    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json=answer(hit(1)))

    async def found() -> SearchResponse:
        async with AsyncLodestone(URL, api_key=KEY, transport=Transport()) as client:
            return await client.search("a boat")

    assert "its client has a transport of its own" in html_of(asyncio.run(found()))


def test_streams_batches_and_asynchronous_answers_are_shown_too() -> None:
    found = SearchResponse.model_validate(answer(hit(1)))
    done = DoneEvent(response=found).model_dump_json()
    line = BatchAnswer(line=1, id="1", response=found).model_dump_json() + "\n"

    def service(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/thumbnail"):
            return httpx.Response(200, content=PICTURE)
        if request.url.path.endswith("/batch"):
            return httpx.Response(200, content=line, headers={"Content-Type": "application/x-ndjson"})
        if request.url.path.endswith("/stream"):
            return httpx.Response(200, content=f"data: {done}\n\n", headers={"Content-Type": "text/event-stream"})
        return httpx.Response(200, json=answer(hit(1)))

    async def inside_a_loop() -> str:
        async with AsyncLodestone(URL, api_key=KEY, transport=httpx.MockTransport(service)) as client:
            return html_of(await client.search("a boat"))

    with Lodestone(URL, transport=httpx.MockTransport(service)) as client:
        (event,) = client.stream("a boat")
        (batch,) = client.search_many(["a boat"])
        assert event.type == "done"
        assert batch.response is not None
        assert "<img" in html_of(event.response)
        assert "<img" in html_of(batch.response)
    assert "<img" in asyncio.run(inside_a_loop())


def test_how_an_answer_is_shown_is_no_part_of_it() -> None:
    service = Service(answer(hit(1)))
    plain = SearchResponse.model_validate(service.found)
    with service.client() as client:
        received = client.search("a boat")

    assert plain._repr_html_() is None
    assert received == plain
    assert received.model_dump_json() == plain.model_dump_json()
    assert repr(received) == repr(plain)
    assert "<img" in html_of(copy.deepcopy(received))
    pickled = pickle.dumps(received)
    assert KEY.encode() not in pickled
    assert pickle.loads(pickled) == plain
    assert pickle.loads(pickled)._repr_html_() is None


def test_the_client_needs_no_notebook() -> None:
    script = "import sys, lodestone_client.sync_client as c; print(sorted(set(sys.modules) & {'IPython', 'ipykernel', 'PIL'}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False)
    assert found.stdout.strip() == "[]", found.stderr


def test_the_html_has_no_script_and_no_outside_address() -> None:
    service = Service(answer(hit(1)))
    with service.client() as client:
        html = html_of(client.search("a boat"))
    assert not re.search(r"<script|<style|<link|https?:|javascript:", html)
