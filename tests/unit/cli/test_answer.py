"""Tests of answers on a terminal: whole paths, captions below, corpora where there are several."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lodestone_cli.answer import print_answer
from lodestone_schemas.api import Contribution, Hit, SearchResponse

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
    response: SearchResponse, paths: dict[str, str], *, width: int = 80, terminal: bool = True, corpora: bool = False
) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, color_system=None, highlight=False, soft_wrap=True, emoji=False
    )
    print_answer(console, response, paths, corpora=corpora)
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
