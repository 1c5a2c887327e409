"""The query engine over a real store, catalog and real models: events, paging, filters, guides, deadlines, cancelling."""

import asyncio
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.engines import hub_around
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.config.settings import QuerySettings
from lodestone.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    ModelUnavailableError,
    NotFoundError,
    StoreError,
    UnknownNameError,
)
from lodestone.generators.base import Generator, Guide
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.guides.search import FusionSettings
from lodestone.retrieval.fusion import FUSIONS
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

CAPTIONS = {"more/003.jpg": ["two children build a sand castle at the beach"], COFFEE: ["an espresso on a saucer"]}


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos(), root="/a/photos", taken_at=int(datetime(2024, 5, 1, tzinfo=UTC).timestamp()))
    made.add("made", fillers(60), root="/b/made")
    made.caption(CAPTIONS)
    yield made
    made.close()


@pytest.fixture
def engine(collection):
    return collection.engine()


async def collect(engine, request):
    return [event async for event in engine.events(request)]


def uris(response):
    return [hit.uri for hit in response.hits]


@pytest.mark.nightly_beyond(3)
@pytest.mark.parametrize(("words", "found"), [("a cat", CAT), ("a cup of espresso", COFFEE), ("a rocket", ROCKET)])
@pytest.mark.parametrize("fusion", FUSIONS)
async def test_words_find_the_photo_with_every_fusion(engine, words, found, fusion):
    response = await engine.answer(SearchRequest(query=words, guides=0, fusion=fusion))
    assert found in uris(response)[:2]


async def test_events_come_in_order_and_the_last_repeats_the_best_answer(engine):
    events = await collect(engine, SearchRequest(query="children at the beach, a sand castle"))
    assert [event.type for event in events] == ["plan", "results", "guide", "results", "done"]
    plan, text, guide, better, done = events
    assert set(plan.spaces) == {"labels", "labels0"}
    assert plan.generators == ["exemplar"]
    assert text.response.stage == "text"
    assert better.response.stage == "guides"
    assert better.response.guides == [guide.guide]
    assert done.response.hits == better.response.hits
    assert {event.query_id for event in (plan, guide)} == {done.response.query_id}
    assert {
        "plan",
        "encode",
        "search",
        "rescore",
        "fuse",
        "hydrate",
        "generate",
        "guides",
        "total",
    } <= done.response.timings_ms.keys()


async def test_a_caption_lifts_its_picture_and_the_guide_says_why(engine, collection):
    request = SearchRequest(query="children building a sand castle", limit=200)
    plain = await engine.answer(request.model_copy(update={"guides": 0}))
    guided = await engine.answer(request)
    assert uris(guided).index("more/003.jpg") < uris(plain).index("more/003.jpg")
    provenance = guided.guides[0].provenance
    assert provenance["image_id"] == collection.ids["more/003.jpg"]
    assert provenance["caption"] == CAPTIONS["more/003.jpg"][0]
    assert provenance["similarity"] > 0.5
    assert guided.hits[uris(guided).index("more/003.jpg")].captions == CAPTIONS["more/003.jpg"]


async def test_without_guides_the_text_pass_is_the_answer_and_is_not_made_again(engine):
    nothing_is_captioned = SearchFilters(taken_from=datetime(2030, 1, 1, tzinfo=UTC))
    events = await collect(engine, SearchRequest(query="a rocket lifting off", filters=nothing_is_captioned))
    assert [event.type for event in events] == ["plan", "results", "done"]
    assert events[-1].response.stage == "text"
    assert events[-1].response.hits is events[-2].response.hits


