"""Tests of the list of recorded queries: what each looked for, and what a refinement changed."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from lodestone.errors import NotFoundError
from lodestone_cli.history import print_history
from lodestone_schemas.api import QueryExplanation, QueryInfo, QueryPage, QueryPart

ASKED = datetime(2026, 5, 1, 12, tzinfo=UTC)
CAT = "0b269412-5186-5468-95f9-a9c811334dc9"


def part(name: str, **facts: object) -> QueryPart:
    return QueryPart.model_validate({"name": name, "weight": 0.5, **facts})


def explained(
    query_id: str, *, text: str, request: dict[str, Any], kind: str = "words", parts: tuple[QueryPart, ...] = ()
) -> QueryExplanation:
    empty: dict[str, Any] = {
        "plan": {},
        "gate": None,
        "topic": None,
        "trust": {},
        "guides": [],
        "lists": [],
        "hits": [],
        "dropped": [],
    }
    more = {"warnings": [], "timings_ms": {}, "parts": parts, "request": request}
    return QueryExplanation.model_validate(
        {"query_id": query_id, "created_at": ASKED, "kind": kind, "text": text, **empty, **more}
    )


class Log:
    """Recorded queries, of which some can be explained no more."""

    def __init__(self, *known: QueryExplanation) -> None:
        self.known = {one.query_id: one for one in known}

    def explain(self, query_id: str) -> QueryExplanation:
        if query_id not in self.known:
            raise NotFoundError(f"there is no query {query_id!r}", hint="")
        return self.known[query_id]


def listed(log: Log, *queries: QueryExplanation) -> list[str]:
    """Return what stands behind the date of each row."""
    infos = [
        QueryInfo(query_id=one.query_id, created_at=one.created_at, kind=one.kind, text=one.text, topic=None, summary={})
        for one in queries
    ]
    out = io.StringIO()
    locator: Any = SimpleNamespace(paths=lambda ids: {image_id: "/p/cat.jpg" for image_id in ids if image_id == CAT})
    print_history(Console(file=out, width=10_000, soft_wrap=True), QueryPage(queries=infos), log, locator)  # type: ignore[arg-type]
    return [line[line.index(":") + 5 :] for line in out.getvalue().splitlines()[1:]]


FIRST = explained("11111111", text="a beach", request={"query": "a beach"})
WORDS = part("words", text="a beach")
NIGHT = explained(
    "22222222",
    text="a beach, at night",
    kind="composed",
    parts=(WORDS, part("words2", text="at night")),
    request={"query": "at night", "refine_of": "11111111", "weights": {"words2": 2.0}},
)
EMPTY = explained(
    "33333333",
    text="a beach, at night",
    kind="composed",
    parts=(WORDS, part("words2", text="at night"), part("without", text="many people", avoid=True)),
    request={"without": ["many people"], "refine_of": "22222222", "weights": {"words2": 2.0}, "diversity": 0.2},
)
CATS = explained(
    "44444444",
    text="",
    kind="similar",
    request={"reference": CAT, "drop": ["words"], "refine_of": "11111111", "region": {"x": 0, "y": 0, "w": 0.5, "h": 1}},
)
BACK = explained("55555555", text="a beach", request={"drop": ["words2"], "refine_of": "22222222"})


def test_refinements_of_the_same_words_are_told_apart_by_what_they_changed() -> None:
    log = Log(FIRST, NIGHT, EMPTY, CATS, BACK)
    assert listed(log, FIRST, NIGHT, EMPTY, CATS, BACK) == [
        "a beach",
        "a beach, at night  (refines 11111111: --with 'at night' --weight words2=2)",
        "a beach, at night, without many people  (refines 22222222: --without 'many people' --diversity 0.2)",
        "like cat.jpg  (refines 11111111: --drop words --reference cat.jpg --region 0,0,0.5,1)",
        "a beach  (refines 22222222: --drop words2)",
    ]


def test_a_picture_that_was_sent_is_the_change_where_nothing_else_is_recorded() -> None:
    sent = explained(
        "66666666",
        text="a beach",
        kind="composed",
        parts=(WORDS, part("picture")),
        request={"refine_of": "11111111"},
    )
    assert listed(Log(FIRST, sent), sent) == ["a beach, like a picture that was sent  (refines 11111111: --like FILE)"]


def test_a_query_whose_record_is_gone_is_listed_by_its_words_and_one_whose_parent_is_gone_with_all_it_says() -> None:
    assert listed(Log(), FIRST, CATS) == ["a beach", "(like an indexed picture)"]
    assert listed(Log(EMPTY), EMPTY)[0].endswith("--without 'many people' --weight words2=2 --diversity 0.2)")
