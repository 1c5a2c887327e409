"""API messages about a query: its opening event, its guides and its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from lodestone.generators.base import Guide
from lodestone.query.answering.hydrate import next_offset
from lodestone.query.asking.running import RunningQuery
from lodestone.query.deciding.presence import Presence
from lodestone.query.guides.outcome import GuideOutcome
from lodestone.query.retrieving.first_pass import QueryWeights
from lodestone.retrieval.searcher import Ranking
from lodestone_schemas.api import GateDecision, GuideInfo, Hit, PlanEvent, SearchResponse

Stage = Literal["text", "guides", "picture"]
GuideStatus = Literal["used", "rejected", "dropped"]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """A decided answer.

    Attributes:
        ranking: All candidates, copies included.
        response: The page that is shown.
        presence: What its confidence is read from; None where there is none.
    """

    ranking: Ranking
    response: SearchResponse
    presence: Presence | None = None


def opening_event(query: RunningQuery, weights: Mapping[str, float]) -> PlanEvent:
    """Return the first event of a query: what will be done.

    Args:
        query: The query under way.
        weights: Space -> weight, before anything is searched.
    """
    resolved = query.resolved
    return PlanEvent(
        query_id=resolved.query_id,
        spaces=dict(resolved.spaces),
        space_weights=dict(weights),
        generators=list(resolved.guiding.generators),
        guides=resolved.guiding.most,
        fusion=resolved.fusion,
        corrected_query=resolved.text if resolved.corrected else None,
        language=resolved.language,
    )


def response_of(
    query: RunningQuery,
    shown: Ranking,
    hits: Sequence[Hit],
    *,
    stage: Stage,
    weights: QueryWeights,
    gate: GateDecision | None,
    guides: Sequence[GuideInfo] = (),
    presence: Presence | None = None,
) -> SearchResponse:
    """Return one page of a ranking, with everything that was left out so far.

    Args:
        query: The query under way.
        shown: The ranking as it is shown, e.g. without copies.
        hits: The page.
        stage: How far the answer has come.
        weights: What the spaces count.
        gate: Decision of the complexity gate, if there is one.
        guides: Guides so far.
        presence: How likely the collection holds what was asked; None where nothing can be said.
    """
    resolved, notes = query.resolved, query.notes
    return SearchResponse(
        query_id=resolved.query_id,
        corrected_query=resolved.text if resolved.corrected else None,
        language=resolved.language,
        stage=stage,
        hits=list(hits),
        next_offset=next_offset(resolved, shown),
        fusion=resolved.fusion,
        space_weights=dict(weights.by_space),
        parts=[part.described for part in resolved.composing.parts],
        guides=list(guides),
        gate=gate,
        confidence=None if presence is None else presence.confidence,
        probably_nothing=presence is not None and presence.probably_nothing,
        topic=weights.topic,
        trust=dict(weights.trust),
        cost=notes.cost,
        dropped=[*shown.dropped, *notes.dropped],
        warnings=[*resolved.warnings, *notes.warnings],
        notes=list(resolved.notes),
        timings_ms=query.stopwatch.timings_ms(),
    )


def finished(response: SearchResponse, query: RunningQuery) -> SearchResponse:
    """Return the same answer with the notes and timings that came after it was made, and notify the observer."""
    last = response.model_copy(
        update={
            "dropped": list(dict.fromkeys([*response.dropped, *query.notes.dropped])),
            "warnings": list(dict.fromkeys([*response.warnings, *query.notes.warnings])),
            "cost": query.notes.cost,
            "timings_ms": query.stopwatch.timings_ms(),
        }
    )
    query.stopwatch.observed.finished(last, guides=query.resolved.guiding.most)
    return last


def guide_info(guide: Guide, query_id: str, *, status: GuideStatus = "used", outlier_score: float | None = None) -> GuideInfo:
    """Return what clients see of a guide: everything but its pixels and vectors."""
    return GuideInfo(
        guide_id=guide.guide_id,
        engine=guide.engine,
        weight=guide.weight,
        provenance=dict(guide.provenance),
        status=status,
        outlier_score=outlier_score,
        cached=guide.cached,
        cost=guide.cost,
        picture=_picture(guide, query_id),
    )


def guide_infos(outcome: GuideOutcome, query_id: str) -> list[GuideInfo]:
    """Return all guides of a query with what became of each."""
    judged = outcome.judged if outcome.judged is not None and outcome.judged.rule != "none" else None
    rejected, counted = outcome.rejected, {search.guide for search in outcome.searches}
    infos = []
    for number, guide in enumerate(outcome.guides):
        score = float(judged.scores[number]) if judged is not None and number < len(judged.scores) else None
        status: GuideStatus = "used" if guide.guide_id in counted else "dropped"
        if guide.guide_id in rejected:
            status = "rejected"
        infos.append(guide_info(guide, query_id, status=status, outlier_score=score))
    return infos


def _picture(guide: Guide, query_id: str) -> str | None:
    if "image_id" in guide.provenance:
        return f"/v1/images/{guide.provenance['image_id']}/thumbnail"
    return None if guide.pixels is None else f"/v1/queries/{query_id}/guides/{quote(guide.guide_id, safe='')}"
