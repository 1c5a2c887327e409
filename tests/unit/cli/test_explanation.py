"""Tests of what the terminal says about the guides of a query, and about the parts of its pictures' scores."""

from __future__ import annotations

import io

from rich.console import Console

from lodestone_cli.explanation import print_explanation
from lodestone_schemas.api import ExplainedHit, GuideInfo, HitPart, QueryExplanation, QueryPart


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


def explained(*parts: HitPart, composed: bool = False, warnings: tuple[str, ...] = (), terminal: bool = False) -> list[str]:
    query_parts = [QueryPart(name="words", weight=1, text="a dog")] if composed else []
    explanation = QueryExplanation.model_validate(
        {
            "query_id": "q1",
            "created_at": "2026-01-01T00:00:00Z",
            "kind": "composed" if composed else "words",
            "text": "a dog",
            "hits": [ExplainedHit(rank=1, image_id="i1", score=1.0, explained=1.0, parts=list(parts))],
            "parts": query_parts,
            "warnings": list(warnings),
            **{member: {} for member in ("request", "plan", "trust", "timings_ms")},
            **{member: [] for member in ("guides", "lists", "dropped")},
            **dict.fromkeys(("gate", "topic")),
        }
    )
    stream = io.StringIO()
    console = Console(
        file=stream, width=100 if terminal else 10_000, force_terminal=terminal, color_system=None, soft_wrap=True
    )
    print_explanation(console, explanation, {})
    return [line.strip() for line in stream.getvalue().splitlines()]


def part(guide: str, space: str, *, score: float, share: float, weight: float = 0.5, rank: int | None = 3) -> HitPart:
    return HitPart(guide=guide, space=space, rank=rank, score=score, weight=weight, part=share)


def test_each_share_stands_beside_the_similarity_behind_it() -> None:
    lines = explained(part("text", "bridge", score=0.264, share=1.052), part("exemplar/0", "labels", score=-0.1, share=0.2))
    assert "+1.052  bridge by text, rank 3, similarity 0.264" in lines
    assert "+0.200  labels by exemplar/0, rank 3, similarity -0.100" in lines


def test_what_is_no_similarity_is_not_called_one() -> None:
    lines = explained(
        part("text", "tags", score=1.0, share=0.5),
        part("page order", "", score=0.9, share=-0.3, rank=None),
        part("*", "bridge", score=0.4, share=0.2),
        part("text", "labels", score=float("nan"), share=0.1),
    )
    assert [line for line in lines if line[:1] in "+-"] == [
        "+0.500  tags by text, rank 3",
        "-0.300  page order",
        "+0.200  bridge by *, rank 3",
        "+0.100  labels by text, rank 3",
    ]


def test_a_part_of_a_composed_query_has_its_similarity_where_it_was_recorded() -> None:
    known, unknown = part("words", "bridge", score=0.3, share=0.7), part("words", "labels", score=0.4, share=0.2)
    lines = explained(known, unknown, composed=True)
    assert "+0.700  bridge by words, rank 3, similarity 0.300" in lines
    assert "+0.200  labels by words, rank 3" in lines  # weight times score: the score is the share itself


def test_a_long_note_is_one_line_in_a_pipe_and_several_on_a_terminal() -> None:
    note = "the space is left out because its index is of another version " * 3
    piped, shown = (explained(warnings=(note,), terminal=on) for on in (False, True))
    assert f"note: {note.strip()}" in piped
    assert len(shown) > len(piped) and max(map(len, shown)) <= 80
