"""First pass: weights of spaces from the words, from what was found, and from trust, and the time that it leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from lodestone.clock import Stopwatch
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.retrieving.first_pass import FirstPassStage
from lodestone.query.retrieving.learned_stages import LearnedModels, LearnedStages
from lodestone.query.retrieving.leaves import EncodedLeaf, EncodedQuery
from lodestone.query.weighting.choice import apply_trust, prior_trust
from lodestone.query_notes import QueryNotes
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.retrieval.searcher import Searcher
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.api import SearchRequest
from lodestone_schemas.collections import CollectionSpec

ALMOST = "00000000-0000-5000-8000-000000000001"
OTHER = "00000000-0000-5000-8000-000000000002"
SPACES = {"labels": "labels-1", "bridge": "bridge-1"}


class ByEvidence:
    """Weighs label matching by the best picture that it found, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, float] | None] = []

    def weights(
        self, encoded: Mapping[str, object], spaces: Sequence[str], *, best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        assert set(encoded) == {"words"}
        self.told.append(best)
        labels = 0.5 if best is None else best["labels"] / 10
        return {space: labels if space == "labels" else 1 - labels for space in spaces}

    def ordinary_words(self) -> Mapping[str, np.ndarray]:
        return {}


@pytest.fixture
def searcher(tmp_path: Path) -> Iterator[Searcher]:
    store = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    for collection in SPACES.values():
        store.create(CollectionSpec(collection, 2))
    store.upsert("labels-1", PointBatch([ALMOST, OTHER], np.array([[0.8, 0.6], [0.0, 1.0]], np.float32), [{}, {}]))
    store.upsert("bridge-1", PointBatch([ALMOST, OTHER], np.array([[0.6, 0.8], [1.0, 0.0]], np.float32), [{}, {}]))
    yield Searcher(store, ScoreCalibration(store))
    store.close()


def running(*, seconds: float = 30.0, stopwatch: Stopwatch | None = None) -> RunningQuery:
    resolved = ResolvedQuery(
        query_id="q",
        request=SearchRequest(query="a cat"),
        leaves=(),
        text="a cat",
        spaces=SPACES,
        captions=None,
        tags=None,
        fusion="mean_distance",
        depths=(10,),
        offset=0,
        limit=10,
        filter=None,
        deadline=time.monotonic() + seconds,
        explain=False,
        collapse=False,
        topic=None,
        trust=False,
        warnings=(),
    )
    return RunningQuery(resolved, stopwatch or Stopwatch(), QueryNotes())


async def test_weights_are_fitted_again_to_what_was_found_and_rank_the_answer(searcher: Searcher) -> None:
    """Label matching's best picture has cosine .8, so its weight falls from .5 to .08."""
    weigher = ByEvidence()
    learned = LearnedStages(LearnedModels(), store=searcher._store, searcher=searcher, text_encoder="words")
    stage = FirstPassStage(searcher=searcher, weigher=weigher, learned=learned, priors={})
    vector = np.array([1.0, 0.0], np.float32)
    leaf = EncodedLeaf(TEXT_GUIDE, dict.fromkeys(SPACES.values(), vector), {"words": vector})
    query, encoded = running(), EncodedQuery((leaf,), SPACES)
    before = await stage.weigh(query, encoded)
    assert before.by_space == {"labels": 0.5, "bridge": 0.5}
    found = await stage.rank(query, encoded, before)
    assert weigher.told == [None, {"labels": pytest.approx(0.8), "bridge": pytest.approx(1.0)}]
    assert found.weights.by_space == pytest.approx({"labels": 0.08, "bridge": 0.92})
    assert found.ranking.fused.ids[0] == OTHER  # the bridge's first; with equal weights it would be the other


@pytest.mark.parametrize(
    ("hydrating", "seconds", "reserved"),
    [
        (None, 30.0, 0.12),  # a page was not read yet: .05 s are assumed, twice, and .02 to finish
        (0.4, 30.0, 0.82),  # twice what the first page took
        (None, 0.2, 0.06),  # never more than three tenths of what is left
    ],
)
def test_searches_end_early_enough_to_read_out_what_they_found(
    hydrating: float | None, seconds: float, reserved: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stopwatch = Stopwatch()
    if hydrating is not None:
        stopwatch.add("hydrate", hydrating)
    query = running(seconds=seconds, stopwatch=stopwatch)
    assert query.resolved.deadline - query.search_deadline == pytest.approx(reserved)


@pytest.mark.parametrize("weights", [{"a": 0.7, "b": 0.3}, {"a": 2.0, "b": 1.0, "c": 1.0}])
def test_trust_changes_shares_and_not_the_sum(weights: dict[str, float]) -> None:
    trusted = apply_trust(weights, {"a": 3.0, "b": 0.5})
    assert sum(trusted.values()) == pytest.approx(sum(weights.values()))
    assert trusted["a"] / trusted["b"] == pytest.approx(6 * weights["a"] / weights["b"])


def test_without_trust_weights_stay_and_trust_that_leaves_nothing_is_ignored() -> None:
    weights = {"a": 0.7, "b": 0.3}
    assert apply_trust(weights, {}) == weights
    assert apply_trust(weights, {"a": 0.0, "b": 0.0}) == weights
    assert prior_trust({}, cast("Sequence[str]", ("a", "b"))) == {}
