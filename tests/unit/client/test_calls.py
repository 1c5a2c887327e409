"""Requests that operations become: their paths, parameters and bodies, and how often they may be sent."""

from __future__ import annotations

from typing import Any

import pytest

from lodestone_client.call import IDEMPOTENCY_HEADER, Call, Repeat
from lodestone_client.calls import call_of
from lodestone_schemas.access import KeyRotation
from lodestone_schemas.api import CorpusRename, SearchOptions, SearchRequest, SyncRequest, UrlSearchRequest
from lodestone_schemas.operations import OPERATIONS, SERVICE_OPERATIONS

KNOWN = {**OPERATIONS, **SERVICE_OPERATIONS}


def called(name: str, *given: Any, **named: Any) -> Call[Any]:
    return call_of(KNOWN[name], KNOWN[name].signature.bind(*given, **named))


def test_a_page_begins_at_an_offset_or_behind_a_cursor() -> None:
    assert called("tags").params == {"limit": 50}
    assert called("tags", 20, 10).params == {"offset": 20, "limit": 10}
    assert called("tags", 20, 10, cursor="c").params == {"limit": 10, "cursor": "c"}


def test_parameters_that_say_nothing_are_left_out() -> None:
    assert called("replay", "q").params == {}
    assert called("replay", "q", fresh=True).params == {"fresh": True}
    assert called("tag_texts", 0).params == {"limit": 0}


def test_parts_of_a_path_are_quoted_whatever_they_hold() -> None:
    assert called("model", "generator/words").path == "/v1/models/generator%2Fwords"
    assert called("guide_picture", "q", "a/0").path == "/v1/queries/q/guides/a%2F0"


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (called("search", "a boat"), SearchRequest(query="a boat")),
        (called("rotate_key", "k"), KeyRotation()),
        (called("sync"), SyncRequest()),
        (called("rename_corpus", "family", "relatives"), CorpusRename(name="relatives")),
        (called("by_url", "https://a.example/b.jpg"), UrlSearchRequest(url="https://a.example/b.jpg", options=SearchOptions())),
        (called("trust"), None),
    ],
    ids=lambda value: value.path if isinstance(value, Call) else "",
)
def test_a_message_is_the_body_and_one_that_was_left_out_is_of_defaults(call: Call[Any], body: Any) -> None:
    assert (call.body, call.params) == (body, {})


def test_calls_wait_and_are_sent_again_as_their_rows_say() -> None:
    endless = {name for name, one in KNOWN.items() if one.row.endless}
    assert endless >= {"find_duplicates", "verify", "sync", "shadow"} | {
        name for name in KNOWN if name.startswith("remove_")
    } - {"remove_tag"}
    assert called("sync").endless
    assert not called("status").endless
    assert called("status").repeat is Repeat.ALWAYS
    assert called("remove_corpus", "family").repeat is Repeat.NEVER
    keyed = called("remove_tag", "t", idempotency_key="mine")
    assert (keyed.repeat, keyed.headers, keyed.params) == (Repeat.KEYED, {IDEMPOTENCY_HEADER: "mine"}, {})
    assert called("remove_tag", "t").headers != called("remove_tag", "t").headers
