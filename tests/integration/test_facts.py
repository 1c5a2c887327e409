"""Pictures are filtered by place, time of year, camera and shape, alike everywhere, and follow what becomes known of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime, settings_for
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.pictures import BERGEN, SYDNEY, write_taken
from tests.support.upkeep import copied

from lodestone.facts import points
from lodestone.facts.facts import KINDS, VERSION, code_of
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.run.unfinished import is_loaded
from lodestone.indexing.sync.collections import sync
from lodestone.indexing.sync.repair import examine_home
from lodestone.store.base import Filter, MatchAny
from lodestone.tags import delivery
from lodestone.text_encoders.minilm import MiniLM
from lodestone_schemas.api import QuerySet, SearchFilters, SearchRequest

PLAIN = {"plain0.jpg", "plain1.jpg"}
EVERY = {"bergen.jpg", "sydney.jpg", "tree.jpg", "wide.jpg", *PLAIN}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("facts")
    pictures = folder / "pictures"
    write_taken(pictures / "bergen.jpg", 1, taken="2018:04:01 12:00:00", at=BERGEN)
    write_taken(pictures / "sydney.jpg", 2, taken="2019:12:28 12:00:00", at=SYDNEY, camera="Canon EOS 5D")
    write_taken(pictures / "tree.jpg", 3, taken="2017:12:25 18:00:00", camera="Nikon D750", size=(48, 64))
    write_taken(pictures / "wide.jpg", 4, size=(160, 60))
    for number, name in enumerate(sorted(PLAIN)):
        write_taken(pictures / name, 5 + number)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((pictures,)))
    return folder


@pytest.fixture
def runtime(indexed: Path, tmp_path: Path) -> Iterator[Runtime]:
    copied(indexed, tmp_path)
    with open_runtime(tmp_path) as opened:
        yield opened


WHERE: list[tuple[dict[str, list[str]], set[str]]] = [
    ({"place": ["Norway"]}, {"bergen.jpg"}),
    ({"place": ["NEW south wales", "Vestland"]}, {"bergen.jpg", "sydney.jpg"}),
    ({"place": ["Sydney, Australia"]}, {"sydney.jpg"}),
    ({"place": ["Sydney, Norway"]}, set()),
    ({"during": ["christmas"]}, {"tree.jpg"}),
    ({"during": ["summer"]}, {"sydney.jpg"}),
    ({"during": ["easter", "December"]}, {"bergen.jpg", "sydney.jpg", "tree.jpg"}),
    ({"during": ["december"], "has": ["place"]}, {"sydney.jpg"}),
    ({"camera": ["canon"]}, {"sydney.jpg"}),
    ({"camera": ["D750"]}, {"tree.jpg"}),
    ({"shape": ["portrait"]}, {"tree.jpg"}),
    ({"shape": ["panorama"]}, {"wide.jpg"}),
    ({"has": ["time"]}, {"bergen.jpg", "sydney.jpg", "tree.jpg"}),
]


async def test_facts_filter_searches_and_lists_and_what_is_negated(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)
    settings = settings_for(tmp_path)
    async with opened_services(settings) as services, client_of(app_of(services, settings)) as http:

        async def found(**body: Any) -> set[str]:
            answer = (await http.post("/v1/search", json={"query": "a photo", "guides": 0, "limit": 50, **body})).json()
            assert answer["warnings"] == []  # tags know the facts, too
            return {hit["uri"] for hit in answer["hits"]}

        for where, expected in WHERE:
            assert await found(filters={"where": where}) == expected, where
            assert await found(match={"none": [{"filters": {"where": where}}]}) == EVERY - expected, where
            listed = (await http.post("/v1/images/browse", json={"filters": {"where": where}})).json()
            assert {image["uri"] for image in listed["images"]} == expected, where
        answer = (await http.get("/v1/search", params={"q": "a photo", "where": ["place=norway", "has=time"]})).json()
        assert [hit["uri"] for hit in answer["hits"]] == ["bergen.jpg"]
        facets = (await http.post("/v1/images/facets", json={"of": "place"})).json()
        assert {value["name"]: value["pictures"] for value in facets["values"]} == {
            **dict.fromkeys(("Bergen", "Vestland", "Norway", "Sydney", "New South Wales", "Australia"), 1)
        }
        assert [value["name"] for value in facets["values"]] == sorted(
            value["name"] for value in facets["values"]
        )  # all are equal
        assert (facets["pictures"], facets["more"]) == (len(EVERY), False)
        request = {"of": "during", "filters": {"where": {"has": ["time"]}}, "limit": 1}
        facets = (await http.post("/v1/images/facets", json=request)).json()
        first = {key: value for key, value in facets["values"][0].items() if key != "image_id"}
        assert first == {"value": "december", "name": "December", "pictures": 2}
        assert (await http.get(f"/v1/images/{facets['values'][0]['image_id']}")).json()["uri"] in {"sydney.jpg", "tree.jpg"}
        assert (facets["pictures"], facets["more"], len(facets["values"])) == (3, True, 1)
        cameras = (await http.post("/v1/images/facets", json={"of": "camera"})).json()["values"]
        assert {value["name"] for value in cameras} == {"Canon", "Canon EOS 5D", "Nikon", "Nikon D750"}
        for kind in KINDS:  # whatever is offered finds as many pictures as was said
            for value in (await http.post("/v1/images/facets", json={"of": kind})).json()["values"]:
                for name in (value["value"], value["name"]):
                    assert len(await found(filters={"where": {kind: [name]}})) == value["pictures"] > 0, name
        refused = await http.post("/v1/search", json={"query": "a", "filters": {"where": {"shape": ["round"]}}})
        assert refused.status_code == 422 and "landscape, panorama, portrait, square" in refused.json()["hint"]
        unknown = await http.post("/v1/search", json={"query": "a", "filters": {"where": {"plaice": ["Oslo"]}}})
        assert unknown.status_code == 404 and "place" in unknown.json()["hint"]
        unknown = await http.post("/v1/images/facets", json={"of": "plaice"})
        assert unknown.status_code == 404 and "place" in unknown.json()["hint"]


def test_facts_filter_every_command_that_finds_or_writes_pictures(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)

    def names(*words: str) -> set[str]:
        done = run_here(*words, "--output", "json", home=tmp_path / "home")
        assert done.code == 0, done.err
        answer = json.loads(done.out)
        return {Path(one["uri"]).name for one in answer.get("hits", answer.get("images"))}

    assert names("search", "a photo", "--where", "place=norway") == {"bergen.jpg"}
    assert names("search", "a photo", "--where", "has=time", "--not", "has=place") == {"tree.jpg"}
    assert names("browse", "--where", "place=Norway", "--where", "place=Australia") == {"bergen.jpg", "sydney.jpg"}
    assert names("browse", "--where", "during=fall") == set()
    assert names("similar", "bergen.jpg", "--where", "camera=Nikon") == {"tree.jpg"}
    for command in (("search", "a photo"), ("browse",), ("similar", "bergen.jpg")):
        refused = run_here(*command, "--where", "plaice=Oslo", home=tmp_path / "home")
        assert refused.code != 0 and "place" in refused.err
    counted = run_here("facets", "shape", "--where", "has=time", home=tmp_path / "home")
    assert counted.out.splitlines() == ["2  landscape", "1  portrait", "2 values in 3 pictures"]
    assert "NAME=VALUE" in run_here("browse", "--where", "place", home=tmp_path / "home").err


def test_points_follow_what_becomes_known_of_a_picture(runtime: Runtime) -> None:
    pictures = Path(runtime.home.path).parent / "pictures"
    collection = runtime.store.aliases()["bridge"]

    def in_norway() -> int:
        return runtime.store.count(
            runtime.store.aliases()["bridge"], Filter(must=(MatchAny("facts", (code_of("place=norway"),)),))
        )

    assert (in_norway(), runtime.store.count(collection)) == (1, len(EVERY))
    sidecar = {"geoData": {"latitude": 59.91, "longitude": 10.75}, "title": "plain0.jpg"}
    (pictures / "plain0.jpg.json").write_text(json.dumps(sidecar), encoding="utf-8")
    index_paths(runtime, IndexRequest((pictures,)))
    assert in_norway() == 2


def with_new_fact(runtime: Runtime) -> dict[str, int]:
    """Points with the fact that another version adds, by alias."""
    wanted = Filter(must=(MatchAny("facts", (code_of("new=fact"),)),))
    return {alias: runtime.store.count(name, wanted) for alias, name in runtime.store.aliases().items()}


async def test_facts_of_an_earlier_version_are_written_again_without_a_model(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("a model was run")

    async def notes() -> list[str]:
        sets = QuerySet(none=[QuerySet(filters=SearchFilters(where={"has": ["place"]}))])
        return (await runtime.engine().answer(SearchRequest(query="a photo", guides=0, match=sets))).warnings

    assert await notes() == []
    assert not examine_home(runtime).needs("sync")
    assert not runtime.catalog.renew_facts(VERSION - 1)  # of an older process on the same catalog
    real = points.facts_of
    monkeypatch.setattr(points, "facts_of", lambda picture: [*real(picture), "new=fact"])
    sync(runtime)
    assert set(with_new_fact(runtime).values()) == {0}

    for module in ("indexing.sync.collections", "indexing.sync.repair", "indexing.run.unfinished"):
        monkeypatch.setattr(f"lodestone.{module}.FACTS_VERSION", VERSION + 1)
    monkeypatch.setattr("lodestone.query.asking.resolve.VERSION", VERSION + 1)
    monkeypatch.setattr(delivery, "COLLECTION", f"tags-test-{VERSION + 1}")
    (note,) = await notes()
    assert "lodestone index" in note
    assert examine_home(runtime).needs("sync")
    assert not is_loaded(runtime, served=False)
    with monkeypatch.context() as no_models:
        no_models.setattr(MiniLM, "encode", forbidden)
        sync(runtime)
    aliases = runtime.store.aliases()
    assert aliases["tags"] == delivery.COLLECTION
    assert with_new_fact(runtime) == {alias: runtime.store.count(name) for alias, name in aliases.items()}
    assert await notes() == []
    assert is_loaded(runtime, served=False) and not examine_home(runtime).needs("sync")
