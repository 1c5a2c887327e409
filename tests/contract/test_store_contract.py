"""Every vector store does what the contract in `lodestone.store.base` says, and the stores agree with each other."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import clustered, make_points, point_id

from lodestone.errors import InvalidRequestError, LodestoneError, StoreError, UnknownNameError
from lodestone.store.base import AnyOf, Between, Filter, HasId, MatchAny, PointBatch, VectorQuery, VectorStore
from lodestone.store.factory import open_store
from lodestone.store.server.nodes import Nodes
from lodestone_schemas.collections import CollectionSpec, HnswSpec, Quantization

DIM = 16
SPEC = CollectionSpec("pictures-1", DIM)
POINTS = make_points(300, DIM)
FIRST = 1_000_000_000
COARSE = [kind for kind in Quantization if kind is not Quantization.NONE]
RARELY = [pytest.mark.slow, pytest.mark.nightly]

# Graphs are built once for each engine: a namespace changes the names of collections alone.
of_each_engine = pytest.mark.parametrize("store", ["edge", pytest.param("server", marks=pytest.mark.server)], indirect=True)


@pytest.fixture
def filled(store: VectorStore) -> VectorStore:
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    return store


def ids_matching(store: VectorStore, filter_: Filter | None) -> set[str]:
    return {i for batch in store.scroll(SPEC.name, filter_) for i in batch.ids}


def exact(vector: np.ndarray, limit: int = 10, filter_: Filter | None = None) -> VectorQuery:
    return VectorQuery(vector, limit, filter=filter_, exact=True)


# -- life of a collection


def test_a_new_collection_is_listed_and_empty(store: VectorStore) -> None:
    store.create(SPEC)
    store.create(replace(SPEC, name="another"))
    assert store.collections() == ["another", "pictures-1"]
    info = store.info(SPEC.name)
    assert (info.name, info.dim, info.points, info.indexed, info.building) == ("pictures-1", DIM, 0, 0, False)


def test_creating_twice_keeps_the_points(filled: VectorStore) -> None:
    filled.create(SPEC)
    assert filled.count(SPEC.name) == len(POINTS)


def test_creating_with_another_dim_is_refused_and_changes_nothing(filled: VectorStore) -> None:
    with pytest.raises(StoreError, match="length 16, not 8"):
        filled.create(replace(SPEC, dim=8))
    assert filled.info(SPEC.name).dim == DIM
    assert filled.count(SPEC.name) == len(POINTS)


def test_dropping_removes_the_points_and_the_aliases_and_may_be_repeated(filled: VectorStore) -> None:
    filled.set_alias("pictures", SPEC.name)
    filled.drop(SPEC.name)
    filled.drop(SPEC.name)
    assert filled.collections() == []
    assert filled.aliases() == {}
    filled.create(SPEC)
    assert filled.count(SPEC.name) == 0


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "white space", "x" * 200])
def test_names_that_are_no_file_names_are_refused(store: VectorStore, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        store.create(replace(SPEC, name=name))


def test_every_method_names_an_unknown_collection(filled: VectorStore) -> None:
    vector = POINTS.vectors[0]
    calls = [
        lambda: filled.info("nope"),
        lambda: filled.outside_graph("nope"),
        lambda: filled.upsert("nope", POINTS),
        lambda: filled.upsert("nope", PointBatch([], np.zeros((0, DIM), np.float32), [])),
        lambda: filled.delete("nope", POINTS.ids[:1]),
        lambda: filled.delete_matching("nope", Filter(must=(MatchAny("corpus", ("a",)),))),
        lambda: filled.build("nope"),
        lambda: filled.search("nope", [VectorQuery(vector)]),
        lambda: filled.retrieve("nope", POINTS.ids[:1]),
        lambda: list(filled.scroll("nope")),
        lambda: filled.count("nope"),
        lambda: filled.facet("nope", "folders"),
        lambda: filled.set_alias("alias", "nope"),
    ]
    for call in calls:
        with pytest.raises(UnknownNameError) as caught:
            call()
        assert "nope" in caught.value.message
        assert "pictures-1" in caught.value.hint


# -- points in, points out


def test_what_goes_in_comes_out_in_the_order_asked_without_the_missing(filled: VectorStore) -> None:
    asked = [POINTS.ids[7], str(uuid.uuid4()), POINTS.ids[2], POINTS.ids[250]]
    got = filled.retrieve(SPEC.name, asked)
    assert list(got.ids) == [POINTS.ids[7], POINTS.ids[2], POINTS.ids[250]]
    np.testing.assert_allclose(got.vectors, POINTS.vectors[[7, 2, 250]], atol=1e-6)
    assert got.vectors.dtype == np.float32
    assert [dict(p) for p in got.payloads] == [dict(POINTS.payloads[row]) for row in (7, 2, 250)]


def test_payloads_may_be_left_out(filled: VectorStore) -> None:
    got = filled.retrieve(SPEC.name, POINTS.ids[3:5], with_payload=False)
    assert list(got.ids) == list(POINTS.ids[3:5])
    np.testing.assert_allclose(got.vectors, POINTS.vectors[3:5], atol=1e-6)
    assert [dict(payload) for payload in got.payloads] == [{}, {}]


def test_vectors_of_any_length_keep_it(store: VectorStore) -> None:
    store.create(SPEC)
    vector = np.arange(DIM, dtype=np.float32)[None, :] * 3
    store.upsert(SPEC.name, PointBatch([point_id(0)], vector, [{}]))
    np.testing.assert_array_equal(store.retrieve(SPEC.name, [point_id(0)]).vectors, vector)
    (found,) = store.search(SPEC.name, [exact(vector[0])])
    assert found.scores[0] == pytest.approx(float(vector[0] @ vector[0]))


def test_upserting_replaces_vector_and_whole_payload(filled: VectorStore) -> None:
    new = -POINTS.vectors[:1]
    filled.upsert(SPEC.name, PointBatch(POINTS.ids[:1], new, [{"corpus": "other"}]))
    got = filled.retrieve(SPEC.name, POINTS.ids[:1])
    np.testing.assert_allclose(got.vectors, new, atol=1e-6)
    assert dict(got.payloads[0]) == {"corpus": "other"}
    assert filled.count(SPEC.name) == len(POINTS)


def test_the_last_of_two_points_with_one_id_stays(store: VectorStore) -> None:
    store.create(SPEC)
    twice = PointBatch([POINTS.ids[0]] * 2, POINTS.vectors[:2], [{"corpus": "first"}, {"corpus": "last"}])
    store.upsert(SPEC.name, twice)
    got = store.retrieve(SPEC.name, POINTS.ids[:1])
    assert dict(got.payloads[0]) == {"corpus": "last"}
    np.testing.assert_allclose(got.vectors[0], POINTS.vectors[1], atol=1e-6)


def test_ids_come_back_in_canonical_form(store: VectorStore) -> None:
    store.create(SPEC)
    store.upsert(SPEC.name, PointBatch([POINTS.ids[0].upper()], POINTS.vectors[:1], [{}]))
    assert list(store.retrieve(SPEC.name, [POINTS.ids[0].upper()]).ids) == [POINTS.ids[0]]


def test_empty_batches_and_questions_are_answered_with_nothing(filled: VectorStore) -> None:
    filled.upsert(SPEC.name, PointBatch([], np.zeros((0, DIM), np.float32), []))
    filled.delete(SPEC.name, [])
    assert filled.search(SPEC.name, []) == []
    assert len(filled.retrieve(SPEC.name, [])) == 0
    assert filled.count(SPEC.name) == len(POINTS)


def test_deleting_removes_only_the_named_and_ignores_the_missing(filled: VectorStore) -> None:
    filled.delete(SPEC.name, [POINTS.ids[0], str(uuid.uuid4()), POINTS.ids[9]])
    assert filled.count(SPEC.name) == len(POINTS) - 2
    assert len(filled.retrieve(SPEC.name, [POINTS.ids[0], POINTS.ids[9]])) == 0


def test_deleting_by_filter_removes_exactly_the_matching(filled: VectorStore) -> None:
    filter_ = Filter(must=(MatchAny("corpus", ("corpus1",)),), must_not=(MatchAny("root", ("root0",)),))
    gone = ids_matching(filled, filter_)
    filled.delete_matching(SPEC.name, filter_)
    assert len(gone) == 50
    assert ids_matching(filled, None) == set(POINTS.ids) - gone


def test_deleting_by_an_empty_filter_is_refused(filled: VectorStore) -> None:
    with pytest.raises(InvalidRequestError, match="every point"):
        filled.delete_matching(SPEC.name, Filter())
    assert filled.count(SPEC.name) == len(POINTS)


def test_scrolling_goes_through_all_points_once_by_ascending_id(filled: VectorStore) -> None:
    batches = list(filled.scroll(SPEC.name, batch_size=64))
    ids = [i for batch in batches for i in batch.ids]
    assert ids == sorted(POINTS.ids)
    assert [len(batch) for batch in batches] == [64, 64, 64, 64, 44]
    rows = [list(POINTS.ids).index(i) for i in ids]
    np.testing.assert_allclose(np.concatenate([b.vectors for b in batches]), POINTS.vectors[rows], atol=1e-6)
    assert [dict(p) for b in batches for p in b.payloads] == [dict(POINTS.payloads[row]) for row in rows]


@pytest.mark.parametrize(
    "batch",
    [
        PointBatch(["not-a-uuid"], np.zeros((1, DIM), np.float32), [{}]),
        PointBatch([point_id(0)], np.zeros((1, DIM + 1), np.float32), [{}]),
        PointBatch([point_id(0)], np.zeros((1, DIM), np.float32), []),
        PointBatch([point_id(0)], np.full((1, DIM), np.nan, np.float32), [{}]),
    ],
    ids=["id", "dim", "lengths", "nan"],
)
def test_wrong_points_are_refused_before_any_is_written(store: VectorStore, batch: PointBatch) -> None:
    store.create(SPEC)
    with pytest.raises(InvalidRequestError):
        store.upsert(SPEC.name, batch)
    assert store.count(SPEC.name) == 0


@pytest.mark.parametrize(
    "query",
    [
        VectorQuery(np.zeros(DIM + 1, np.float32)),
        VectorQuery(np.full(DIM, np.inf, np.float32)),
        VectorQuery(np.zeros(DIM, np.float32), limit=0),
        VectorQuery(np.zeros(DIM, np.float32), ef=0),
    ],
    ids=["dim", "inf", "limit", "ef"],
)
def test_wrong_questions_are_refused(filled: VectorStore, query: VectorQuery) -> None:
    with pytest.raises(InvalidRequestError):
        filled.search(SPEC.name, [query])


# -- searching


def test_neighbours_are_those_of_a_full_comparison_with_inner_products(filled: VectorStore) -> None:
    queries = clustered(5, DIM, seed=9)
    for vector, found in zip(queries, filled.search(SPEC.name, [exact(v, 20) for v in queries]), strict=True):
        scores = POINTS.vectors @ vector
        best = sorted(range(len(POINTS)), key=lambda row, s=scores: -s[row])[:20]
        assert found.ids == tuple(POINTS.ids[row] for row in best)
        np.testing.assert_allclose(found.scores, scores[best], atol=1e-5)
        assert found.scores.dtype == np.float32
        assert found.payloads == ()


def test_payloads_come_when_asked_for(filled: VectorStore) -> None:
    (found,) = filled.search(SPEC.name, [VectorQuery(POINTS.vectors[4], 3, with_payload=True)])
    assert found.ids[0] == POINTS.ids[4]
    assert dict(found.payloads[0]) == dict(POINTS.payloads[4])
    assert len(found.payloads) == 3


def test_questions_of_several_kinds_in_one_call_are_answered_in_their_order(filled: VectorStore) -> None:
    queries = [
        VectorQuery(POINTS.vectors[row], 1 + row % 3, exact=row % 2 == 0, with_payload=row % 5 == 0) for row in range(150)
    ]
    found = filled.search(SPEC.name, queries)
    assert [answer.ids[0] for answer in found] == list(POINTS.ids[:150])
    assert [len(answer) for answer in found] == [query.limit for query in queries]


def test_a_limit_beyond_the_collection_gives_all_points(filled: VectorStore) -> None:
    (found,) = filled.search(SPEC.name, [exact(POINTS.vectors[0], 1000)])
    assert set(found.ids) == set(POINTS.ids)


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_equally_good_points_come_by_ascending_id(store: VectorStore, limit: int) -> None:
    store.create(SPEC)
    same = PointBatch(POINTS.ids[:60], np.repeat(POINTS.vectors[:1], 60, axis=0), [{}] * 60)
    store.upsert(SPEC.name, same)
    (found,) = store.search(SPEC.name, [exact(POINTS.vectors[0], limit)])
    assert list(found.ids) == sorted(same.ids)[:limit]


# -- filters: each with the rows it should match


FILTERS = [
    (Filter(), lambda row, p: True),
    (Filter(must=(MatchAny("corpus", ("corpus0",)),)), lambda row, p: p["corpus"] == "corpus0"),
    (Filter(must=(MatchAny("corpus", ("corpus0", "corpus2", "none")),)), lambda row, p: p["corpus"] != "corpus1"),
    (Filter(must=(MatchAny("corpus", ()),)), lambda row, p: False),
    (Filter(must_not=(MatchAny("corpus", ()),)), lambda row, p: True),
    (Filter(must=(MatchAny("folders", ("year3",)),)), lambda row, p: row % 5 == 3),
    (Filter(must=(MatchAny("folders", ("year3/month1",)),)), lambda row, p: row % 5 == 3 and row % 4 == 1),
    (Filter(must=(MatchAny("folders", ("",)),)), lambda row, p: True),
    (Filter(must=(MatchAny("folders", ("year",)),)), lambda row, p: False),
    (Filter(must=(MatchAny("taken_at", (FIRST + 3, FIRST + 7, FIRST + 8)),)), lambda row, p: row in (3, 8)),
    (Filter(must=(MatchAny("taken_at", (FIRST + 3, "text")),)), lambda row, p: row == 3),
    (Filter(must=(Between("taken_at", FIRST + 10, FIRST + 20),)), lambda row, p: 10 <= row < 20 and row % 7),
    (Filter(must=(Between("taken_at", gte=FIRST + 290),)), lambda row, p: row >= 290 and row % 7),
    (Filter(must=(Between("taken_at", lt=FIRST + 10),)), lambda row, p: row < 10 and row % 7),
    (Filter(must=(Between("taken_at"),)), lambda row, p: row % 7),
    (Filter(must_not=(Between("taken_at"),)), lambda row, p: not row % 7),
    (
        Filter(must=(Between("taken_utc", FIRST + 100, FIRST + 120, otherwise="taken_at"),)),
        lambda row, p: 200 <= row < 220 if row % 3 == 0 else 100 <= row < 120 and row % 7,
    ),
    (
        Filter(must_not=(Between("taken_utc", lt=FIRST + 290, otherwise="taken_at"),)),
        lambda row, p: row >= 390 if row % 3 == 0 else row >= 290 or not row % 7,
    ),
    (Filter(must=(HasId((POINTS.ids[5], POINTS.ids[6], str(uuid.UUID(int=1)))),)), lambda row, p: row in (5, 6)),
    (Filter(must=(HasId(()),)), lambda row, p: False),
    (Filter(must_not=(HasId(tuple(POINTS.ids[:290])),)), lambda row, p: row >= 290),
    (
        Filter(
            must=(MatchAny("folders", ("year1", "year2/month0")), Between("taken_at", gte=FIRST + 50)),
            must_not=(MatchAny("root", ("root1",)), HasId((POINTS.ids[96],))),
        ),
        lambda row, p: (
            (row % 5 == 1 or (row % 5 == 2 and row % 4 == 0)) and row >= 50 and row % 7 and row % 2 == 0 and row != 96
        ),
    ),
    (Filter(must=(AnyOf(()),)), lambda row, p: False),
    (Filter(must_not=(AnyOf(()),)), lambda row, p: True),
    (Filter(must=(AnyOf((Filter(),)),)), lambda row, p: True),
    (Filter(must_not=(AnyOf((Filter(must=(HasId(()),)), Filter())),)), lambda row, p: False),
    (
        Filter(
            must=(
                AnyOf(
                    (
                        Filter(must=(MatchAny("corpus", ("corpus0",)),), must_not=(Between("taken_at", lt=FIRST + 200),)),
                        Filter(must=(HasId((POINTS.ids[1], POINTS.ids[2])),)),
                    )
                ),
            ),
            must_not=(HasId((POINTS.ids[2],)),),
        ),
        lambda row, p: (p["corpus"] == "corpus0" and (row >= 200 or not row % 7)) or row == 1,
    ),
    (
        Filter(must_not=(AnyOf((Filter(must=(MatchAny("corpus", ("corpus0",)),), must_not=(HasId((POINTS.ids[0],)),)),)),)),
        lambda row, p: p["corpus"] != "corpus0" or row == 0,
    ),
    (Filter(must=(MatchAny("unknown_field", ("a",)),)), lambda row, p: False),
]


@pytest.mark.parametrize(("filter_", "matches"), FILTERS, ids=range(len(FILTERS)))
def test_filters_hold_in_counting_scrolling_and_searching(filled: VectorStore, filter_: Filter, matches) -> None:
    wanted = {POINTS.ids[row] for row, payload in enumerate(POINTS.payloads) if matches(row, payload)}
    assert ids_matching(filled, filter_) == wanted
    assert filled.count(SPEC.name, filter_) == len(wanted)
    for is_exact in (True, False):
        (found,) = filled.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 300, filter=filter_, exact=is_exact)])
        assert set(found.ids) == wanted


@pytest.mark.parametrize("filter_", [None, Filter(must=(MatchAny("root", ("root1",)),)), Filter(must=(HasId(()),))])
def test_values_of_a_field_are_counted_exactly_the_commonest_first(filled: VectorStore, filter_: Filter | None) -> None:
    filled.upsert(
        SPEC.name, PointBatch(POINTS.ids[:1], POINTS.vectors[:1], [{"root": "root1", "folders": ["moved", "b", "a"]}])
    )
    filled.delete(SPEC.name, POINTS.ids[1:3])
    among = ids_matching(filled, filter_)
    payloads = filled.retrieve(SPEC.name, sorted(among)).payloads
    wanted = Counter(folder for payload in payloads for folder in payload["folders"])
    found = filled.facet(SPEC.name, "folders", filter_, most=1_000)
    assert found == sorted(wanted.items(), key=lambda pair: (-pair[1], pair[0]))
    assert filled.facet(SPEC.name, "folders", filter_, most=1) == found[:1]
    assert filled.facet(SPEC.name, "no_field", filter_) == []


def test_replaced_points_match_by_their_new_payload_alone(filled: VectorStore) -> None:
    filled.upsert(SPEC.name, PointBatch(POINTS.ids[:1], POINTS.vectors[:1], [{"folders": ["moved"]}]))
    assert ids_matching(filled, Filter(must=(MatchAny("folders", ("moved",)),))) == {POINTS.ids[0]}
    assert POINTS.ids[0] not in ids_matching(filled, Filter(must=(MatchAny("folders", ("year0",)),)))


def test_fields_that_a_newer_version_filters_by_are_added_to_a_collection(store: VectorStore) -> None:
    store.create(replace(SPEC, fields=SPEC.fields[:2]))
    store.upsert(SPEC.name, POINTS)
    is_late = Filter(must=(Between("taken_at", gte=FIRST + 290),), must_not=(Between("taken_until"),))
    before = ids_matching(store, is_late)
    (unindexed,) = store.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 300, filter=is_late, exact=True)])
    store.create(SPEC)
    (found,) = store.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 300, filter=is_late, exact=True)])
    assert ids_matching(store, is_late) == before == set(found.ids) == set(unindexed.ids)
    assert before
    store.upsert(SPEC.name, PointBatch(POINTS.ids[:1], POINTS.vectors[:1], [{"taken_at": FIRST + 999}]))
    assert POINTS.ids[0] in ids_matching(store, is_late)


# -- aliases


def test_an_alias_moves_and_goes(filled: VectorStore) -> None:
    filled.create(replace(SPEC, name="pictures-2"))
    filled.set_alias("pictures", "pictures-1")
    filled.set_alias("other", "pictures-1")
    assert filled.aliases() == {"other": "pictures-1", "pictures": "pictures-1"}
    filled.set_alias("pictures", "pictures-2")
    filled.set_alias("pictures", "pictures-2")
    assert filled.aliases() == {"other": "pictures-1", "pictures": "pictures-2"}
    filled.drop_alias("other")
    filled.drop_alias("other")
    assert filled.aliases() == {"pictures": "pictures-2"}


# -- graphs


def test_building_an_empty_or_tiny_collection_is_fine(store: VectorStore) -> None:
    store.create(SPEC)
    store.build(SPEC.name)
    store.upsert(SPEC.name, PointBatch(POINTS.ids[:3], POINTS.vectors[:3], POINTS.payloads[:3]))
    store.build(SPEC.name)
    (found,) = store.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 3)])
    assert set(found.ids) == set(POINTS.ids[:3])


@of_each_engine
@pytest.mark.parametrize("quantization", [Quantization.NONE, *(pytest.param(kind, marks=RARELY) for kind in COARSE)])
def test_after_a_build_the_graph_finds_nearly_what_a_full_comparison_finds(
    store: VectorStore, quantization: Quantization
) -> None:
    points = make_points(10_000, 64, seed=3)
    # One bit a number tells little of clustered vectors: many candidates are compared again.
    oversampling = 40.0 if quantization is Quantization.BINARY else None
    spec = CollectionSpec("large-1", 64, hnsw=HnswSpec(16, 128, 128), quantization=quantization, oversampling=oversampling)
    store.create(spec)
    store.upsert(spec.name, points)
    store.build(spec.name)
    info = store.info(spec.name)
    assert info.points == 10_000
    assert info.indexed >= 9_900
    vectors = points.vectors[::100] + 0.05 * clustered(100, 64, seed=4)
    filters = [
        None,
        Filter(must=(MatchAny("corpus", ("corpus0", "corpus1")),)),
        Filter(must=(MatchAny("folders", ("year2/month1",)),)),
    ]
    recalls, lost = [], []
    for filter_ in filters:
        truth = store.search(spec.name, [exact(v, 10, filter_) for v in vectors])
        found = store.search(spec.name, [VectorQuery(v, 10, filter=filter_) for v in vectors])
        shares = [len(set(a.ids) & set(b.ids)) / 10 for a, b in zip(truth, found, strict=True)]
        recalls.append(np.mean(shares))
        lost.append({query: share for query, share in enumerate(shares) if share < 1})
    # One build on a busy machine found .97 under a filter, and 14 in a row on a quiet one all. Why is not known: so what is
    # lost is told. No filter may lose a twentieth, and all queries together a fiftieth.
    assert min(recalls) >= 0.95, (recalls, lost)
    assert np.mean(recalls) >= 0.98, (recalls, lost)
    (again,) = store.search(spec.name, [exact(vectors[0], 10)])
    scores = points.vectors @ vectors[0]
    assert again.ids == tuple(points.ids[row] for row in np.argsort(-scores)[:10])


@pytest.mark.nightly_beyond(1)
def test_what_a_quantized_pass_finds_is_compared_by_the_original_vectors_unless_told_otherwise(store: VectorStore) -> None:
    points = make_points(5_000, 64, seed=3)
    spec = CollectionSpec("coarse-1", 64, quantization=Quantization.BINARY, oversampling=40)
    store.create(spec)
    store.upsert(spec.name, points)
    store.build(spec.name)
    vectors = points.vectors[::100] + 0.05 * clustered(50, 64, seed=4)
    truth = store.search(spec.name, [exact(v, 10) for v in vectors])
    recalls = []
    for rescore in (True, False):
        store.create(replace(spec, rescore=rescore))
        found = store.search(spec.name, [VectorQuery(v, 10) for v in vectors])
        recalls.append(np.mean([len(set(a.ids) & set(b.ids)) / 10 for a, b in zip(truth, found, strict=True)]))
    assert recalls[0] >= 0.95
    assert recalls[1] <= 0.7


def test_what_is_kept_on_disk_is_found_as_what_is_kept_in_memory(store: VectorStore) -> None:
    spec = replace(SPEC, on_disk=True, payload_on_disk=True, hnsw=HnswSpec(on_disk=True))
    store.create(spec)
    store.upsert(SPEC.name, POINTS)
    store.build(SPEC.name)
    for again in (spec, SPEC, replace(SPEC, payload_on_disk=False)):
        store.create(again)
        got = store.retrieve(SPEC.name, POINTS.ids[:3])
        assert [dict(p) for p in got.payloads] == [dict(p) for p in POINTS.payloads[:3]]
        assert store.search(SPEC.name, [VectorQuery(POINTS.vectors[5], 1)])[0].ids == (POINTS.ids[5],)


@of_each_engine
def test_points_written_and_removed_after_a_build_are_found_and_gone(store: VectorStore) -> None:
    points = make_points(3_000, DIM, seed=1)
    store.create(SPEC)
    store.upsert(SPEC.name, points)
    store.build(SPEC.name)
    late = make_points(50, DIM, seed=2, first=5_000)
    store.upsert(SPEC.name, late)
    store.delete(SPEC.name, points.ids[:10])
    assert store.count(SPEC.name) == 3_040
    found = store.search(SPEC.name, [VectorQuery(late.vectors[0], 1), VectorQuery(points.vectors[0], 10)])
    assert found[0].ids == (late.ids[0],)
    assert not set(found[1].ids) & set(points.ids[:10])
    store.build(SPEC.name)
    assert store.count(SPEC.name) == 3_040


@pytest.mark.parametrize("store", ["edge", pytest.param("server", marks=pytest.mark.server)], indirect=True)
def test_points_outside_the_graph_are_counted_after_inserts_deletes_and_replacements(store: VectorStore) -> None:
    # Below 1,000 points a server leaves segments as they are until the next build.
    name, points = SPEC.name, make_points(900, DIM, seed=1)
    store.create(SPEC)
    assert store.outside_graph(name) == 0
    store.upsert(name, points)
    assert store.outside_graph(name) == 900
    store.build(name)
    assert store.outside_graph(name) == 0
    store.delete(name, points.ids[:400])
    assert store.outside_graph(name) == 0
    store.upsert(name, make_points(400, DIM, seed=2, first=5_000))
    assert (store.count(name), store.outside_graph(name)) == (900, 400)
    store.upsert(name, PointBatch(points.ids[400:500], -points.vectors[400:500], points.payloads[400:500]))
    assert (store.count(name), store.outside_graph(name)) == (900, 500)
    store.delete(name, points.ids[400:450])
    assert 450 <= store.outside_graph(name) <= 500
    store.build(name)
    assert (store.count(name), store.outside_graph(name)) == (850, 0)


def test_what_was_replaced_since_a_build_is_counted_after_the_store_was_closed(tmp_path: Path) -> None:
    points = make_points(300, DIM, seed=1)
    with closing(open_store("edge", root=tmp_path, lock_timeout=0)) as store:
        store.create(SPEC)
        store.upsert(SPEC.name, points)
        store.build(SPEC.name)
        store.upsert(SPEC.name, PointBatch(points.ids[:120], -points.vectors[:120], points.payloads[:120]))
    with closing(open_store("edge", root=tmp_path, lock_timeout=0)) as store:
        assert store.outside_graph(SPEC.name) == 120
        assert store.info(SPEC.name).indexed == 180
    (count,) = tmp_path.rglob("upserts.bin")
    count.unlink()  # as in a store of an earlier version, which nobody counted in
    with closing(open_store("edge", root=tmp_path, lock_timeout=0)) as store:
        assert store.outside_graph(SPEC.name) == 300
        store.build(SPEC.name)
        assert store.outside_graph(SPEC.name) == 0


@pytest.mark.server
def test_a_server_that_does_not_tell_of_its_segments_is_thought_to_have_more_points_outside_the_graph(
    server_store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = make_points(900, DIM, seed=1)
    server_store.create(SPEC)
    server_store.upsert(SPEC.name, points)
    server_store.build(SPEC.name)
    server_store.delete(SPEC.name, points.ids[:400])
    server_store.upsert(SPEC.name, make_points(400, DIM, seed=2, first=5_000))
    monkeypatch.setattr(Nodes, "telemetry", lambda _: [])
    assert 400 <= server_store.outside_graph(SPEC.name) <= 900


# -- several threads


@of_each_engine
def test_writes_and_searches_during_a_build_lose_nothing_and_never_fail(store: VectorStore) -> None:
    base = make_points(4_000, 64, seed=5)
    spec = CollectionSpec("busy-1", 64)
    store.create(spec)
    store.upsert(spec.name, base)
    done = threading.Event()
    failures: list[BaseException] = []
    written: list[str] = []
    removed: list[str] = []
    moved: list[int] = []
    answered = 0

    def write() -> None:
        first = 100_000
        while not done.is_set() and len(removed) < 1_000:
            batch = make_points(20, 64, seed=first, first=first)
            store.upsert(spec.name, batch)
            written.extend(batch.ids)
            gone = base.ids[len(removed)]
            store.delete(spec.name, [gone])
            removed.append(gone)
            changed = 3_998 - len(moved)
            store.upsert(spec.name, PointBatch([base.ids[changed]], -base.vectors[[changed]], [{"corpus": "moved"}]))
            moved.append(changed)
            first += 20

    def search() -> None:
        nonlocal answered
        while not done.is_set():
            (found,) = store.search(spec.name, [VectorQuery(base.vectors[3_999], 5)])
            assert found.ids[0] == base.ids[3_999]
            answered += 1
            done.wait(0.002)

    def guarded(work) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, search, search)]
    for thread in threads:
        thread.start()
    try:
        store.build(spec.name)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert answered > 0
    assert written
    everything = {i for batch in store.scroll(spec.name) for i in batch.ids}
    assert everything == (set(base.ids) - set(removed)) | set(written)
    assert_moved(store, spec.name, base, moved)
    inside = store.count(spec.name) - store.outside_graph(spec.name)
    assert inside >= 3_500 - len(removed) - len(moved)  # what was replaced meanwhile is outside


def assert_moved(store: VectorStore, name: str, base: PointBatch, rows: list[int]) -> None:
    """The points of `rows` were overwritten by their opposites with one other payload: nothing of before is found."""
    ids = [base.ids[row] for row in rows]
    got = store.retrieve(name, ids)
    np.testing.assert_allclose(got.vectors, -base.vectors[rows], atol=1e-6)
    assert {tuple(payload.items()) for payload in got.payloads} == {(("corpus", "moved"),)}
    assert store.count(name, Filter(must=(MatchAny("corpus", ("moved",)),))) == len(ids)
    old = Filter(must=(MatchAny("corpus", ("corpus0", "corpus1", "corpus2")),))
    assert not {i for batch in store.scroll(name, old) for i in batch.ids} & set(ids)
    for point, found in zip(ids, store.search(name, [exact(base.vectors[row], 20) for row in rows]), strict=True):
        assert point not in found.ids


@pytest.mark.nightly
@pytest.mark.slow
@of_each_engine
def test_writes_hold_when_the_parameters_change_in_the_middle_of_a_build(store: VectorStore) -> None:
    base = make_points(8_000, 64, seed=6)
    spec = CollectionSpec("busy-2", 64, hnsw=HnswSpec(ef_construct=400))
    store.create(spec)
    store.upsert(spec.name, base)
    build = threading.Thread(target=store.build, args=(spec.name,))
    build.start()
    while build.is_alive() and not store.info(spec.name).building:
        time.sleep(0.01)
    time.sleep(0.3)  # a server says so before it begins
    store.delete(spec.name, base.ids[:200])
    gone = set(base.ids[:200])
    by_filter = Filter(must=(MatchAny("root", ("root1",)), Between("taken_at", FIRST + 1_000, FIRST + 1_200)))
    gone |= {i for batch in store.scroll(spec.name, by_filter) for i in batch.ids}
    store.delete_matching(spec.name, by_filter)
    moved = list(range(200, 400))
    store.upsert(spec.name, PointBatch([base.ids[r] for r in moved], -base.vectors[moved], [{"corpus": "moved"}] * 200))
    store.upsert(spec.name, PointBatch(base.ids[:50], base.vectors[:50], base.payloads[:50]))
    gone -= set(base.ids[:50])
    store.create(spec)
    store.create(replace(spec, hnsw=HnswSpec(m=8, ef_construct=400)))
    build.join()
    assert len(gone) > 200
    for rebuild in (True, False):
        assert {i for batch in store.scroll(spec.name) for i in batch.ids} == set(base.ids) - gone
        assert store.count(spec.name) == len(base) - len(gone)
        assert_moved(store, spec.name, base, moved)
        if rebuild:
            store.build(spec.name)


# -- the whole


def test_capabilities_name_the_engine(store: VectorStore) -> None:
    capabilities = store.capabilities()
    assert capabilities.engine.startswith("qdrant")
    assert capabilities.version[0].isdigit()
    assert "graph_build" in capabilities.features


def test_a_store_answers_until_it_is_closed(filled: VectorStore) -> None:
    filled.set_alias("pictures", SPEC.name)
    filled.ping()
    filled.close()
    filled.close()
    for call in (filled.collections, lambda: filled.count(SPEC.name), filled.ping):
        with pytest.raises(LodestoneError) as caught:
            call()
        assert "closed" in str(caught.value)


@pytest.mark.server
def test_both_stores_give_identical_exact_answers(edge_store: VectorStore, server_store: VectorStore) -> None:
    points = make_points(2_000, 64, seed=7)
    # A hundred copies of ten vectors: ties inside the best and across the limit.
    points.vectors[500:600] = np.repeat(points.vectors[490:500], 10, axis=0)
    queries = [
        exact(vector, limit, filter_)
        for vector in np.concatenate([points.vectors[480:510], clustered(30, 64, seed=8)])
        for limit in (1, 7, 50)
        for filter_ in (None, Filter(must=(MatchAny("folders", ("year1",)),), must_not=(Between("taken_at", lt=FIRST + 400),)))
    ]
    answers = []
    for each in (edge_store, server_store):
        each.create(replace(SPEC, dim=64))
        each.upsert(SPEC.name, points)
        answers.append([each.search(SPEC.name, queries)])
        each.build(SPEC.name)
        answers[-1].append(each.search(SPEC.name, queries))
    for edge, server in zip(*answers, strict=True):
        for left, right in zip(edge, server, strict=True):
            assert left.ids == right.ids
            np.testing.assert_allclose(left.scores, right.scores, atol=1e-5)
