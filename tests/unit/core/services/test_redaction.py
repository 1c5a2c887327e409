"""What of others is taken out of answers, and who gets them whole."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.engines import Drawer

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.config.engines import EngineSettings
from lodestone.generators.base import GuideRequest
from lodestone.generators.cache_keys import GuideKey, key_of
from lodestone.generators.engine_call import Engine
from lodestone.services.redaction import redact_engines, redact_response, redact_tags, redact_trust
from lodestone_schemas.access import Scope
from lodestone_schemas.api import (
    EngineInfo,
    EngineList,
    GuideInfo,
    SearchRequest,
    SearchResponse,
    TagInfo,
    TrustInfo,
    TrustPage,
)
from lodestone_serve.auth.principal import ANYBODY, LOCAL, NOBODY, Principal

OTHERS = "what somebody else searched for"


def response(topic: str | None) -> SearchResponse:
    guides = [
        GuideInfo(guide_id=f"p/{kind}", engine="p", weight=1, provenance={"from_prompt": OTHERS, "seed": 1}, cached=kind)
        for kind in ("exact", "semantic")
    ]
    return SearchResponse(
        query_id="q", stage="guides", hits=[], fusion="rrf", space_weights={}, guides=guides, topic=topic, trust={"a": 2.0}
    )


def test_a_guide_of_another_query_does_not_say_which_and_a_topic_that_others_named_is_not_told() -> None:
    told = redact_response(response("our divorce"), SearchRequest(query="a boat"))
    assert [guide.provenance for guide in told.guides] == [{"from_prompt": OTHERS, "seed": 1}, {"seed": 1}]
    assert (told.topic, told.trust) == (None, {"a": 2.0})
    assert redact_response(response("topic-0a1b2c3d"), SearchRequest(query="a boat")).topic == "topic-0a1b2c3d"
    assert redact_response(response("mine"), SearchRequest(query="a boat", topic="mine")).topic == "mine"


def test_what_was_learnt_is_shown_without_words() -> None:
    topics = [
        TrustInfo(topic=name, words=[OTHERS], queries=3, weights={"a": 2.0}) for name in ("topic-0a1b2c3d", "our divorce")
    ]
    told = redact_trust(TrustPage(topics=topics))
    assert [(one.topic, one.words, one.weights) for one in told.topics] == [("topic-0a1b2c3d", [], {"a": 2.0})]


def test_what_others_had_drawn_and_asked_is_not_counted_out_loud() -> None:
    engine = EngineInfo(
        name="p", kind="k", version="1", enabled=True, priority=0, cost=0.1, timeout_s=1, breaker="open", guides=9, failures=2,
        last_error=OTHERS,
    )  # fmt: skip
    told = redact_engines(EngineList(engines=[engine], cache={"entries": 3.0}))
    assert OTHERS not in told.model_dump_json()
    assert (told.engines[0].guides, told.engines[0].breaker, told.cache) == (0, "open", {})
    tag = TagInfo(tag_id="t", image_id="i", text="boat", source="implicit", query_id="q", created_at=datetime.now(UTC))
    assert redact_tags([tag])[0].query_id is None


def test_drawn_guides_are_shared_by_those_who_see_the_same() -> None:
    settings = EngineSettings.model_validate({"kind": "prior"})
    engine = Engine("p", settings, Drawer())
    sights = [
        EVERYTHING,
        Visibility("key:a"),
        Visibility("key:a", frozenset({"one", "two"})),
        Visibility("key:b", frozenset({"two", "one"})),
    ]
    sights.append(Visibility("key:a", frozenset({"one"})))
    keys = [key_of(engine, GuideRequest("a boat", "a boat", 1, tenant=visibility.tenant)) for visibility in sights]
    digests = [key.digest(picture_px=64) for key in keys]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]
    assert len(set(digests)) == 3
    assert GuideKey("a", "p", "1", "m", 0, 64).digest(picture_px=64) == GuideKey("a", "p", "1", "m", 0, 64, "").digest(
        picture_px=64
    )


def test_who_sees_everything_is_not_narrowed_and_everybody_else_is() -> None:
    for principal in (ANYBODY, LOCAL):
        assert principal.caller.visibility == EVERYTHING
    named = Principal("key:a", frozenset({Scope.ADMIN})).caller
    assert named.sees_whole_home
    assert named.owner == "key:a", "queries are recorded as theirs"
    for principal in (
        NOBODY,
        Principal("key:a", frozenset({Scope.SEARCH})),
        Principal("key:a", frozenset(Scope), frozenset({"a"})),
    ):
        assert not principal.caller.visibility.all_queries
        assert not principal.caller.sees_whole_home
