"""The guide loop in the engine: gate, outliers, early stopping, budget, failures, and the record of it all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.engines import hub_around
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.traces import unexplained

from lodestone.config.settings import QuerySettings, TagSettings
from lodestone.errors import ModelUnavailableError, NotFoundError, StoreError
from lodestone.generators.base import Generator, Guide
from lodestone.query.answering.memory import Memory
from lodestone.query.deciding.gate import GateModel, Term
from lodestone.query.history import ask_again, query_page
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone.retrieval.fusion import FUSIONS
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


def engine_of(collection, generator, *, gate=None, gate_on=None, history=100, **settings):
    memory = Memory(collection.catalog, collection.store, history=history, tags=TagSettings(implicit=False))
    return collection.engine(
        generators={generator.name: generator},
        profile=DRAWN,
        settings=QuerySettings(gate=gate_on, **settings),
        learnt=LearnedModels(gate=gate, memory=memory),
    )


async def test_a_gate_that_was_fitted_on_other_spaces_is_off_and_says_so_when_it_is_asked(collection):
    """Captions alone would call this query simple; they do not show how good label matching is."""
    known = {name: Term(mean=1.0, spread=1.0, weight=0.0) for name in ("bridge.answered", "captions.answered")}
    generator = Drawn(photo(CAT))
    engine = engine_of(collection, generator, gate=GateModel(intercept=0.9, terms=known, threshold=0.5), gate_on=True)
    response = await engine.answer(SearchRequest(query="a tabby cat lies on a sofa"))
    assert (response.gate, response.stage) == (None, "guides")
    assert "gate" not in response.timings_ms
    asked = (await engine.answer(SearchRequest(query="a tabby cat lies on a sofa", gate=True))).gate
    assert asked is not None
    assert (asked.verdict, asked.predicted_ap) == ("complex", 0.0)
    assert "the gate was fitted on bridge, and labels, labels0 was searched" in asked.why


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


@pytest.mark.parametrize("left_out", [["drawn/3", "drawn/7", "drawn/99"], [f"drawn/{number}" for number in range(8)]])
async def test_guides_that_the_request_leaves_out_are_drawn_and_listed_but_find_nothing(collection, left_out):
    engine = engine_of(collection, Drawn(photo(CAT), photo(CAT), photo(CAT), photo(ROCKET)), outliers=False)
    response = await engine.answer(SearchRequest(query="a cat", without_guides=left_out, explain=True))
    statuses = {guide.guide_id: guide.status for guide in response.guides}
    assert {name for name, status in statuses.items() if status == "dropped"} == set(left_out) & statuses.keys()
    assert set(statuses.values()) <= {"used", "dropped"}
    assert not set(left_out) & {part.guide for hit in response.hits for part in hit.contributions}
    assert (response.warnings, response.dropped) == ([], [])
    trace = load_trace(collection.catalog, response.query_id)
    assert replay(trace).identical
    assert (await ask_again(engine, collection.catalog, trace)).identical, "asked again without them too"


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
    engine = collection.engine(hub=hub_around({"drawn": generator}, cost=2.0), profile=DRAWN)
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


class ScoresFail:
    """A store that stops giving exact scores after `most` searches for them."""

    def __init__(self, store, most):
        self._store, self._left = store, most

    def __getattr__(self, name):
        return getattr(self._store, name)

    def search(self, collection, queries):
        if any(query.exact for query in queries):
            self._left -= 1
            if self._left < 0:
                raise StoreError("the disk is gone", hint="plug it in")
        return self._store.search(collection, queries)


async def test_a_round_that_fails_leaves_the_ranking_of_the_round_before(collection):
    text_pass, first_round = 2, 2  # one a space
    generator = Drawn(photo(CAT), photo(ROCKET), photo(COFFEE))
    engine = collection.engine(
        generators={"drawn": generator}, profile=DRAWN, store=ScoresFail(collection.store, text_pass + first_round)
    )
    response = await engine.answer(SearchRequest(query="a cat", adaptive=True, outliers=False))
    assert any("the disk is gone" in one for one in response.warnings)
    assert response.stage == "guides"
    assert [one.guide_id for one in response.guides if one.status == "used"] == ["drawn/0", "drawn/1"]


async def test_guides_that_found_nothing_in_the_end_are_not_called_used(collection):
    engine = collection.engine(
        generators={"drawn": Drawn(photo(CAT))}, profile=DRAWN, store=ScoresFail(collection.store, 2), settings=QuerySettings()
    )
    response = await engine.answer(SearchRequest(query="a cat"))
    assert response.stage == "text"
    assert {one.status for one in response.guides} == {"dropped"}


async def test_many_guides_in_a_new_process_are_judged_in_time(collection):
    engine = engine_of(collection, Drawn(photo(CAT), photo(CAT), photo(CAT), photo(ROCKET)))
    response = await engine.answer(SearchRequest(query="a cat", guides=16, deadline_ms=30_000))
    assert response.stage == "guides"
    assert {one.guide_id for one in response.guides if one.status == "rejected"} == {f"drawn/{n}" for n in (3, 7, 11, 15)}
    assert any("the map of the guides: not prepared" in one for one in response.dropped)


async def test_the_profiles_weights_of_spaces_hold_where_nothing_learnt_counts(collection):
    profile = replace(DRAWN, space_priors={"labels": 3.0, "labels0": 1.0})
    engine = collection.engine(profile=profile, generators={"drawn": Drawn(photo(CAT))})
    for request in (SearchRequest(query="a cat", trust=False, guides=0), SearchRequest(query="a cat", guides=0)):
        response = await engine.answer(request)
        assert response.space_weights == pytest.approx({"labels": 0.75, "labels0": 0.25})
        assert response.trust == {"labels": 1.5, "labels0": 0.5}
    alike = await engine.similar(collection.ids[CAT], SearchOptions(limit=3))
    assert alike.space_weights == pytest.approx({"labels": 0.75, "labels0": 0.25})


async def test_one_guide_is_drawn_and_used_when_drawing_may_stop_early(collection):
    response = await engine_of(collection, Drawn(photo(CAT))).answer(SearchRequest(query="a cat", guides=1, adaptive=True))
    assert [one.status for one in response.guides] == ["used"]
    assert not any("more guides" in one for one in response.dropped)


async def test_a_query_without_a_space_to_search_is_recorded_explained_and_replayed(models, tmp_path):
    empty = Collection(tmp_path, models)
    for space in ("labels", "labels0"):
        empty.store.drop_alias(space)
    engine = engine_of(empty, Drawn(photo(CAT)), gate=COMPLEX)
    response = await engine.answer(SearchRequest(query="a cat", gate=True))
    assert (response.hits, response.guides, response.gate) == ([], [], None)
    assert any("nothing is indexed" in one for one in response.warnings)
    trace = load_trace(empty.catalog, response.query_id)
    assert explain(trace).hits == []
    assert replay(trace).identical
    empty.close()
