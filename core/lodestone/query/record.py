"""How does an answered query become its record? Everything that the ranking was made of, as a `Trace`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lodestone.query.responses import Query
from lodestone.query_log.trace import Kind, Trace
from lodestone.retrieval.searcher import Ranking
from lodestone_schemas.api import SearchOptions, SearchResponse


def trace_of(
    request: SearchOptions,
    query: Query,
    ranking: Ranking,
    response: SearchResponse,
    *,
    kind: Kind,
    parts: Mapping[tuple[str, str], NDArray[np.float32]],
    text_vectors: Mapping[str, NDArray[np.float32]],
) -> Trace:
    """The record of a query.

    Args:
        request: As it was asked.
        query: Plan, clock and log.
        ranking: The final one.
        response: The final answer.
        kind: What was searched by.
        parts: (guide, space) -> score of each hit of the page.
        text_vectors: Encoder -> vector of the words.
    """
    plan = query.plan
    return Trace(
        query_id=plan.query_id,
        owner=plan.visibility.owner,
        created_at=datetime.now(UTC),
        kind=kind,
        text=plan.text,
        request=request.model_dump(mode="json", exclude_defaults=True),
        plan=_plan(query),
        fusion=plan.fusion,
        depths=plan.depths,
        space_weights=query.weights,
        ranking=ranking.fused,
        topic=query.topic,
        trust=query.trust,
        gate=query.gate,
        prompts=dict.fromkeys(plan.generators, plan.text),
        guides=tuple(response.guides),
        text_vectors=text_vectors,
        searches=ranking.searches,
        lists=ranking.lists,
        completed=ranking.completed,
        hits=tuple(hit.image_id for hit in response.hits),
        parts=parts,
        stage=response.stage,
        dropped=tuple(dict.fromkeys([*response.dropped, *query.log.dropped])),
        warnings=tuple(dict.fromkeys([*response.warnings, *query.log.warnings])),
        timings_ms=query.stopwatch.timings_ms(),
    )


def _plan(query: Query) -> dict[str, Any]:
    plan = query.plan
    return {
        "spaces": dict(plan.spaces),
        "captions": plan.captions,
        "tags": plan.tags,
        "generators": list(plan.generators),
        "guides": plan.guides,
        "seed": plan.seed,
        "fusion": plan.fusion,
        "depths": list(plan.depths),
        "offset": plan.offset,
        "limit": plan.limit,
        "trust": plan.trust,
        "gate": plan.gate,
        "gate_threshold": plan.gate_threshold,
        "outliers": plan.outliers,
        "outlier_threshold": plan.outlier_threshold,
        "adaptive": plan.adaptive,
        "budget": plan.budget,
        "corpora": None if plan.visibility.corpora is None else sorted(plan.visibility.corpora),
    }
