"""Tests of what the demonstration prints: photos first, right pictures by name, and what was not found."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from lodestone_cli.commands.demo import _print
from lodestone_cli.demo.run import QUESTIONS, DemoAnswer, DemoQuery, DemoReport, _Found, _photos_found

CAT = DemoQuery("a tabby cat", "chelsea", "photo", "the face of a tabby cat")
ANSWERS = (
    DemoAnswer("a tabby cat", "photo", "the face of a tabby cat", (1, 1), 1, "chelsea"),
    DemoAnswer("an astronaut", "photo", "an astronaut in orange", (None, 2), None, "astronaut"),
    DemoAnswer("a boat on the water", "drawing", "", (4, 2), 2, "ferry"),
    DemoAnswer("a castle", "drawing", "", (None, 1), 3, "castle"),
    DemoAnswer("a snake", "drawing", "", (None, None), None, ""),
    DemoAnswer("a dinosaur", "drawing", "", (3, None), None, ""),
)


def printed() -> list[str]:
    report = DemoReport(ANSWERS, 19, 856, 784, 16.2, 63.4, Path("/demo/contact-sheet.png"))
    out = io.StringIO()
    _print(Console(file=out, width=200, highlight=False, emoji=False), report, home=Path("/demo/home"))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_contact_sheet_comes_first_then_photos_then_drawings() -> None:
    lines = printed()

    assert lines[0] == "All pictures that were found, on one sheet: /demo/contact-sheet.png"
    assert lines.index("19 photos") < lines.index("856 drawings")


def test_each_question_stands_beside_the_right_picture_that_it_found_best_places_first() -> None:
    lines = printed()

    assert [" ".join(line.split()) for line in lines if line.startswith(("a tabby", "an astro", "a castle", "a boat"))] == [
        "a tabby cat the face of a tabby cat 1. 1.",
        "an astronaut an astronaut in orange 2.",
        "a castle castle 1.",
        "a boat on the water ferry 2. 4.",
    ]
    assert "not among the first five: a snake, a dinosaur" in lines


def test_the_counts_are_those_of_the_answers() -> None:
    counts = [line.split() for line in printed() if " of " in line and line.startswith("  ")]

    assert [words[-5:] for words in counts[:2]] == [["1", "->", "2", "of", "2"], ["2", "->", "2", "of", "4"]]
    assert counts[2][-3:] == ["3", "of", "6"]


def test_each_photo_is_told_by_what_it_shows_and_by_its_place() -> None:
    chelsea, other = Path("/photos/chelsea.png"), Path("/photos/moon.png")
    first = _Found(((chelsea, True), (other, False)))
    third = _Found(((other, False), (other, False), (chelsea, True)))
    sixth = _Found((*[(other, False)] * 5, (chelsea, True)))

    assert _photos_found([CAT] * 3, [first, third, sixth]) == [
        '  "a tabby cat": the face of a tabby cat (chelsea.png)',
        '  "a tabby cat": the face of a tabby cat (chelsea.png), as picture 3',
        '  "a tabby cat": not among the first five before the training',
    ]


def test_every_question_about_a_photo_says_what_the_photo_shows() -> None:
    assert [question.words for question in QUESTIONS if bool(question.shows) != (question.about == "photo")] == []
