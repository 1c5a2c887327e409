"""API models of recorded queries: their records, explanations and replays."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, Model
from lodestone_schemas.searching import CORRECTED_QUERY, LANGUAGE, GateDecision, GuideInfo, QueryPart


class QueryInfo(Model):
    """Describes one recorded query in a list."""

    query_id: str
    created_at: datetime
    kind: Literal["words", "similar", "picture", "composed"]
    text: str
    topic: str | None
    summary: dict[str, Any]


class QueryPage(Model):
    """Holds one page of recorded queries, newest first."""

    queries: list[QueryInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class ListInfo(Model):
    """Describes one (guide, space) list of a query."""

    guide: str
    space: str
    weight: float
    scale: float
    found: int
    best: float | None
    merged: bool = Field(
        False, description="Whether the guide was searched together with the space's others, because the space is large."
    )


class HitPart(Model):
    """Holds what one (guide, space) list gave to one hit. The parts of a hit sum to its score."""

    guide: str
    space: str
    rank: int | None = Field(
        None, description="Place in the list; null where the picture was scored there without being listed."
    )
    score: float = Field(description="Inner product.")
    weight: float
    part: float = Field(description="Share of the hit's score.")


class ExplainedHit(Model):
    """Explains the rank of one picture."""

    rank: int
    image_id: str
    score: float
    explained: float = Field(description="Sum of the parts over the score: 1 when everything is accounted for.")
    parts: list[HitPart]


class QueryExplanation(Model):
    """Holds everything that is known of one answered query."""

    query_id: str
    created_at: datetime
    kind: Literal["words", "similar", "picture", "composed"]
    text: str = Field(description="Words that were searched; `request` has those that were asked.")
    corrected_query: str | None = Field(None, description=CORRECTED_QUERY)
    language: str | None = Field(None, description=LANGUAGE)
    request: dict[str, Any]
    plan: dict[str, Any]
    parts: list[QueryPart] = Field(default_factory=list, description="Parts of a composed query; empty for all others.")
    gate: GateDecision | None
    confidence: float | None = Field(None, description="As the answer gave it.")
    probably_nothing: bool = Field(False, description="As the answer said.")
    confidence_signs: dict[str, float] = Field(
        default_factory=dict, description="Sign to value: what the confidence is read from."
    )
    prompts: dict[str, str] = Field(default_factory=dict, description="Engine to prompt.")
    topic: str | None
    trust: dict[str, float]
    guides: list[GuideInfo]
    lists: list[ListInfo]
    hits: list[ExplainedHit]
    dropped: list[str]
    warnings: list[str]
    notes: list[str] = Field(default_factory=list, description="Parts that were on and had nothing to work with.")
    timings_ms: dict[str, float]


class ReplayResult(Model):
    """Holds a query's ranking, computed once more from its record."""

    query_id: str
    identical: bool = Field(description="Whether ids, order and scores are the recorded ones.")
    ids: list[str]
    scores: list[float]
    fresh: bool = Field(description="Whether the collection was searched again, as it is now.")
    moved: list[str] = Field(default_factory=list, description="Ids whose place differs from the record.")
    confidence: float | None = Field(None, description="Of the record; with `fresh`, of the new answer.")
    probably_nothing: bool = Field(False, description="Of the record; with `fresh`, of the new answer.")
