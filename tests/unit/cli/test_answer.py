"""Tests of answers on a terminal: whole paths, captions below, corpora where there are several."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from lodestone_cli import answer as answers
from lodestone_cli.answer import print_answer
from lodestone_cli.result_files import print_paths
from lodestone_schemas.api import Contribution, GateDecision, Hit, QueryNote, QueryPart, SearchResponse

FOLDER = "/home/ann/Pictures/2024/a long journey along the coast of Cornwall/with the children"
CAPTION = "two dogs and a child run along a beach while a third dog, brown and very wet, shakes itself beside them"


def hit(rank: int, **changes: object) -> Hit:
    facts = {
        "rank": rank,
        "image_id": f"id-{rank}",
        "score": 1 / rank,
        "corpus": "family" if rank % 2 else "press",
        "root": "Pictures",
        "uri": f"IMG_{rank}.jpg",
        "width": 1,
        "height": 1,
        "captions": [CAPTION],
        "thumbnail": "",
    }
    return Hit.model_validate({**facts, **changes})


def answer(*hits: Hit) -> SearchResponse:
    return SearchResponse(
        query_id="00000000-0000-4000-8000-000000000000",
        stage="text",
        hits=list(hits),
        fusion="rrf",
        space_weights={"bridge": 1.0},
    )


def printed(
    response: SearchResponse,
    paths: dict[str, str],
    *,
    width: int = 80,
    terminal: bool = True,
    corpora: bool = False,
    explained: bool = False,
) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, color_system=None, highlight=False, soft_wrap=True, emoji=False
    )
    print_answer(console, response, paths, corpora=corpora, explained=explained)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_path_stands_whole_on_one_line_at_any_width_and_the_caption_fits_below(width: int) -> None:
    lines = printed(answer(hit(1), hit(10)), {f"id-{rank}": f"{FOLDER}/IMG_{rank}.jpg" for rank in (1, 10)}, width=width)

    assert lines[0] == f" 1  {FOLDER}/IMG_1.jpg"
    assert lines[2] == f"10  {FOLDER}/IMG_10.jpg"
    assert lines[1].startswith("    1.000  two dogs")
    assert lines[1].endswith("…") == (len(CAPTION) + 11 > width)
    assert len(lines[1]) <= width


def test_a_pipe_gets_whole_captions() -> None:
    assert printed(answer(hit(1)), {}, terminal=False)[:2] == ["1  Pictures/IMG_1.jpg", f"   1.000  {CAPTION}"]


def test_a_terminal_that_knows_links_gets_one_to_the_file() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="standard", soft_wrap=True, legacy_windows=False)

    print_answer(console, answer(hit(1)), {"id-1": "/p/a photo.jpg"})

    assert ";file:///p/a%20photo.jpg\x1b\\" in out.getvalue()


def test_the_corpus_is_shown_where_there_is_more_than_one() -> None:
    assert printed(answer(hit(1), hit(2)), {}, corpora=True)[1].startswith("   1.000  [family]  two dogs")
    assert "[family]" not in "".join(printed(answer(hit(1), hit(2)), {}))


def test_parts_of_the_score_take_the_place_of_the_caption() -> None:
    part = Contribution(guide="words", space="bridge", rank=3, score=0.5, weight=1.0)
    lines = printed(answer(hit(1, contributions=[part])), {})

    assert lines[1] == "   1.000"
    assert lines[2] == "     bridge by words: rank 3, score 0.500, weight 1.00"


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    assert printed(answer(hit(1)), {"id-1": "/p/two\nlines.jpg"})[0] == r"1  $'/p/two\nlines.jpg'"


GATE = {"verdict": "complex", "predicted_ap": 0.2, "threshold": 0.5, "why": "many words"}
FULL = answer(hit(1)).model_copy(
    update={
        "fusion": "mean_distance",
        "timings_ms": {"total": 743.2},
        "gate": GateDecision.model_validate(GATE),
        "topic": "topic-6c08f48e",
        "trust": {"bridge": 1.002},
    }
)


@pytest.fixture
def three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "waited_seconds", lambda: 3.14)


@pytest.mark.usefixtures("three_seconds")
def test_a_plain_answer_ends_with_the_time_that_was_waited_and_what_to_type_next() -> None:
    assert printed(FULL, {})[2:] == [
        "1 picture in 3.1 s",
        "why: lodestone explain 00000000; right? lodestone feedback 00000000 -r 1",
    ]


@pytest.mark.usefixtures("three_seconds")
def test_an_explained_answer_has_the_technical_lines_and_both_times() -> None:
    lines = printed(FULL, {}, explained=True)
    assert lines[2] == "the search alone took 743 ms; mean_distance; spaces: bridge 1.00"
    assert "gate: complex: many words" in lines
    assert "trust of topic topic-6c08f48e: bridge 1.002" in lines
    assert lines[-2:] == printed(FULL, {})[2:]


@pytest.mark.usefixtures("three_seconds")
def test_money_that_guides_cost_is_told_without_being_asked_for() -> None:
    assert "1 picture in 3.1 s, cost 0.04" in printed(FULL.model_copy(update={"cost": 0.04}), {})


def test_a_composed_answer_says_above_its_pictures_what_was_searched() -> None:
    parts = [
        QueryPart(name="picture", weight=0.2, image_id="id-1", region={"x": 0, "y": 0, "w": 0.5, "h": 1}),
        QueryPart(name="words", weight=0.3, text="a beach"),
        QueryPart(name="words2", weight=0.3, text="at night"),
        QueryPart(name="without", weight=0.1, text="people", avoid=True),
        QueryPart(name="unlike", weight=0.1, image_id="id-2", avoid=True),
    ]
    composed = FULL.model_copy(update={"parts": parts})
    told = "showing results for a beach, at night, like a region of IMG_1.jpg, without people, unlike id-2"

    lines = printed(composed, {"id-1": "/p/IMG_1.jpg"})
    assert lines[0] == told
    assert not any("part " in line for line in lines[1:])
    assert "part words 0.30: a beach" in printed(composed, {}, explained=True)


def test_the_hint_names_the_first_picture_of_the_page() -> None:
    assert printed(answer(hit(11), hit(12)), {})[-1].endswith("lodestone feedback 00000000 -r 11")


def test_a_wish_that_words_cannot_fulfil_is_noted_with_its_option_also_beside_plain_paths(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = QueryNote(code="leave_out_by_option", phrase="no dogs", message="“no dogs” is words", option="--without 'big dogs'")
    noted = answer(hit(1)).model_copy(update={"notes": [note]})
    line = "note: “no dogs” is words: --without 'big dogs'"
    assert printed(noted, {}, width=200)[0] == line
    messages = io.StringIO()
    context = SimpleNamespace(messages=Console(file=messages, width=200), console=Console(file=io.StringIO()))
    print_paths(context, noted, {"id-1": "/a.jpg"}, nul=False)  # type: ignore[arg-type]
    assert messages.getvalue().splitlines() == [line]
    assert capsys.readouterr().out == "/a.jpg\n"
