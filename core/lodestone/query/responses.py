"""What does the caller get to see of a query? Its plan, its answers and its guides as API messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from lodestone.clock import Stopwatch
from lodestone.generators.base import Guide
from lodestone.generators.query_notes import QueryNotes
from lodestone.query.hydrate import next_offset
from lodestone.query.resolve import ResolvedQuery
from lodestone.retrieval.searcher import Ranking, RankingRules
from lodestone_schemas.api import GateDecision, GuideInfo, Hit, PlanEvent, SearchResponse

if TYPE_CHECKING:
    from lodestone.query.guide_stage import GuideState

Stage = Literal["text", "guides", "picture"]


@dataclass(frozen=True, slots=True)
class Query:
    """One query under way: plan, clock, weights of spaces (trust included), the gate's word and what became of generators."""

    plan: ResolvedQuery
    stopwatch: Stopwatch
    weights: Mapping[str, float]
    topic: str | None = None
    trust: Mapping[str, float] = field(default_factory=dict)
    gate: GateDecision | None = None
    log: QueryNotes = field(default_factory=QueryNotes)

    @property
    def rules(self) -> RankingRules:
        """How its rankings are made."""
        return RankingRules(self.plan.fusion, self.plan.depths, self.plan.filter, self.plan.deadline)


def plan_event(query: Query) -> PlanEvent:
    """What will be done."""
    plan = query.plan
    return PlanEvent(
        query_id=plan.query_id,
        spaces=dict(plan.spaces),
        space_weights=dict(query.weights),
        generators=list(plan.generators),
        guides=plan.guides,
        fusion=plan.fusion,
    )


def response_of(
    query: Query, ranking: Ranking, hits: Sequence[Hit], *, stage: Stage, guides: Iterable[GuideInfo] = ()
) -> SearchResponse:
    """One page of a ranking, with everything that was left out so far."""
    plan = query.plan
    return SearchResponse(
        query_id=plan.query_id,
        stage=stage,
        hits=list(hits),
        next_offset=next_offset(plan, ranking),
        fusion=plan.fusion,
        space_weights=dict(query.weights),
        guides=list(guides),
        gate=query.gate,
        topic=query.topic,
        trust=dict(query.trust),
        cost=query.log.cost,
        dropped=[*ranking.dropped, *query.log.dropped],
        warnings=[*plan.warnings, *query.log.warnings],
        timings_ms=query.stopwatch.timings_ms(),
    )


def finished(response: SearchResponse, query: Query) -> SearchResponse:
    """The same answer, with what was learnt after it was made."""
    last = response.model_copy(
        update={
            "dropped": list(dict.fromkeys([*response.dropped, *query.log.dropped])),
            "warnings": list(dict.fromkeys([*response.warnings, *query.log.warnings])),
            "cost": query.log.cost,
            "timings_ms": query.stopwatch.timings_ms(),
        }
    )
    query.stopwatch.observed.finished(last, guides=query.plan.guides)
    return last


def guide_info(
    guide: Guide,
    query_id: str,
    *,
    status: Literal["used", "rejected", "dropped"] = "used",
    outlier_score: float | None = None,
) -> GuideInfo:
    """What is told of a guide: everything but its pixels and vectors."""
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


def guide_infos(drawn: GuideState, query_id: str) -> list[GuideInfo]:
    """All guides of a query with what became of them."""
    judged = drawn.judged if drawn.judged is not None and drawn.judged.rule != "none" else None
    rejected, counted = drawn.rejected, {one.guide for one in drawn.searches}
    infos = []
    for number, guide in enumerate(drawn.guides):
        score = float(judged.scores[number]) if judged is not None and number < len(judged.scores) else None
        status: Literal["used", "rejected", "dropped"] = "used" if guide.guide_id in counted else "dropped"
        if guide.guide_id in rejected:
            status = "rejected"
        infos.append(guide_info(guide, query_id, status=status, outlier_score=score))
    return infos


def _picture(guide: Guide, query_id: str) -> str | None:
    if "image_id" in guide.provenance:
        return f"/v1/images/{guide.provenance['image_id']}/thumbnail"
    return None if guide.pixels is None else f"/v1/queries/{query_id}/guides/{quote(guide.guide_id, safe='')}"
