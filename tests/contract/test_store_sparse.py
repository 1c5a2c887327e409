"""Sparse collections do what the contract in `lodestone.store.base` says, alike in every store."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import make_points, make_sparse_points, point_id, sparse_products

from lodestone.errors import InvalidRequestError, StoreError, UnknownNameError
from lodestone.store.base import (
    Between,
    Filter,
    HasId,
    MatchAny,
    PointBatch,
    SparseBatch,
    SparseQuery,
    SparseVector,
    VectorQuery,
    VectorStore,
)
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec

SPEC = CollectionSpec("tags-1", sparse=True)
DENSE = CollectionSpec("pictures-1", 16)
POINTS = make_sparse_points(500, seed=1)
LARGEST = 2**32 - 1
FILTERS = [
    None,
    Filter(must=(MatchAny("corpus", ("corpus1",)),)),
    Filter(must=(MatchAny("folders", ("year3/month1", "year2")),), must_not=(Between("taken_at", lt=1_000_000_100),)),
    Filter(must=(HasId(tuple(POINTS.ids[:7])),)),
    Filter(must=(MatchAny("corpus", ("none",)),)),
]


def sparse(weights: dict[int, float]) -> SparseVector:
    return SparseVector(np.array(list(weights), np.uint32), np.array(list(weights.values()), np.float32))


def one(number: int, weights: dict[int, float], payload: dict | None = None) -> SparseBatch:
    return SparseBatch([point_id(number)], [sparse(weights)], [payload or {}])


@pytest.fixture
def filled(store: VectorStore) -> VectorStore:
    store.create(SPEC)
    store.upsert_sparse(SPEC.name, POINTS)
    return store


def all_ids(store: VectorStore, filter_: Filter | None = None) -> set[str]:
    return {i for batch in store.scroll(SPEC.name, filter_) for i in batch.ids}


# -- searching


@pytest.mark.parametrize("filter_", FILTERS, ids=range(len(FILTERS)))
def test_neighbours_are_those_that_share_a_term_by_inner_product(filled: VectorStore, filter_: Filter | None) -> None:
    allowed = all_ids(filled, filter_)
    questions = make_sparse_points(40, seed=2).vectors
    answers = filled.search_sparse(SPEC.name, [SparseQuery(vector, 300, filter=filter_) for vector in questions])
    found_any = 0
    for vector, found in zip(questions, answers, strict=True):
        products = sparse_products(POINTS, vector)
        rows = [row for row in np.argsort(-products, kind="stable") if products[row] > 0 and POINTS.ids[row] in allowed]
        assert found.ids == tuple(POINTS.ids[row] for row in rows)
        np.testing.assert_allclose(found.scores, products[rows], rtol=1e-5)
        assert found.scores.dtype == np.float32
        found_any += len(found)
    assert found_any or filter_ in FILTERS[3:]


def test_a_question_without_a_term_in_common_finds_nothing(filled: VectorStore) -> None:
    (found,) = filled.search_sparse(SPEC.name, [SparseQuery(sparse({1: 1.0, 5: 2.0}), 500)])
    assert len(found) == 0
    # A filter this narrow is answered from the points themselves rather than from the lists of terms.
    few = Filter(must=(HasId(tuple(POINTS.ids[:3])),))
    (found,) = filled.search_sparse(SPEC.name, [SparseQuery(sparse({1: 1.0, 5: 2.0}), 500, filter=few)])
    assert len(found) == 0


def test_the_first_and_the_last_index_are_indices_like_others(store: VectorStore) -> None:
    store.create(SPEC)
    store.upsert_sparse(SPEC.name, one(0, {0: 1.0, LARGEST: 0.5}))
    (found,) = store.search_sparse(SPEC.name, [SparseQuery(sparse({LARGEST: 4.0}))])
    assert (found.ids, found.scores.tolist()) == ((point_id(0),), [2.0])


@pytest.mark.parametrize("limit", [1, 3, 40, 100])
def test_equally_good_points_come_by_ascending_id(store: VectorStore, limit: int) -> None:
    store.create(SPEC)
    ids = [point_id(number) for number in range(60)]
    store.upsert_sparse(SPEC.name, SparseBatch(ids, [sparse({3: 0.5, 9: 0.25})] * 60, [{}] * 60))
    store.upsert_sparse(SPEC.name, one(100, {3: 0.75}))
    (found,) = store.search_sparse(SPEC.name, [SparseQuery(sparse({3: 1.0, 7: 1.0}), limit)])
    assert list(found.ids) == [point_id(100), *sorted(ids)][:limit]


@pytest.mark.parametrize("limit", [1, 3, 40, 100])
def test_where_ties_may_come_by_chance_better_points_are_still_first(store: VectorStore, limit: int) -> None:
    store.create(SPEC)
    ids = [point_id(number) for number in range(60)]
    store.upsert_sparse(SPEC.name, SparseBatch(ids, [sparse({3: 0.5})] * 60, [{}] * 60))
    store.upsert_sparse(SPEC.name, one(100, {3: 0.75}))
    (found,) = store.search_sparse(SPEC.name, [SparseQuery(sparse({3: 1.0}), limit, ties_by_id=False)])
    assert found.ids[0] == point_id(100)
    assert len(found) == min(limit, 61)
    assert set(found.ids[1:]) <= set(ids) and list(found.ids[1:]) == sorted(found.ids[1:])


def test_many_questions_are_answered_in_their_order_with_payloads_where_asked(filled: VectorStore) -> None:
    queries = [SparseQuery(vector, 1 + row % 3, with_payload=row % 2 == 0) for row, vector in enumerate(POINTS.vectors[:150])]
    answers = filled.search_sparse(SPEC.name, queries)
    for row, (query, found) in enumerate(zip(queries, answers, strict=True)):
        products = sparse_products(POINTS, query.vector)
        assert found.scores[0] == pytest.approx(products.max(), rel=1e-5)
        assert len(found) <= query.limit
        best = POINTS.ids.index(found.ids[0])
        assert [dict(p) for p in found.payloads[:1]] == ([dict(POINTS.payloads[best])] if row % 2 == 0 else [])
    assert filled.search_sparse(SPEC.name, []) == []


@pytest.mark.server
def test_both_stores_give_identical_answers(edge_store: VectorStore, server_store: VectorStore) -> None:
    points = make_sparse_points(3_000, seed=3, terms=150)
    points.vectors[500:600] = [points.vectors[490 + row // 10] for row in range(100)]  # ties inside the best and across limits
    queries = [
        SparseQuery(vector, limit, filter=filter_)
        for vector in [*points.vectors[480:510], *make_sparse_points(30, seed=4, terms=150).vectors]
        for limit in (1, 7, 50)
        for filter_ in FILTERS[:3]
    ]
    answers = []
    for each in (edge_store, server_store):
        each.create(SPEC)
        each.upsert_sparse(SPEC.name, points)
        each.delete(SPEC.name, points.ids[::9])
        answers.append(each.search_sparse(SPEC.name, queries))
    for left, right in zip(*answers, strict=True):
        assert left.ids == right.ids
        np.testing.assert_array_equal(left.scores, right.scores)


# -- the life of a collection


def test_a_sparse_collection_is_one_among_others(store: VectorStore) -> None:
    store.create(SPEC)
    store.create(DENSE)
    store.create(SPEC)
    store.set_alias("tags", SPEC.name)
    assert store.collections() == ["pictures-1", "tags-1"]
    store.upsert_sparse(SPEC.name, POINTS)
    store.upsert(DENSE.name, make_points(5, 16))
    info = store.info(SPEC.name)
    assert (info.name, info.dim, info.points, info.indexed, info.building) == ("tags-1", 0, 500, 500, False)
    assert store.outside_graph(SPEC.name) == 0
    assert store.info(DENSE.name).points == 5
    store.create(SPEC)
    assert store.count(SPEC.name) == 500
    assert "sparse" in store.capabilities().features
    store.drop(SPEC.name)
    assert (store.collections(), store.aliases()) == (["pictures-1"], {})


def test_points_come_back_without_vectors(filled: VectorStore) -> None:
    got = filled.retrieve(SPEC.name, [POINTS.ids[7], str(uuid.uuid4()), POINTS.ids[2]])
    assert list(got.ids) == [POINTS.ids[7], POINTS.ids[2]]
    assert (got.vectors.shape, got.vectors.dtype) == ((2, 0), np.float32)
    assert [dict(p) for p in got.payloads] == [dict(POINTS.payloads[7]), dict(POINTS.payloads[2])]
    batches = list(filled.scroll(SPEC.name, batch_size=64))
    assert [i for batch in batches for i in batch.ids] == sorted(POINTS.ids)
    assert {batch.vectors.shape for batch in batches} == {(64, 0), (52, 0)}


def test_upserting_replaces_terms_and_whole_payload(filled: VectorStore) -> None:
    for _ in range(2):
        filled.upsert_sparse(SPEC.name, SparseBatch(POINTS.ids[:1], [sparse({17: 2.0})], [{"corpus": "other"}]))
    assert filled.count(SPEC.name) == 500
    new, old = filled.search_sparse(
        SPEC.name, [SparseQuery(sparse({17: 1.0}), with_payload=True), SparseQuery(POINTS.vectors[0], 500)]
    )
    assert (new.ids, new.scores.tolist(), [dict(p) for p in new.payloads]) == ((POINTS.ids[0],), [2.0], [{"corpus": "other"}])
    assert POINTS.ids[0] not in old.ids
    assert filled.count(SPEC.name, Filter(must=(MatchAny("corpus", ("other",)),))) == 1


def test_the_last_of_two_points_with_one_id_stays(store: VectorStore) -> None:
    store.create(SPEC)
    store.upsert_sparse(SPEC.name, SparseBatch([POINTS.ids[0]] * 2, [sparse({1: 1.0}), sparse({2: 1.0})], [{}, {}]))
    first, last = store.search_sparse(SPEC.name, [SparseQuery(sparse({1: 1.0})), SparseQuery(sparse({2: 1.0}))])
    assert (len(first), last.ids) == (0, (POINTS.ids[0],))


def test_deleting_removes_the_named_and_the_matching_alone(filled: VectorStore) -> None:
    filled.delete(SPEC.name, [*POINTS.ids[:20], str(uuid.uuid4())])
    filter_ = Filter(must=(MatchAny("corpus", ("corpus2",)),), must_not=(MatchAny("root", ("root0",)),))
    gone = all_ids(filled, filter_) | set(POINTS.ids[:20])
    filled.delete_matching(SPEC.name, filter_)
    assert len(gone) > 80
    assert all_ids(filled) == set(POINTS.ids) - gone
    assert filled.count(SPEC.name) == 500 - len(gone)
    answers = filled.search_sparse(SPEC.name, [SparseQuery(vector, 500) for vector in POINTS.vectors[:20]])
    assert not {i for found in answers for i in found.ids} & gone


def test_building_changes_nothing(filled: VectorStore) -> None:
    queries = [SparseQuery(vector, 20) for vector in POINTS.vectors[:20]]
    before = filled.search_sparse(SPEC.name, queries)
    filled.build(SPEC.name)
    assert [found.ids for found in filled.search_sparse(SPEC.name, queries)] == [found.ids for found in before]
    assert filled.count(SPEC.name) == 500


def test_threads_write_and_search_without_losing_anything(filled: VectorStore) -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for step in range(10):
                first = 10_000 * (number + 1) + 20 * step
                batch = make_sparse_points(20, seed=first, first=first)
                filled.upsert_sparse(SPEC.name, batch)
                filled.delete(SPEC.name, batch.ids[:5])
                (found,) = filled.search_sparse(SPEC.name, [SparseQuery(batch.vectors[19], 1_000)])
                assert batch.ids[19] in found.ids
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert filled.count(SPEC.name) == 500 + 3 * 10 * 15


def test_a_sparse_collection_survives_closing_and_opening(tmp_path: Path) -> None:
    store = open_store("edge", root=tmp_path, lock_timeout=0)
    store.create(SPEC)
    store.upsert_sparse(SPEC.name, POINTS)
    store.set_alias("tags", SPEC.name)
    queries = [SparseQuery(vector, 20, with_payload=True) for vector in POINTS.vectors[:20]]
    before = store.search_sparse(SPEC.name, queries)
    store.close()
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    again.create(SPEC)
    again.ping()
    for left, right in zip(before, again.search_sparse(SPEC.name, queries), strict=True):
        assert (left.ids, left.payloads) == (right.ids, right.payloads)
    again.upsert_sparse(SPEC.name, one(9_999, {17: 1.0}))
    assert again.count(SPEC.name) == 501
    again.close()


# -- what is refused


@pytest.mark.parametrize(
    ("indices", "values"),
    [
        ([2, 1], [1.0, 1.0]),
        ([1, 1], [1.0, 1.0]),
        ([], []),
        ([1, 2], [1.0]),
        ([1, 2], [1.0, np.nan]),
        ([1, 2], [1.0, np.inf]),
        ([1, 2], [1.0, 0.0]),
        ([1, 2], [1.0, -1.0]),
        ([-1, 2], [1.0, 1.0]),
        ([1, 2**32], [1.0, 1.0]),
        ([1.5, 2.5], [1.0, 1.0]),
        ([[1, 2]], [[1.0, 1.0]]),
    ],
    ids=["order", "twice", "empty", "lengths", "nan", "inf", "zero", "negative", "below", "above", "float", "shape"],
)
def test_wrong_vectors_are_refused_before_any_is_written(store: VectorStore, indices: list, values: list) -> None:
    store.create(SPEC)
    wrong = SparseVector(np.array(indices, None if indices else np.uint32), np.array(values, np.float32))
    good = sparse({1: 1.0})
    with pytest.raises(InvalidRequestError, match=point_id(1)):
        store.upsert_sparse(SPEC.name, SparseBatch([point_id(0), point_id(1)], [good, wrong], [{}, {}]))
    assert store.count(SPEC.name) == 0
    with pytest.raises(InvalidRequestError):
        store.search_sparse(SPEC.name, [SparseQuery(good), SparseQuery(wrong)])


def test_wrong_ids_lengths_and_limits_are_refused(store: VectorStore) -> None:
    store.create(SPEC)
    good = sparse({1: 1.0})
    for batch in (
        SparseBatch(["no-uuid"], [good], [{}]),
        SparseBatch([point_id(0)], [good], []),
        SparseBatch([], [good], [{}]),
    ):
        with pytest.raises(InvalidRequestError):
            store.upsert_sparse(SPEC.name, batch)
    for limit in (0, 1_000_000):
        with pytest.raises(InvalidRequestError, match="limit"):
            store.search_sparse(SPEC.name, [SparseQuery(good, limit)])
    store.upsert_sparse(SPEC.name, SparseBatch([], [], []))
    assert store.count(SPEC.name) == 0


def test_dense_and_sparse_are_not_taken_for_each_other(store: VectorStore) -> None:
    store.create(SPEC)
    store.create(DENSE)
    dense, terms = make_points(3, 16), make_sparse_points(3)
    with pytest.raises(InvalidRequestError, match="'tags-1' holds sparse vectors") as caught:
        store.upsert(SPEC.name, dense)
    assert "upsert_sparse" in caught.value.hint
    with pytest.raises(InvalidRequestError, match="'tags-1' holds sparse vectors"):
        store.upsert(SPEC.name, PointBatch(dense.ids, np.zeros((3, 0), np.float32), dense.payloads))
    with pytest.raises(InvalidRequestError, match="'tags-1' holds sparse vectors"):
        store.search(SPEC.name, [VectorQuery(dense.vectors[0])])
    with pytest.raises(InvalidRequestError, match="'pictures-1' holds dense vectors"):
        store.upsert_sparse(DENSE.name, terms)
    with pytest.raises(InvalidRequestError, match="'pictures-1' holds dense vectors"):
        store.search_sparse(DENSE.name, [SparseQuery(terms.vectors[0])])
    with pytest.raises(StoreError, match="'tags-1' holds sparse vectors, not dense ones of length 4"):
        store.create(CollectionSpec(SPEC.name, 4))
    with pytest.raises(StoreError, match="'pictures-1' holds vectors of length 16, not sparse ones"):
        store.create(replace(SPEC, name=DENSE.name))
    for spec in (CollectionSpec("none"), CollectionSpec("both", 4, sparse=True), CollectionSpec("less", -1)):
        with pytest.raises(InvalidRequestError, match="cannot be"):
            store.create(spec)
    for call in (
        lambda: store.upsert_sparse("nope", terms),
        lambda: store.search_sparse("nope", [SparseQuery(terms.vectors[0])]),
    ):
        with pytest.raises(UnknownNameError, match="nope"):
            call()
    assert store.count(SPEC.name) == store.count(DENSE.name) == 0