async def test_a_caption_about_something_else_takes_its_picture_down_and_the_explanation_adds_up(engine, collection):
    request = SearchRequest(query="a rocket lifting off", limit=200, explain=True)
    plain = await engine.answer(request.model_copy(update={"guides": 0}))
    better = await engine.answer(request)
    assert better.stage == "guides"
    assert better.guides == []
    for uri in CAPTIONS:
        assert uris(better).index(uri) >= uris(plain).index(uri)
    rest = [[uri for uri in uris(one) if uri not in CAPTIONS] for one in (plain, better)]
    assert rest[0] == rest[1]


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("guides", [0, 4])
async def test_pages_follow_each_other_without_gaps_or_repeats(collection, fusion, guides):
    engine = collection.engine(settings=QuerySettings(depth=7))
    request = SearchRequest(query="a sand castle at the beach", limit=5, guides=guides, fusion=fusion)
    seen, offset = [], 0
    while offset is not None:
        page = await engine.answer(request.model_copy(update={"offset": offset}))
        assert [hit.rank for hit in page.hits] == list(range(offset + 1, offset + 1 + len(page.hits)))
        seen += page.hits
        offset = page.next_offset
    assert len({hit.image_id for hit in seen}) == len(seen) == len(collection.ids)
    assert all(np.diff([hit.score for hit in seen]) <= 0)
    whole = await engine.answer(request.model_copy(update={"limit": 20}))
    assert uris(whole) == [hit.uri for hit in seen[:20]]


async def test_pictures_that_left_the_catalog_are_left_out_and_paging_goes_on(models, tmp_path):
    made = Collection(tmp_path, models)
    made.add("c", fillers(12))
    engine = made.engine()
    first = await engine.answer(SearchRequest(query="colours", limit=4))
    made.catalog.mark_gone([first.hits[1].image_id])
    again = await engine.answer(SearchRequest(query="colours", limit=4))
    assert [hit.rank for hit in again.hits] == [1, 3, 4]
    assert again.next_offset == 4
    made.close()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (SearchFilters(corpora=["photos"]), set(photos())),
        (SearchFilters(roots=["made"]), set(fillers(60))),
        (SearchFilters(path_prefix="/more/"), set(fillers(60))),
        (SearchFilters(path_prefix="mor"), set()),
        (SearchFilters.model_validate({"taken_from": "2024-04-01T00:00", "taken_to": "2024-06-01T00:00"}), set(photos())),
        (SearchFilters(taken_to=datetime(2024, 5, 1, tzinfo=UTC)), set()),
    ],
)
async def test_filters_hold_for_hits_and_for_guides(engine, filters, expected):
    response = await engine.answer(SearchRequest(query="children at the beach, a sand castle", limit=200, filters=filters))
    assert set(uris(response)) == expected
    captioned = {"more/003.jpg"} & expected
    assert len(response.guides) == len(captioned)


CLOCKS = {
    "ny": {"taken_at": datetime(2024, 1, 1, 4, 30, tzinfo=UTC), "utc_offset_minutes": -300},  # 31 December, 23:30
    "tokyo": {"taken_at": datetime(2023, 12, 31, 22, tzinfo=UTC), "utc_offset_minutes": 540},  # 1 January, 7:00
    "unknown": {"taken_at": datetime(2023, 12, 31, 23, 30, tzinfo=UTC)},
    "year": {"taken_at": datetime(2023, 1, 1, tzinfo=UTC), "taken_precision": "year"},
    "month": {"taken_at": datetime(2023, 12, 1, tzinfo=UTC), "taken_precision": "month"},
    "none": {"taken_at": None},
}


