"""The confidence of an answer: from models and photos to the answer, its events and its record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.support.collection import PROFILE, Collection, load_models, photos
from tests.support.models import model_context
from tests.support.photos import CAT, photo

from lodestone.config.settings import TagSettings
from lodestone.query.answering.memory import Memory
from lodestone.query.asking.tree import Text
from lodestone.query.deciding.presence import make_judge
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query.weighting.choice import make_weigher
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.labels import LabelSpace
from lodestone.tags.delivery import deliver
from lodestone.tags.implicit import feedback_tags
from lodestone.tags.search import TagSearch
from lodestone.tags.service import TagService
from lodestone_cli.demo.pictures import PHOTOS
from lodestone_schemas.api import SearchOptions, SearchRequest

NONSENSE = "asdkjh qwe"


@pytest.fixture(scope="module")
def models():
    context = model_context()
    loaded = load_models()
    projections = {space.name: space for space in (LabelSpace(context), BridgeSpace(context))}
    for projection in projections.values():
        projection.warm_up()
    return replace(loaded, projections=projections)


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos())
    yield made
    made.close()


@pytest.fixture(scope="module")
def demonstration(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("demonstration"), models)
    made.add("photos", {name: photo(name) for name in PHOTOS})
    yield made
    made.close()


@pytest.fixture
def engine(collection, models):
    return engine_of(collection, models)


def engine_of(collection, models, tags=None):
    return collection.engine(
        profile=replace(PROFILE, spaces=("bridge", "labels")),
        weigher=make_weigher(models.projections),
        learnt=LearnedModels(
            presence=make_judge("embedded", models.projections),
            tags=tags,
            memory=Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False)),
        ),
    )


async def test_nine_photos_are_enough_to_tell_a_cat_from_nonsense(engine):
    cat = await engine.answer(SearchRequest(query="a cat"))
    assert cat.confidence is not None and not cat.probably_nothing
    nonsense = await engine.answer(SearchRequest(query=NONSENSE))
    assert nonsense.confidence is not None and nonsense.probably_nothing
    assert nonsense.hits, "the nearest pictures are shown all the same"
    assert 0 <= nonsense.confidence < cat.confidence <= 1


@pytest.mark.parametrize("words", ["a cat", "a motorcycle", "a cup of coffee"])
async def test_in_the_demonstration_what_is_there_is_told_from_nonsense(demonstration, models, words):
    engine = engine_of(demonstration, models)
    answer = await engine.answer(SearchRequest(query=words))
    nonsense = await engine.answer(SearchRequest(query=NONSENSE))
    assert not answer.probably_nothing
    assert nonsense.probably_nothing
    assert answer.confidence > 2 * nonsense.confidence


async def test_every_answer_of_the_stream_has_the_confidence_and_the_record_keeps_it(collection, engine):
    events = [event async for event in engine.ask(Text(NONSENSE), SearchRequest(query=NONSENSE))]
    answers = [event.response for event in events if event.type in ("results", "done")]
    assert len(answers) >= 2
    assert all(answer.probably_nothing for answer in answers)
    trace = load_trace(collection.catalog, answers[-1].query_id)
    assert (trace.confidence, trace.probably_nothing) == (answers[-1].confidence, True)
    assert explain(trace).confidence_signs["bridge.best"] > 0 or explain(trace).confidence_signs["labels.best"] > 0
    assert replay(trace).confidence == answers[-1].confidence


async def test_words_that_somebody_tagged_a_picture_with_are_there_whatever_the_models_see(models, tmp_path):
    tagged = Collection(tmp_path, models)
    tagged.add("photos", photos())
    tagged.caption({CAT: ["a cat looks up"]})  # what captions say is joined after what tags say
    TagService(tagged.catalog).add([tagged.ids[CAT]], f"our {NONSENSE}")
    deliver(tagged.catalog, tagged.store)
    engine = engine_of(tagged, models, tags=TagSearch(tagged.store))
    answer = await engine.answer(SearchRequest(query=NONSENSE))
    assert (answer.confidence, answer.probably_nothing) == (1.0, False)
    trace = load_trace(tagged.catalog, answer.query_id)
    assert explain(trace).confidence_signs["tags"] == 1.0
    without_tags = await engine.answer(SearchRequest(query=NONSENSE, tags=False))
    some_words = await engine.answer(SearchRequest(query=f"{NONSENSE} zxcvb"))
    assert without_tags.probably_nothing and some_words.probably_nothing
    tagged.close()


async def test_what_captions_seem_to_say_takes_nothing_from_a_tag(models, tmp_path):
    tagged = Collection(tmp_path, models)
    tagged.add("photos", photos())
    tagged.caption({CAT: [NONSENSE]})  # so like the words that captions are joined
    TagService(tagged.catalog).add([tagged.ids[CAT]], f"our {NONSENSE}")
    deliver(tagged.catalog, tagged.store)
    answer = await engine_of(tagged, models, tags=TagSearch(tagged.store)).answer(SearchRequest(query=NONSENSE, guides=4))
    signs = explain(load_trace(tagged.catalog, answer.query_id)).confidence_signs
    assert answer.stage == "guides" and signs["captions"] > 0
    assert (answer.confidence, answer.probably_nothing, signs["tags"]) == (1.0, False, 1.0)
    tagged.close()


async def test_the_words_that_a_picture_was_called_right_for_are_there(models, tmp_path):
    judged = Collection(tmp_path, models)
    judged.add("photos", photos())
    engine = engine_of(judged, models, tags=TagSearch(judged.store))
    before = await engine.answer(SearchRequest(query=NONSENSE))
    right = before.hits[-1].image_id
    trace = load_trace(judged.catalog, before.query_id)
    images = judged.catalog.images([right])
    judged.catalog.add_tags(feedback_tags(trace, [right], images=images, now=datetime.now(UTC)))
    deliver(judged.catalog, judged.store)
    again = await engine.answer(SearchRequest(query=NONSENSE, guides=4))
    other = await engine.answer(SearchRequest(query=f"{NONSENSE} zxcvb"))
    assert before.probably_nothing and other.probably_nothing
    assert (again.confidence, again.probably_nothing, again.hits[0].image_id) == (1.0, False, right)
    judged.close()


@pytest.mark.parametrize("guides", [0, 4])
async def test_a_caption_with_every_content_word_is_no_nothing(models, tmp_path, guides):
    described = Collection(tmp_path, models)
    described.add("photos", photos())
    described.caption({CAT: ["My grumpy accountants play a trombone sonata in an old, purple submarine"]})
    engine = engine_of(described, models)
    for words in ("trombone sonata", "the trombone sonata", "grumpy accountant"):
        answer = await engine.answer(SearchRequest(query=words, guides=guides))
        assert (answer.confidence, answer.probably_nothing) == (1.0, False), words
        assert explain(load_trace(described.catalog, answer.query_id)).confidence_signs["written"] == 1.0
    for words in ("quarterly accountant", "trombone sonata in Vienna", NONSENSE):
        assert (await engine.answer(SearchRequest(query=words, guides=guides))).probably_nothing, words
    hidden = SearchRequest(query="old purple submarine", guides=guides, filters={"taken_from": "2150-01-01"})
    assert (await engine.answer(hidden)).confidence < 1, "a caption that the filter leaves out says nothing"
    described.close()


async def test_the_second_page_has_the_confidence_of_the_first(engine):
    first, second = [await engine.answer(SearchRequest(query="a cat", limit=3, offset=offset)) for offset in (0, 3)]
    assert first.confidence == second.confidence


async def test_pictures_and_single_spaces_have_none(collection, engine):
    for answer in (
        await engine.similar(collection.ids[CAT], SearchOptions()),
        await engine.by_picture(photo(CAT), SearchOptions()),
        await engine.answer(SearchRequest(query=NONSENSE, spaces=["bridge"])),
    ):
        assert answer.confidence is None
        assert not answer.probably_nothing


async def test_a_caption_that_fits_speaks_for_presence(collection, engine):
    words = "a tabby looks at the camera"
    before = await engine.answer(SearchRequest(query=words))
    collection.caption({CAT: [words]})
    after = await engine.answer(SearchRequest(query=words))
    assert after.stage == "guides"
    assert after.confidence > before.confidence
