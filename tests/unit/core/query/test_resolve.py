"""Planning: what is refused, what is resolved, what is left out."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import QuerySettings
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.query.filters import build_filter
from lodestone.query.resolve import normalise_query, resolve
from lodestone.store.base import Between, Filter, MatchAny
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

PROFILE = replace(PROFILES["embedded"], spaces=("bridge", "labels"), generators=("exemplar",), guides=10)
LIVE = {"bridge": "bridge-1", "labels": "labels-1"}


@pytest.fixture
def catalog(tmp_path):
    opened = Catalog.open(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


def plan(catalog, options, *, settings=None, aliases=LIVE, known=LIVE, started=None):
    return resolve(
        options,
        settings=settings or QuerySettings(),
        profile=PROFILE,
        aliases=aliases,
        known_spaces=known,
        known_generators=["exemplar", "sketch"],
        catalog=catalog,
        started=started,
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


def test_the_request_wins_over_settings_and_settings_over_the_profile(catalog):
    assert plan(catalog, SearchRequest(query="x")).fusion == PROFILE.fusion
    settings = QuerySettings(fusion="rrf", guides=3, generators=["sketch"])
    ours = plan(catalog, SearchRequest(query="x"), settings=settings)
    assert (ours.fusion, ours.guides, ours.generators) == ("rrf", 3, ("sketch",))
    theirs = plan(catalog, SearchRequest(query="x", fusion="needle", guides=1, generators=["exemplar"]), settings=settings)
    assert (theirs.fusion, theirs.guides, theirs.generators) == ("needle", 1, ("exemplar",))


@pytest.mark.parametrize("wanted", [{"guides": 0}, {"generators": []}])
def test_no_guides_or_no_generators_is_the_text_pass_alone(catalog, wanted):
    ours = plan(catalog, SearchRequest(query="x", **wanted))
    assert (ours.generators, ours.guides) == ((), 0)


@pytest.mark.parametrize(
    ("wrong", "kind", "known"),
    [
        ({"fusion": "borda"}, "fusion", ["mean_distance", "needle", "rrf"]),
        ({"spaces": ["clip"]}, "space", ["bridge", "labels"]),
        ({"generators": ["sdxl"]}, "generator", ["exemplar", "sketch"]),
        ({"filters": SearchFilters(corpora=["nowhere"])}, "corpus", []),
        ({"filters": SearchFilters(roots=["nowhere"])}, "root", []),
    ],
)
def test_unknown_names_list_the_known_ones(catalog, wrong, kind, known):
    with pytest.raises(UnknownNameError) as raised:
        plan(catalog, SearchRequest(query="x", **wrong))
    assert raised.value.details["kind"] == kind
    assert raised.value.details["known"] == known


def test_spaces_are_the_collections_that_the_aliases_point_at(catalog):
    ours = plan(catalog, SearchRequest(query="x"), aliases={**LIVE, "captions": "captions-1"})
    assert ours.spaces == LIVE
    assert ours.captions == "captions-1"
    assert ours.warnings == ()
    assert plan(catalog, SearchOptions(spaces=["labels"])).spaces == {"labels": "labels-1"}
    assert plan(catalog, SearchOptions(spaces=[])).spaces == LIVE


def test_a_space_of_another_version_or_without_an_index_is_left_out_with_a_warning(catalog):
    other = plan(catalog, SearchRequest(query="x"), aliases={**LIVE, "bridge": "bridge-0"})
    assert other.spaces == {"labels": "labels-1"}
    assert "bridge-0" in other.warnings[0] and "lodestone index" in other.warnings[0]
    missing = plan(catalog, SearchRequest(query="x"), aliases={"labels": "labels-1"})
    assert missing.spaces == {"labels": "labels-1"}
    assert "nothing is indexed in it" in missing.warnings[0]
    nothing = plan(catalog, SearchRequest(query="x"), aliases={})
    assert nothing.spaces == {}
    assert nothing.warnings == ("nothing is indexed yet; run `lodestone index PATH`",)


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
    assert plan(catalog, SearchOptions(offset=offset, limit=limit)).depths == depths


def test_the_deadline_is_absolute_and_counts_from_the_start(catalog):
    started = time.monotonic() - 5
    assert plan(catalog, SearchRequest(query="x", deadline_ms=1500), started=started).deadline == started + 1.5
    assert plan(catalog, SearchOptions(), settings=QuerySettings(deadline_ms=200), started=started).deadline == started + 0.2


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


def test_dates_without_an_offset_are_utc_and_the_end_is_excluded(catalog):
    filters = SearchFilters.model_validate({"taken_from": "2024-01-01T00:00:00", "taken_to": "2024-01-02T01:00:00+01:00"})
    start = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert build_filter(filters, catalog) == Filter((Between("taken_at", gte=start, lt=start + 86_400),))


def test_dates_the_wrong_way_round_are_refused(catalog):
    with pytest.raises(InvalidRequestError, match="is not before"):
        build_filter(SearchFilters.model_validate({"taken_from": "2024-02-01", "taken_to": "2024-01-01"}), catalog)


@pytest.mark.parametrize(("own", "expected"), [(None, 40), (25, 25)])
def test_lists_are_as_deep_as_the_home_says_else_the_profile(catalog, own, expected):
    made = resolve(
        SearchRequest(query="x", limit=10),
        settings=QuerySettings(depth=own),
        profile=replace(PROFILE, depth=40),
        aliases=LIVE,
        known_spaces=LIVE,
        known_generators=["exemplar"],
        catalog=catalog,
    )
    assert made.depths == (expected,)
