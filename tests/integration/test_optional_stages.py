"""What answers can do without may fail in any way, or hang: the answer stands, in time, and says what is missing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, load_models, photos
from tests.support.photos import CAT, photo
from tests.support.traces import trace_of_scores

from lodestone.config.settings import QuerySettings, TagSettings
from lodestone.errors import NotFoundError, StoreError
from lodestone.generators.base import Generator, Guide
from lodestone.query.answering.hydrate import Hydrator
from lodestone.query.answering.memory import AT_ONCE, Memory
from lodestone.query.retrieving.learned_stages import AssignedTrust, LearnedModels
from lodestone.query_log.explain import explain
from lodestone.query_log.trace import load_trace
from lodestone.retrieval.searcher import Searcher
from lodestone.store.limits import MATRIX_AFTER
from lodestone.tags.search import TagSearch
from lodestone_schemas.api import SearchRequest

DRAWN = replace(PROFILE, generators=("drawn",), guides=2)
SECRET = "postgresql://user:hunter2@host"  # what a library's error may quote


class Drawn(Generator):
    name = "drawn"
    version = "1"

    async def warm_up(self):
        pass

    async def generate(self, request):
        pixels = np.asarray(photo(CAT).convert("RGB"))
        return [Guide(f"drawn/{n}", self.name, 1.0, {}, pixels=pixels) for n in range(request.first, request.first + request.n)]


class Broken:
    """Any source of what was learnt; all it does raises an error that is not one of ours."""

    in_memory = False

    def assign(self, *_, **__):
        raise RuntimeError(SECRET)

    search = keep = decide = judge = assign


class Held:
    """Memory behind a catalog that is locked until it is released."""

    def __init__(self):
        self.released = threading.Event()

    def keep(self, _trace):
        self.released.wait(180)
        return []


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("learnt", "missing"),
    [
        (LearnedModels(trust=Broken()), "learnt trust is left out"),
        (LearnedModels(gate=Broken()), "the gate is left out"),
        (LearnedModels(presence=Broken()), "the confidence is left out"),
        (LearnedModels(memory=Broken()), "was not recorded"),
    ],
)
async def test_what_was_learnt_may_fail_in_any_way(collection, learnt, missing, caplog):
    engine = collection.engine(generators={"drawn": Drawn()}, profile=DRAWN, learnt=learnt)
    response = await engine.answer(SearchRequest(query="a cat", gate=True, guides=1, topic="pets"))
    assert CAT in [hit.uri for hit in response.hits][:2]
    (warning,) = [one for one in response.warnings if missing in one]
    assert "RuntimeError" in warning and SECRET not in warning
    assert SECRET in caplog.text  # whoever looks for the cause finds it
    assert response.topic == "pets"


async def test_guides_whose_pictures_cannot_be_embedded_leave_the_text_pass(collection, models):
    class OutOfMemory:
        def __init__(self, encoder):
            self._encoder = encoder

        def __getattr__(self, name):
            return getattr(self._encoder, name)

        async def embed_pictures(self, pictures, *, deadline=None):
            raise RuntimeError("CUDA out of memory")

    engine = collection.engine(generators={"drawn": Drawn()}, profile=DRAWN, encoder=OutOfMemory(models.encoder()))
    response = await engine.answer(SearchRequest(query="a cat"))
    assert response.stage == "text" and response.hits
    assert {guide.status for guide in response.guides} == {"dropped"}
    assert any("guides are left out" in one for one in response.warnings)


async def test_a_source_of_guides_that_breaks_leaves_those_that_came(collection):
    class Breaking:
        names = ("drawn",)

        def refresh(self):
            pass

        def enabled(self, name):
            return True

        def keep_vectors(self, guide, vectors):
            pass

        async def draw(self, request, **_):
            yield await Drawn().generate(request)
            raise ArithmeticError("no money")

    response = await collection.engine(hub=Breaking(), profile=DRAWN).answer(SearchRequest(query="a cat"))
    assert response.stage == "guides"
    assert {guide.status for guide in response.guides} == {"used"}
    assert any("further guides are left out" in one for one in response.warnings)


async def test_no_answer_waits_for_a_locked_catalog_beyond_its_deadline(collection):
    held = Held()
    engine = collection.engine(profile=PROFILE, learnt=LearnedModels(memory=held))
    # What a first query loads may take longer than the deadline on a busy machine.
    await collection.engine(profile=PROFILE).answer(SearchRequest(query="a cat", guides=0, deadline_ms=60_000))
    try:
        response = await engine.answer(SearchRequest(query="a cat", guides=0, deadline_ms=6_000))
    finally:
        held.released.set()
    assert response.hits
    assert any("the record of this query" in one for one in response.dropped)


async def test_a_locked_catalog_does_not_take_all_threads(collection):
    class Locked:
        def __init__(self):
            self.opened = threading.Event()

        def add_queries(self, *_):
            self.opened.wait(180)

    catalog = Locked()
    memory = Memory(catalog, collection.store, history=10, tags=TagSettings(implicit=False))
    trace = trace_of_scores("q", {"labels": {"a": 1.0, "b": 0.5}})
    with ThreadPoolExecutor(AT_ONCE) as others:
        waiting = [others.submit(memory.keep, trace) for _ in range(AT_ONCE)]
        (warning,) = await asyncio.to_thread(memory.keep, trace)
        assert "does not keep up" in warning
        assert not any(one.done() for one in waiting)
        catalog.opened.set()
    assert [one.result() for one in waiting] == [[]] * AT_ONCE
    assert memory.keep(trace) == []


async def test_a_query_is_recorded_although_the_store_no_longer_has_its_vectors(collection, monkeypatch, caplog):
    def gone(*_):
        raise StoreError("connection refused")

    monkeypatch.setattr(Searcher, "inner_products", gone)
    memory = Memory(collection.catalog, collection.store, history=10, tags=TagSettings(implicit=False))
    response = await collection.engine(learnt=LearnedModels(memory=memory)).answer(SearchRequest(query="a cat", guides=0))
    assert response.warnings == []
    assert "recorded without its similarities: connection refused" in caplog.text
    trace = load_trace(collection.catalog, response.query_id)
    assert trace.parts == {}
    explained = explain(trace).hits[0]
    assert (explained.image_id, explained.score) == (response.hits[0].image_id, response.hits[0].score)


async def test_a_home_that_keeps_no_queries_forgets_those_it_kept_before(collection):
    def engine(history):
        memory = Memory(collection.catalog, collection.store, history=history, tags=TagSettings(implicit=False))
        return collection.engine(settings=QuerySettings(history=history), learnt=LearnedModels(memory=memory))

    kept = await engine(10).answer(SearchRequest(query="my neighbour's cat", guides=0))
    assert load_trace(collection.catalog, kept.query_id).text
    await engine(0).answer(SearchRequest(query="a cat", guides=0))
    with pytest.raises(NotFoundError):
        load_trace(collection.catalog, kept.query_id)
    assert collection.catalog.queries() == []


class Remembered:
    """Trust in memory."""

    in_memory = True

    def assign(self, *_, topic, **__):
        return AssignedTrust(topic, {})


async def test_a_plain_answer_reads_one_page_and_a_stream_two(collection, monkeypatch):
    """Nobody sees the page of the text pass where only the last answer is read."""
    engine, pages, page = collection.engine(generators={"drawn": Drawn()}, profile=DRAWN), [], Hydrator.page
    monkeypatch.setattr(Hydrator, "page", lambda self, *given: pages.append(given) or page(self, *given))
    request = SearchRequest(query="a cat", guides=1, deadline_ms=60_000)
    streamed = [event async for event in engine.events(request)]
    assert [event.type for event in streamed] == ["plan", "results", "guide", "results", "done"]
    assert len(pages) == 2
    answered = await engine.answer(request)
    assert len(pages) == 3
    assert answered.stage == "guides"
    assert [hit.image_id for hit in answered.hits] == [hit.image_id for hit in streamed[-1].response.hits]
    alone = await engine.answer(SearchRequest(query="a cat", guides=0, deadline_ms=60_000))
    assert len(pages) == 4
    assert alone.stage == "text"


async def test_guides_that_change_nothing_leave_the_page_of_the_words(collection, models):
    class Blind:
        def __init__(self, encoder):
            self.encoder = encoder

        def __getattr__(self, name):
            return getattr(self.encoder, name)

        async def embed_pictures(self, pictures, *, deadline=None):
            raise RuntimeError(SECRET)

    engine = collection.engine(generators={"drawn": Drawn()}, profile=DRAWN, encoder=Blind(models.encoder()))
    answered = await engine.answer(SearchRequest(query="a cat", guides=1, deadline_ms=60_000))
    alone = await engine.answer(SearchRequest(query="a cat", guides=0, deadline_ms=60_000))
    assert answered.stage == "text"
    assert [hit.image_id for hit in answered.hits] == [hit.image_id for hit in alone.hits] != []


async def test_a_search_by_words_changes_threads_five_times_at_most(collection, monkeypatch):
    """To plan, to encode, for tags, to search, and to read the page."""
    learnt = LearnedModels(trust=Remembered(), tags=TagSearch(collection.store))
    engine, request = collection.engine(learnt=learnt), SearchRequest(query="a cat", guides=0, topic="pets", deadline_ms=60_000)
    for _ in range(MATRIX_AFTER + 1):
        await engine.answer(request)
    threads, to_thread = [], asyncio.to_thread
    monkeypatch.setattr(asyncio, "to_thread", lambda work, *a, **b: threads.append(work) or to_thread(work, *a, **b))
    await engine.answer(request)
    assert len(threads) <= 5
