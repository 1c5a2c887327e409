"""Tests of what the terminal says where an answer probably holds nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lodestone_cli.answer import print_answer
from lodestone_cli.explanation import print_explanation
from lodestone_schemas.api import Hit, QueryExplanation, SearchResponse


def answer(**changes: object) -> SearchResponse:
    hit = Hit(rank=1, image_id="a", score=1.0, corpus="c", root="r", uri="a.jpg", width=1, height=1, thumbnail="/t")
    response = SearchResponse(
        query_id="q1",
        stage="text",
        hits=[hit],
        fusion="mean_distance",
        space_weights={},
        confidence=0.07,
        probably_nothing=True,
    )
    return response.model_copy(update=changes)


def printed(response: SearchResponse) -> str:
    stream = io.StringIO()
    print_answer(Console(file=stream, width=120), response, {})
    return stream.getvalue()


def test_an_answer_that_probably_holds_nothing_says_so_above_its_hits() -> None:
    lines = printed(answer()).splitlines()
    assert lines[0].startswith("Probably nothing here") and "0.07" in lines[0]
    assert any("a.jpg" in line for line in lines)


@pytest.mark.parametrize(
    "changes", [{"confidence": 0.9, "probably_nothing": False}, {"confidence": None, "probably_nothing": False}]
)
def test_any_other_answer_does_not(changes: dict[str, object]) -> None:
    assert "Probably nothing" not in printed(answer(**changes))


def test_an_explanation_tells_the_confidence() -> None:
    explanation = QueryExplanation.model_validate(
        {
            "query_id": "q1",
            "created_at": "2026-01-01T00:00:00Z",
            "kind": "words",
            "text": "a unicorn",
            "request": {},
            "plan": {},
            "gate": None,
            "confidence": 0.07,
            "probably_nothing": True,
            "topic": None,
            "trust": {},
            "guides": [],
            "lists": [],
            "hits": [],
            "dropped": [],
            "warnings": [],
            "timings_ms": {},
        }
    )
    stream = io.StringIO()
    print_explanation(Console(file=stream, width=120), explanation, {})
    assert "confidence that the collection shows this: 0.07; probably nothing here" in stream.getvalue()