@pytest.fixture(scope="module")
def clocks(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("clocks"), models)
    for number, (name, taken) in enumerate(CLOCKS.items()):
        seconds = None if taken["taken_at"] is None else int(taken["taken_at"].timestamp())
        picture = {f"{name}.png": list(fillers(6).values())[number]}
        made.add("clocks", picture, root=f"/clocks/{name}", **{**taken, "taken_at": seconds})
    yield made
    made.close()


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ("2023-12-31", "2024-01-01", "ny unknown"),
        ("2024-01-01", "2024-01-02", "tokyo"),
        ("2024", None, "tokyo"),
        ("2023", "2024", "ny unknown year month"),
        ("2023-12", "2024", "ny unknown month"),
        ("2023-01-01", "2023-01-02", ""),
        (None, "2023-12-31T23:59", "ny unknown"),
        (None, "2023-12-31T23:30", ""),
        ("2023-12-31T23:30", None, "ny tokyo unknown"),
        ("2024-01-01T00:00Z", "2024-01-02T00:00Z", "ny"),
        ("2023-12-31T22:00Z", "2024-01-01T00:00Z", "tokyo unknown"),
        ("2024-01-01T07:00+09:00", "2024-01-01T07:01+09:00", "tokyo"),
    ],
)
async def test_a_day_is_that_of_the_picture_and_an_offset_asks_for_absolute_time(clocks, start, end, found):
    filters = SearchFilters(taken_from=start, taken_to=end)
    response = await clocks.engine().answer(SearchRequest(query="a pattern", guides=0, limit=50, filters=filters))
    assert {uri.removesuffix(".png") for uri in uris(response)} == set(found.split())


async def test_hits_say_what_the_clock_showed_as_precisely_as_is_known(clocks):
    response = await clocks.engine().answer(SearchRequest(query="a pattern", guides=0, limit=50))
    assert {hit.uri.removesuffix(".png"): hit.taken_local for hit in response.hits} == {
        "ny": "2023-12-31T23:30:00",
        "tokyo": "2024-01-01T07:00:00",
        "unknown": "2023-12-31T23:30:00",
        "year": "2023",
        "month": "2023-12",
        "none": None,
    }


async def test_unknown_names_are_refused_before_anything_is_searched(engine):
    for wrong in (
        {"fusion": "borda"},
        {"spaces": ["clip"]},
        {"generators": ["sdxl"]},
        {"filters": SearchFilters(corpora=["x"])},
    ):
        with pytest.raises(UnknownNameError):
            await engine.answer(SearchRequest(query="a cat", **wrong))
    with pytest.raises(InvalidRequestError):
        await engine.answer(SearchRequest(query=" \t\x00"))


async def test_explain_names_the_lists_a_hit_stood_in(engine):
    response = await engine.answer(SearchRequest(query="a cat", explain=True, guides=0, limit=3))
    first = response.hits[0].contributions
    assert {one.space for one in first} == {"labels", "labels0"}
    assert all(one.guide == "text" and one.rank >= 1 for one in first)
    assert (await engine.answer(SearchRequest(query="a cat", guides=0, limit=3))).hits[0].contributions is None


async def test_a_space_of_another_version_is_left_out_with_a_warning(models, tmp_path):
    made = Collection(tmp_path, models)
    made.add("c", photos())
    made.store.set_alias("labels0", made.models.projections["labels"].collection)
    response = await made.engine().answer(SearchRequest(query="a cat"))
    assert set(response.space_weights) == {"labels", "labels0"}  # its own version is still there, and is what it searches
    made.store.drop(made.models.projections["labels0"].collection)
    response = await made.engine().answer(SearchRequest(query="a cat"))
    assert set(response.space_weights) == {"labels"}
    assert any("labels0" in warning and "lodestone index" in warning for warning in response.warnings)
    assert uris(response)[0] == CAT
    made.close()


async def test_a_collection_that_was_deleted_under_its_alias_is_named_with_what_brings_it_back(models, tmp_path):
    made = Collection(tmp_path, models)
    made.add("c", photos())
    aliases = made.store.aliases()
    made.store.drop(aliases["labels"])
    made.store.aliases = lambda: aliases
    with pytest.raises(StoreError) as raised:
        await made.engine().answer(SearchRequest(query="a cat"))
    assert aliases["labels"] in raised.value.message
    assert "lodestone index" in raised.value.hint
    made.close()


