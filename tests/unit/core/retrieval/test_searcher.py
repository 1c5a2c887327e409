"""A search takes few threads, and when its deadline passes in between, what is late is left out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import make_points

from lodestone.clock import Stopwatch
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import RankingRules, Searcher
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Neighbours, VectorQuery
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CollectionSpec

SPACES = {"bridge": "bridge-1", "labels": "labels-1"}
POINTS = make_points(200, 16)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EdgeStore]:
    aliases = JsonAliasTable(tmp_path / "aliases.json")
    opened = EdgeStore(tmp_path / "store", aliases=aliases, matrix=MatrixPolicy(after=0))
    for name in SPACES.values():
        opened.create(CollectionSpec(name, 16))
        opened.upsert(name, POINTS)
    yield opened
    opened.close()


def searches() -> list[ListSearch]:
    return [ListSearch(TEXT_GUIDE, space, name, 0.5, POINTS.vectors[0]) for space, name in SPACES.items()]


def rules(*, seconds: float) -> RankingRules:
    return RankingRules("mean_distance", (20,), None, time.monotonic() + seconds)


async def test_all_spaces_are_searched_in_one_thread_and_rescored_in_none(
    store: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher, hops = Searcher(store, ScoreCalibration(store)), []
    to_thread = asyncio.to_thread

    def counted(work: Callable[[], None], *arguments: object, **named: object) -> object:
        hops.append(work)
        return to_thread(work, *arguments, **named)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    ranking = await searcher.rank(searches(), rules(seconds=60), Stopwatch())
    assert ranking is not None
    assert ranking.fused.ids[0] == POINTS.ids[0]
    assert {one.space for one in ranking.completed} == set(SPACES)
    assert len(hops) == 1


async def test_the_space_that_is_late_is_left_out_and_the_other_one_answers(
    store: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher, released, search = Searcher(store, ScoreCalibration(store)), threading.Event(), store.search

    def stuck(name: str, queries: list[object]) -> list[Neighbours]:
        if name == SPACES["labels"]:
            released.wait(180)
        return search(name, queries)  # type: ignore[arg-type]

    search(SPACES["labels"], [])
    monkeypatch.setattr(store, "search", stuck)
    try:
        found = await searcher.search(searches(), rules(seconds=2), Stopwatch())
    finally:
        released.set()
    assert [one.space for one in found.lists] == ["bridge"]
    assert found.late == ("labels",)


def test_a_sample_that_was_read_is_known_without_reading(store: EdgeStore) -> None:
    searcher = Searcher(store, ScoreCalibration(store))
    assert searcher.known_background(SPACES["bridge"]) is None
    sample = searcher.background(SPACES["bridge"])
    known = searcher.known_background(SPACES["bridge"])
    assert known is not None
    np.testing.assert_array_equal(known, sample)


def test_inner_products_need_no_payload(store: EdgeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SPACES.values():
        store.search(name, [VectorQuery(POINTS.vectors[0])])  # makes the matrix
    searcher = Searcher(store, ScoreCalibration(store))
    before = searcher.inner_products(searches(), POINTS.ids[:5])
    for module in ("records", "store"):
        monkeypatch.setattr(f"lodestone.store.edge.{module}.read_records", None)
    after = searcher.inner_products(searches(), POINTS.ids[:5])
    for key, scores in before.items():
        np.testing.assert_allclose(scores, POINTS.vectors[:5] @ POINTS.vectors[0], atol=1e-6)
        np.testing.assert_array_equal(after[key], scores)


def test_a_collection_that_is_gone_leaves_the_others_their_inner_products(store: EdgeStore) -> None:
    store.drop(SPACES["bridge"])
    found = Searcher(store, ScoreCalibration(store)).inner_products(searches(), POINTS.ids[:5])
    assert list(found) == [(TEXT_GUIDE, "labels")]
    np.testing.assert_allclose(found[TEXT_GUIDE, "labels"], POINTS.vectors[:5] @ POINTS.vectors[0], atol=1e-6)
