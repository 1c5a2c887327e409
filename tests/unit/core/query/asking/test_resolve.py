"""Resolution of queries: what is refused, what is resolved, what is left out."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from uuid import UUID

import pytest

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.catalog import Catalog
from lodestone.config.compositions import choose_composition
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import QuerySettings
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.query.asking.filters import build_filter
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.query.asking.resolve import resolve
from lodestone.query.asking.tree import Among, And, Compose, Image, Not, Or, Restriction, Text, Where
from lodestone.query.words.checker import CheckedWords
from lodestone.retrieval.fusion import WEIGHTED_SUM
from lodestone.store.base import Between, Filter, HasId, MatchAny
from lodestone.text_encoders.text import normalise_query
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

PROFILE = replace(PROFILES["embedded"], spaces=("bridge", "labels"), generators=("exemplar",), guides=10)
LIVE = {"bridge": "bridge-1", "labels": "labels-1"}


class Unknown(Restriction):
    """A restriction without a row in the table."""


@pytest.fixture
def catalog(tmp_path):
    opened = Catalog.open(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


def resolved(
    catalog, options, *, query=None, settings=None, aliases=LIVE, known=LIVE, started=None, request_context=NOW, checker=None
):
    words = Text(options.query) if isinstance(options, SearchRequest) else Image("an-id")
    return resolve(
        Where(options.filters, words) if query is None else query,
        options,
        settings=settings or QuerySettings(),
        profile=PROFILE,
        aliases=aliases,
        known_spaces=known,
        known_generators=["exemplar", "sketch"],
        catalog=catalog,
        started=started,
        request_context=request_context,
        checker=checker,
    )


@pytest.mark.parametrize("query", ["", "   ", "\t\n", "\x00\x1b", "\u200b\u200d", "\ufeff", "\ud800"])
def test_a_query_without_words_is_refused_with_what_to_do(query):
    with pytest.raises(InvalidRequestError) as raised:
        normalise_query(query)
    assert raised.value.code == "invalid_request"
    assert "say in a few words" in raised.value.hint


def test_ten_thousand_characters_are_refused_and_a_thousand_are_not():
    with pytest.raises(InvalidRequestError, match="10000 characters"):
        normalise_query("x" * 10_000)
    assert len(normalise_query("x" * 1000)) == 1000
    assert normalise_query("a" + " " * 5000 + "b") == "a b"


def test_the_loaded_version_is_searched_in_its_own_collection_while_another_is_promoted_until_it_is_dropped(catalog):
    def made(*present):
        return resolve(
            Text("x"),
            SearchRequest(query="x"),
            settings=QuerySettings(),
            profile=PROFILE,
            aliases={**LIVE, "bridge": "bridge-2"},
            known_spaces=LIVE,
            known_generators=["exemplar"],
            catalog=catalog,
            present=lambda: present,
        )

    promoting = made("bridge-1", "bridge-2", "labels-1")
    assert (promoting.spaces, promoting.warnings) == (LIVE, ())
    dropped = made("bridge-2", "labels-1")
    assert dropped.spaces == {"labels": "labels-1"}
    assert "'bridge-2' is of another version" in dropped.warnings[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("  a\tred\n\ncar ", "a red car"),
        ("a\x00 r\x07ed car", "a red car"),
        ("cafe\u0301", "caf\u00e9"),
        ("孩子 在 海边", "孩子 在 海边"),
        ("👩\u200d👧 at the beach", "👩\u200d👧 at the beach"),
        ("a\u00a0dog\u2003runs", "a dog runs"),
        ("a \ud83d dog", "a dog"),
    ],
)
def test_words_are_kept_and_noise_is_not(given, expected):
    assert normalise_query(given) == expected


def test_a_topic_that_a_catalog_could_not_keep_is_cleaned_before_it_is_recorded(catalog):
    assert resolved(catalog, SearchRequest(query="x", topic="two\x00 \x1b[31mdogs")).topic == "two [31mdogs"
    with pytest.raises(InvalidRequestError, match="blank"):
        resolved(catalog, SearchRequest(query="x", topic="\x00"))


def test_the_request_wins_over_settings_and_settings_over_the_profile(catalog):
    assert resolved(catalog, SearchRequest(query="x")).fusion == PROFILE.fusion
    settings = QuerySettings(fusion="rrf", guides=3, generators=["sketch"])
    ours = resolved(catalog, SearchRequest(query="x"), settings=settings)
    assert (ours.fusion, ours.guiding.most, ours.guiding.generators) == ("rrf", 3, ("sketch",))
    theirs = resolved(
        catalog,
        SearchRequest(query="x", fusion="weighted_reciprocal_rank", guides=1, generators=["exemplar"]),
        settings=settings,
    )
    assert (theirs.fusion, theirs.guiding.most, theirs.guiding.generators) == ("weighted_reciprocal_rank", 1, ("exemplar",))


@pytest.mark.parametrize("wanted", [{"guides": 0}, {"generators": []}])
def test_no_guides_or_no_generators_is_the_text_pass_alone(catalog, wanted):
    ours = resolved(catalog, SearchRequest(query="x", **wanted))
    assert (ours.guiding.generators, ours.guiding.most) == ((), 0)


@pytest.mark.parametrize(
    ("wrong", "kind", "known"),
    [
        ({"fusion": "borda"}, "fusion", ["mean_distance", "rrf", "weighted_reciprocal_rank"]),
        ({"spaces": ["clip"]}, "space", ["bridge", "labels"]),
        ({"generators": ["sdxl"]}, "generator", ["exemplar", "sketch"]),
        ({"filters": SearchFilters(corpora=["nowhere"])}, "corpus", []),
        ({"filters": SearchFilters(roots=["nowhere"])}, "root", []),
    ],
)
def test_unknown_names_list_the_known_ones(catalog, wrong, kind, known):
    with pytest.raises(UnknownNameError) as raised:
        resolved(catalog, SearchRequest(query="x", **wrong))
    assert raised.value.details["kind"] == kind
    assert raised.value.details["known"] == known


def test_spaces_are_the_collections_that_the_aliases_point_at(catalog):
    ours = resolved(catalog, SearchRequest(query="x"), aliases={**LIVE, "captions": "captions-1"})
    assert ours.spaces == LIVE
    assert ours.captions == "captions-1"
    assert ours.warnings == ()
    assert resolved(catalog, SearchOptions(spaces=["labels"])).spaces == {"labels": "labels-1"}
    assert resolved(catalog, SearchOptions(spaces=[])).spaces == LIVE


def test_a_space_of_another_version_or_without_an_index_is_left_out_with_a_warning(catalog):
    other = resolved(catalog, SearchRequest(query="x"), aliases={**LIVE, "bridge": "bridge-0"})
    assert other.spaces == {"labels": "labels-1"}
    assert "bridge-0" in other.warnings[0] and "lodestone index" in other.warnings[0]
    missing = resolved(catalog, SearchRequest(query="x"), aliases={"labels": "labels-1"})
    assert missing.spaces == {"labels": "labels-1"}
    assert "nothing is indexed in it" in missing.warnings[0]
    nothing = resolved(catalog, SearchRequest(query="x"), aliases={})
    assert nothing.spaces == {}
    assert nothing.warnings == ("nothing is indexed yet; run `lodestone index PATH`",)


@pytest.mark.parametrize(
    ("corpora", "seen", "command"),
    [
        (["default"], None, "lodestone index --resume"),
        (["our trip"], None, "lodestone index --resume --corpus 'our trip'"),
        (["family", "work"], None, "lodestone index --resume"),
        (["family", "work"], {"work"}, "lodestone index --resume --corpus work"),
        (["family"], {"work"}, "lodestone index PATH"),  # nothing is told of what the caller does not see
    ],
)
def test_where_only_an_interrupted_run_was_made_its_resumption_is_named(catalog, corpora, seen, command):
    for name in corpora:
        catalog.ensure_corpus(name)
    caller = EVERYTHING if seen is None else Visibility(corpora=frozenset(seen))
    options = SearchRequest(query="x")
    (warning,) = resolved(catalog, options, aliases={}, request_context=replace(NOW, visibility=caller)).warnings
    assert f"`{command}`" in warning


@pytest.mark.parametrize(
    ("offset", "limit", "depths"),
    [
        (0, 20, (100,)),
        (0, 99, (100,)),
        (0, 100, (100, 200)),
        (180, 20, (100, 200, 400)),
        (1000, 200, (100, 200, 400, 800, 1600)),
    ],
)
def test_the_depth_reaches_beyond_the_page(catalog, offset, limit, depths):
    assert resolved(catalog, SearchOptions(offset=offset, limit=limit)).depths == depths


def test_the_deadline_is_absolute_and_counts_from_the_start(catalog):
    started = time.monotonic() - 5
    assert resolved(catalog, SearchRequest(query="x", deadline_ms=1500), started=started).deadline == started + 1.5
    assert (
        resolved(catalog, SearchOptions(), settings=QuerySettings(deadline_ms=200), started=started).deadline == started + 0.2
    )


def test_names_become_ids_in_the_filter(catalog):
    one, two = catalog.ensure_corpus("one"), catalog.ensure_corpus("two")
    first = catalog.ensure_root(one.corpus_id, "/x/holiday")
    second = catalog.ensure_root(two.corpus_id, "/y/holiday")
    assert build_filter(SearchFilters(), catalog) is None
    both = build_filter(SearchFilters(corpora=["one", "two"], roots=["holiday"]), catalog)
    assert both.must[0] == MatchAny("corpus", (one.corpus_id, two.corpus_id))
    assert set(both.must[1].values) == {first.root_id, second.root_id}
    alone = build_filter(SearchFilters(corpora=["two"], roots=["holiday"]), catalog)
    assert alone.must[1] == MatchAny("root", (second.root_id,))


@pytest.mark.parametrize(
    ("prefix", "folders"),
    [
        ("2024/summer", ("2024/summer",)),
        ("/2024//summer/", ("2024/summer",)),
        ("./a", ("a",)),
        ("caf\u00e9", ("caf\u00e9", "cafe\u0301")),
        ("cafe\u0301", ("cafe\u0301", "caf\u00e9")),
    ],
)
def test_a_path_prefix_is_a_folder_in_either_spelling(catalog, prefix, folders):
    assert build_filter(SearchFilters(path_prefix=prefix), catalog) == Filter((MatchAny("folders", folders),))


@pytest.mark.parametrize("prefix", ["", "/", ".", "./"])
def test_the_root_itself_restricts_nothing(catalog, prefix):
    assert build_filter(SearchFilters(path_prefix=prefix), catalog) is None


def test_a_prefix_that_leaves_the_root_is_refused(catalog):
    with pytest.raises(InvalidRequestError, match="leaves the root"):
        build_filter(SearchFilters(path_prefix="a/../../etc"), catalog)


def test_dates_without_an_offset_are_local_and_the_end_is_excluded(catalog):
    filters = SearchFilters.model_validate({"taken_from": "2024-01-01", "taken_to": "2024-01-02T00:00:00"})
    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    assert build_filter(filters, catalog) == Filter(
        (Between("taken_at", gte=start, lt=start + 86_400),), (Between("taken_until", gte=start + 86_401),)
    )


def test_dates_with_an_offset_are_absolute(catalog):
    filters = SearchFilters.model_validate({"taken_from": "2024-01-01T01:00+01:00"})
    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    assert build_filter(filters, catalog) == Filter((Between("taken_utc", gte=start, otherwise="taken_at"),))


def test_each_bound_keeps_its_own_clock(catalog):
    filters = SearchFilters.model_validate({"taken_from": "2024-01-01", "taken_to": "2024-01-01T00:00Z"})
    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    assert build_filter(filters, catalog) == Filter(
        (Between("taken_at", gte=start), Between("taken_utc", lt=start, otherwise="taken_at")),
        (Between("taken_until", gte=start + 1),),
    )


def test_dates_the_wrong_way_round_are_refused(catalog):
    with pytest.raises(InvalidRequestError, match="is not before"):
        build_filter(SearchFilters.model_validate({"taken_from": "2024-02-01", "taken_to": "2024-01-01"}), catalog)


@pytest.mark.parametrize(("own", "expected"), [(None, 40), (25, 25)])
def test_lists_are_as_deep_as_the_home_says_else_the_profile(catalog, own, expected):
    made = resolve(
        Text("x"),
        SearchRequest(query="x", limit=10),
        settings=QuerySettings(depth=own),
        profile=replace(PROFILE, depth=40),
        aliases=LIVE,
        known_spaces=LIVE,
        known_generators=["exemplar"],
        catalog=catalog,
    )
    assert made.depths == (expected,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Compose(((Text("a dog"), 1.0), (Not(Text("a cat")), 0.5))), "not answered yet"),
        (Compose(((Not(Text("a cat")), 0.5),)), "not answered yet"),
        (Not(Text("a dog")), "cannot be negated"),
        (Where(SearchFilters(), Not(Text("a dog"))), "cannot be negated"),
        (Not(Or((Among(()), And((Among(()), Text("a dog")))))), "one side of an `any`"),
        (Or((Text("a dog"), Among(()))), "one side of an `any`"),
        (And((Among(()), Not(Among(())))), "nothing to rank them by"),
        (Where(SearchFilters(), Where(SearchFilters(), Not(Among(())))), "nothing to rank them by"),
        (Or(tuple(map(Text, "abcdefghi"))), "9 or more alternatives"),
        (And((Or((Text("a"), Text("b"), Text("c"))), Or((Text("d"), Text("e"), Text("f"))))), "9 or more alternatives"),
        (And((Text("a"),) * 200), "more than 200 nodes"),
        (reduce(lambda query, _: Not(query), range(32), Among(())), "32 deep"),
        (And((Text("a dog"), Among(("no-id",)))), "not a UUID"),
        (And((Text("a dog"), Among(tuple(str(UUID(int=number)) for number in range(50_001))))), "at most 50,000"),
        (And((Text("a dog"), Unknown())), "of the type 'Unknown'"),
    ],
)
def test_queries_that_have_no_order_or_no_end_are_refused_with_what_to_do(catalog, query, message):
    with pytest.raises(InvalidRequestError, match=message) as raised:
        resolved(catalog, SearchRequest(query="x"), query=query)
    assert raised.value.code == "invalid_request"
    assert raised.value.hint


def test_a_query_of_one_leaf_within_sets_stays_what_it_is(catalog):
    ids = tuple(str(UUID(int=number)) for number in (2, 1, 2))
    ours = resolved(catalog, SearchRequest(query="x"), query=And((Not(Among(ids)), Where(SearchFilters(), Text("a dog")))))
    assert (ours.text, ours.composing.parts, ours.composing.alternatives) == ("a dog", (), ())
    assert ours.filter == Filter(must_not=(HasId((ids[1], ids[0])),))
    assert ours.guiding.most > 0
    composed = Compose(((Text("a dog"), 3.0), (Image("an-id"), 1.0)), ("words", "picture"), diversity=0.5)
    ours = resolved(catalog, SearchRequest(query="x"), query=And((composed, Among(ids))))
    assert [(part.name, part.weight) for part in ours.composing.parts] == [("words", 0.75), ("picture", 0.25)]
    assert (ours.composing.diversity, ours.composing.alternatives) == (0.5, ())
    assert ours.filter == Filter(must=(HasId((ids[1], ids[0])),), must_not=(HasId(("an-id",)),))


def test_pictures_are_edited_for_one_composed_query_and_not_for_several_alternatives(catalog):
    def guides(query):
        composition = replace(choose_composition("default", {}, PROFILE), target="guide")
        return resolve(
            query,
            SearchRequest(query="x"),
            settings=QuerySettings(),
            profile=PROFILE,
            aliases=LIVE,
            known_spaces=LIVE,
            known_generators=["exemplar"],
            catalog=catalog,
            compositions={"default": composition},
            editors=["exemplar"],
        ).guiding.most

    composed = And((Text("at night"), Image("an-id")))
    assert guides(composed) == 1
    assert guides(Or((composed, Text("a dog")))) == 0


def test_several_leaves_within_sets_share_the_score_and_their_parts_have_names_of_their_own(catalog):
    composed = Compose(((Text("a dog"), 3.0), (Text("a cat"), -1.0)))
    ours = resolved(catalog, SearchRequest(query="x"), query=And((Text("a beach"), composed)))
    assert [(part.name, part.leaf, part.weight, part.avoid) for part in ours.composing.parts] == [
        ("words", Text("a beach"), 0.5, False),
        ("words2", Text("a dog"), 0.375, False),
        ("without", Text("a cat"), 0.125, True),
    ]
    ours = resolved(catalog, SearchRequest(query="x"), query=And((Text("a beach"), Or((Text("a dog"), composed)))))
    assert [[(part.name, part.alternative, part.weight) for part in one.parts] for one in ours.composing.alternatives] == [
        [("words", 0, 0.5), ("words2", 0, 0.5)],
        [("words3", 1, 0.5), ("words4", 1, 0.375), ("without", 1, 0.125)],
    ]
    assert [part for one in ours.composing.alternatives for part in one.parts] == list(ours.composing.parts)
    assert (ours.guiding.most, ours.guiding.generators, ours.words) == (0, (), "a beach, a dog")


def test_a_composition_of_one_part_is_that_part(catalog):
    ours = resolved(catalog, SearchRequest(query="x"), query=Compose(((Text("a dog"), 0.3),)))
    assert (ours.text, ours.leaves) == ("a dog", (Text("a dog"),))


def test_conditions_of_all_levels_hold_together_and_a_picture_is_not_like_itself(catalog):
    inner, outer = SearchFilters(path_prefix="2024"), SearchFilters(path_prefix="summer")
    ours = resolved(catalog, SearchOptions(), query=Where(outer, Where(inner, Image("an-id"))))
    assert ours.filter == Filter((MatchAny("folders", ("summer",)), MatchAny("folders", ("2024",))), (HasId(("an-id",)),))
    assert resolved(catalog, SearchRequest(query="x"), query=Text("x")).filter is None


def test_a_former_name_of_a_fusion_is_accepted_with_a_warning(catalog, caplog):
    asked = resolved(catalog, SearchRequest(query="x", fusion="needle"))
    assert asked.fusion == "weighted_reciprocal_rank"
    assert any("'needle' is now called 'weighted_reciprocal_rank'" in warning for warning in asked.warnings)
    configured = resolved(catalog, SearchRequest(query="x"), settings=QuerySettings(fusion="needle"))
    assert (configured.fusion, configured.warnings) == ("weighted_reciprocal_rank", ())


def test_a_query_without_room_for_guides_says_so_and_its_way_back_is_taken_from_its_time(catalog):
    busy = RequestContext(text_only="the service is busy", way_back=0.5)
    started = time.monotonic()
    ours = resolved(catalog, SearchRequest(query="x", deadline_ms=2000), started=started, request_context=busy)
    assert (ours.guiding.most, ours.guiding.generators, ours.dropped) == (0, (), ("guides: the service is busy",))
    assert ours.deadline == started + 2 - 0.5
    assert resolved(catalog, SearchRequest(query="x", guides=0), request_context=busy).dropped == ()


class Checker:
    """Corrects one word, and notes how it was asked."""

    def __init__(self):
        self.asked = []

    def check(self, text, *, spelling=True, visibility=EVERYTHING):
        self.asked.append((text, spelling, visibility))
        return CheckedWords(text.replace("dgo", "dog"), spelling and "dgo" in text, "de", ("a warning",))


def test_the_corrected_words_are_searched_and_the_request_keeps_those_that_were_asked(catalog):
    ours = resolved(catalog, SearchRequest(query="a dgo"), checker=Checker())
    assert (ours.text, ours.leaves, ours.corrected, ours.language) == ("a dog", (Text("a dog"),), True, "de")
    assert ours.request.query == "a dgo"
    assert ours.warnings == ("a warning",)


def test_the_request_decides_on_spelling_before_the_setting_and_words_are_checked_for_whoever_asks(catalog):
    checker, work = Checker(), Visibility("me", frozenset({"work"}))
    off = QuerySettings(spelling="off")
    resolved(catalog, SearchRequest(query="x"), checker=checker)
    resolved(catalog, SearchRequest(query="x"), checker=checker, settings=off)
    resolved(catalog, SearchRequest(query="x", spelling="auto"), checker=checker, settings=off)
    resolved(
        catalog, SearchRequest(query="x", spelling="off"), checker=checker, request_context=RequestContext(visibility=work)
    )
    assert [spelling for _, spelling, _ in checker.asked] == [True, False, True, False]
    assert [visibility for _, _, visibility in checker.asked] == [EVERYTHING, EVERYTHING, EVERYTHING, work]


def test_a_search_by_picture_has_no_words_to_check(catalog):
    checker = Checker()
    assert resolved(catalog, SearchOptions(), checker=checker).warnings == ()
    assert checker.asked == []


def test_a_composed_query_has_its_parts_and_no_guides_tags_or_spelling_of_its_own(catalog):
    query = Compose(
        ((Text("a dog"), 3.0), (Image("an-id"), 1.0), (Text("a leash"), -4.0), (Text("a cat"), 0.0)), diversity=0.25
    )
    ours = resolved(catalog, SearchRequest(query="a dog", guides=5, topic="dogs"), query=Where(SearchFilters(), query))
    assert [(part.name, part.weight, part.avoid) for part in ours.composing.parts] == [
        ("words", 0.375, False),
        ("picture", 0.125, False),
        ("without", 0.5, True),
    ]
    assert ours.leaves == (Text("a dog"), Image("an-id"), Text("a leash"))
    assert not resolved(catalog, SearchRequest(query="a dog"), query=query, settings=QuerySettings(gate=True)).gating.on
    assert (ours.text, ours.words, ours.guiding.generators, ours.guiding.most) == ("", "a dog", (), 0)
    assert (ours.fusion, ours.composing.diversity, ours.topic, ours.trust) == (WEIGHTED_SUM, 0.25, "dogs", True)
    assert ours.filter == Filter((), (HasId(("an-id",)),))
    assert (
        resolved(catalog, SearchRequest(query="x", fusion="rrf"), query=query)
        .warnings[-1]
        .startswith("fusion 'rrf' is left out")
    )
    with pytest.raises(UnknownNameError):  # it is no fusion that a request can ask for
        resolved(catalog, SearchRequest(query="x", fusion=WEIGHTED_SUM))
