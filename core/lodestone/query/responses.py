"""What does the caller get to see of a query? Its plan, its answers and its guides as API messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lodestone.generators.base import Guide
from lodestone.query.clock import Stopwatch
from lodestone.query.guiding import GuideLog
from lodestone.query.hydrate import next_offset
from lodestone.query.plan import QueryPlan
from lodestone.query.search import Ranking, RankingRules
from lodestone_schemas.api import GuideInfo, Hit, PlanEvent, SearchResponse

Stage = Literal["text", "guides", "picture"]


@dataclass(frozen=True, slots=True)
class Query:
    """One query under way: its plan, its clock, the weight of each space, and what became of its generators."""

    plan: QueryPlan
    stopwatch: Stopwatch
    weights: Mapping[str, float]
    log: GuideLog = field(default_factory=GuideLog)

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
    query: Query, ranking: Ranking, hits: Sequence[Hit], *, stage: Stage, guides: Iterable[Guide] = ()
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
        guides=[guide_info(guide) for guide in guides],
        dropped=[*ranking.dropped, *query.log.dropped],
        warnings=[*plan.warnings, *query.log.warnings],
        timings_ms=query.stopwatch.timings_ms(),
    )


def finished(response: SearchResponse, query: Query) -> SearchResponse:
    """The same answer, with what was learnt after it was made."""
    return response.model_copy(
        update={
            "dropped": list(dict.fromkeys([*response.dropped, *query.log.dropped])),
            "warnings": list(dict.fromkeys([*response.warnings, *query.log.warnings])),
            "timings_ms": query.stopwatch.timings_ms(),
        }
    )


def guide_info(guide: Guide) -> GuideInfo:
    """What is told of a guide: everything but its pixels and vectors."""
    return GuideInfo(guide_id=guide.guide_id, engine=guide.engine, weight=guide.weight, provenance=dict(guide.provenance))
