"""Records of queries over made-up spaces: each space scores every picture, and the answer is their weighted mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.use_records import QueryRecord
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import RankedList, mean_distance
from lodestone.retrieval.rescoring import ALL_GUIDES
from lodestone_schemas.api import ExplainedHit, QueryExplanation

ENCODER = "words"


def ranked(space: str, scores: Mapping[str, float], *, weight: float) -> RankedList:
    """One space's list over all its pictures."""
    ids = sorted(scores, key=lambda image_id: (-scores[image_id], image_id))
    return RankedList(ALL_GUIDES, space, weight, tuple(ids), np.array([scores[one] for one in ids], np.float32))


def trace_of_scores(
    query_id: str,
    scores: Mapping[str, Mapping[str, float]],
    *,
    weights: Mapping[str, float] | None = None,
    vector: Sequence[float] | NDArray[np.float32] = (1.0, 0.0),
    topic: str | None = None,
    shown: int = 20,
    text: str | None = None,
) -> Trace:
    """A query that found all pictures in every space.

    Args:
        query_id: Its name.
        scores: Space -> image id -> score.
        weights: Space -> weight; equal if None.
        vector: Of its words.
        topic: As the client named it.
        shown: Pictures on the page.
        text: Its words; the id, if None.
    """
    found = dict(weights or dict.fromkeys(scores, 1.0 / len(scores)))
    lists = tuple(ranked(space, of_space, weight=found[space]) for space, of_space in scores.items())
    fused = mean_distance(lists)
    return Trace(
        query_id=query_id,
        created_at=datetime.now(UTC),
        kind="words",
        text=query_id if text is None else text,
        request={} if topic is None else {"topic": topic},
        plan={},
        fusion="mean_distance",
        depths=(100,),
        space_weights=found,
        ranking=fused,
        topic=topic,
        text_vectors={ENCODER: np.asarray(vector, np.float32)},
        lists=lists,
        completed=lists,
        hits=fused.ids[:shown],
    )


def unexplained(explanation: QueryExplanation) -> list[ExplainedHit]:
    """Hits whose parts do not sum to their score: there should be none."""
    return [hit for hit in explanation.hits if not abs(hit.explained - 1.0) <= 1e-5]


def record_trace(catalog: Catalog, trace: Trace) -> Trace:
    """Keep it as the engine would."""
    catalog.add_query(
        QueryRecord(trace.query_id, trace.created_at, trace.kind, trace.text, trace.topic, {}, trace.to_bytes()), keep=1_000
    )
    return trace
