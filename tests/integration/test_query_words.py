"""Words as people type them, from the request to the answer, its record and its events: plain forms and notes."""

from __future__ import annotations

from datetime import date

import pytest
from tests.support.collection import Collection, load_models, photos
from tests.support.photos import CAT

from lodestone.config.settings import TagSettings
from lodestone.query.answering.memory import Memory
from lodestone.query.asking.tree import Compose, Text
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query.words.checker import QueryChecker
from lodestone.query_log.trace import load_trace
from lodestone.tags.delivery import deliver
from lodestone.tags.search import TagSearch
from lodestone.tags.service import TagService
from lodestone.text_encoders.text import normalise_query
from lodestone_schemas.api import SearchFilters, SearchRequest


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), load_models())
    made.add("photos", photos())
    yield made
    made.close()


@pytest.fixture
def engine(collection):
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False))
    return collection.engine(learnt=LearnedModels(tags=TagSearch(collection.store), memory=memory))


@pytest.mark.parametrize(
    ("typed", "plain"),
    [("ａ　ｃａｔ", "a cat"), ("a c\u00ada\u200bt", "a cat"), ("🐱", "cat face"), ("the cat’s “bowl”", 'the cat\'s "bowl"')],
)
async def test_words_find_the_same_however_they_were_typed_and_are_recorded_as_typed(collection, engine, typed, plain):
    odd, usual = [await engine.answer(SearchRequest(query=words, limit=20)) for words in (typed, plain)]
    assert [(hit.image_id, hit.score) for hit in odd.hits] == [(hit.image_id, hit.score) for hit in usual.hits]
    assert odd.corrected_query is None and odd.warnings == usual.warnings
    assert load_trace(collection.catalog, odd.query_id).text == normalise_query(typed)
    scores = []
    for words in (typed, plain):
        composed = Compose(((Text(words), 0.6), (Text("outside"), 0.4)))
        *_, done = [event async for event in engine.ask(composed, SearchRequest(query="x"))]
        scores.append([(hit.image_id, hit.score) for hit in done.response.hits])
    assert scores[0] == scores[1]


async def test_a_tag_is_found_with_and_without_its_accents(collection, engine):
    TagService(collection.catalog).add([collection.ids[CAT]], "Crème brûlée bei Zoë")
    deliver(collection.catalog, collection.store)
    for words in ("creme brulee", "CRÈME BRÛLÉE", "cre\u0300me bru\u0302le\u0301e zoe", "ｃｒｅｍｅ brulee"):
        assert (await engine.answer(SearchRequest(query=words))).hits[0].image_id == collection.ids[CAT], words


async def test_wishes_are_noted_in_every_event_and_words_are_searched_as_they_are(engine):
    words = "a beach without people from 2019"
    events = [event async for event in engine.ask(Text(words), SearchRequest(query=words))]
    answers = [event.response for event in events if event.type in ("results", "done")]
    assert len(answers) >= 2
    for answer in answers:
        parts, dates = answer.notes
        assert (parts.code, parts.without) == ("leave_out_by_option", ["people"])
        assert (dates.code, dates.taken_from, dates.taken_to) == ("dates_by_filter", date(2019, 1, 1), date(2020, 1, 1))
        assert answer.hits and answer.corrected_query is None


async def test_wishes_that_are_granted_already_are_not_noted(engine):
    words = "a beach without people from 2019"
    dated = SearchFilters(taken_from="2019-01-01T00:00:00Z")
    assert [note.code for note in (await engine.answer(SearchRequest(query=words, filters=dated))).notes] == [
        "leave_out_by_option"
    ]
    composed = Compose(((Text("photos from 2019"), 0.5), (Text("no dogs in 2018"), -0.5)))
    *_, done = [event async for event in engine.ask(composed, SearchRequest(query="x"))]
    assert [note.phrase for note in done.response.notes] == ["from 2019"]


async def test_words_of_another_language_are_no_english_wishes(collection):
    class English:
        name = "minilm"
        languages = frozenset({"en"})

        def words(self):
            return frozenset()

    engine = collection.engine(checker=QueryChecker(English(), lambda: collection.catalog))
    german, english = [
        await engine.answer(SearchRequest(query=words))
        for words in ("zwei Hunde spielen am Strand, no Kinder in 2019", "two dogs on a beach in 2019")
    ]
    assert (german.language, german.notes) == ("de", [])
    assert [note.code for note in english.notes] == ["dates_by_filter"]
