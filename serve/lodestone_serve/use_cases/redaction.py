"""What of an answer is kept from those who do not see everything? The words and the doings of others, where they shine through.

Trust, topics and drawn guides are learnt from everybody and used for everybody. Their numbers are shown; whose words they come
from is not.
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


def discreet_event(event: Event, request: SearchOptions) -> Event:
    """An event of the query that `request` asked."""
    if isinstance(event, ResultsEvent | DoneEvent):
        return event.model_copy(update={"response": discreet_response(event.response, request)})
    if isinstance(event, GuideEvent):
        return event.model_copy(update={"guide": _without_words(event.guide)})
    return event


def discreet_response(response: SearchResponse, request: SearchOptions) -> SearchResponse:
    """The answer to `request`: a topic that somebody else named is not told, nor for which words a guide was drawn before."""
    named = request.topic if isinstance(request, SearchRequest) else None
    topic = response.topic if named else _nameless(response.topic)
    return response.model_copy(update={"topic": topic, "guides": [_without_words(guide) for guide in response.guides]})


def discreet_explanation(found: QueryExplanation) -> QueryExplanation:
    """The same for a recorded query."""
    topic = found.topic if found.request.get("topic") else _nameless(found.topic)
    return found.model_copy(update={"topic": topic, "guides": [_without_words(guide) for guide in found.guides]})


def discreet_queries(page: QueryPage) -> QueryPage:
    """The same for a list of one's own queries."""
    queries = [one.model_copy(update={"topic": _nameless(one.topic)}) for one in page.queries]
    return page.model_copy(update={"queries": queries})


def discreet_feedback(found: FeedbackResult) -> FeedbackResult:
    """The same for what feedback changed."""
    return found.model_copy(update={"topic": _nameless(found.topic) or ""})


def discreet_trust(page: TrustPage) -> TrustPage:
    """The weights are everybody's; the words behind them, and topics that somebody has named, are not shown."""
    topics = [one.model_copy(update={"words": []}) for one in page.topics if _nameless(one.topic)]
    return page.model_copy(update={"topics": topics})


def discreet_engines(found: EngineList) -> EngineList:
    """How much others had drawn, and what went wrong for them, is not shown."""
    quiet = {"guides": 0, "failures": 0, "last_error": None}
    return EngineList(engines=[one.model_copy(update=quiet) for one in found.engines], cache={})


def discreet_tags(tags: Sequence[TagInfo]) -> list[TagInfo]:
    """Which query left a tag is not shown: it may be somebody else's."""
    return [one.model_copy(update={"query_id": None}) for one in tags]


def discreet_status(found: ServiceStatus) -> ServiceStatus:
    """What exactly fails is for those who can do something about it."""
    checks = {name: check.model_copy(update={"detail": ""}) for name, check in found.checks.items()}
    return found.model_copy(update={"checks": checks})


def _nameless(topic: str | None) -> str | None:
    """A topic's name, unless somebody gave it."""
    return topic if topic is not None and _NAMELESS.fullmatch(topic) else None


def _without_words(guide: GuideInfo) -> GuideInfo:
    """A guide that was drawn for another query does not say for which."""
    if guide.cached != "semantic":
        return guide
    kept = {name: value for name, value in guide.provenance.items() if name not in _WORDS_OF_OTHERS}
    return guide.model_copy(update={"provenance": kept})