async def test_an_empty_home_answers_with_no_hits_and_says_what_to_do(models, tmp_path):
    made = Collection(tmp_path, models)
    for space in models.projections:
        made.store.drop_alias(space)
    engine = made.engine()
    for response in (await engine.answer(SearchRequest(query="a cat")), await engine.by_picture(photo(CAT), SearchOptions())):
        assert response.hits == []
        assert response.next_offset is None
        assert any("lodestone index" in warning for warning in response.warnings)
    made.close()


async def test_an_empty_collection_finds_nothing(models, tmp_path):
    made = Collection(tmp_path, models)
    response = await made.engine().answer(SearchRequest(query="a cat"))
    assert response.hits == [] and response.next_offset is None
    made.close()


async def test_a_picture_finds_itself_and_an_indexed_one_leaves_itself_out(engine, collection):
    by_picture = await engine.by_picture(photo(CAT), SearchOptions(limit=3))
    assert by_picture.stage == "picture"
    assert uris(by_picture)[0] == CAT
    similar = await engine.similar(collection.ids[CAT], SearchOptions(limit=200))
    assert CAT not in uris(similar)
    assert len(similar.hits) == len(collection.ids) - 1
    with pytest.raises(NotFoundError):
        await engine.similar("00000000-0000-5000-8000-000000000000", SearchOptions())


class Drawing(Generator):
    """Gives pixels, as a real engine would; here of a photo."""

    name, version = "drawing", "1"

    def __init__(self, *, delay=0.0, error=None, weight=1.0):
        self.delay, self.error, self.weight, self.requests, self.cancelled = delay, error, weight, [], False

    async def warm_up(self):
        if self.error:
            raise self.error

    async def generate(self, request):
        self.requests.append(request)
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error:
            raise self.error
        return [
            Guide(f"{self.name}/{row}", self.name, self.weight, {}, pixels=np.asarray(photo(ROCKET)))
            for row in range(request.n)
        ]


async def test_guides_of_pixels_are_embedded_and_searched(collection):
    engine = collection.engine(generators={"drawing": Drawing()}, profile=replace(PROFILE, generators=("drawing",)))
    request = SearchRequest(query="a thing", limit=5, guides=2)
    weak = await engine.answer(request)
    assert weak.stage == "guides" and len(weak.guides) == 2
    strong = collection.engine(
        generators={"drawing": Drawing()},
        profile=replace(PROFILE, generators=("drawing",)),
        fusion=FusionSettings(guide_weight=50.0),
    )
    assert uris(await strong.answer(request))[0] == ROCKET


@pytest.mark.parametrize("error", [ModelUnavailableError("no weights", hint="pip install x"), ValueError("a bug")])
async def test_a_generator_that_fails_becomes_a_warning(collection, error):
    both = {"drawing": Drawing(error=error), "exemplar": Exemplar(collection.store, collection.catalog)}
    engine = collection.engine(generators=both, profile=replace(PROFILE, generators=tuple(both)))
    response = await engine.answer(SearchRequest(query="children building a sand castle"))
    assert any("drawing" in warning and str(error) in warning for warning in response.warnings)
    assert [guide.engine for guide in response.guides] == ["exemplar"]


async def test_a_generator_that_is_late_is_dropped_and_the_text_pass_answers(collection):
    slow = Drawing(delay=60)
    engine = collection.engine(generators={"drawing": slow}, profile=replace(PROFILE, generators=("drawing",)))
    await engine.answer(SearchRequest(query="warm", guides=0))
    started = time.monotonic()
    response = await engine.answer(SearchRequest(query="a cat", deadline_ms=6000))
    assert time.monotonic() - started < 50
    assert response.stage == "text" and uris(response)[0] == CAT
    assert any("drawing" in dropped for dropped in response.dropped)
    assert slow.cancelled
    assert slow.requests[0].deadline <= started + 6.1


