"""Which messages cross the HTTP interface most? One place to import them from; each subject has its own module."""

from __future__ import annotations

from lodestone_schemas.base import MAX_GUIDES, MAX_LIMIT, MAX_OFFSET, MAX_QUERY_CHARS, ImageId
from lodestone_schemas.learning import (
    EngineInfo,
    EngineList,
    FeedbackRequest,
    FeedbackResult,
    TagInfo,
    TagList,
    TagPage,
    TagRequest,
    TrustInfo,
    TrustPage,
)
from lodestone_schemas.looking_back import ExplainedHit, HitPart, ListInfo, QueryExplanation, QueryInfo, QueryPage, ReplayResult
from lodestone_schemas.pictures import CorpusInfo, CorpusPage, ImageInfo, ImagePage, RootInfo
from lodestone_schemas.problems import Problem
from lodestone_schemas.searching import (
    Contribution,
    DoneEvent,
    ErrorEvent,
    Event,
    GateDecision,
    GuideEvent,
    GuideInfo,
    Hit,
    PlanEvent,
    ResultsEvent,
    SearchFilters,
    SearchOptions,
    SearchRequest,
    SearchResponse,
)
from lodestone_schemas.syncing import SyncProgress, SyncRequest

__all__ = [
    "MAX_GUIDES",
    "MAX_LIMIT",
    "MAX_OFFSET",
    "MAX_QUERY_CHARS",
    "Contribution",
    "CorpusInfo",
    "CorpusPage",
    "DoneEvent",
    "EngineInfo",
    "EngineList",
    "ErrorEvent",
    "Event",
    "ExplainedHit",
    "FeedbackRequest",
    "FeedbackResult",
    "GateDecision",
    "GuideEvent",
    "GuideInfo",
    "Hit",
    "HitPart",
    "ImageId",
    "ImageInfo",
    "ImagePage",
    "ListInfo",
    "PlanEvent",
    "Problem",
    "QueryExplanation",
    "QueryInfo",
    "QueryPage",
    "ReplayResult",
    "ResultsEvent",
    "RootInfo",
    "SearchFilters",
    "SearchOptions",
    "SearchRequest",
    "SearchResponse",
    "SyncProgress",
    "SyncRequest",
    "TagInfo",
    "TagList",
    "TagPage",
    "TagRequest",
    "TrustInfo",
    "TrustPage",
]
