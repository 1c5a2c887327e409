"""Exact scores over the union of candidates: one search a space gives what completing every list would."""

import uuid
from dataclasses import replace

import numpy as np
import pytest

from lodestone.retrieval.calibration import SAMPLE, ScoreCalibration
from lodestone.retrieval.fusion import RankedList, mean_distance
from lodestone.retrieval.rescoring import ListSearch, by_collection, complete
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch, VectorQuery
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CollectionSpec

POINTS = 400


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(5)
    return {"a-1": unit(rng.normal(size=(POINTS, 16))), "b-1": unit(rng.normal(size=(POINTS, 8)) * [3, 1, 1, 1, 1, 1, 1, 1])}


@pytest.fixture(scope="module")
def ids():
    return [str(uuid.UUID(int=number * 7919)) for number in range(1, POINTS + 1)]


@pytest.fixture(scope="module")
def store(tmp_path_factory, vectors, ids):
    home = tmp_path_factory.mktemp("store")
    opened = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
    for name, rows in vectors.items():
        opened.create(CollectionSpec(name, rows.shape[1]))
        opened.upsert(name, PointBatch(ids, rows, [{}] * POINTS))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def searches(vectors):
    rng = np.random.default_rng(6)
    return [
        ListSearch(guide, name[0], name, weight, unit(rng.normal(size=(1, vectors[name].shape[1])))[0])
        for guide, weight in (("text", 1.0), ("g/0", 0.2), ("g/1", 0.05))
        for name in vectors
    ]


def found(store, searches, scales, depth=10):
    lists = []
    for one, scale in zip(searches, scales, strict=True):
        (answer,) = store.search(one.collection, [VectorQuery(one.vector, limit=depth)])
        lists.append(RankedList(one.guide, one.space, one.weight, answer.ids, answer.scores, scale))
    return lists


def test_one_list_a_space_ranks_as_all_lists_completed_would(store, searches, vectors, ids):
    scales = [0.1, 0.3, 0.2, 0.5, 0.15, 0.25]
    lists = found(store, searches, scales)
    union = sorted(set().union(*(one.ids for one in lists)))
    rows = [ids.index(image_id) for image_id in union]
    every = []
    for one, search in zip(lists, searches, strict=True):
        scores = vectors[search.collection][rows] @ search.vector
        order = np.argsort(-scores)
        every.append(replace(one, ids=tuple(union[row] for row in order), scores=scores[order]))
    completed = complete(store, searches, lists)
    assert len(completed) == 2
    assert all(set(one.ids) == set(union) for one in completed)
    ours, truth = mean_distance(completed), mean_distance(every)
    assert ours.ids == truth.ids
    np.testing.assert_allclose(ours.scores, truth.scores, rtol=1e-5)


def test_lists_that_never_came_are_left_out(store, searches):
    lists = found(store, searches[:1], [0.1])
    completed = complete(store, searches, lists)
    assert [one.space for one in completed] == [searches[0].space]
    assert complete(store, searches, []) == []


def test_the_heaviest_collection_is_searched_first(searches):
    light = [replace(one, weight=0.1) for one in searches if one.collection == "a-1"]
    heavy = [one for one in searches if one.collection == "b-1"]
    assert list(by_collection([*light, *heavy])) == ["b-1", "a-1"]


def test_a_scale_is_the_spread_of_scores_over_the_collection(store, vectors, searches):
    calibration = ScoreCalibration(store)
    for name, rows in vectors.items():
        queries = np.stack([one.vector for one in searches if one.collection == name])
        scales = calibration.scales(name, queries)
        np.testing.assert_allclose(scales, (rows @ queries.T).std(0), rtol=0.15)
        assert calibration.scales(name, queries).tolist() == scales.tolist()
    assert SAMPLE < POINTS


def test_a_collection_of_a_few_points_is_not_scaled(tmp_path):
    with_few = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    with_few.create(CollectionSpec("few-1", 4))
    query = unit(np.ones((1, 4)))
    assert ScoreCalibration(with_few).scales("few-1", query).tolist() == [1.0]
    with_few.upsert("few-1", PointBatch([str(uuid.UUID(int=1))], query, [{}]))
    assert ScoreCalibration(with_few).scales("few-1", query).tolist() == [1.0]
    with_few.close()