async def test_what_an_answer_needs_for_its_way_back_is_taken_from_its_time(collection):
    engine = collection.engine(generators={})
    await engine.warm_up()
    request_context = RequestContext(arrived=time.monotonic(), way_back=60.0)
    assert (
        await engine.answer(SearchRequest(query="a cat", generators=[], deadline_ms=120_000), request_context=request_context)
    ).hits
    with pytest.raises(DeadlineExceededError):
        await engine.answer(SearchRequest(query="a cat", generators=[], deadline_ms=60_000), request_context=request_context)


async def test_closing_the_events_cancels_what_is_pending(collection):
    slow = Drawing(delay=60)
    engine = collection.engine(generators={"drawing": slow}, profile=replace(PROFILE, generators=("drawing",)))

    async def read():
        async for _ in engine.events(SearchRequest(query="a cat")):
            pass

    task = asyncio.create_task(read())
    while not slow.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.cancelled


class SlowStore:
    """The real store, with searches of chosen collections held up until `go` is set."""

    def __init__(self, store, slow):
        self._store, self._slow, self.go = store, slow, threading.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def search(self, name, queries):
        if name in self._slow:
            self.go.wait(180)
        return self._store.search(name, queries)


async def test_a_space_that_is_late_is_dropped_and_the_others_answer(collection):
    slow = SlowStore(collection.store, {collection.models.projections["labels0"].collection})
    engine = collection.engine(store=slow, generators={})
    await engine.warm_up()
    try:
        response = await engine.answer(SearchRequest(query="a cat", generators=[], deadline_ms=5000))
    finally:
        slow.go.set()
    assert any("labels0" in dropped for dropped in response.dropped)
    assert CAT in uris(response)[:2]


async def test_guides_whose_search_is_late_leave_the_text_pass(collection):
    class SlowForGuides(SlowStore):
        def search(self, name, queries):
            if name.startswith("labels") and len(queries) > 1:
                self.go.wait(180)
            return self._store.search(name, queries)

    slow = SlowForGuides(collection.store, ())
    engine = collection.engine(store=slow, generators={"drawing": Drawing()}, profile=replace(PROFILE, generators=("drawing",)))
    await engine.by_picture(photo(CAT), SearchOptions())  # loads the image models
    try:
        response = await engine.answer(SearchRequest(query="a cat", guides=3, deadline_ms=6000))
    finally:
        slow.go.set()
    assert response.stage == "text" and uris(response)[0] == CAT
    assert any("guides" in dropped for dropped in response.dropped)


async def test_no_answer_before_the_deadline_is_an_error(collection):
    slow = SlowStore(collection.store, {one.collection for one in collection.models.projections.values()})
    engine = collection.engine(store=slow, generators={})
    await engine.warm_up()
    try:
        with pytest.raises(DeadlineExceededError):
            await engine.answer(SearchRequest(query="a cat", generators=[], deadline_ms=300))
    finally:
        slow.go.set()


async def test_the_same_query_gives_the_same_answer(engine):
    request = SearchRequest(query="children at the beach, a sand castle", explain=True)
    one, other = await engine.answer(request), await engine.answer(request)
    assert one.hits == other.hits


async def test_many_queries_at_once_do_not_mix(engine):
    words = {"a cat": CAT, "a cup of espresso": COFFEE, "a rocket": ROCKET}
    asked = [*words] * 4
    answers = await asyncio.gather(*(engine.answer(SearchRequest(query=one)) for one in asked))
    for query, answer in zip(asked, answers, strict=True):
        assert words[query] in uris(answer)[:2]


async def test_a_disabled_engine_is_news_only_to_who_asked_for_it(collection):
    hub = hub_around({"drawing": Drawing()}, enabled=False)
    engine = collection.engine(hub=hub, profile=replace(PROFILE, generators=("drawing",)))
    plain = await engine.answer(SearchRequest(query="a cat"))
    assert (plain.dropped, plain.warnings, plain.guides) == ([], [], [])
    asked = await engine.answer(SearchRequest(query="a cat", generators=["drawing"]))
    assert any("disabled" in one for one in asked.dropped)
