"""What a search taught helps the next one: the engine with real models, a real store, tags, gate and feedback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.collection import Collection, Models, fillers, load_models, photos
from tests.support.photos import CAT, COFFEE, ROCKET

from lodestone.config.settings import QuerySettings, TagSettings
from lodestone.query.answering.memory import Memory
from lodestone.query.deciding.gate import GateModel
from lodestone.query.engine import QueryEngine
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query_log.trace import load_trace
from lodestone.tags.delivery import COLLECTION, deliver
from lodestone.tags.implicit import feedback_tags
from lodestone.tags.search import TagSearch
from lodestone.tags.service import TagService
from lodestone_schemas.api import SearchRequest, SearchResponse

ODD_WORDS = "my neighbour's favourite thing"


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models()


@pytest.fixture
def collection(tmp_path: Path, models: Models) -> Iterator[Collection]:
    opened = Collection(tmp_path, models)
    opened.add("photos", photos() | fillers(8))
    opened.caption({CAT: ["a cat looks up"], ROCKET: ["a rocket starts"], COFFEE: ["a cup of coffee"]})
    yield opened
    opened.close()


def engine(collection: Collection) -> QueryEngine:
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=True, threshold=0.0, most=1))
    learnt = LearnedModels(tags=TagSearch(collection.store), gate=GateModel.shipped(), memory=memory)
    return collection.engine(learnt=learnt, settings=QuerySettings(gate=True))


async def ask(collection: Collection, text: str, **options: object) -> SearchResponse:
    return await engine(collection).answer(SearchRequest(query=text, **options))  # type: ignore[arg-type]


async def test_feedback_teaches_words_that_no_model_could_know_and_undo_unteaches_them(collection: Collection) -> None:
    started = datetime.now(UTC) - timedelta(seconds=1)
    before = await ask(collection, ODD_WORDS, guides=4)
    wanted = before.hits[len(before.hits) // 2].image_id
    trace = load_trace(collection.catalog, before.query_id)
    tags = feedback_tags(trace, [wanted], images=collection.catalog.images([wanted]), now=datetime.now(UTC))
    collection.catalog.add_tags(tags)
    deliver(collection.catalog, collection.store)

    after = await ask(collection, "the favourite thing of my neighbours", guides=4)
    again = await ask(collection, ODD_WORDS, guides=4)

    assert before.gate is not None
    assert again.gate is not None
    assert wanted not in [hit.image_id for hit in before.hits[:1]]
    places = {hit.image_id: hit.rank for hit in before.hits}
    assert next(hit.rank for hit in again.hits if hit.image_id == wanted) < places[wanted]
    assert wanted in [hit.image_id for hit in after.hits[: places[wanted]]]
    assert again.gate.predicted_ap > before.gate.predicted_ap

    TagService(collection.catalog).undo(since=started)
    deliver(collection.catalog, collection.store)
    undone = await ask(collection, ODD_WORDS, guides=4)

    assert [(hit.image_id, hit.score) for hit in undone.hits] == [(hit.image_id, hit.score) for hit in before.hits]
    assert undone.gate is not None
    assert undone.gate.predicted_ap == before.gate.predicted_ap


async def test_guided_answer_leaves_its_words_on_what_it_is_sure_of(collection: Collection) -> None:
    response = await engine(collection).answer(SearchRequest(query="a cat looks up", guides=4, gate=False))

    (tag,) = TagService(collection.catalog).list().tags
    assert response.stage == "guides"
    assert tag.image_id == response.hits[0].image_id
    assert (tag.text, tag.source, tag.query_id) == ("a cat looks up", "implicit", response.query_id)
    assert TagSearch(collection.store).search("a cat looks up", COLLECTION).found.ids == (tag.image_id,)


async def test_text_pass_alone_leaves_no_tags(collection: Collection) -> None:
    await ask(collection, "a cat looks up", guides=0)

    assert TagService(collection.catalog).list().tags == []


async def test_pictures_that_people_tagged_with_the_words_come_first_in_the_order_of_the_spaces(collection: Collection) -> None:
    words = "our old house"
    plain = [hit.image_id for hit in (await ask(collection, words, guides=4, limit=20)).hits]
    tagged = plain[-4:]
    TagService(collection.catalog).add(tagged, "Our old house, 1987")
    deliver(collection.catalog, collection.store)

    guided = await ask(collection, words, guides=4, limit=20)
    unguided = await ask(collection, words, guides=0, limit=20)
    without = await ask(collection, words, guides=4, limit=20, tags=False)

    assert [hit.image_id for hit in unguided.hits[:4]] == [one for one in plain if one in tagged]
    assert {hit.image_id for hit in guided.hits[:4]} == set(tagged)
    assert [hit.image_id for hit in without.hits] == plain
    assert len({hit.image_id for hit in guided.hits}) == len(plain)


async def test_a_name_in_a_caption_is_found_whatever_the_models_see(collection: Collection) -> None:
    collection.caption({"more/003.jpg": ["Ottilie after the storm"]})
    deliver(collection.catalog, collection.store)
    named = collection.ids["more/003.jpg"]

    for words in ("Ottilie", "ottilie with a cat", "a rocket for Ottilie"):
        response = await ask(collection, words, guides=4)
        assert response.hits[0].image_id == named, words
    assert (await ask(collection, "a cat after the storm", guides=0)).hits[0].image_id == collection.ids[CAT]

    collection.catalog.set_captions({named: []}, sources=["sidecar"])
    deliver(collection.catalog, collection.store)
    response = await ask(collection, "ottilie with a cat", guides=0)
    assert response.hits[0].image_id == collection.ids[CAT]


async def test_a_picture_called_right_comes_first_for_the_same_words_and_is_no_guide_of_others(collection: Collection) -> None:
    asked = await ask(collection, "two children on a swing", guides=0, limit=20)
    right = asked.hits[-1].image_id
    trace = load_trace(collection.catalog, asked.query_id)
    images = collection.catalog.images([right])
    collection.catalog.add_tags(feedback_tags(trace, [right], images=images, now=datetime.now(UTC)))
    deliver(collection.catalog, collection.store)

    again = await ask(collection, "on the swing, two children", guides=0, limit=20)
    other = await ask(collection, "two rockets", guides=4, gate=False)

    assert again.hits[0].image_id == right
    assert right not in [guide.provenance.get("image_id") for guide in other.guides]
