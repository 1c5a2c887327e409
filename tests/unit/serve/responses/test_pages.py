"""Cursors go on where a page ended, and `fields` sends what was asked for and nothing else."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lodestone.errors import InvalidRequestError
from lodestone.paging import decode_cursor, encode_cursor
from lodestone_schemas.api import Contribution, CorpusPage, Hit, SearchResponse
from lodestone_serve.responses.pages import page_of, select_fields

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def made(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def answer() -> SearchResponse:
    hits = [
        Hit(
            rank=rank, image_id=str(rank), score=1 / rank, corpus="c", root="r", uri="a.png", width=2, height=2, thumbnail="t",
            contributions=[Contribution(guide="text", space="bridge", rank=1, score=1.0, weight=1.0)] if rank == 1 else None,
        )
        for rank in (1, 2)
    ]  # fmt: skip
    return SearchResponse(query_id="q", stage="text", hits=hits, fusion="rrf", space_weights={"bridge": 1.0})


def test_a_cursor_gives_back_the_place_it_was_made_of() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=9)))
    cursor = encode_cursor("queries", east, "ключ", 2**62)
    assert decode_cursor("queries", cursor, datetime, str, int) == (NOON, "ключ", 2**62)
    assert cursor.isascii()
    assert "=" not in cursor


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense!",
        "é",
        made({"tags": 1}),
        made(["tags"]),
        made(["tags", NOON.isoformat(), "id", 1]),
        made(["queries", NOON.isoformat(), "id"]),
        made(["tags", "yesterday", "id"]),
        made(["tags", "2026-01-02T12:00:00", "id"]),
        made(["tags", "0001-01-01T00:00:00+23:00", "id"]),
        made(["tags", NOON.isoformat(), 5]),
        made(["tags", NOON.isoformat(), "a\0b"]),
        made(["tags", NOON.isoformat(), "\ud800"]),
        "A" * 10_000,
        base64.urlsafe_b64encode(b"[" * 4_000).decode(),
    ],
)
def test_what_is_no_cursor_of_the_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="no cursor of this list") as refused:
        decode_cursor("tags", cursor, datetime, str)
    assert "next_cursor" in refused.value.hint


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, True, 1.5, "1"])
def test_a_number_that_no_row_has_is_refused(number: object) -> None:
    with pytest.raises(InvalidRequestError):
        decode_cursor("runs", made(["runs", number, "id"]), int, str)


def test_a_page_begins_at_one_place() -> None:
    assert page_of(5, 0, "c").cursor == "c"
    with pytest.raises(InvalidRequestError, match="offset 3 and behind a cursor"):
        page_of(5, 3, "c")


def test_fields_choose_members_at_every_depth() -> None:
    chosen = select_fields(SearchResponse, "hits.image_id, hits.contributions.space,query_id,space_weights")
    assert json.loads(chosen.json(answer())) == {
        "query_id": "q",
        "space_weights": {"bridge": 1.0},
        "hits": [{"image_id": "1", "contributions": [{"space": "bridge"}]}, {"image_id": "2", "contributions": None}],
    }


def test_a_whole_member_outweighs_its_parts_in_either_order() -> None:
    whole = json.loads(answer().model_dump_json())["hits"]
    for fields in ("hits,hits.score", "hits.score,hits"):
        assert json.loads(select_fields(SearchResponse, fields).json(answer())) == {"hits": whole}


def test_without_fields_everything_is_sent() -> None:
    assert select_fields(SearchResponse, None).json(answer()) == answer().model_dump_json().encode()


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ("hits.nothing", "image_id"),
        ("", "query_id"),
        ("hits..score", "image_id"),
        ("query_id.more", "query_id"),
        ("space_weights.bridge", "space_weights"),
        ("hits.image_id,", "query_id"),
    ],
)
def test_a_field_that_is_not_there_is_refused_and_those_that_are_there_are_named(fields: str, hint: str) -> None:
    with pytest.raises(InvalidRequestError, match="fields: ") as refused:
        select_fields(SearchResponse, fields)
    assert hint in refused.value.hint


def test_fields_reach_through_pages() -> None:
    assert select_fields(CorpusPage, "corpora.roots.name").include == {
        "corpora": {"__all__": {"roots": {"__all__": {"name": True}}}}
    }
