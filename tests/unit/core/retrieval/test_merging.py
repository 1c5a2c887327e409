"""Merged guides: how many searches they make, that scores stay exact, and how much of what all guides find is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import make_points

from lodestone.capacity.formulas import searches_a_query
from lodestone.capacity.workload import Workload
from lodestone.clock import Stopwatch
from lodestone.config.settings import QuerySettings
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.retrieval.merging import LargeCollections
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Ranking, RankingRules, Searcher
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.edge.store import EdgeStore
from lodestone.store.limits import MERGE_ABOVE
from lodestone_schemas.collections import CollectionSpec

NAME, DIM, GUIDES = "bridge-1", 24, 9
POINTS = make_points(2_000, DIM)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EdgeStore]:
    opened = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    opened.create(CollectionSpec(NAME, DIM))
    opened.upsert(NAME, POINTS)
    yield opened
    opened.close()


def searches(seed: int = 0) -> list[ListSearch]:
    """The words and nine guides around one picture."""
    rng = np.random.default_rng(seed)
    vectors = POINTS.vectors[seed] + 0.15 * rng.standard_normal((GUIDES + 1, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = (TEXT_GUIDE, *(f"prior/{number}" for number in range(GUIDES)))
    weights = rng.uniform(0.5, 1, GUIDES + 1)
    return [ListSearch(name, "bridge", NAME, float(w), v) for name, w, v in zip(names, weights, vectors, strict=True)]


class Counted:
    """Counts the vectors that a store is searched for."""

    def __init__(self, store: EdgeStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graph = self.exact = 0
        search = store.search

        def counted(name, queries):
            exact = sum(query.exact for query in queries)
            self.exact += exact
            self.graph += len(queries) - exact
            return search(name, queries)

        monkeypatch.setattr(store, "search", counted)


async def ranked(store: EdgeStore, fusion: str, *, merge_above: int, seed: int = 0) -> Ranking:
    searcher = Searcher(store, ScoreCalibration(store), merge_above=merge_above)
    rules = RankingRules(fusion, (50,), None, time.monotonic() + 60)
    ranking = await searcher.rank(searches(seed), rules, Stopwatch())
    assert ranking is not None
    return ranking


async def test_ten_lists_take_two_searches_and_their_scores_are_exact(
    store: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(store, monkeypatch)
    ranking = await ranked(store, "rrf", merge_above=1_000)
    assert (counted.graph, counted.exact) == (2, 0)
    row = {image_id: number for number, image_id in enumerate(POINTS.ids)}
    assert [one.guide for one in ranking.lists] == [one.guide for one in searches()]
    assert [one.merged for one in ranking.lists] == [one.guide != TEXT_GUIDE for one in searches()]
    for found, one in zip(ranking.lists, searches(), strict=True):
        assert len(found.ids) == 50
        expected = POINTS.vectors[[row[image_id] for image_id in found.ids]] @ one.vector
        np.testing.assert_allclose(found.scores, expected, atol=1e-6)
        assert list(found.scores) == sorted(found.scores, reverse=True)


@pytest.mark.parametrize("fusion", ["mean_distance", "rrf"])
async def test_merged_guides_find_what_guides_of_their_own_find(store: EdgeStore, fusion: str) -> None:
    recalls = []
    for seed in range(10):
        merged = await ranked(store, fusion, merge_above=1_000, seed=seed)
        apart = await ranked(store, fusion, merge_above=10_000, seed=seed)
        assert merged.fused.ids[:3] == apart.fused.ids[:3]
        assert not any(one.merged for one in apart.lists)
        recalls.append(len(set(merged.fused.ids[:20]) & set(apart.fused.ids[:20])) / 20)
    assert float(np.mean(recalls)) > 0.9


def test_a_collection_is_counted_once_in_minutes(store: EdgeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now = [], [0.0]
    info = store.info
    monkeypatch.setattr(store, "info", lambda name: asked.append(name) or info(name))
    large = LargeCollections(store, len(POINTS) - 1, clock=lambda: now[0])
    assert NAME in large
    assert NAME in large
    assert asked == [NAME]
    now[0] = 301.0
    store.delete(NAME, POINTS.ids[:1])
    assert NAME not in large
    assert asked == [NAME, NAME]


def test_the_planner_counts_what_the_engine_does() -> None:
    assert QuerySettings().merge_above == MERGE_ABOVE
    work = Workload(images=MERGE_ABOVE, models={"m": 1.0}, spaces={"a": 8, "b": 8}, guides=GUIDES)
    assert searches_a_query(work) == 2 * (1 + GUIDES)
    assert searches_a_query(replace(work, images=MERGE_ABOVE + 1)) == 2 * 2
