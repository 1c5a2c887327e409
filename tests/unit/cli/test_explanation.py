"""Tests of what the terminal says about the guides of a query."""

from __future__ import annotations

import io

from rich.console import Console

from lodestone_cli.explanation import print_explanation
from lodestone_schemas.api import GuideInfo, QueryExplanation


def test_an_edited_guide_names_its_part_and_the_words_and_a_drawn_one_the_words_alone() -> None:
    provenance = {"prompt": "at night", "part": "picture", "edited_from": "an uploaded picture", "strength": 0.6}
    guides = [
        GuideInfo(guide_id="painter/0", engine="painter", weight=1, provenance=provenance),
        GuideInfo(guide_id="painter/1", engine="painter", weight=1, provenance={"prompt": "a cat"}),
    ]
    facts = {"query_id": "q1", "created_at": "2026-01-01T00:00:00Z", "kind": "composed", "text": "at night"}
    rest = {"request": {}, "plan": {}, "gate": None, "topic": None, "prompts": {}, "trust": {}, "lists": [], "hits": []}
    more = {"guides": guides, "dropped": [], "warnings": [], "timings_ms": {}}
    stream = io.StringIO()
    print_explanation(Console(file=stream, width=120), QueryExplanation.model_validate(facts | rest | more), {})
    lines = [line.split("used", 1)[1].strip() for line in stream.getvalue().splitlines() if line.startswith("painter/")]
    assert lines == ["picture, edited by: at night", "a cat"]
