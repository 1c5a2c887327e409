"""Sets of a request (`match`) over HTTP and on the command line: restricted, explained, replayed, refined, and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.support.cli import Finished, run_here
from tests.support.home import image_ids, settings_for
from tests.support.homes import index, write_pictures
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import encoded

from lodestone.access.caller import Caller
from lodestone.config.settings import Settings
from lodestone.errors import NotFoundError
from lodestone.services.use_cases import Services
from lodestone_schemas.access import Scope
from lodestone_schemas.api import SearchRequest

EITHER = {"any": [{"words": "a cat"}, {"words": "a cup of coffee"}]}

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the home is opened once, and belongs to one loop


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("sets")
    write_pictures(folder / "pictures", drawn=10)
    settings = settings_for(folder)
    index(settings, folder / "pictures")
    return settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_services(settings) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(settings: Settings, services: Services, ids: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(services, settings)) as client:
        tagged = await client.post("/v1/tags", json={"image_ids": [ids["000001"], ids[stem(CAT)]], "text": "Keep"})
        assert tagged.status_code in {200, 201}, tagged.text
        yield client


@pytest.fixture(scope="module")
def ids(services: Services) -> dict[str, str]:
    return {Path(uri).stem: image_id for uri, image_id in image_ids(services.session.runtime, "photos").items()}


def stem(name: str) -> str:
    return Path(name).stem


async def asked(http: httpx.AsyncClient, **request: Any) -> dict[str, Any]:
    answer = await http.post("/v1/search", json={"deadline_ms": 60_000, "limit": 200, **request})
    assert answer.status_code == 200, answer.text
    return answer.json()


def found(answer: dict[str, Any]) -> list[str]:
    return [hit["image_id"] for hit in answer["hits"]]


async def test_words_within_restrictions_stay_a_search_in_words_that_is_replayed_afresh(http, ids) -> None:
    kept = {ids["000001"], ids[stem(CAT)]}
    answer = await asked(http, query="a cat", match={"tagged": "keep"})
    assert set(found(answer)) == kept and answer["parts"] == [] and answer["confidence"] is not None
    rest = await asked(http, match={"all": [{"words": "a cat"}, {"none": [{"tagged": "keep"}]}]})
    assert set(found(rest)) == set(ids.values()) - kept and rest["parts"] == []
    for one in (answer, rest):
        explained = (await http.get(f"/v1/queries/{one['query_id']}")).json()
        assert (explained["kind"], explained["text"]) == ("words", "a cat")
        again = (await http.post(f"/v1/queries/{one['query_id']}/replay", params={"fresh": "true"})).json()
        assert sorted(again["ids"]) == sorted(found(one))
        assert (await http.post(f"/v1/queries/{one['query_id']}/replay")).json()["identical"]
    assert explained["request"]["match"] == {"all": [{"words": "a cat"}, {"none": [{"tagged": "keep"}]}]}


async def test_alternatives_come_in_one_order_page_by_page_and_as_events(http, ids) -> None:
    whole = await asked(http, match=EITHER)
    assert set(found(whole)) == set(ids.values())
    assert {found(whole)[0], found(whole)[1]} == {ids[stem(CAT)], ids[stem(COFFEE)]}
    assert [(part["text"], part["alternative"]) for part in whole["parts"]] == [("a cat", 0), ("a cup of coffee", 1)]
    pages = [await asked(http, match=EITHER, limit=5, offset=offset) for offset in (0, 5, 10)]
    assert [one for page in pages for one in found(page)] == found(whole)
    lines = [
        json.dumps({"match": EITHER, "limit": 3}),
        json.dumps({"query": "a rocket", "match": {"images": [ids[stem(ROCKET)]]}}),
    ]
    batch = await http.post("/v1/search/batch", content="\n".join(lines), headers={"content-type": "application/x-ndjson"})
    answers = sorted(map(json.loads, batch.text.splitlines()), key=lambda one: one["line"])  # they come as they are done
    assert [found(one.get("response", one)) for one in answers] == [found(whole)[:3], [ids[stem(ROCKET)]]]
    async with http.stream("POST", "/v1/search/stream", json={"match": EITHER, "limit": 4}) as events:
        data = [json.loads(line[5:]) async for line in events.aiter_lines() if line.startswith("data:")]
    assert found(data[-1]["response"]) == found(whole)[:4]


async def test_sets_hold_beside_the_parts_of_a_composed_query_and_an_upload(http, ids) -> None:
    drawn = {image_id for name, image_id in ids.items() if name.startswith("0000")}
    within = {"filters": {"path_prefix": "drawn"}}
    composed = await asked(http, query="dots", like=[ids[stem(CAT)]], match=within)
    assert set(found(composed)) == drawn
    assert [part["name"] for part in composed["parts"]] == ["words", "picture"]
    both = await asked(http, like=[ids[stem(CAT)]], match={"all": [within, EITHER]})
    assert [(part["name"], part["weight"], part["alternative"]) for part in both["parts"]] == [
        ("picture", 0.5, 0),
        ("words", 0.5, 0),
        ("picture2", 0.5, 1),
        ("words2", 0.5, 1),
    ]
    options = json.dumps({"match": within, "limit": 200, "deadline_ms": 60_000})
    upload = await http.post(
        "/v1/search/image", files={"image": ("cat.png", encoded(photo(CAT), "PNG"), "image/png")}, data={"options": options}
    )
    assert upload.status_code == 200, upload.text
    assert set(found(upload.json())) == drawn


async def test_a_refinement_takes_over_restrictions_and_refuses_words_in_sets(http, ids) -> None:
    first = await asked(http, query="a cat", match={"none": [{"tagged": "keep"}]})
    second = await asked(http, refine_of=first["query_id"], like=[ids["000003"]])
    assert set(found(second)) == set(found(first)) - {ids["000003"]}
    third = await asked(http, refine_of=second["query_id"], match={"tagged": "keep"})
    assert set(found(third)) == {ids["000001"], ids[stem(CAT)]}
    either = await asked(http, match=EITHER)
    refused = await http.post("/v1/search", json={"refine_of": either["query_id"], "query": "at night"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "match" in refused.json()["detail"] and refused.json()["hint"]


@pytest.mark.parametrize(
    ("match", "status", "said"),
    [
        ({"words": "a", "tagged": "b"}, 422, "exactly one member"),
        ({}, 422, "exactly one member"),
        ({"all": []}, 422, "all"),
        ({"anyone": []}, 422, "anyone"),
        ({"tagged": "keep"}, 422, "nothing to rank them by"),
        ({"none": [{"words": "a cat"}]}, 422, "cannot be negated"),
        ({"any": [{"words": "a cat"}, {"tagged": "keep"}]}, 422, "one side of an `any`"),
        ({"words": "   "}, 422, "empty"),
        ({"all": [{"words": "a cat"}, {"tagged": " "}]}, 422, "empty"),
        ({"all": [{"words": "a cat"}, {"images": ["no-id"]}]}, 422, "not a UUID"),
        ({"all": [{"words": "a cat"}, {"filters": {"corpora": ["nowhere"]}}]}, 404, "nowhere"),
        ({"any": [{"words": str(number)} for number in range(9)]}, 422, "alternatives"),
    ],
)
async def test_sets_that_mean_nothing_are_refused_with_what_to_do(http, match, status, said) -> None:
    refused = await http.post("/v1/search", json={"match": match})
    assert refused.status_code == status, refused.text
    assert said in json.dumps(refused.json())
    assert refused.json()["hint"] or refused.json()["errors"]


async def test_sets_as_deep_as_a_body_may_be_are_refused_and_not_a_defect(http) -> None:
    for depth in (40, 200, 2_000):
        body = '{"match":' + '{"all":[' * depth + '{"words":"a"}' + "]}" * depth + "}"
        refused = await http.post("/v1/search", content=body, headers={"content-type": "application/json"})
        assert refused.status_code in {400, 422}, (depth, refused.text)


async def test_a_picture_that_is_not_seen_ranks_nothing_and_is_told_as_unknown(services, ids) -> None:
    stranger = Caller.named("stranger", scopes=frozenset(Scope), corpora=frozenset({"other"}))
    request = SearchRequest(match={"like": ids[stem(CAT)]})
    with pytest.raises(NotFoundError):
        await services.search.answer(request, stranger)
    with pytest.raises(NotFoundError):
        [event async for event in services.search.events(request, stranger)]


async def test_the_command_line_takes_alternatives_and_restrictions(settings, services, http, ids) -> None:
    await services.session.close()  # a command opens the home itself

    async def run(*arguments: str) -> Finished:
        return await asyncio.to_thread(run_here, *arguments, home=settings.home)

    async def found_by(*arguments: str) -> list[str]:
        done = await run("search", *arguments, "-n", "50", "-o", "json")
        assert done.code == 0, done.err
        return found(done.json)

    either = await run("search", "a cat", "--any", "a cup of coffee", "-o", "json")
    assert [(part["text"], part["weight"]) for part in either.json["parts"]] == [("a cat", 1.0), ("a cup of coffee", 1.0)]
    assert set((await found_by("a cat", "--any", "a cup of coffee"))[:2]) == {ids[stem(CAT)], ids[stem(COFFEE)]}
    assert set(await found_by("a cat", "--where", "tagged=keep")) == {ids["000001"], ids[stem(CAT)]}
    assert set(await found_by("--any", "dots", "--not", "tagged=keep", "--not", "path=people")) == {
        image_id for name, image_id in ids.items() if name not in {"000001", stem(CAT), "person"}
    }
    explained = await run("explain")
    assert "sets: (dots), and not tagged keep, nor " in explained.out
    refused = await run("search", "a cat", "--not", "a dog")
    assert refused.code != 0 and "--without" in refused.err and "tagged" in refused.err
