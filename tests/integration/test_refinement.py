"""Composed queries and their refinement over HTTP: parts, weights, regions, uploads, and what is refused with what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import pytest_asyncio
from tests.support.home import image_ids, settings_for
from tests.support.home_copies import copy_folder
from tests.support.homes import index, write_pictures
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import encoded

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.config.compositions import CompositionSettings
from lodestone.config.settings import Settings
from lodestone.errors import NotFoundError, UnknownNameError
from lodestone.services import composed_queries
from lodestone.services.use_cases import Services
from lodestone_schemas.access import Scope
from lodestone_schemas.api import SearchRequest

UNKNOWN = "00000000-0000-5000-8000-000000000000"
CUP, MIDDLE = "a cup of coffee", {"x": 0.25, "y": 0.25, "w": 0.5, "h": 0.5}

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the home is opened once, and belongs to one loop


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a home with pictures, which nothing has open."""
    folder = tmp_path_factory.mktemp("refining")
    (folder / "pictures").mkdir()
    write_pictures(folder / "pictures", drawn=12)
    (folder / "pictures" / "drawn" / "000000.txt").write_text("coloured dots on a grey ground\n")
    settings = settings_for(folder)
    index(settings, folder / "pictures")
    return settings


@pytest.fixture(scope="module")
def settings(indexed: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a copy of that home, which is open as long as the tests run."""
    return indexed.model_copy(update={"home": copy_folder(indexed.home, tmp_path_factory.mktemp("opened") / "home")})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_services(settings) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(settings: Settings, services: Services) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(services, settings)) as client:
        yield client


@pytest.fixture(scope="module")
def ids(services: Services) -> dict[str, str]:
    found = image_ids(services.session.runtime, "photos")
    return {Path(uri).stem: image_id for uri, image_id in found.items()}


def stem(name: str) -> str:
    return Path(name).stem


async def asked(http: httpx.AsyncClient, **request: Any) -> dict[str, Any]:
    answer = await http.post("/v1/search", json={"deadline_ms": 60_000, "limit": 200, **request})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def explained(http: httpx.AsyncClient, answer: dict[str, Any]) -> dict[str, Any]:
    found = (await http.get(f"/v1/queries/{answer['query_id']}")).json()
    assert found["kind"] == "composed"
    assert found["parts"] == answer["parts"]
    for hit in found["hits"]:
        assert sum(part["part"] for part in hit["parts"]) == pytest.approx(hit["score"], abs=1e-5)
        assert hit["explained"] == pytest.approx(1, abs=1e-5)
    return found


def parts(answer: dict[str, Any]) -> dict[str, float]:
    return {part["name"]: part["weight"] for part in answer["parts"]}


async def test_three_steps_of_refinement_are_explained_by_parts_and_weights(http, ids) -> None:
    first = await asked(http, query="something to drink", guides=0)
    assert first["parts"] == []
    second = await asked(http, refine_of=first["query_id"], reference=ids[stem(CAT)], query="with a face")
    assert parts(second) == pytest.approx({"words": 0.4 / 1.8, "words2": 0.4 / 1.8, "picture": 1 / 1.8})
    assert [part["text"] for part in second["parts"]] == ["something to drink", "with a face", None]
    assert second["parts"][2]["image_id"] == ids[stem(CAT)]
    await explained(http, second)
    third = await asked(
        http, refine_of=second["query_id"], without=["dots"], drop=["words"], weights={"words2": 3}, reference=ids[stem(ROCKET)]
    )
    assert parts(third) == {
        "words2": pytest.approx(3 / 4.5),
        "picture": pytest.approx(1 / 4.5),
        "without": pytest.approx(0.5 / 4.5),
    }
    assert third["parts"][1]["image_id"] == ids[stem(ROCKET)]
    found = await explained(http, third)
    assert {part["guide"] for part in found["hits"][0]["parts"]} == {"words2", "picture", "without"}
    fourth = await asked(http, refine_of=third["query_id"], like=[ids[stem(COFFEE)]])
    assert parts(fourth)["words2"] == pytest.approx(3 / 4.5)  # the weight of the step before; two pictures share theirs
    assert parts(fourth)["picture"] == parts(fourth)["picture2"] == pytest.approx(0.5 / 4.5)
    back = await asked(http, refine_of=second["query_id"])  # a step that is undone
    assert [hit["image_id"] for hit in back["hits"]] == [hit["image_id"] for hit in second["hits"]]
    replayed = (await http.post(f"/v1/queries/{third['query_id']}/replay")).json()
    assert replayed["identical"]


async def test_words_decide_which_pictures_like_the_reference_come_first(http, ids) -> None:
    def place(answer: dict[str, Any], name: str) -> int:
        return [hit["image_id"] for hit in answer["hits"]].index(ids[stem(name)])

    plain = await asked(http, like=[ids[stem(CAT)]])
    assert plain["parts"] == []
    changed = await asked(http, like=[ids[stem(CAT)]], query=CUP, weights={"words": 4})
    assert place(changed, COFFEE) == 0
    avoided = await asked(http, like=[ids[stem(CAT)]], without=[CUP], weights={"without": 4})
    assert place(avoided, COFFEE) > place(plain, COFFEE)
    unlike = await asked(http, like=[ids[stem(CAT)]], unlike=[ids["000001"]], weights={"unlike": 4})
    drawn = [f"{number:06}" for number in range(12) if number != 1]
    assert sum(place(unlike, name) for name in drawn) > sum(place(plain, name) for name in drawn)


async def test_phrases_of_change_beside_a_picture_find_what_their_content_finds(http, ids, services, monkeypatch) -> None:
    def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
        assert one["parts"] == other["parts"]
        scores = {hit["image_id"]: hit["score"] for hit in one["hits"]}  # float32: the last bits are the processor's
        assert scores == pytest.approx({hit["image_id"]: hit["score"] for hit in other["hits"]}, abs=1e-5)

    like = [ids[stem(CAT)]]
    changed = await asked(http, like=like, query=f"change it to {CUP}")
    assert [part["text"] for part in changed["parts"]] == [CUP, None]
    for words in (f"remove not-{CUP}", f"nothing but {CUP}", CUP):
        assert_same(await asked(http, like=like, query=words), changed)
    assert_same(await asked(http, like=like, without=[f"not {CUP}"]), changed)
    swapped = await asked(http, like=like, query=f"{CUP} instead of dots")
    assert_same(swapped, await asked(http, like=like, query=CUP, without=["dots"]))
    assert_same(await asked(http, refine_of=swapped["query_id"]), swapped)
    literal = await asked(http, like=like, query=f"change it to {CUP}", phrases="off")
    assert [part["text"] for part in literal["parts"]] == [f"change it to {CUP}", None]
    monkeypatch.setitem(services.session.runtime.settings.query.__dict__, "phrases", "off")  # settings are frozen
    literal = await asked(http, like=like, query="without dots")
    assert [part["text"] for part in literal["parts"]] == ["without dots", None]
    understood = await asked(http, like=like, query="without dots", phrases="auto")
    assert [(part["name"], part["text"]) for part in understood["parts"]] == [("picture", None), ("without", "dots")]
    monkeypatch.undo()
    alone = await asked(http, query="dots", without=[f"not {CUP}"])  # no picture that could change
    assert [part["text"] for part in alone["parts"]] == ["dots", f"not {CUP}"]


async def test_a_refinement_that_leaves_words_alone_is_asked_again_with_these_words(http, ids) -> None:
    first = await asked(http, query=CUP, like=[ids[stem(CAT)]])
    words = await asked(http, refine_of=first["query_id"], weights={"picture": 0}, guides=0)
    assert words["parts"] == []
    again = await http.post(f"/v1/queries/{words['query_id']}/replay", params={"fresh": "true"})
    assert again.status_code == 200, again.text
    assert again.json()["identical"]


async def test_options_and_filters_are_taken_over_unless_they_are_given(http, ids) -> None:
    filters = {"corpora": ["photos"], "path_prefix": "drawn"}
    first = await asked(http, query="dots", like=[ids["000003"]], filters=filters, diversity=0.3)
    second = await asked(http, refine_of=first["query_id"], query="a cat")
    assert second["hits"] and all(hit["uri"].startswith("drawn/") for hit in second["hits"])
    record = (await http.get(f"/v1/queries/{second['query_id']}")).json()
    assert record["plan"]["diversity"] == 0.3
    third = await asked(http, refine_of=second["query_id"], filters={}, diversity=0)
    assert not all(hit["uri"].startswith("drawn/") for hit in third["hits"])
    assert (await http.get(f"/v1/queries/{third['query_id']}")).json()["plan"]["diversity"] == 0


async def test_filters_that_leave_nothing_are_lifted_by_a_refinement(http, ids) -> None:
    nowhere = {"path_prefix": "nowhere"}
    first = await asked(http, query="a cat", like=[ids[stem(CAT)]], filters=nowhere)
    assert first["hits"] == [] and parts(first).keys() == {"words", "picture"}
    await explained(http, first)
    second = await asked(http, refine_of=first["query_id"], filters={})
    assert second["hits"] and parts(second) == parts(first)


async def test_a_region_of_a_picture_is_searched_and_taken_over(http, ids) -> None:
    region = {"x": 0.5, "y": 0, "w": 0.5, "h": 1}
    crop = await asked(http, like=[ids[stem(CAT)]], region=region, query="a cat")
    whole = await asked(http, like=[ids[stem(CAT)]], query="a cat")
    (_, picture) = crop["parts"]
    assert (picture["image_id"], picture["region"]) == (ids[stem(CAT)], region)
    scores = {hit["image_id"]: hit["score"] for hit in crop["hits"]}
    assert ids[stem(CAT)] not in scores  # a part of it is no picture of its own
    assert scores != {hit["image_id"]: hit["score"] for hit in whole["hits"]}
    refined = await asked(http, refine_of=crop["query_id"], without=["dots"])
    assert refined["parts"][1]["region"] == region
    again = await asked(http, refine_of=crop["query_id"])
    assert {hit["image_id"]: hit["score"] for hit in again["hits"]} == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("size", [1e-7, 1e-320])
async def test_a_region_of_next_to_nothing_is_one_pixel(http, ids, size) -> None:
    found = await asked(http, like=[ids[stem(CAT)]], query="a cat", region={"x": 0.5, "y": 0.5, "w": size, "h": size})
    assert found["hits"]


async def test_several_pictures_are_uploaded_with_words_and_refined_by_their_vectors(http, ids) -> None:
    async def uploaded(*names: str, **options: Any) -> dict[str, Any]:
        sent = [
            (("image" if not number else "images"), ("p", encoded(photo(name), "PNG"))) for number, name in enumerate(names)
        ]
        answer = await http.post("/v1/search/image", files=sent, data={"options": json.dumps({"limit": 200, **options})})
        assert answer.status_code == 200, answer.text
        return answer.json()

    alone = await uploaded(CAT)
    assert alone["parts"] == [] and alone["hits"][0]["image_id"] == ids[stem(CAT)]
    both = await uploaded(CAT, ROCKET)
    assert parts(both) == {"picture": 0.5, "picture2": 0.5}
    assert {hit["image_id"] for hit in both["hits"][:2]} == {ids[stem(CAT)], ids[stem(ROCKET)]}
    with_words = await uploaded(CAT, query=CUP, weights={"words": 5}, without=["dots"])
    assert with_words["hits"][0]["image_id"] == ids[stem(COFFEE)]
    await explained(http, with_words)
    again = await asked(http, refine_of=both["query_id"])
    assert [hit["image_id"] for hit in again["hits"]] == [hit["image_id"] for hit in both["hits"]]
    of_one = await asked(http, refine_of=alone["query_id"], query=CUP)
    assert parts(of_one) == pytest.approx({"picture": 1 / 1.8, "words": 0.8 / 1.8})
    cropped = await uploaded(CAT, region=MIDDLE, query="a cat")
    assert cropped["parts"][1]["region"] == MIDDLE


async def test_large_pictures_are_not_copied_on_the_event_loop(http, ids, monkeypatch) -> None:
    threads = []
    for name in ("cropped", "_pixels_of"):
        original = getattr(composed_queries, name)

        def noted(*arguments, _name=name, _original=original):
            threads.append((_name, threading.current_thread() is threading.main_thread()))
            return _original(*arguments)

        monkeypatch.setattr(composed_queries, name, noted)
    await asked(http, query=CUP, like=[ids[stem(CAT)]], region=MIDDLE)
    sent = {"image": ("p", encoded(photo(CAT), "PNG"))}
    for options in ({"query": CUP}, {"query": CUP, "region": MIDDLE}):
        answer = await http.post("/v1/search/image", files=sent, data={"options": json.dumps(options)})
        assert answer.status_code == 200, answer.text
    assert threads == [("cropped", False), ("_pixels_of", False), ("cropped", False)]


async def test_streams_and_batches_answer_composed_queries_too(http, ids) -> None:
    request = {"query": CUP, "like": [ids[stem(CAT)]], "deadline_ms": 60_000}
    streamed = await http.post("/v1/search/stream", json=request)
    assert '"name":"picture"' in streamed.text and "event: done" in streamed.text
    lines = "\n".join(json.dumps(one) for one in (request, {"like": [UNKNOWN], "query": CUP}))
    answers = await http.post("/v1/search/batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    by_line = {line["line"]: line for line in map(json.loads, answers.text.splitlines())}
    assert [part["name"] for part in by_line[1]["response"]["parts"]] == ["words", "picture"]
    assert by_line[2]["problem"]["code"] == "not_found"


async def test_feedback_on_words_with_a_picture_teaches_the_trust_of_their_topic(http, ids) -> None:
    answer = await asked(http, query="a hot drink", like=[ids[stem(CAT)]])
    hits = [hit["image_id"] for hit in answer["hits"]]
    judged = await http.post(
        "/v1/feedback", json={"query_id": answer["query_id"], "relevant": [hits[-1]], "irrelevant": [hits[0]]}
    )
    assert judged.status_code == 200, judged.text
    assert judged.json()["applied"]
    without_words = await asked(http, like=[ids[stem(CAT)], ids[stem(ROCKET)]])
    refused = await http.post("/v1/feedback", json={"query_id": without_words["query_id"], "relevant": [ids[stem(COFFEE)]]})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "the query is empty"),
    ({"query": "   "}, 422, "the query is empty"),
    ({"without": ["dogs"]}, 422, "only what to avoid"),
    ({"query": "a", "without": [" "]}, 422, "the query is empty"),
    ({"query": "a", "like": [UNKNOWN]}, 404, "no picture"),
    ({"query": "a", "like": [""]}, 422, "names no picture"),
    ({"query": "a", "like": ["{cat}"], "weights": {"sound": 1}}, 422, "no part 'sound'"),
    ({"query": "a", "like": ["{cat}"], "weights": {"words": 0, "picture": 0}}, 422, "all weights are 0"),
    ({"query": "a", "like": ["{cat}"], "weights": {"picture": -1}}, 422, "the weight of 'picture' is -1"),
    ({"query": "a", "like": ["{cat}"], "spaces": ["sound"]}, 404, "sound"),
    ({"query": "a", "refine_of": UNKNOWN}, 404, "no query"),
    ({"query": "a", "reference": "{cat}"}, 422, "without refine_of"),
    ({"query": "a", "drop": ["words"]}, 422, "without refine_of"),
    ({"refine_of": "{query}", "drop": ["picture"]}, 422, "no part 'picture'"),
    ({"refine_of": "{query}", "reference": UNKNOWN}, 422, "is no result of query"),
    ({"refine_of": "{query}", "drop": ["words"]}, 422, "the query is empty"),
    ({"query": "a", "region": MIDDLE}, 422, "a region is given without a picture"),
    ({"like": ["{cat}"], "region": {"x": 0.5, "y": 0, "w": 0.6, "h": 1}}, 422, "empty, or not inside"),
    ({"like": ["{cat}"], "region": {"x": 0, "y": 0, "w": 0, "h": 1}}, 422, "empty, or not inside"),
    ({"like": ["{cat}"], "region": {"x": -0.1, "y": 0, "w": 0.5, "h": 1}}, 422, "empty, or not inside"),
    ({"like": [UNKNOWN], "region": MIDDLE}, 404, "no indexed picture"),
    ({"query": "a", "diversity": 1.5}, 422, "the diversity is 1.5"),
    ({"query": "a", "composition": "shoes"}, 404, "unknown composition 'shoes'"),
    ({"query": "a", "without": list("bcdefghi")}, 422, "9 parts, at most 8"),
]


@pytest.mark.parametrize(("request_", "status", "message"), BAD, ids=[json.dumps(one[0])[:60] for one in BAD])
async def test_what_makes_no_sense_is_refused_with_what_to_do(http, ids, request_, status, message) -> None:
    query_id = (await asked(http, query="a cat", guides=0))["query_id"] if "{query}" in json.dumps(request_) else ""
    body = json.dumps(request_).replace("{cat}", ids[stem(CAT)]).replace("{query}", query_id)
    answer = await http.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text
    assert answer.json()["hint"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_numbers_that_are_none_are_refused(http, ids, value) -> None:
    cat = ids[stem(CAT)]
    region = f'{{"x": {value}, "y": 0, "w": 1, "h": 1}}'
    for member in (f'"weights": {{"words": {value}}}', f'"diversity": {value}', f'"region": {region}'):
        body = f'{{"query": "a", "like": ["{cat}"], {member}}}'
        answer = await http.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
        assert answer.json()["hint"]


async def test_pictures_that_cannot_be_decoded_or_are_too_many_are_refused(http) -> None:
    good = encoded(photo(CAT), "PNG")
    broken = [("image", ("a", good)), ("images", ("b", b"no picture"))]
    answer = await http.post("/v1/search/image", files=broken, data={"options": '{"query": "a cat"}'})
    assert (answer.status_code, bool(answer.json()["hint"])) == (422, True), answer.text
    assert answer.json()["detail"].startswith("picture 2 of 2 that were sent: not a picture")
    many = [("image", ("a", good)), *(("images", ("b", b"x")) for _ in range(8))]
    answer = await http.post("/v1/search/image", files=many)
    assert (answer.status_code, "9 pictures were sent" in answer.json()["detail"]) == (422, True), answer.text


async def test_vectors_of_a_version_that_is_no_longer_searched_are_not_compared(services, settings, http) -> None:
    sent = {"image": ("p", encoded(photo(CAT), "PNG"))}
    answer = (await http.post("/v1/search/image", files=sent, data={"options": '{"query": "a cat"}'})).json()
    engine = await services.session.engine()
    now = dict(engine.encoder.collections)

    class Later:
        def __init__(self, encoder):
            self._encoder = encoder

        def __getattr__(self, name):
            return getattr(self._encoder, name)

        collections: ClassVar = {space: f"{name}-later" for space, name in now.items()}

    engine_encoder, engine._encoder = engine._encoder, Later(engine._encoder)
    try:
        refused = await http.post("/v1/search", json={"refine_of": answer["query_id"]})
    finally:
        engine._encoder = engine_encoder
    assert (refused.status_code, "of another version" in refused.json()["detail"]) == (422, True), refused.text
    assert "give the picture again" in refused.json()["hint"]


async def test_pictures_and_queries_of_others_do_not_exist(services, ids) -> None:
    mine = await services.search.answer(SearchRequest(query="a cat", guides=0), LOCAL_CALLER)
    stranger = Caller.named("stranger", LOCAL_CALLER.scopes, frozenset({"none"}))
    for request, missing in (
        (SearchRequest(refine_of=mine.query_id), "no query"),
        (SearchRequest(refine_of=UNKNOWN), "no query"),
        (SearchRequest(query="a", like=[ids[stem(CAT)]]), "no indexed picture"),
        (SearchRequest(query="a", unlike=[ids[stem(CAT)]]), "no indexed picture"),
        (SearchRequest(like=[ids[stem(CAT)]], region=MIDDLE), "no indexed picture"),
    ):
        with pytest.raises(NotFoundError, match=missing):
            await services.search.answer(request, stranger)
        with pytest.raises(NotFoundError, match=missing):
            await anext(services.search.events(request, stranger))


async def test_a_query_is_refined_by_whoever_asked_it_and_by_nobody_else(services) -> None:
    alice, bob = (Caller.named(name, {Scope.SEARCH}) for name in ("alice", "bob"))  # both see all pictures
    asked_by_alice = await services.search.answer(SearchRequest(query="a cat", guides=0), alice)
    step = SearchRequest(refine_of=asked_by_alice.query_id, query="at night")
    with pytest.raises(NotFoundError, match="no query"):
        await services.search.answer(step, bob)
    assert [part.text for part in (await services.search.answer(step, alice)).parts] == ["a cat", "at night"]


async def test_a_refinement_stays_with_its_composition_and_says_so_where_that_is_gone(
    indexed: Settings, tmp_path: Path
) -> None:
    settings = indexed.model_copy(update={"home": copy_folder(indexed.home, tmp_path / "home")})
    likeness = CompositionSettings.model_validate({"modalities": {"photo": {"space": "labels"}}})
    with_likeness = settings.model_copy(update={"compositions": {"likeness": likeness}})
    async with opened_services(with_likeness) as opened:
        (cat,) = [one for uri, one in image_ids(opened.session.runtime, "photos").items() if Path(uri).stem == stem(CAT)]
        first = await opened.search.answer(SearchRequest(like=[cat], composition="likeness", explain=True), LOCAL_CALLER)
        assert {part.space for hit in first.hits for part in hit.contributions or []} == {"labels"}
        again = await opened.search.answer(SearchRequest(refine_of=first.query_id, diversity=0.2), LOCAL_CALLER)
        assert set(again.space_weights) == {"labels"}
    async with opened_services(settings) as opened:
        with pytest.raises(UnknownNameError, match="asked by the composition 'likeness', which is gone") as caught:
            await opened.search.answer(SearchRequest(refine_of=first.query_id, diversity=0.2), LOCAL_CALLER)
        assert "composition=default" in caught.value.hint
        named = SearchRequest(refine_of=first.query_id, composition="default", diversity=0.2)
        assert len((await opened.search.answer(named, LOCAL_CALLER)).space_weights) > 1
