"""Queries of sets, on every store: `And`, `Or` and `Not` answer what each picture's own facts and scores say, one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

import pytest
import pytest_asyncio
from tests.support.collection import Collection, fillers, load_models, photos
from tests.support.photos import CAT, COFFEE, ROCKET
from tests.support.traces import unexplained

from lodestone.access.visibility import Visibility
from lodestone.catalog.records import TagRecord
from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError
from lodestone.query.answering.memory import Memory
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.asking.sets import MOST_ALTERNATIVES
from lodestone.query.asking.tree import Among, And, Compose, Image, Meets, Not, Or, Query, Tagged, Text, Where
from lodestone.query.guides.captions import CaptionRule
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import replay
from lodestone.query_log.trace import load_trace
from lodestone.store.base import VectorStore
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

TREES = 200
LATE = datetime(2020, 1, 1, tzinfo=UTC)
ALL = SearchOptions(limit=200, explain=True)
WORDS = ("a cat", "a cup of coffee", "a rocket", "coloured dots")

# A namespace changes the names of collections alone.
of_each_engine = pytest.mark.parametrize(
    "store", ["edge", "matrix", pytest.param("server", marks=pytest.mark.server)], indirect=True
)
of_one_engine = pytest.mark.parametrize("store", ["matrix"], indirect=True)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Sets:
    """A collection, what is true of each of its pictures, and an engine that records."""

    collection: Collection
    corpus: dict[str, str]
    late: frozenset[str]
    tagged: frozenset[str]

    def engine(self):
        memory = Memory(self.collection.catalog, self.collection.store, history=1_000, tags=TagSettings(implicit=False))
        return self.collection.engine(learnt=LearnedModels(memory=memory), hub=None)


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture
def sets(models, tmp_path, store: VectorStore) -> Iterator[Sets]:
    made = Collection(tmp_path, models, store)
    made.add("photos", photos(), taken_at=int(datetime(2019, 5, 1, tzinfo=UTC).timestamp()))
    old = set(made.ids.values())
    made.add("made", fillers(24), root="/made", taken_at=int(datetime(2021, 5, 1, tzinfo=UTC).timestamp()))
    made.caption({CAT: ["a tabby cat looks up"], "more/003.jpg": ["coloured dots"]})
    ids = sorted(made.ids.values())
    tagged = frozenset(ids[::4])
    made.catalog.add_tags([TagRecord.new(image_id, "Keep", "user") for image_id in sorted(tagged)])
    yield Sets(made, {one: "photos" if one in old else "made" for one in ids}, frozenset(set(ids) - old), tagged)
    made.catalog.close()


@pytest_asyncio.fixture
async def engine(sets):
    return sets.engine()


async def last(engine, query, options=ALL, **asked):
    return [event async for event in engine.ask(query, options, **asked)][-1].response


def random_tree(rng: random.Random, ids: list[str], *, ranking: bool, depth: int = 3) -> Query:
    """A tree of sets: of a few words, pictures and restrictions, so that sets overlap. One node in twenty may be out of place.

    Args:
        rng: Source of chance.
        ids: The pictures.
        ranking: Whether something in it is to rank, as it has to for an answer.
        depth: Nodes below one another.
    """
    if rng.random() < 0.05:
        ranking = not ranking
    if depth == 0 or rng.random() < 0.25:
        return random_leaf(rng, ids, ranking=ranking)

    def part(*, ranks: bool) -> Query:
        return random_tree(rng, ids, ranking=ranks, depth=depth - 1)

    count = rng.randint(1, 3)
    kind = rng.choice(["and", "or", "where"] if ranking else ["and", "or", "where", "not"])
    if kind == "where":
        return Where(SearchFilters(corpora=[rng.choice(["photos", "made"])]), part(ranks=ranking))
    if kind == "not":
        return Not(part(ranks=False))
    if kind == "or":
        return Or(tuple(part(ranks=ranking) for _ in range(count)))
    parts = [part(ranks=ranking), *(part(ranks=ranking and rng.random() < 0.3) for _ in range(count - 1))]
    rng.shuffle(parts)
    return And(tuple(parts))


def random_leaf(rng: random.Random, ids: list[str], *, ranking: bool) -> Query:
    ranked = [lambda: Text(rng.choice(WORDS)), lambda: Image(rng.choice(ids[:3]))]
    restricted = [
        lambda: Meets(SearchFilters(corpora=[rng.choice(["photos", "made"])])),
        lambda: Meets(SearchFilters(taken_from=LATE)),
        lambda: Tagged(rng.choice(["keep", "KEEP", "no such tag"])),
        lambda: Among(tuple(rng.sample(ids, 12))),
    ]
    return rng.choice(ranked if ranking else restricted)()


class Refused(Exception):
    """The tree has no answer, as the documentation says."""


def ways(query: Query, image_id: str, sets: Sets) -> list[tuple[Query, ...]] | None:
    """The ways in which one picture meets a tree: the leaves of each. None where the tree has no leaf at all."""
    match query:
        case Text() | Image():
            return [(query,)]
        case Meets(filters) if filters.taken_from is not None:
            return [()] * (image_id in sets.late)
        case Meets(filters):
            return [()] * (sets.corpus[image_id] in filters.corpora)
        case Tagged(tag):
            return [()] * (tag.lower() == "keep" and image_id in sets.tagged)
        case Among(ids):
            return [()] * (image_id in ids)
        case Where(filters, part):
            return ways(And((Meets(filters), part)), image_id, sets)
        case And(parts):
            return [sum(chosen, ()) for chosen in product(*(ways(part, image_id, sets) for part in parts))]
        case Or(parts):
            return [one for part in parts for one in ways(part, image_id, sets)]
        case Not(part):
            return [] if ways(part, image_id, sets) else [()]
    raise AssertionError(query)


def ranks(query: Query) -> bool:
    """Whether a tree ranks; raises `Refused` for one that has no order."""
    match query:
        case Text() | Image():
            return True
        case And(parts):
            return True in [ranks(part) for part in parts]
        case Or(parts):
            found = {ranks(part) for part in parts}
            if len(found) > 1:
                raise Refused("a side of Or only restricts")
            return found.pop()
        case Where(_, part):
            return ranks(part)
        case Not(part):
            if ranks(part):
                raise Refused("Not above a leaf")
            return False
    return False


def alternatives(query: Query) -> int:
    """Number of alternatives of a tree that has an order."""
    match query:
        case And(parts):
            count = 1
            for part in parts:
                count *= alternatives(part)
            return count
        case Or(parts):
            return sum(alternatives(part) for part in parts) if ranks(query) else 1
        case Where(_, part):
            return alternatives(part)
    return 1


async def expected_scores(query: Query, sets: Sets, engine, known: dict) -> dict[str, float]:
    """Each picture's best score over the ways in which it meets the tree, from the unrestricted answer to each way's leaves."""
    single = alternatives(query) == 1
    scores: dict[str, float] = {}
    for image_id in sets.corpus:
        for way in ways(query, image_id, sets):
            if any(isinstance(leaf, Image) and leaf.image_id == image_id for leaf in way):
                continue
            key = tuple(map(repr, way)), single and len(way) == 1
            if key not in known:
                # Of several alternatives one leaf is ranked as a composed query of one part.
                names = tuple(f"part{number}" for number in range(len(way)))
                asked = way[0] if key[1] else Compose(tuple((leaf, 1.0) for leaf in way), names)
                options = ALL if key[1] else ALL.model_copy()
                known[key] = {hit.image_id: hit.score for hit in (await composed(engine, asked, options, key[1])).hits}
            scores[image_id] = max(scores.get(image_id, -1e9), known[key][image_id])
    return scores


async def composed(engine, asked, options, plain):
    if plain or len(asked.parts) > 1:
        return await last(engine, asked, options)
    # One part alone would be asked as a plain query: the other side of this Or lets no picture through.
    nothing = And((asked.parts[0][0], Among(())))
    return await last(engine, Or((asked.parts[0][0], nothing)), options)


@pytest.mark.nightly_beyond(2)
@of_each_engine
@pytest.mark.timeout(300)
async def test_random_trees_answer_what_each_picture_says_by_itself(sets, engine):
    rng, known = random.Random(25), {}
    ids = [sets.collection.ids[uri] for uri in sorted(sets.collection.ids)]  # ids themselves are new each time
    answered = refusals = 0
    while answered < TREES:
        query = random_tree(rng, ids, ranking=True)
        try:
            refused = not ranks(query) or alternatives(query) > MOST_ALTERNATIVES
        except Refused:
            refused = True
        if refused:
            refusals += 1
            with pytest.raises(InvalidRequestError, match=r"rank|negated|alternatives") as raised:
                await last(engine, query)
            assert raised.value.hint
            continue
        answered += 1
        response = await last(engine, query)
        expected = await expected_scores(query, sets, engine, known)
        assert {hit.image_id: hit.score for hit in response.hits} == pytest.approx(expected, abs=1e-4), repr(query).replace(
            "path_prefix=None", ""
        )
        assert [hit.score for hit in response.hits] == sorted((hit.score for hit in response.hits), reverse=True)
    assert refusals > 5


@of_each_engine
async def test_alternatives_are_paged_explained_and_replayed(sets, engine):
    query = Or(
        (
            And((Text("a cat"), Image(sets.collection.ids[COFFEE]), Meets(SearchFilters(corpora=["photos"])))),
            And((Text("coloured dots"), Meets(SearchFilters(corpora=["made"])), Not(Tagged("keep")))),
        )
    )
    whole = await last(engine, query)
    found = {hit.image_id for hit in whole.hits}
    photos_alone = {one for one, corpus in sets.corpus.items() if corpus == "photos"} - {sets.collection.ids[COFFEE]}
    assert found == photos_alone | {one for one, corpus in sets.corpus.items() if corpus == "made" and one not in sets.tagged}
    assert [(part.name, part.alternative, part.weight) for part in whole.parts] == [
        ("words", 0, 0.5),
        ("picture", 0, 0.5),
        ("words2", 1, 1.0),
    ]
    pages = [await last(engine, query, ALL.model_copy(update={"limit": 7, "offset": offset})) for offset in range(0, 35, 7)]
    assert [hit.image_id for page in pages for hit in page.hits] == [hit.image_id for hit in whole.hits]
    trace = load_trace(sets.collection.catalog, whole.query_id)
    assert (trace.kind, trace.text) == ("composed", "a cat, coloured dots")
    assert replay(trace).identical
    explanation = explain(trace)
    assert unexplained(explanation) == []
    assert explanation.parts == whole.parts
    for hit in whole.hits:
        guides = {one.guide for one in hit.contributions}
        assert guides == ({"words", "picture"} if sets.corpus[hit.image_id] == "photos" else {"words2"})
        assert sum(one.part for one in hit.contributions) == pytest.approx(hit.score, abs=1e-5)


@of_one_engine
async def test_a_picture_is_left_out_only_where_it_is_what_others_are_like(sets, engine):
    cat, rocket = sets.collection.ids[CAT], sets.collection.ids[ROCKET]
    response = await last(engine, Or((Image(cat), Image(rocket))))
    assert {cat, rocket} <= {hit.image_id for hit in response.hits}
    response = await last(engine, And((Image(cat), Image(rocket))))
    assert not {cat, rocket} & {hit.image_id for hit in response.hits}


@of_one_engine
@pytest.mark.parametrize("guided", [False, True], ids=["alone", "with guides"])
async def test_captions_speak_for_no_picture_outside_of_a_set_of_ids(sets, engine, guided):
    described = (sets.collection.ids["more/003.jpg"], sets.collection.ids[CAT])
    kept = tuple(sorted(set(sets.corpus) - set(described)))
    if guided:
        engine = sets.collection.engine(captions=CaptionRule(weight=1.0))
    options = SearchRequest(query="x", limit=200, guides=4, gate=False) if guided else ALL
    composed = Compose(((Text("coloured dots"), 1.0), (Text("a tabby cat looks up"), 1.0)))
    for words in (Text("coloured dots"), Text("a tabby cat looks up"), composed):
        for restriction in (Among(kept), Not(Among(described))):
            response = await last(engine, And((words, restriction)), options)
            assert {hit.image_id for hit in response.hits} == set(kept)


@of_one_engine
async def test_captions_speak_for_the_pictures_of_a_set_of_ids(sets, engine):
    composed = Compose(((Text("coloured dots"), 1.0), (Text("a tabby cat looks up"), 1.0)))
    response = await last(engine, And((composed, Among(tuple(sets.corpus)))))
    trace = load_trace(sets.collection.catalog, response.query_id)
    found = {image_id for one in trace.lists if one.space == "captions" for image_id in one.ids}
    assert found == {sets.collection.ids["more/003.jpg"], sets.collection.ids[CAT]}


@of_one_engine
async def test_what_a_caller_does_not_see_is_in_no_set_not_even_in_a_negated_one(sets, engine):
    hidden = RequestContext(visibility=Visibility(corpora=frozenset({"photos"})))
    seen = {one for one, corpus in sets.corpus.items() if corpus == "photos"}
    late = Meets(SearchFilters(taken_from=LATE))
    for restriction in (Not(late), Not(Tagged("no such tag")), Not(Among(())), Not(And((late, Tagged("keep"))))):
        response = await last(engine, And((Text("a cat"), restriction)), request_context=hidden)
        assert {hit.image_id for hit in response.hits} == seen
    for restriction in (late, Among(tuple(set(sets.corpus) - seen)), Not(Among(tuple(seen)))):
        assert (await last(engine, And((Text("a cat"), restriction)), request_context=hidden)).hits == []
    either = Or((Text("a cat"), And((Text("coloured dots"), Not(Meets(SearchFilters(taken_to=LATE)))))))
    assert {hit.image_id for hit in (await last(engine, either, request_context=hidden)).hits} == seen


@of_one_engine
async def test_pictures_that_resemble_each_other_are_spread_over_all_alternatives(sets, engine):
    query = Or((Compose(((Text("a cat"), 1.0), (Text("a rocket"), 1.0)), diversity=0.6), Text("coloured dots")))
    diverse, plain = (
        await last(engine, query),
        await last(engine, Or((And((Text("a cat"), Text("a rocket"))), Text("coloured dots")))),
    )
    assert {hit.image_id for hit in diverse.hits} == {hit.image_id for hit in plain.hits}
    assert [hit.image_id for hit in diverse.hits] != [hit.image_id for hit in plain.hits]
    assert unexplained(explain(load_trace(sets.collection.catalog, diverse.query_id))) == []
