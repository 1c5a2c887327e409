"""Trust learnt from a simulated user beats equal weights where spaces differ by topic, and costs little where not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.support.traces import ENCODER, record_trace, trace_of_scores

from lodestone.catalog.catalog import Catalog
from lodestone.config.settings import TrustSettings
from lodestone.query.weighting.choice import apply_trust
from lodestone.trust.service import TrustService
from lodestone_eval.compare import bootstrap
from lodestone_schemas.api import FeedbackRequest

SPACES = ("a", "b", "c")
PICTURES, QUERIES, SHOWN = 100, 100, 20


class World:
    """Queries of two topics, each with 3 right pictures; `signal[topic][space]` is how far that space lifts them."""

    def __init__(self, signal: Sequence[Sequence[float]], *, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.topic = rng.integers(0, 2, QUERIES)
        centres = np.eye(2, 16)
        vectors = centres[self.topic] + 0.3 * rng.normal(size=(QUERIES, 16))
        self.vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        self.right = np.stack([rng.choice(PICTURES, 3, replace=False) for _ in range(QUERIES)])
        self.scores = rng.normal(size=(QUERIES, len(SPACES), PICTURES))
        for query, topic in enumerate(self.topic):
            self.scores[query][:, self.right[query]] += np.array(signal[topic])[:, None]


def average_precision(ids: Sequence[str], right: set[str]) -> float:
    places = [place for place, image_id in enumerate(ids, 1) if image_id in right]
    return float(np.mean([(number + 1) / place for number, place in enumerate(places)]))


def simulate(world: World, book: TrustService, catalog: Catalog, *, learn: bool) -> NDArray[np.float64]:
    """(QUERIES,) AP; the user judges the first `SHOWN` after each query."""
    found = []
    for query in range(QUERIES):
        trust = book.assign(world.vectors[query], encoder=ENCODER, topic=None, spaces=SPACES).weights if learn else {}
        scores = {
            space: {f"p{picture:03}": float(score) for picture, score in enumerate(world.scores[query][row])}
            for row, space in enumerate(SPACES)
        }
        weights = apply_trust(dict.fromkeys(SPACES, 1 / 3), trust)
        trace = trace_of_scores(f"q{query}", scores, weights=weights, vector=world.vectors[query], shown=SHOWN)
        right = {f"p{picture:03}" for picture in world.right[query].tolist()}
        found.append(average_precision(trace.ranking.ids, right))
        if learn:
            record_trace(catalog, trace)
            relevant, irrelevant = ([one for one in trace.hits if (one in right) is side] for side in (True, False))
            book.learn(FeedbackRequest(query_id=trace.query_id, relevant=relevant, irrelevant=irrelevant))
    return np.array(found)


def test_learning_raises_map_where_spaces_differ_by_topic_and_undo_restores_exactly(tmp_path: Path) -> None:
    world = World([[3.0, 0.3, 0.3], [0.3, 0.3, 3.0]], seed=0)
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        book = TrustService(catalog, TrustSettings())
        before = simulate(world, book, catalog, learn=False)
        after = simulate(world, book, catalog, learn=True)
        gain = bootstrap(after - before)
        assert gain.low > 0, gain
        first, second = (
            max(weights, key=lambda space: weights[space])
            for weights in (book.assign(vector, encoder=ENCODER, topic=None, spaces=SPACES).weights for vector in _centres())
        )
        assert (first, second) == ("a", "c")
        assert book.replay() == book.show()

        taught = book.export()
        last = book.events(limit=10)
        for event in last:
            book.undo(event.event_id)
        assert book.export() != taught
        undos = book.events(limit=10)
        for event in undos:
            book.undo(event.event_id)
        assert book.export() == taught


def test_learning_costs_little_where_all_spaces_are_alike(tmp_path: Path) -> None:
    world = World([[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]], seed=1)
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        book = TrustService(catalog, TrustSettings())
        before = simulate(world, book, catalog, learn=False)
        after = simulate(world, book, catalog, learn=True)
        change = bootstrap(after - before)
        assert change.low > -0.03, change


def _centres() -> NDArray[np.float32]:
    return np.eye(2, 16, dtype=np.float32)
