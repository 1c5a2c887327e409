"""What of an answer is kept from callers who do not see everybody's queries: the words and the doings of others.

Trust, topics and drawn guides are learnt from everybody and used for everybody. Their numbers are shown; the words that they
come from are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lodestone_schemas.api import (
    DoneEvent,
    EngineList,
    Event,
    FeedbackResult,
    GuideEvent,
    GuideInfo,
    QueryExplanation,
    QueryPage,
    ResultsEvent,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    TagInfo,
    TrustPage,
)
from lodestone_schemas.service import ServiceStatus

_NAMELESS: Final = re.compile(r"topic-[0-9a-f]{8}")  # a topic that no client has named
_WORDS_OF_OTHERS: Final = frozenset({"from_prompt", "prompt"})  # in the provenance of a guide drawn for another query


def redact_event(event: Event, request: SearchOptions) -> Event:
    """Return an event of the query that `request` asked, without the words of others."""
    if isinstance(event, ResultsEvent | DoneEvent):
        return event.model_copy(update={"response": redact_response(event.response, request)})
    if isinstance(event, GuideEvent):
        return event.model_copy(update={"guide": _without_words(event.guide)})
    return event


def redact_response(response: SearchResponse, request: SearchOptions) -> SearchResponse:
    """Return the answer to `request` without a topic that somebody else named, and without the words of guides drawn before."""
    named = request.topic if isinstance(request, SearchRequest) else None
    topic = response.topic if named else _nameless(response.topic)
    return response.model_copy(update={"topic": topic, "guides": [_without_words(guide) for guide in response.guides]})


def redact_explanation(explanation: QueryExplanation) -> QueryExplanation:
    """Return a recorded query as `redact_response` returns its answer."""
    topic = explanation.topic if explanation.request.get("topic") else _nameless(explanation.topic)
    guides = [_without_words(guide) for guide in explanation.guides]
    return explanation.model_copy(update={"topic": topic, "guides": guides})


def redact_queries(page: QueryPage) -> QueryPage:
    """Return a page of the caller's own queries without topics that others named."""
    queries = [query.model_copy(update={"topic": _nameless(query.topic)}) for query in page.queries]
    return page.model_copy(update={"queries": queries})


def redact_feedback(result: FeedbackResult) -> FeedbackResult:
    """Return what feedback changed without a topic that others named."""
    return result.model_copy(update={"topic": _nameless(result.topic) or ""})


def redact_trust(page: TrustPage) -> TrustPage:
    """Return learnt trust without the words behind it, and without topics that somebody has named."""
    topics = [topic.model_copy(update={"words": []}) for topic in page.topics if _nameless(topic.topic)]
    return page.model_copy(update={"topics": topics})


def redact_engines(listed: EngineList) -> EngineList:
    """Return the guide engines without how much others had drawn, and without what went wrong for them."""
    quiet = {"guides": 0, "failures": 0, "last_error": None}
    return EngineList(engines=[engine.model_copy(update=quiet) for engine in listed.engines], cache={})


def redact_tags(tags: Sequence[TagInfo]) -> list[TagInfo]:
    """Return tags without the query that left them: it may be somebody else's."""
    return [tag.model_copy(update={"query_id": None}) for tag in tags]


def redact_status(status: ServiceStatus) -> ServiceStatus:
    """Return the status without what exactly fails: that is for those who can do something about it."""
    checks = {name: check.model_copy(update={"detail": ""}) for name, check in status.checks.items()}
    return status.model_copy(update={"checks": checks})


def _nameless(topic: str | None) -> str | None:
    """Return a topic's name, unless somebody gave it."""
    return topic if topic is not None and _NAMELESS.fullmatch(topic) else None


def _without_words(guide: GuideInfo) -> GuideInfo:
    """Return a guide without the words of another query that it was drawn for."""
    if guide.cached != "semantic":
        return guide
    kept = {name: value for name, value in guide.provenance.items() if name not in _WORDS_OF_OTHERS}
    return guide.model_copy(update={"provenance": kept})
