"""The guide loop in the engine: gate, outliers, early stopping, budget, failures, and the record of it all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.hubs import hub_of
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.traces import unexplained

from lodestone.config.settings import QuerySettings, TagSettings
from lodestone.errors import ModelUnavailableError, NotFoundError
from lodestone.generators.base import Generator, Guide
from lodestone.query.explain import explain
from lodestone.query.fusion import FUSIONS
from lodestone.query.gate import GateModel, Term
from lodestone.query.history import ask_again, query_page
from lodestone.query.lessons import Learnt
from lodestone.query.memory import Memory
from lodestone.query.replay import replay
from lodestone.query.trace import load_trace
from lodestone_schemas.api import SearchOptions, SearchRequest

DRAWN = replace(PROFILE, generators=("drawn",), guides=8)
KNOWN = {"labels.answered": Term(mean=1.0, spread=1.0, weight=0.0)}
SIMPLE, COMPLEX = (GateModel(intercept=ap, terms=KNOWN, threshold=0.5) for ap in (0.9, 0.1))


class Drawn(Generator):
    """Guides from a given list of pictures, in order, again and again; remembers what it was asked."""

    name = "drawn"
    version = "1"

    def __init__(self, *pictures, error=None):
        self.pictures = [np.asarray(one.convert("RGB")) for one in pictures]
        self.error = error
        self.asked = []

    async def warm_up(self):
        pass

    async def generate(self, request):
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        return [
            Guide(f"drawn/{n}", self.name, 1.0, {"prompt": request.prompt}, pixels=self.pictures[n % len(self.pictures)])
            for n in range(request.first, request.first + request.n)
        ]


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos())
    made.add("made", fillers(40))
    made.caption({COFFEE: ["an espresso on a saucer"], CAT: ["a tabby cat lies on a sofa"]})
    yield made
    made.close()


def engine_of(collection, generator, *, gate=None, history=100, **settings):
    memory = Memory(collection.catalog, collection.store, history=history, tags=TagSettings(implicit=False))
    return collection.engine(
        generators={generator.name: generator},
        profile=DRAWN,
        settings=QuerySettings(**settings),
        learnt=Learnt(gate=gate, memory=memory),
    )


async def test_a_simple_query_is_answered_without_guides_and_says_why(collection):
    generator = Drawn(photo(CAT))
    engine = engine_of(collection, generator, gate=SIMPLE, gate_threshold=0.2)
    response = await engine.answer(SearchRequest(query="a cat", gate=True))
    assert generator.asked == []
    assert response.stage == "text"
    assert response.gate is not None
    assert (response.gate.verdict, response.gate.threshold) == ("simple", 0.2)
    assert "gate" in response.timings_ms


@pytest.mark.parametrize(("model", "wish"), [(COMPLEX, True), (SIMPLE, False), (None, True)])
async def test_guides_are_drawn_where_the_gate_finds_it_hard_or_is_off(collection, model, wish):
    generator = Drawn(photo(CAT))
    response = await engine_of(collection, generator, gate=model).answer(SearchRequest(query="a cat", gate=wish))
    assert len(response.guides) == 8
    assert response.stage == "guides"
    assert (response.gate is not None) == (model is COMPLEX)


async def test_guides_unlike_the_others_are_shown_as_rejected_and_find_nothing(collection):
    generator = Drawn(photo(CAT), photo(CAT), photo(CAT), photo(ROCKET))  # 2 of 8 are rockets
    engine = engine_of(collection, generator)
    judged = await engine.answer(SearchRequest(query="a cat", outliers=True, explain=True))
    rejected = {one.guide_id for one in judged.guides if one.status == "rejected"}
    assert rejected == {"drawn/3", "drawn/7"}
    assert all((one.outlier_score > 1) == (one.guide_id in rejected) for one in judged.guides)
    assert not rejected & {part.guide for hit in judged.hits for part in hit.contributions}
    everything = await engine.answer(SearchRequest(query="a cat", outliers=False, explain=True))
    assert {one.status for one in everything.guides} == {"used"}
    assert {"drawn/3", "drawn/7"} <= {part.guide for hit in everything.hits for part in hit.contributions}


async def test_drawing_stops_when_more_guides_change_nothing(collection):
    generator = Drawn(photo(CAT))
    response = await engine_of(collection, generator).answer(SearchRequest(query="a cat", adaptive=True))
    assert 0 < len(response.guides) < 8
    assert sum(request.n for request in generator.asked) == len(response.guides)
    assert any("stable after" in one for one in response.dropped)


async def test_all_engines_down_degrade_to_the_text_pass_and_say_so(collection):
    engine = engine_of(collection, Drawn(photo(CAT), error=ModelUnavailableError("no weights", hint="install them")))
    response = await engine.answer(SearchRequest(query="a cat"))
    assert response.stage == "text"
    assert CAT in [hit.uri for hit in response.hits][:2]
    assert any("'drawn'" in one and "no weights" in one for one in response.warnings)


async def test_what_the_budget_does_not_cover_is_not_drawn(collection):
    generator = Drawn(photo(CAT))
    engine = collection.engine(hub=hub_of({"drawn": generator}, cost=2.0), profile=DRAWN)
    response = await engine.answer(SearchRequest(query="a cat", budget=7.0))
    assert len(response.guides) == 3
    assert response.cost == 6.0
    assert any("budget" in one for one in response.dropped)


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("limit", [5, 150])
async def test_every_hit_is_explained_whole_and_the_record_replays_bit_for_bit(collection, fusion, limit):
    engine = engine_of(collection, Drawn(photo(CAT), photo(ROCKET)), outliers=False)
    response = await engine.answer(SearchRequest(query="a cat on a sofa", fusion=fusion, limit=limit, offset=limit // 50))
    trace = load_trace(collection.catalog, response.query_id)
    explanation = explain(trace)
    assert [hit.image_id for hit in explanation.hits] == [hit.image_id for hit in response.hits]
    assert [hit.score for hit in explanation.hits] == [hit.score for hit in response.hits]
    assert unexplained(explanation) == []
    assert {part.guide for hit in explanation.hits for part in hit.parts} >= {"text", "drawn/0", "drawn/1"}
    assert [one.guide_id for one in explanation.guides] == [one.guide_id for one in response.guides]
    again = replay(trace)
    assert again.identical
    assert again.ids[limit // 50 :][: len(response.hits)] == [hit.image_id for hit in response.hits]


async def test_the_same_request_over_the_same_collection_gives_the_same_ranking(collection):
    engine = engine_of(collection, Drawn(photo(CAT), photo(ROCKET)), outliers=False)
    response = await engine.answer(SearchRequest(query="a rocket", seed=4))
    result = await ask_again(engine, collection.catalog, load_trace(collection.catalog, response.query_id))
    assert result.fresh
    assert result.identical
    assert result.moved == []


async def test_searches_by_picture_are_recorded_and_explained_too(collection):
    engine = engine_of(collection, Drawn(photo(CAT)))
    response = await engine.by_picture(photo(CAT), SearchOptions(limit=3))
    trace = load_trace(collection.catalog, response.query_id)
    assert trace.kind == "picture"
    assert unexplained(explain(trace)) == []
    alike = await engine.similar(collection.ids[CAT], SearchOptions(limit=3))
    assert load_trace(collection.catalog, alike.query_id).kind == "similar"


async def test_only_as_many_queries_are_kept_as_the_home_wants(collection):
    engine = engine_of(collection, Drawn(photo(CAT)), history=3)
    asked = [await engine.answer(SearchRequest(query=f"cat number {n}", guides=0)) for n in range(5)]
    kept = query_page(collection.catalog, offset=0, limit=10)
    assert [one.text for one in kept.queries] == ["cat number 4", "cat number 3", "cat number 2"]
    with pytest.raises(NotFoundError) as caught:
        load_trace(collection.catalog, asked[0].query_id)
    assert "query.history" in caught.value.hint
    silent = engine_of(collection, Drawn(photo(CAT)), history=0)
    unkept = await silent.answer(SearchRequest(query="a cat", guides=0))
    assert unkept.warnings == []
    with pytest.raises(NotFoundError):
        load_trace(collection.catalog, unkept.query_id)
