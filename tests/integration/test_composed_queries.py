"""Composed queries through the engine: their ranking is the joint similarity, and records, replays and explanations hold."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.traces import unexplained

from lodestone.composed.fused import FusedLayout, FusedSpace
from lodestone.composed.joint import JointPart, scores
from lodestone.config.compositions import (
    DEFAULT_COMPOSITION,
    Composition,
    Modality,
    Role,
    Rule,
    all_compositions,
    choose_composition,
)
from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError, NotFoundError, StoreError, UnknownNameError
from lodestone.query.answering.memory import Memory
from lodestone.query.asking.tree import Compose, Image, Not, Picture, Text, Vector
from lodestone.query.composing.candidates import Standing, UnionSource
from lodestone.query.composing.candidates import _together as together
from lodestone.query.composing.stage import SHARE
from lodestone.query.composing.weighing import CAPTION_SHARE
from lodestone.query.contracts import EqualWeights
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone.retrieval.fusion import WEIGHTED_SUM
from lodestone.retrieval.rescoring import ListSearch
from lodestone.services.composed_queries import earlier_parts
from lodestone.store.base import PointBatch
from lodestone_schemas.api import MAX_PARTS, SearchFilters, SearchOptions, SearchRequest
from lodestone_schemas.collections import FUSED_FIELDS, CollectionSpec

ALL = SearchOptions(limit=200, explain=True)
RULES = get_args(Rule)


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def collection(models, tmp_path_factory):
    made = Collection(tmp_path_factory.mktemp("home"), models)
    made.add("photos", photos())
    made.add("made", fillers(30), root="/made")
    yield made
    made.close()


@pytest.fixture(scope="module")
def captioned(models, tmp_path_factory):
    """Some pictures with captions, the others without."""
    made = Collection(tmp_path_factory.mktemp("captioned"), models)
    made.add("photos", photos())
    made.add("made", fillers(30), root="/made")
    made.caption({f"more/{number:03}.jpg": [f"dots number {number}", "coloured dots"] for number in range(20)})
    made.caption({"horse.png": ["a brown horse", "the outline of a horse"], CAT: ["a tabby cat looks up"]})
    yield made
    made.close()


def engine_of(collection, *, rule="product", target="own"):
    memory = Memory(collection.catalog, collection.store, history=100, tags=TagSettings(implicit=False))
    composition = replace(choose_composition(DEFAULT_COMPOSITION, {}, PROFILE), rule=rule, target=target)
    return collection.engine(learnt=LearnedModels(memory=memory), compositions={"default": composition})


@pytest.fixture
def engine(collection):
    return engine_of(collection)


async def last(events):
    return [event async for event in events][-1].response


def vectors_of(collection, space):
    """Ids and vectors of all pictures in a space."""
    batch = next(iter(collection.store.scroll(collection.models.projections[space].collection, batch_size=1_000)))
    return list(batch.ids), np.asarray(batch.vectors, np.float32)


async def test_by_the_sum_the_score_is_the_joint_similarity_of_all_parts(collection):
    engine = engine_of(collection, rule="sum")
    query = Compose(((Text("a cup"), 2.0), (Picture(np.asarray(photo(CAT).convert("RGB"))), 1.0), (Text("a rocket"), -1.0)))
    response = await last(engine.ask(query, ALL))
    found = {hit.image_id: hit.score for hit in response.hits}
    trace = load_trace(collection.catalog, response.query_id)
    assert {one.guide for one in trace.searches} == {"words", "picture", "without"}
    ids, _ = vectors_of(collection, "labels")
    assert set(found) == set(ids)
    spread = {(one.guide, one.space): one.scale for one in trace.completed}
    parts = [JointPart(one.guide, one.space, one.vector, one.weight / spread[one.guide, one.space]) for one in trace.searches]
    joint = scores(parts, {space: vectors_of(collection, space)[1] for space in ("labels", "labels0")})
    # Standardised: the same score in other units, from that of an ordinary picture.
    unit = sum(part.weight for part in parts)
    expected = unit * (joint - joint.mean())
    ours = np.array([found[image_id] for image_id in ids])
    np.testing.assert_allclose(ours - ours.mean(), expected, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
async def test_each_part_has_a_weight_and_the_parts_of_a_hit_sum_to_its_score(collection, rule):
    engine = engine_of(collection, rule=rule)
    query = Compose(((Text("a cup"), 1.0), (Image(collection.ids[CAT]), 2.0), (Image(collection.ids[ROCKET]), -1.0)))
    events = [event async for event in engine.ask(query, ALL)]
    assert [event.type for event in events] == ["plan", "results", "done"]
    response = events[-1].response
    assert [(part.name, part.weight, part.avoid) for part in response.parts] == [
        ("words", 0.25, False),
        ("picture", 0.5, False),
        ("unlike", 0.25, True),
    ]
    assert (response.stage, response.fusion, response.guides) == ("text", WEIGHTED_SUM, [])
    assert sum(response.space_weights.values()) == pytest.approx(1)
    for hit in response.hits:
        assert {one.guide for one in hit.contributions} == {"words", "picture", "unlike"}
        assert sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5)
        assert sum(one.weight for one in hit.contributions) == pytest.approx(1)
    trace = load_trace(collection.catalog, response.query_id)
    assert (trace.kind, trace.text) == ("composed", "a cup")
    assert replay(trace).identical
    explanation = explain(trace)
    assert unexplained(explanation) == []
    assert explanation.parts == response.parts
    shown = {(part.guide, part.space): part.score for part in explanation.hits[0].parts}
    assert shown == {(one.guide, one.space): pytest.approx(one.score) for one in response.hits[0].contributions}
    assert not {collection.ids[CAT], collection.ids[ROCKET]} & {hit.image_id for hit in response.hits}


async def test_pictures_are_centred_but_for_the_sum_and_records_keep_their_own_vectors(collection):
    picture = Picture(np.asarray(photo(CAT).convert("RGB")))
    query = Compose(((Text("a cup"), 1.0), (picture, 1.0)))
    own = {}
    for rule in ("sum", "product"):
        response = await last(engine_of(collection, rule=rule).ask(query, ALL))
        trace = load_trace(collection.catalog, response.query_id)
        (search,) = (one for one in trace.searches if (one.guide, one.space) == ("picture", "labels"))
        own[rule] = search.vector
        ids, vectors = vectors_of(collection, "labels")
        asked = search.vector - (0 if rule == "sum" else SHARE * vectors.mean(axis=0))  # fewer pictures than a sample has
        cosines = dict(zip(ids, vectors @ (asked / np.linalg.norm(asked)), strict=True))
        for hit in response.hits:
            (shown,) = (one.score for one in hit.contributions if (one.guide, one.space) == ("picture", "labels"))
            assert shown == pytest.approx(cosines[hit.image_id], abs=1e-4)
    np.testing.assert_array_equal(own["sum"], own["product"])


async def test_the_mean_of_ordinary_words_is_not_computed_on_the_event_loop(collection):
    """Also where the samples of pictures are known: the first query of a process makes it of all class names."""

    class Watched(EqualWeights):
        def ordinary_words(self):
            threads.append(threading.current_thread())
            return {}

    threads, engine = [], collection.engine(weigher=Watched())
    for _ in range(2):
        await last(engine.ask(Compose(((Image(collection.ids[CAT]), 1.0), (Text("a cup"), 1.0))), ALL))
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_words_change_what_a_picture_finds_and_words_to_avoid_push_it_away(collection, engine):
    cat = Image(collection.ids[CAT])

    async def place(query, uri):
        response = await last(engine.ask(query, ALL))
        return [hit.uri for hit in response.hits].index(uri)

    alone = await place(cat, COFFEE)
    assert await place(Compose(((cat, 1.0), (Text("a cup of coffee"), 2.0))), COFFEE) < alone
    assert await place(Compose(((cat, 1.0), (Text("a cup of coffee"), -2.0))), COFFEE) > alone


async def test_a_composition_vector_takes_the_place_of_the_picture_s_own_where_the_settings_say_so(collection):
    engine = engine_of(collection, rule="sum", target="composed")
    pixels = Picture(np.asarray(photo(CAT).convert("RGB")))
    response = await last(engine.ask(Compose(((Text("a cup"), 2.0), (pixels, 1.0), (Text("a rocket"), -1.0))), ALL))
    trace = load_trace(collection.catalog, response.query_id)
    encoded = collection.models.text_encoder.encode(["a cup"])
    composed = {}
    for space in ("labels", "labels0"):
        ids, rows = vectors_of(collection, space)
        picture, words = rows[ids.index(collection.ids[CAT])], collection.models.projections[space].project_texts(encoded)[0]
        composed[space] = (picture + words) / np.linalg.norm(picture + words)
        searched = {one.guide: one.vector for one in trace.searches if one.space == space}
        np.testing.assert_allclose(searched["picture"], composed[space], atol=1e-4)
        np.testing.assert_allclose(searched["words"], words, atol=1e-5)
        for row, image_id in zip(rows, ids, strict=True):
            found = [
                part.score for part in contributions_of(response, image_id) if (part.guide, part.space) == ("picture", space)
            ]
            assert found == [pytest.approx(float(row @ composed[space]), abs=1e-4)]
        (part,) = (one for one in earlier_parts(trace, engine.encoder.collections) if one.name == "picture")
        np.testing.assert_allclose(part.leaf.by_space[space], picture, atol=1e-4)  # a refinement composes it anew
    for hit in response.hits:
        assert sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5)
    assert replay(trace).identical
    assert unexplained(explain(trace)) == []


def contributions_of(response, image_id):
    return next(hit.contributions for hit in response.hits if hit.image_id == image_id)


async def test_a_query_of_one_part_is_answered_as_that_part_alone(collection, engine):
    cat = Image(collection.ids[CAT])
    for part, options in ((cat, SearchOptions()), (Text("a cup"), SearchRequest(query="a cup", guides=0))):
        alone = await last(engine.ask(part, options))
        composed = await last(engine.ask(Compose(((part, 3.0),)), options))
        assert composed.parts == []
        assert [hit.image_id for hit in composed.hits] == [hit.image_id for hit in alone.hits]
        assert [hit.score for hit in composed.hits] == pytest.approx([hit.score for hit in alone.hits], abs=1e-5)


@pytest.mark.parametrize("rule", RULES)
async def test_a_picture_without_captions_is_renormalised_and_not_scored_nought(captioned, rule):
    engine = engine_of(captioned, rule=rule)
    response = await last(engine.ask(Compose(((Text("a horse"), 1.0), (Image(captioned.ids[CAT]), 1.0))), ALL))
    by_uri = {hit.uri: hit for hit in response.hits}
    assert set(response.space_weights) == {"labels", "labels0", "captions"}
    told, silent = by_uri["horse.png"], by_uri[COFFEE]
    assert "captions" in {one.space for one in told.contributions}
    assert "captions" not in {one.space for one in silent.contributions}
    trace = load_trace(captioned.catalog, response.query_id)
    weight = {(one.guide, one.space): one.weight for one in trace.completed}
    present = sum(one.weight for one in silent.contributions)
    assert present == pytest.approx(1 - weight["words", "captions"])
    for one in silent.contributions:  # each part counts for more, as its similarity were the mean of those that are missing
        standing = next(each for each in trace.completed if (each.guide, each.space) == (one.guide, one.space))
        assert one.part == pytest.approx(one.weight * float(standing.scores[standing.ids.index(silent.image_id)]))
    assert all(sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5) for hit in response.hits)
    assert unexplained(explain(trace)) == [] and replay(trace).identical
    assert response.hits[0].uri == "horse.png"


async def test_captions_of_which_there_are_none_take_nothing_from_the_spaces(models, tmp_path):
    made = Collection(tmp_path, models)
    made.add("photos", photos())
    query = Compose(((Text("a horse"), 1.0), (Image(made.ids[CAT]), 1.0)))
    before = await last(engine_of(made, rule="sum").ask(query, ALL))
    made.caption({})
    assert "captions" in made.store.aliases()
    after = await last(engine_of(made, rule="sum").ask(query, ALL))
    assert after.space_weights == before.space_weights
    assert [(hit.image_id, hit.score) for hit in after.hits] == [(hit.image_id, hit.score) for hit in before.hits]
    made.close()


@pytest.mark.parametrize("rule", ["product", "sum"])
async def test_pictures_without_captions_are_candidates_by_the_weights_that_they_are_ranked_by(captioned, monkeypatch, rule):
    asked = {}
    original = UnionSource.search

    async def search(self, searches, *arguments, standings, described):
        for one in searches:
            asked[one.guide] = asked.get(one.guide, 0.0) + one.weight
        return await original(self, searches, *arguments, standings=standings, described=described)

    monkeypatch.setattr(UnionSource, "search", search)
    engine = engine_of(captioned, rule=rule)
    await last(engine.ask(Compose(((Text("a horse"), 0.4), (Image(captioned.ids[CAT]), 0.6))), ALL))
    # The joint similarity is a mean over all modalities that a picture has; every other rule joins whole parts.
    assert asked == pytest.approx({"words": 0.4 if rule == "product" else 0.4 * (1 - CAPTION_SHARE), "picture": 0.6})


async def test_a_composition_that_declares_its_modalities_compares_in_these_alone(captioned):
    words = Modality("words", "labels", Role.AUXILIARY)
    picture = Modality("picture", "labels0", Role.TARGET)
    compositions = {
        **all_compositions({}, PROFILE),
        "shop": Composition("shop", (words, picture), {}, declared=True),
        "likeness": Composition("likeness", (picture,), {}, declared=True),
    }
    memory = Memory(captioned.catalog, captioned.store, history=100, tags=TagSettings(implicit=False))
    engine = captioned.engine(compositions=compositions, learnt=LearnedModels(memory=memory))
    query = Compose(((Text("a brown horse"), 1.0), (Image(captioned.ids[CAT]), 1.0)))
    response = await last(engine.ask(query, SearchRequest(composition="shop", explain=True, limit=5)))
    assert {(one.guide, one.space) for hit in response.hits for one in hit.contributions} == {
        ("words", "labels"),
        ("picture", "labels0"),
    }
    alone = Compose(((Image(captioned.ids[CAT]), 1.0),))
    response = await last(engine.ask(alone, SearchRequest(composition="likeness", explain=True, limit=5)))
    assert {one.space for hit in response.hits for one in hit.contributions} == {"labels0"}
    await engine.settled(response.query_id)
    assert load_trace(captioned.catalog, response.query_id).kind == "composed"
    with pytest.raises(InvalidRequestError, match="compares no words"):
        await last(engine.ask(query, SearchRequest(composition="likeness")))
    with pytest.raises(UnknownNameError) as caught:
        await last(engine.ask(query, SearchRequest(composition="shopp")))
    assert "shop" in caught.value.hint


async def test_words_to_avoid_are_compared_with_the_caption_that_is_most_like_them(captioned):
    engine = engine_of(captioned)
    query = Compose(((Image(captioned.ids[CAT]), 1.0), (Text("the outline of a horse"), -1.0)))
    response = await last(engine.ask(query, ALL))
    (horse,) = [hit for hit in response.hits if hit.uri == "horse.png"]
    (caption,) = [one for one in horse.contributions if one.space == "captions"]
    assert (caption.score, caption.rank) == (pytest.approx(1, abs=1e-3), 1)
    assert caption.part < 0.01  # of a product that a part to avoid can only make smaller


async def test_pages_of_a_composed_query_append(collection, engine):
    query = Compose(((Text("coloured dots"), 1.0), (Image(collection.ids[CAT]), 1.0)))
    whole = [hit.image_id for hit in (await last(engine.ask(query, SearchOptions(limit=30)))).hits]
    paged = []
    for offset in range(0, 30, 10):
        page = await last(engine.ask(query, SearchOptions(limit=10, offset=offset)))
        paged += [hit.image_id for hit in page.hits]
    assert paged == whole


async def test_candidates_are_found_by_the_weights_of_modalities_that_they_are_ranked_by(collection, monkeypatch):
    amounts = {"labels-words": 0.9, "labels-picture": 0.1, "labels0-words": 0.0, "labels0-picture": 0.0}
    composition = replace(choose_composition(DEFAULT_COMPOSITION, {}, PROFILE), rule="sum")
    assert {modality.name for modality in composition.modalities} >= set(amounts)
    asked = []
    original = UnionSource.search

    async def search(self, searches, *arguments, standings, described):
        asked.extend((one.guide, one.space, one.weight / standings[one.guide, one.space].spread) for one in searches)
        return await original(self, searches, *arguments, standings=standings, described=described)

    monkeypatch.setattr(UnionSource, "search", search)
    engine = collection.engine(compositions={"default": replace(composition, weights=amounts)})
    query = Compose(((Text("a cup"), 1.0), (Image(collection.ids[CAT]), 2.0)))
    response = await last(engine.ask(query, ALL))
    assert [(part, space) for part, space, _ in asked] == [("words", "labels"), ("picture", "labels")]
    of_words, of_picture = (weight for _, _, weight in asked)
    assert of_words / of_picture == pytest.approx(0.9 / (2 * 0.1))
    assert response.hits


async def test_captions_alone_may_have_a_weight(captioned):
    composition = choose_composition(DEFAULT_COMPOSITION, {}, PROFILE)
    engine = captioned.engine(compositions={"default": replace(composition, weights={"captions": 1.0})})
    response = await last(engine.ask(Compose(((Text("a brown horse"), 1.0), (Image(captioned.ids[CAT]), 1.0))), ALL))
    assert response.hits[0].uri == "horse.png"
    assert {one.space for hit in response.hits for one in hit.contributions} == {"captions"}


async def test_filters_hold_for_every_part(collection, engine):
    query = Compose(((Text("a cat"), 1.0), (Image(collection.ids[CAT]), 1.0)))
    response = await last(engine.ask(query, SearchOptions(limit=200, filters=SearchFilters(corpora=["made"]))))
    assert {hit.corpus for hit in response.hits} == {"made"}


@pytest.mark.parametrize("rule", RULES)
async def test_filters_that_leave_no_picture_are_answered_with_none_and_the_record_keeps_the_parts(captioned, rule):
    engine = engine_of(captioned, rule=rule)
    query = Compose(((Text("a cat"), 1.0), (Picture(np.asarray(photo(CAT).convert("RGB"))), 1.0), (Text("dots"), -1.0)))
    nowhere = SearchFilters(path_prefix="nowhere")
    for diversity in (0.0, 0.5):
        asked = replace(query, diversity=diversity)
        response = await last(engine.ask(asked, SearchOptions(filters=nowhere, explain=True)))
        assert (response.hits, response.next_offset, response.dropped) == ([], None, [])
        assert [part.name for part in response.parts] == ["words", "picture", "without"]
    trace = load_trace(captioned.catalog, response.query_id)
    assert replay(trace).identical
    assert {part.name for part in earlier_parts(trace, engine.encoder.collections)} == {"words", "picture", "without"}


async def test_parts_that_cancel_out_are_answered_with_scores_of_nought(collection):
    picture = Picture(np.asarray(photo(CAT).convert("RGB")))
    response = await last(engine_of(collection, rule="sum").ask(Compose(((picture, 1.0), (picture, -1.0))), ALL))
    assert len(response.hits) == len(vectors_of(collection, "labels")[0])
    assert [hit.score for hit in response.hits] == pytest.approx([0.0] * len(response.hits), abs=1e-6)


def test_a_space_in_which_parts_cancel_out_is_searched_for_the_first_of_them():
    vector = np.array([0.6, 0.8], np.float32)
    parts = [ListSearch("picture", "labels", "c", 0.5, vector), ListSearch("unlike", "labels", "c", 0.5, -vector)]
    standings = {("picture", "labels"): Standing(0.2, 0.1), ("unlike", "labels"): Standing(-0.2, 0.1)}
    assert together(parts, standings) is parts[0]
    heavier = together([parts[0], replace(parts[1], weight=0.4)], standings)
    np.testing.assert_allclose(heavier.vector, vector, atol=1e-5)


def test_parts_that_cancel_out_but_for_rounding_are_not_searched_as_noise():
    vectors = np.random.default_rng(4).standard_normal((2, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    both = (vectors[0] + vectors[1]).astype(np.float32)
    length = float(np.linalg.norm(both))
    weights = (0.3, 0.3, 0.3 * length)
    parts = [
        ListSearch(name, "labels", "c", weight, vector)
        for name, weight, vector in zip("abc", weights, (*vectors, -both / np.float32(length)), strict=True)
    ]
    standings = {(name, "labels"): Standing(0.0, 0.1) for name in "abc"}
    summed = sum(np.float32(one.weight / 0.1) * one.vector for one in parts)
    assert 0 < np.linalg.norm(summed) < 1e-5, "rounding is left of the sum"
    assert together(parts, standings) is parts[0]
    little = [parts[0], replace(parts[0], guide="d", weight=0.3 * (1 - 1e-4), vector=-vectors[0])]
    left = together(little, {**standings, ("d", "labels"): Standing(0.0, 0.1)})
    assert left is not little[0], "a ten-thousandth is no rounding"
    np.testing.assert_allclose(left.vector, vectors[0], atol=1e-3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("error")
async def test_a_part_of_nearly_no_weight_gives_nearly_nothing(collection, rule):
    cat = Image(collection.ids[CAT])
    for weight in (5e-324, 1e-310, 1e-100):
        response = await last(engine_of(collection, rule=rule).ask(Compose(((Text("a cup"), weight), (cat, 1.0))), ALL))
        for hit in response.hits:
            assert sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5)
            assert sum(abs(one.part) for one in hit.contributions if one.guide == "words") < 1e-50


async def test_diversity_moves_pictures_like_those_before_them_down_and_is_a_part_of_the_score(collection, engine):
    parts = ((Text("coloured dots"), 1.0),)
    plain = await last(engine.ask(Compose((*parts, (Text("dots"), 1.0))), SearchOptions(limit=8)))
    response = await last(engine.ask(Compose((*parts, (Text("dots"), 1.0)), diversity=0.6), ALL))
    ids, vectors = vectors_of(collection, "labels")
    vector_of = dict(zip(ids, vectors, strict=True))

    def closeness(answer):
        rows = np.stack([vector_of[hit.image_id] for hit in answer.hits[:8]])
        return float((rows @ rows.T)[np.triu_indices(8, 1)].mean())

    assert closeness(response) < closeness(plain)
    assert [hit.score for hit in response.hits] == sorted((hit.score for hit in response.hits), reverse=True)
    trace = load_trace(collection.catalog, response.query_id)
    assert replay(trace).identical and unexplained(explain(trace)) == []
    assert any(part.guide == "diversity" and part.part < 0 for part in explain(trace).hits[1].parts)
    alone = await last(engine.ask(Compose(parts, diversity=0.5), SearchOptions(limit=3)))
    assert [part.name for part in alone.parts] == ["words"]


async def test_vectors_of_another_length_or_of_no_space_are_refused_as_parts(engine):
    with pytest.raises(InvalidRequestError, match="holds vectors of"):
        await last(engine.ask(Compose(((Text("a cat"), 1.0), (Vector({"labels": np.ones(3)}), 1.0))), ALL))
    with pytest.raises(InvalidRequestError, match="nowhere"):
        await last(engine.ask(Compose(((Text("a cat"), 1.0), (Vector({"nowhere": np.ones(3)}), 1.0))), ALL))


async def test_a_part_that_is_made_of_queries_is_refused_with_what_to_do(engine):
    with pytest.raises(InvalidRequestError, match="made of several queries") as raised:
        await last(engine.ask(Compose(((Text("a cat"), 1.0), (Not(Text("a dog")), 1.0))), ALL))
    assert raised.value.hint


async def test_a_picture_that_is_not_indexed_is_not_found(engine):
    with pytest.raises(NotFoundError):
        await last(engine.ask(Compose(((Text("a cat"), 1.0), (Image("00000000-0000-5000-8000-000000000000"), 1.0))), ALL))


async def test_too_many_parts_are_refused(engine):
    with pytest.raises(InvalidRequestError, match="9 parts, at most 8") as raised:
        await last(engine.ask(Compose(tuple((Text(f"word {number}"), 1.0) for number in range(9))), ALL))
    assert raised.value.hint


async def test_words_are_encoded_in_one_pass_and_each_collection_is_searched_in_one_call(collection, engine, monkeypatch):
    calls, passes = [], []
    encode = type(engine.encoder).encode_texts

    async def encode_texts(self, texts, **options):
        passes.append(len(texts))
        return await encode(self, texts, **options)

    monkeypatch.setattr(type(engine.encoder), "encode_texts", encode_texts)
    original = type(collection.store).search

    def search(self, name, queries):
        calls.append((name, len(queries), queries[0].exact))
        return original(self, name, queries)

    monkeypatch.setattr(type(collection.store), "search", search)
    query = Compose(tuple((Text(words), 1.0) for words in ("a cat", "a dog", "a boat")))
    await last(engine.ask(query, SearchOptions(limit=5)))
    spaces = {collection.models.projections[space].collection for space in ("labels", "labels0")}
    assert passes == [3]
    assert sorted(calls) == sorted([(name, 1, False) for name in spaces] + [(name, 3, True) for name in spaces])


async def test_samples_that_are_too_old_are_not_read_again_on_the_event_loop(captioned, monkeypatch):
    engine = engine_of(captioned)
    query = Compose(((Text("a cat"), 1.0), (Image(captioned.ids[CAT]), 1.0)))
    await last(engine.ask(query, ALL))
    samples = engine._pipeline.passes.composed["default"].composed._calibration._samples
    assert {one.partition("-")[0] for one in samples} == {"labels", "labels0", "captions"}
    samples.update({name: replace(one, read_at=one.read_at - 3_600) for name, one in samples.items()})
    read = []
    original = type(captioned.store).info

    def info(self, name):
        read.append((name, threading.current_thread() is threading.main_thread()))
        return original(self, name)

    monkeypatch.setattr(type(captioned.store), "info", info)
    await last(engine.ask(query, ALL))
    assert set(samples) <= {name for name, _ in read}
    assert [name for name, on_the_loop in read if on_the_loop] == []


async def test_a_fused_collection_is_searched_instead_of_the_spaces_where_there_is_one(models, tmp_path, monkeypatch):
    made = Collection(tmp_path, models)
    made.add("photos", photos())
    made.add("made", fillers(30), root="/made")
    query = Compose(((Text("a cup"), 1.0), (Image(made.ids[CAT]), 1.0), (Text("dots"), -0.5)))
    of_the_spaces = await last(engine_of(made).ask(query, SearchOptions(limit=5)))
    spaces = ("labels", "labels0")
    collections = {space: models.projections[space].collection for space in spaces}
    ids = vectors_of(made, "labels")[0]
    vectors = {space: np.asarray(made.store.retrieve(collections[space], ids).vectors, np.float32) for space in spaces}
    layout = FusedLayout("default", tuple(FusedSpace(space, collections[space], vectors[space].shape[1]) for space in spaces))
    made.store.create(CollectionSpec(layout.collection, layout.dim, fields=FUSED_FIELDS))
    made.store.upsert(layout.collection, PointBatch(ids, layout.join(vectors), [{"holds": []} for _ in ids]))
    made.store.set_alias(layout.alias, layout.collection)
    searched = []
    original = type(made.store).search

    def search(self, name, queries):
        searched.append((name, queries[0].exact))
        return original(self, name, queries)

    monkeypatch.setattr(type(made.store), "search", search)
    modalities = tuple(Modality(space, space, Role.TARGET) for space in spaces)
    engine = made.engine(compositions={"default": Composition("default", modalities, {})})
    response = await last(engine.ask(query, SearchOptions(limit=5)))
    assert [name for name, exact in searched if not exact] == [layout.collection]
    assert [hit.image_id for hit in response.hits] == [hit.image_id for hit in of_the_spaces.hits]
    assert [hit.score for hit in response.hits] == pytest.approx([hit.score for hit in of_the_spaces.hits], abs=1e-4)
    made.close()


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("rule", RULES)
async def test_a_fused_collection_with_captions_answers_in_one_search(models, tmp_path, monkeypatch, rule):
    made = Collection(tmp_path, models)
    made.add("photos", photos())
    made.add("made", fillers(30), root="/made")
    made.caption({"horse.png": ["a brown horse"], CAT: ["a tabby cat"], COFFEE: ["a cup of coffee"]})
    query = Compose(((Text("a cup"), 1.0), (Image(made.ids[CAT]), 1.0), (Text("dots"), -0.5)))
    of_the_spaces = await last(engine_of(made, rule=rule).ask(query, SearchOptions(limit=5)))
    composition = replace(choose_composition(DEFAULT_COMPOSITION, {}, PROFILE), rule=rule)
    aliases = made.store.aliases()
    optional = {space: space in composition.optional for space in composition.spaces}
    ids = vectors_of(made, "labels")[0]
    spoken = next(iter(made.store.scroll(aliases["captions"])))
    captions = {payload["image"]: vector for payload, vector in zip(spoken.payloads, spoken.vectors, strict=True)}
    vectors = {
        space: np.asarray(made.store.retrieve(aliases[space], ids).vectors, np.float32)
        for space in composition.spaces
        if not optional[space]
    }
    lacking = np.full(384, np.nan, np.float32)
    vectors["captions"] = np.stack([captions.get(image_id, lacking) for image_id in ids])
    layout = FusedLayout(
        "default",
        tuple(FusedSpace(space, aliases[space], vectors[space].shape[1], optional[space]) for space in composition.spaces),
    )
    made.store.create(CollectionSpec(layout.collection, layout.dim, fields=FUSED_FIELDS))
    payloads = [{"holds": holds} for holds in layout.holds(vectors)]
    made.store.upsert(layout.collection, PointBatch(ids, layout.join(vectors), payloads))
    made.store.set_alias(layout.alias, layout.collection)
    searched = []
    original = type(made.store).search

    def search(self, name, queries):
        searched.append((name, queries[0].exact))
        return original(self, name, queries)

    monkeypatch.setattr(type(made.store), "search", search)
    response = await last(engine_of(made, rule=rule).ask(query, SearchOptions(limit=5)))
    assert [name for name, exact in searched if not exact] == [layout.collection]
    assert [hit.image_id for hit in response.hits] == [hit.image_id for hit in of_the_spaces.hits]
    assert [hit.score for hit in response.hits] == pytest.approx([hit.score for hit in of_the_spaces.hits], abs=1e-4)
    assert response.hits[0].uri == COFFEE
    made.close()


async def test_captions_that_cannot_be_read_are_done_without_and_not_read_for_pictures_alone(captioned, monkeypatch):
    original = type(captioned.store).info

    def info(self, name):
        if name.startswith("captions"):
            raise StoreError("the captions are damaged", hint="lodestone verify --repair")
        return original(self, name)

    monkeypatch.setattr(type(captioned.store), "info", info)
    cat = Image(captioned.ids[CAT])
    response = await last(engine_of(captioned).ask(Compose(((Text("a horse"), 1.0), (cat, 1.0))), ALL))
    assert set(response.space_weights) == {"labels", "labels0"}
    assert any("the captions are damaged" in note for note in response.warnings)
    pictures = Compose(((cat, 1.0), (Image(captioned.ids[COFFEE]), 1.0)))
    assert (await last(engine_of(captioned).ask(pictures, ALL))).warnings == []


async def test_a_part_that_nothing_compares_is_named(collection):
    modalities = (Modality("picture", "labels", Role.TARGET), Modality("captions", "captions", Role.AUXILIARY))
    engine = collection.engine(compositions={"default": Composition("default", modalities, {}, declared=True)})
    response = await last(engine.ask(Compose(((Text("a cup"), 1.0), (Image(collection.ids[CAT]), 1.0))), ALL))
    assert response.dropped == ["part 'words': no space that is searched compares it"]
    assert response.hits


async def test_as_many_parts_as_are_allowed_are_answered(engine):
    response = await last(engine.ask(Compose(tuple((Text(f"word {number}"), 1.0) for number in range(MAX_PARTS))), ALL))
    assert len(response.parts) == MAX_PARTS == 8


async def test_diversity_is_measured_in_the_space_that_decides_most(collection, engine, monkeypatch):
    asked = []
    retrieve = collection.store.retrieve

    def noting(name, ids, **options):
        if not options.get("with_payload", True) and len(ids) > 1:
            asked.append(name)
        return retrieve(name, ids, **options)

    monkeypatch.setattr(collection.store, "retrieve", noting)
    for heavy, light in (("labels", "labels0"), ("labels0", "labels")):
        asked.clear()
        _, vectors = vectors_of(collection, heavy)
        _, others = vectors_of(collection, light)
        parts = ((Vector({heavy: vectors[0]}), 0.9), (Vector({light: others[1]}), 0.1))
        await last(engine.ask(Compose(parts, diversity=0.5), ALL))
        assert asked[-1] == collection.store.aliases()[heavy]


def test_the_usual_likeness_of_captions_is_that_of_the_words_themselves_and_negated_for_words_to_avoid(engine):
    class Calibrated:
        known = True

        def standing(self, collection, vector):
            return (float(vector[0]), 0.5) if self.known else (0.1, 0.5)

    stage = engine._pipeline.passes.composed["default"].composed
    vector = np.array([0.6, 0.8], np.float32)
    searches = [ListSearch("words", "captions", "c", 0.5, vector), ListSearch("without", "captions", "c", 0.5, -vector)]
    kept, stage._calibration = stage._calibration, Calibrated()
    try:
        measured = stage._measured(searches, ["without"])
        stage._calibration.known = False  # there are too few captions: the usual likeness is that of words as they are
        usual = stage._measured(searches, ["without"])
    finally:
        stage._calibration = kept
    assert measured["words", "captions"] == Standing(pytest.approx(0.6), 0.5)
    assert measured["without", "captions"] == Standing(pytest.approx(-0.6), 0.5)
    assert [one.mean for one in usual.values()] == pytest.approx([0.1, -0.1])
