"""Record of an answered query: everything that its ranking was made of, as a `Trace`.

Names inside `Trace` and its `plan` are on disk: they stay as they are, so that records of earlier versions can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lodestone.query.answering.responses import QueryAnswer
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.asking.tree import Image
from lodestone.query.retrieving.leaves import EncodedQuery, retriever_of
from lodestone.query_log.trace import Trace
from lodestone.retrieval.searcher import Ranking


def trace_of(query: RunningQuery, encoded: EncodedQuery, answer: QueryAnswer) -> Trace:
    """Return the record of a query; without the parts of its scores (`Trace.parts`), unless it is a composed one.

    Args:
        query: The query under way.
        encoded: Its leaves.
        answer: The final answer.
    """
    resolved, ranking, response = query.resolved, answer.ranking, answer.response
    return Trace(
        query_id=resolved.query_id,
        owner=resolved.visibility.owner,
        confidence=response.confidence,
        probably_nothing=response.probably_nothing,
        confidence_signs={} if answer.presence is None else answer.presence.signs,
        created_at=datetime.now(UTC),
        kind="composed" if resolved.composing.parts else retriever_of(resolved.leaves[0]).kind,
        text=resolved.written,
        request=resolved.request.model_dump(mode="json", exclude_defaults=True),
        plan=_settings_of(resolved),
        fusion=resolved.fusion,
        depths=resolved.depths,
        space_weights=response.space_weights,
        ranking=ranking.fused,
        topic=response.topic,
        trust=response.trust,
        gate=response.gate,
        prompts=dict.fromkeys(resolved.guiding.generators, resolved.words),
        guides=tuple(response.guides),
        text_vectors=encoded.text_vectors,
        searches=ranking.searches,
        lists=ranking.lists,
        completed=ranking.completed,
        hits=tuple(hit.image_id for hit in response.hits),
        parts=_similarities(ranking, [hit.image_id for hit in response.hits]),
        stage=response.stage,
        dropped=tuple(dict.fromkeys([*response.dropped, *query.notes.dropped])),
        warnings=tuple(dict.fromkeys([*response.warnings, *query.notes.warnings])),
        timings_ms=query.stopwatch.timings_ms(),
    )


def _similarities(ranking: Ranking, image_ids: Sequence[str]) -> dict[tuple[str, str], NDArray[np.float32]]:
    """Return the similarity of each part of a composed query with these pictures; NaN where there is none."""
    found = {}
    for one in ranking.similarities:
        known = dict(zip(one.ids, one.scores.tolist(), strict=True))
        found[one.guide, one.space] = np.array([known.get(image_id, np.nan) for image_id in image_ids], np.float32)
    return found


def _settings_of(resolved: ResolvedQuery) -> dict[str, Any]:
    corpora = resolved.visibility.corpora
    (leaf,) = resolved.leaves if len(resolved.leaves) == 1 else (None,)
    return {
        "parts": [part.described.model_dump(mode="json", exclude_defaults=True) for part in resolved.composing.parts],
        "diversity": resolved.composing.diversity,
        "image_id": leaf.image_id if isinstance(leaf, Image) else None,
        "spaces": dict(resolved.spaces),
        "captions": resolved.captions,
        "tags": resolved.tags,
        "generators": list(resolved.guiding.generators),
        "guides": resolved.guiding.most,
        "seed": resolved.guiding.seed,
        "without_guides": sorted(resolved.guiding.without),
        "fusion": resolved.fusion,
        "depths": list(resolved.depths),
        "offset": resolved.offset,
        "limit": resolved.limit,
        "trust": resolved.trust,
        "gate": resolved.gating.on,
        "gate_threshold": resolved.gating.threshold,
        "outliers": resolved.guiding.outliers,
        "outlier_threshold": resolved.guiding.outlier_threshold,
        "adaptive": resolved.guiding.adaptive,
        "budget": resolved.guiding.budget,
        "corrected_query": resolved.text if resolved.corrected else None,
        "language": resolved.language,
        "corpora": None if corpora is None else sorted(corpora),
    }
