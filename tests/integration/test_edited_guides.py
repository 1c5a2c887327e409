"""Composed queries whose pictures are edited by their words: what is compared then, and what stands in where nothing came.

The engine is pretended: it gives a picture that the test chose. This proves what is done with an edited picture, no quality.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.engines import Drawer, Editor, engine, hub_of
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.traces import unexplained

from lodestone.config.compositions import DEFAULT_COMPOSITION, choose_composition
from lodestone.config.engines import EngineSettings
from lodestone.config.settings import QuerySettings, TagSettings
from lodestone.errors import ConfigurationError, DeadlineExceededError, ServiceUnavailableError, StoreError
from lodestone.generators.base import Guide
from lodestone.generators.cache import GuideCache
from lodestone.generators.engine_call import Engine
from lodestone.query.answering.memory import Memory
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.asking.tree import Compose, Image, Origin, Picture, Text, Vector
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone.services.composed_queries import earlier_parts
from lodestone_schemas.api import SearchRequest

ROCKET_PIXELS = np.asarray(photo(ROCKET).convert("RGB"))
CAT_PIXELS = np.asarray(photo(CAT).convert("RGB"))
COMPOSITION = replace(choose_composition(DEFAULT_COMPOSITION, {}, PROFILE), target="guide", strength=0.45)


class Originals:
    """A `PictureSource` that remembers what it was asked; `pixels` by id."""

    def __init__(self, pixels):
        self.known, self.asked = pixels, []

    def pixels(self, image_id, *, side, region=None):
        self.asked.append((image_id, region))
        return self.known.get(image_id)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), load_models())
    made.add("photos", photos())
    made.add("made", fillers(20), root="/made")
    yield made
    made.close()


@pytest.fixture
def originals(collection):
    return Originals({collection.ids[CAT]: CAT_PIXELS})


def engine_with(collection, *engines, composition=COMPOSITION, pictures=None, cache=None, **settings):
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False))
    return collection.engine(
        learnt=LearnedModels(memory=memory),
        compositions=None if composition is None else {"default": composition},
        hub=hub_of(*engines, cache=cache),
        settings=QuerySettings(generators=[one.name for one in engines], guides=4, **settings),
        pictures=pictures,
    )


def request(**more):
    return SearchRequest(**{"limit": 200, "explain": True, "deadline_ms": 60_000, **more})


async def events_of(engine, query, context=None, **more):
    rest = {} if context is None else {"request_context": context}
    return [event async for event in engine.ask(query, request(**more), **rest)]


async def last(engine, query, context=None, **more):
    return (await events_of(engine, query, context, **more))[-1].response


def cup_and(leaf, *others):
    return Compose(((Text("a cup"), 1.0), (leaf, 2.0), *others))


async def test_the_edited_picture_stands_in_the_place_of_the_picture_and_words_stay_beside_it(collection):
    painter = Editor(ROCKET_PIXELS)
    engine_ = engine_with(collection, engine("painter", painter))
    query = cup_and(Picture(CAT_PIXELS))
    events = await events_of(engine_, query, seed=7)
    assert [event.type for event in events] == ["plan", "results", "guide", "results", "done"]
    assert (events[0].generators, events[0].guides) == (["painter"], 1)
    early, response = events[1].response, events[-1].response
    (asked,) = painter.asked
    assert (asked.prompt, asked.n, asked.seed, asked.edit.strength) == ("a cup", 1, 7, 0.45)
    np.testing.assert_array_equal(asked.edit.pixels, CAT_PIXELS)
    expected = await last(
        engine_with(collection, engine("painter", painter), composition=None), cup_and(Picture(ROCKET_PIXELS))
    )
    plain = await last(engine_with(collection, engine("painter", painter), composition=None), query)
    assert [(hit.image_id, pytest.approx(hit.score, abs=1e-5)) for hit in expected.hits] == [
        (hit.image_id, hit.score) for hit in response.hits
    ]
    assert (
        [hit.image_id for hit in early.hits] == [hit.image_id for hit in plain.hits] != [hit.image_id for hit in response.hits]
    )
    (guide,) = response.guides
    assert (guide.guide_id, guide.status, guide.engine) == ("painter/0", "used", "painter")
    assert guide.provenance["part"] == "picture" and guide.provenance["edited_from"] == "an uploaded picture"
    assert (response.stage, early.stage, response.dropped, response.warnings) == ("guides", "text", [], [])
    assert [part.name for part in response.parts] == ["words", "picture"]
    assert response.hits[0].uri == ROCKET


async def test_the_record_tells_what_was_used_and_a_refinement_starts_from_the_picture_itself(collection):
    engine_ = engine_with(collection, engine("painter", Editor(ROCKET_PIXELS)))
    response = await last(engine_, cup_and(Picture(CAT_PIXELS)))
    trace = load_trace(collection.catalog, response.query_id)
    assert replay(trace).identical
    explanation = explain(trace)
    assert unexplained(explanation) == [] and explanation.notes == []
    assert [guide.guide_id for guide in explanation.guides] == ["painter/0"]
    assert explanation.prompts == {"painter": "a cup"}
    projected = collection.models.embed([photo(ROCKET), photo(CAT)])
    (part,) = (one for one in earlier_parts(trace, engine_.encoder.collections) if one.name == "picture")
    for space, (rocket, cat) in projected.items():
        searched = {one.guide: one for one in trace.searches if one.space == space}
        np.testing.assert_allclose(searched["picture"].vector, rocket, atol=1e-4)
        assert searched["picture:own"].weight == 0
        np.testing.assert_allclose(part.leaf.by_space[space], cat, atol=1e-4)
    for hit in response.hits:
        assert {one.guide for one in hit.contributions} == {"words", "picture"}
        assert sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5)


async def test_an_indexed_picture_is_read_and_edited_and_is_not_among_its_own_results(collection, originals):
    painter, cat = Editor(ROCKET_PIXELS), collection.ids[CAT]
    engine_ = engine_with(collection, engine("painter", painter), pictures=originals)
    response = await last(engine_, cup_and(Image(cat)))
    assert originals.asked == [(cat, None)] and response.guides[0].provenance["edited_from"] == cat
    np.testing.assert_array_equal(painter.asked[0].edit.pixels, CAT_PIXELS)
    assert response.hits[0].uri == ROCKET and cat not in {hit.image_id for hit in response.hits}
    # A region that a refinement took over by its vectors is read again; an upload was not kept.
    vectors = {space: rows[0] for space, rows in collection.models.embed([photo(CAT)]).items()}
    region = (0.0, 0.0, 0.5, 0.5)
    again = await last(engine_, cup_and(Vector(vectors, Origin(cat, region))))
    assert originals.asked[1:] == [(cat, region)] and again.guides[0].status == "used"
    upload = await last(engine_, cup_and(Vector(vectors)))
    assert (upload.guides, len(originals.asked)) == ([], 2)
    assert upload.dropped == [
        "the guide of 'picture', whose own picture is compared: its picture is not kept or cannot be read"
    ]
    gone = await last(engine_, cup_and(Image(collection.ids[COFFEE])))
    assert gone.guides == [] and "cannot be read" in gone.dropped[0]
    unread = await last(engine_with(collection, engine("painter", painter)), cup_and(Image(cat)))
    assert unread.guides == [] and "cannot be read" in unread.dropped[0]


async def test_pictures_to_avoid_are_never_edited_and_neither_is_a_picture_without_words(collection, originals):
    painter = Editor(ROCKET_PIXELS)
    engine_ = engine_with(collection, engine("painter", painter), pictures=originals)
    cat, person = Image(collection.ids[CAT]), Image(collection.ids[PERSON])
    for query in (
        Compose(((Text("a cup"), 1.0), (cat, -1.0))),
        Compose(((Text("a cup"), -1.0), (cat, 1.0))),
        Compose(((cat, 1.0), (person, 1.0))),
    ):
        events = await events_of(engine_, query)
        assert [event.type for event in events] == ["plan", "results", "done"]
        assert (events[0].guides, events[-1].response.dropped) == (0, [])
    assert (painter.asked, originals.asked) == ([], [])
    await last(
        engine_, Compose(((Text("a cup"), 1.0), (Text("at night"), 0.5), (Text("people"), -0.5), (cat, 1.0), (person, -1.0)))
    )
    assert [one.prompt for one in painter.asked] == ["a cup, at night"]


async def test_every_picture_to_look_for_has_a_guide_of_its_own_number(collection):
    painter = Editor(ROCKET_PIXELS)
    engine_ = engine_with(collection, engine("painter", painter, cost=1.0))
    query = cup_and(Picture(CAT_PIXELS), (Picture(ROCKET_PIXELS), 1.0))
    response = await last(engine_, query)
    assert [(guide.guide_id, guide.provenance["part"]) for guide in response.guides] == [
        ("painter/0", "picture"),
        ("painter/1", "picture2"),
    ]
    assert response.cost == 2
    limited = await last(engine_with(collection, engine("painter", painter, guides=1)), query)
    assert [guide.guide_id for guide in limited.guides] == ["painter/0"]
    assert limited.dropped == ["the guide of 'picture2', whose own picture is compared: no engine gave one"]
    few = await last(engine_, query, guides=1)
    assert [guide.guide_id for guide in few.guides] == ["painter/0"]
    assert few.dropped == ["the guide of 'picture2', whose own picture is compared: the query has at most 1 guides"]
    dear = await last(engine_, query, budget=1.5)
    assert ([guide.guide_id for guide in dear.guides], dear.cost) == (["painter/0"], 1)
    assert "guides of 'painter': over the budget" in dear.dropped
    assert "the guide of 'picture2', whose own picture is compared: no engine gave one" in dear.dropped


class Vague(Editor):
    """Gives vectors in place of a picture."""

    def _guide(self, number, request):
        return Guide(f"editor/{number}", "editor", 1.0, {}, vectors={"s-1": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    ("painter", "more", "said"),
    [
        (Editor(ROCKET_PIXELS, error=ServiceUnavailableError("it is broken")), {}, "it is broken"),
        (Editor(ROCKET_PIXELS, error=RuntimeError("oh")), {}, "RuntimeError: oh"),
        (Editor(ROCKET_PIXELS, delay=30), {"deadline_ms": 3_000}, "out of time"),
        (Editor(ROCKET_PIXELS, has=0), {}, "no engine gave one"),
        (Editor("no picture"), {}, "gave no picture for part 'picture'"),
        (Editor(ROCKET_PIXELS.astype(np.float32)), {}, "gave no picture for part 'picture'"),
        (Editor(ROCKET_PIXELS[..., 0]), {}, "gave no picture for part 'picture'"),
        (Editor(ROCKET_PIXELS[:0]), {}, "gave no picture for part 'picture'"),
        (Vague(None), {}, "gave no picture for part 'picture'"),
        (Editor(ROCKET_PIXELS), {"budget": 0.5}, "over the budget"),
        (Editor(ROCKET_PIXELS), {"without_guides": ["painter/0"]}, "you left it out"),
    ],
    ids=["fails", "breaks", "late", "nothing", "text", "floats", "grey", "empty", "vectors", "budget", "left-out"],
)
async def test_where_no_edited_picture_comes_the_picture_itself_stands_in_and_the_answer_says_so(
    collection, painter, more, said
):
    query = cup_and(Picture(CAT_PIXELS))
    response = await last(engine_with(collection, engine("painter", painter, cost=1.0)), query, **more)
    own = await last(collection.engine(), query)
    assert [(hit.image_id, hit.score) for hit in response.hits] == [(hit.image_id, hit.score) for hit in own.hits]
    assert response.stage == "text"
    assert any(said in note for note in [*response.dropped, *response.warnings])
    assert any(note.startswith("the guide of 'picture', whose own picture is compared: ") for note in response.dropped)
    assert [guide.status for guide in response.guides] == (["dropped"] if "without_guides" in more else [])
    assert replay(load_trace(collection.catalog, response.query_id)).identical


async def test_an_encoder_that_cannot_embed_the_edited_picture_costs_the_guide_alone(collection):
    painter, encoder = Editor(ROCKET_PIXELS), collection.models.encoder()
    embed, calls = encoder.embed_pictures, []

    async def second_fails(pictures, **rest):
        calls.append(len(pictures))
        if len(calls) > 1:
            raise RuntimeError("the model is gone")
        return await embed(pictures, **rest)

    encoder.embed_pictures = second_fails
    made = collection.engine(
        encoder=encoder,
        compositions={"default": COMPOSITION},
        hub=hub_of(engine("painter", painter)),
        settings=QuerySettings(generators=["painter"], guides=4),
    )
    response = await last(made, cup_and(Picture(CAT_PIXELS)))
    assert len(response.hits) > 10 and response.stage == "text"
    assert [guide.status for guide in response.guides] == ["dropped"]
    assert any("part 'picture' has no guide" in note for note in response.warnings)


@pytest.mark.parametrize(
    ("error", "said"),
    [(DeadlineExceededError("late"), "guides: out of time"), (StoreError("the store is gone"), "the store is gone")],
    ids=["late", "fails"],
)
async def test_the_first_results_stay_where_the_pictures_cannot_be_ranked_by_their_guides(collection, error, said):
    made = engine_with(collection, engine("painter", Editor(ROCKET_PIXELS)))

    class Unranked:
        async def rank(self, *_, **__):
            raise error

    made._pipeline.passes.composed["default"].edits._composed = Unranked()
    response = await last(made, cup_and(Picture(CAT_PIXELS)))
    own = await last(collection.engine(), cup_and(Picture(CAT_PIXELS)))
    assert [(hit.image_id, hit.score) for hit in response.hits] == [(hit.image_id, hit.score) for hit in own.hits]
    assert (response.stage, [guide.status for guide in response.guides]) == ("text", ["dropped"])
    assert any(said in note for note in [*response.dropped, *response.warnings])


async def test_no_guides_where_none_are_wanted_or_the_service_is_pressed(collection):
    painter = Editor(ROCKET_PIXELS)
    made = engine_with(collection, engine("painter", painter), engine("drawer", Drawer()))
    query = cup_and(Picture(CAT_PIXELS))
    assert (await last(made, query, guides=0)).dropped == []
    pressed = await last(made, query, RequestContext(text_only="the service is busy"))
    assert pressed.dropped == ["guides: the service is busy"]
    named = await last(made, query, generators=["drawer"])
    assert named.dropped == ["guides: none of the generators drawer edits pictures"]
    assert painter.asked == []
    both = await last(made, query, generators=["drawer", "painter"])
    assert [guide.engine for guide in both.guides] == ["painter"]


async def test_other_targets_and_other_queries_edit_nothing(collection):
    painter = Editor(ROCKET_PIXELS)
    for target in ("own", "composed"):
        made = engine_with(collection, engine("painter", painter), composition=replace(COMPOSITION, target=target))
        assert (await last(made, cup_and(Picture(CAT_PIXELS)))).guides == []
    made = engine_with(collection, engine("painter", painter))
    assert (await last(made, Picture(CAT_PIXELS))).guides == []
    await last(made, Text("a cup"), gate=False)
    assert {one.edit for one in painter.asked} == {None}  # words alone are drawn


def test_an_engine_that_edits_is_asked_for_at_once_with_what_to_set(collection):
    with pytest.raises(ConfigurationError, match="'guide'") as caught:
        engine_with(collection, engine("drawer", Drawer()))
    assert "kind = 'diffusers'" in caught.value.hint
    with pytest.raises(ConfigurationError) as caught:
        collection.engine(
            compositions={"default": COMPOSITION},
            hub=hub_of(engine("drawer", Drawer()), engine("painter", Editor(ROCKET_PIXELS))),
            settings=QuerySettings(generators=["drawer"]),
        )
    assert caught.value.hint == 'add it to query.generators: ["drawer", "painter"]'
    engine_with(collection, engine("painter", Editor(ROCKET_PIXELS), enabled=False))  # it can be enabled again


async def test_an_edited_picture_is_kept_and_not_paid_again(collection, tmp_path):
    painter = Editor(ROCKET_PIXELS)
    cache = GuideCache(tmp_path, limit_bytes=2**24)
    made = engine_with(collection, engine("painter", painter, cost=1.0), cache=cache)
    first, second, other = [
        await last(made, cup_and(Picture(pixels))) for pixels in (CAT_PIXELS, CAT_PIXELS.copy(), CAT_PIXELS[::-1].copy())
    ]
    assert [one.guides[0].cached for one in (first, second, other)] == [None, "exact", None]
    assert (first.cost, second.cost, len(painter.asked)) == (1, 0, 2)
    assert [(hit.image_id, hit.score) for hit in first.hits] == [(hit.image_id, hit.score) for hit in second.hits]
    assert second.guides[0].picture == f"/v1/queries/{second.query_id}/guides/painter%2F0"
    assert cache.picture(second.guides[0].provenance["picture"]) is not None


async def test_a_client_that_goes_away_ends_the_editing(collection):
    painter = Editor(ROCKET_PIXELS, delay=30)
    made = engine_with(collection, engine("painter", painter))
    asking = made.ask(cup_and(Picture(CAT_PIXELS)), request())
    assert [(await anext(asking)).type for _ in range(2)] == ["plan", "results"]
    waiting = asyncio.ensure_future(anext(asking))
    while not painter.running:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (painter.cancelled, painter.running) == (1, 0)


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_diffusers_pipeline_edits_the_picture_of_a_query(collection):
    """The pipeline is tiny and random and draws noise: this proves that everything fits together, no quality."""
    from tests.support.tiny_models import tiny_models

    from lodestone.generators.engines.diffusers import Diffusers

    settings = EngineSettings(
        kind="diffusers", model=str(tiny_models().diffusion), size=64, timeout_s=300, options={"steps": 2, "guidance": 0}
    )
    painter = Engine("painter", settings, Diffusers(settings, "painter"))
    await painter.generator.warm_up()
    response = await last(engine_with(collection, painter), cup_and(Picture(CAT_PIXELS)), deadline_ms=300_000)
    (guide,) = response.guides
    assert (guide.guide_id, guide.status, guide.provenance["strength"]) == ("painter/0", "used", 0.45)
    assert (response.stage, response.dropped, response.warnings) == ("guides", [], [])
    assert replay(load_trace(collection.catalog, response.query_id)).identical
