"""One pipeline for every query: the same stages, the same events, the same records; and a node that is added by the recipe."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tests.support.collection import Collection, fillers, load_models, photos
from tests.support.photos import CAT, ROCKET, photo
from tests.support.traces import unexplained

from lodestone.access.visibility import Visibility
from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.query.answering.memory import Memory
from lodestone.query.answering.responses import QueryAnswer
from lodestone.query.asking import tree
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.asking.tree import And, Leaf, Not, Picture, Text, Vector, Where
from lodestone.query.guides.outcome import GuideOutcome
from lodestone.query.guides.stage import GuideStage
from lodestone.query.pipeline import PageStage, ResolveStage
from lodestone.query.retrieving import leaves
from lodestone.query.retrieving.first_pass import FirstPass, FirstPassStage, QueryWeights
from lodestone.query.retrieving.learned_stages import LearnedModels, LearnedStages
from lodestone.query.retrieving.leaves import EncodedQuery, RetrievalStage
from lodestone.query.words.checker import QueryChecker
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

RECIPE = Path(__file__).parents[2] / "docs/recipes/add-a-query-node.md"
STAGES = (
    (ResolveStage, "resolve"),
    (RetrievalStage, "encode"),
    (FirstPassStage, "weigh"),
    (FirstPassStage, "rank"),
    (LearnedStages, "judged"),
    (LearnedStages, "presence"),
    (PageStage, "answer"),
    (LearnedStages, "remember"),
)


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos())
    made.add("made", fillers(20), root="/made")
    yield made
    made.close()


@pytest.fixture
def engine(collection):
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False))
    return collection.engine(learnt=LearnedModels(memory=memory))


@pytest.fixture
def walked(monkeypatch):
    """Query id -> the stages that the query went through; the list of a resolved query starts at its resolution."""
    records: dict[str, list[str]] = {}

    def watch(stage, method):
        original = getattr(stage, method)

        async def watched(self, first, *rest, **named):
            value = await original(self, first, *rest, **named)
            query = value if method == "resolve" else first
            records.setdefault(query.resolved.query_id, []).append(method)
            return value

        monkeypatch.setattr(stage, method, watched)

    for stage, method in STAGES:
        watch(stage, method)
    return records


async def test_words_similar_by_picture_vectors_and_batches_go_through_the_same_stages(collection, engine, walked):
    options, vector = SearchOptions(limit=3), np.arange(1.0, 1001.0)
    batch = [SearchRequest(query=words, guides=0) for words in ("a cat", "a rocket", "a cup")]
    responses = [
        await engine.answer(SearchRequest(query="a cat", guides=0)),
        await engine.similar(collection.ids[CAT], options),
        await engine.by_picture(photo(CAT), options),
        await last(engine.ask(Vector({"labels": vector[: dim_of(collection, "labels")]}), options)),
        *await asyncio.gather(*(engine.answer(request) for request in batch)),
    ]
    assert set(walked) == {response.query_id for response in responses}
    for response in responses:
        assert walked[response.query_id] == [method for _, method in STAGES]


@pytest.mark.parametrize("kind", ["words", "similar", "picture"])
async def test_every_query_has_the_same_events_and_a_record_that_explains_and_replays(collection, engine, kind):
    query, options = {
        "words": (Text("a cat"), SearchRequest(query="a cat", guides=0, explain=True)),
        "similar": (tree.Image(collection.ids[CAT]), SearchOptions(explain=True)),
        "picture": (Picture(np.asarray(photo(CAT).convert("RGB"))), SearchOptions(explain=True)),
    }[kind]
    events = [event async for event in engine.ask(query, options)]
    assert [event.type for event in events] == ["plan", "results", "done"]
    response = events[-1].response
    assert response.stage == ("text" if kind == "words" else "picture")
    assert response.gate is None and response.guides == []
    assert all(hit.contributions for hit in response.hits)
    trace = load_trace(collection.catalog, response.query_id)
    assert trace.kind == kind
    assert replay(trace).identical
    assert unexplained(explain(trace)) == []


@pytest.mark.parametrize(
    "stage_value", [RunningQuery, ResolvedQuery, EncodedQuery, QueryWeights, FirstPass, GuideOutcome, QueryAnswer]
)
def test_what_a_stage_returns_cannot_be_changed(stage_value):
    value = object.__new__(stage_value)
    with pytest.raises(AttributeError):
        setattr(value, fields(stage_value)[0].name, None)


async def test_guides_are_values_that_the_guide_stage_returns(collection, engine, monkeypatch):
    outcomes = []
    original = GuideStage.run

    async def run(self, query, given):
        async for part in original(self, query, given):
            outcomes.append(part)
            yield part

    monkeypatch.setattr(GuideStage, "run", run)
    await engine.answer(SearchRequest(query="a cat"))
    await engine.similar(collection.ids[CAT], SearchOptions())
    assert [type(part) for part in outcomes] == [GuideOutcome]  # nothing is captioned, and pictures have no guides


async def test_vectors_find_what_the_picture_of_these_vectors_finds(collection, engine, models):
    embedded = models.embed([photo(ROCKET)])
    by_vectors = await last(engine.ask(Vector({space: 3 * rows[0] for space, rows in embedded.items()}), SearchOptions()))
    by_picture = await engine.by_picture(photo(ROCKET), SearchOptions())
    assert [hit.image_id for hit in by_vectors.hits] == [hit.image_id for hit in by_picture.hits]
    np.testing.assert_allclose([hit.score for hit in by_vectors.hits], [hit.score for hit in by_picture.hits], rtol=1e-5)


async def test_vectors_of_no_space_or_of_another_size_are_refused_with_what_to_do(collection, engine):
    with pytest.raises(UnknownNameError):
        await last(engine.ask(Vector({"nowhere": np.ones(3)}), SearchOptions()))
    with pytest.raises(InvalidRequestError, match="holds vectors of"):
        await last(engine.ask(Vector({"labels": np.ones(3)}), SearchOptions()))
    size = dim_of(collection, "labels")
    with pytest.raises(InvalidRequestError, match="are searched"):
        await last(engine.ask(Vector({"labels": np.ones(size)}), SearchOptions(spaces=["labels0"])))


async def test_conditions_of_the_tree_and_of_the_options_hold_together(engine):
    options = SearchOptions(filters=SearchFilters(corpora=["photos", "made"]), limit=200)
    query = Where(SearchFilters(corpora=["made"]), Text("a cat"))
    response = await last(engine.ask(query, options))
    assert {hit.corpus for hit in response.hits} == {"made"}
    hidden = RequestContext(visibility=Visibility(corpora=frozenset({"photos"})))
    response = await last(engine.ask(Text("a cat"), SearchOptions(limit=200), request_context=hidden))
    assert {hit.corpus for hit in response.hits} == {"photos"}


async def test_what_is_not_answered_yet_is_refused_before_anything_is_searched(engine, walked):
    class Unregistered(Leaf):
        pass

    for query in (And((Not(Text("a cat")), Text("a dog"))), Unregistered()):
        with pytest.raises(InvalidRequestError) as raised:
            await last(engine.ask(query, SearchOptions()))
        assert (raised.value.code, bool(raised.value.hint)) == ("invalid_request", True)
    assert walked == {}


def steps_of_the_recipe():
    """Python blocks of the recipe, in order."""
    return re.findall(r"```python\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)


def test_the_recipe_touches_at_most_three_files():
    files = re.findall(r"^## \d\..*`(\S+\.py)`", RECIPE.read_text("utf-8"), re.MULTILINE)
    assert 0 < len(files) <= 3
    assert all((RECIPE.parents[2] / file).is_file() for file in files)


async def test_a_node_made_by_the_recipe_is_answered_recorded_and_filtered(collection, engine, monkeypatch, walked):
    monkeypatch.setattr(leaves, "RETRIEVERS", dict(leaves.RETRIEVERS))
    node, retriever, method = steps_of_the_recipe()
    names = dict(vars(tree))
    exec(node, names)
    constant = names["Constant"]
    exec(retriever, {**vars(leaves), "Constant": constant})
    exec(method, methods := {"Constant": constant, "SearchOptions": SearchOptions, "SearchResponse": object})
    with pytest.raises(InvalidRequestError):
        constant(0.0)
    response = await methods["constant"](engine, 2.0, SearchOptions(limit=5))
    assert len(response.hits) == 5
    assert walked[response.query_id] == [method for _, method in STAGES]
    assert replay(load_trace(collection.catalog, response.query_id)).identical
    filtered = await last(engine.ask(constant(2.0), SearchOptions(filters=SearchFilters(corpora=["made"]), limit=200)))
    assert {hit.corpus for hit in filtered.hits} == {"made"}
    opposite = await last(engine.ask(constant(-2.0), SearchOptions(limit=5)))
    assert opposite.hits[0].image_id != response.hits[0].image_id


def dim_of(collection, space):
    return collection.models.projections[space].dim


async def last(events):
    return [event async for event in events][-1].response


async def test_a_misspelt_query_is_answered_as_the_right_one_and_says_so_in_events_record_and_replay(collection, models):
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False))
    checker = QueryChecker(models.text_encoder, lambda: collection.catalog)
    engine = collection.engine(learnt=LearnedModels(memory=memory), checker=checker)
    events = [event async for event in engine.events(SearchRequest(query="a rokcet"))]
    response = events[-1].response
    assert events[0].corrected_query == response.corrected_query == "a rocket"
    right = await engine.answer(SearchRequest(query="a rocket"))
    assert right.corrected_query is None
    assert [hit.image_id for hit in response.hits] == [hit.image_id for hit in right.hits]
    trace = load_trace(collection.catalog, response.query_id)
    explanation = explain(trace)
    assert (explanation.text, explanation.corrected_query) == ("a rocket", "a rocket")
    assert explanation.request["query"] == "a rokcet"
    assert replay(trace).identical
    as_written = await engine.answer(SearchRequest(query="a rokcet", spelling="off"))
    assert as_written.corrected_query is None


async def test_a_query_in_another_language_is_answered_with_a_warning(collection, models):
    engine = collection.engine(checker=QueryChecker(models.text_encoder, lambda: collection.catalog))
    answer = await engine.answer(SearchRequest(query="zwei Hunde am Strand"))
    assert answer.language == "de"
    assert any("this looks like German" in warning for warning in answer.warnings)
    assert answer.hits
