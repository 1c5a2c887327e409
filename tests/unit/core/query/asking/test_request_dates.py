"""Dates in requests: what is read, as what, and what is refused with a hint."""

# ruff: noqa: DTZ001 - dates without an offset are of the picture's own clock

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from lodestone_schemas.dates import DateTextError, Period, Precision, end_of, parse_date, parse_period, seconds_of
from lodestone_schemas.searching import SearchFilters

NONSENSE = [
    *("-", "", "x", "1", "202401", "2024-1-1", "2024-13", "2024-02-30", "0000", "1704067200", "2024Z", "2024-01-01T"),
    *("2024-01-01T25:00", "2024-01-01T24:01", "2024-01-01T10:60", "2024-01-01T10:00+14:30", "2024-01-01T10:00 02:00"),
    *("²⁰²³", "9999-12-31T24:00", "\ud800" * 3, 1_704_067_200, 17_040_672.5, -2023, True, [2024]),
]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2023", datetime(2023, 1, 1)),
        (2023, datetime(2023, 1, 1)),
        (2024_02_29, datetime(2024, 2, 29)),
        ("20240102", datetime(2024, 1, 2)),
        ("2024-05", datetime(2024, 5, 1)),
        (" 2024-05-06 ", datetime(2024, 5, 6)),
        (date(2024, 5, 6), datetime(2024, 5, 6)),
        ("2024-05-06T07", datetime(2024, 5, 6, 7)),
        ("2024-05-06 07:08", datetime(2024, 5, 6, 7, 8)),
        ("20240506T070809", datetime(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T07:08:09.25", datetime(2024, 5, 6, 7, 8, 9, 250_000)),
        ("2024-05-06T24:00", datetime(2024, 5, 7)),
        ("2024-05-06T07:08Z", datetime(2024, 5, 6, 7, 8, tzinfo=UTC)),
        ("2024-05-06T07:08-05:30", datetime(2024, 5, 6, 7, 8, tzinfo=timezone(-timedelta(hours=5, minutes=30)))),
        ("2024-05-06T07:08+14", datetime(2024, 5, 6, 7, 8, tzinfo=timezone(timedelta(hours=14)))),
    ],
)
def test_a_date_is_the_beginning_of_what_it_names(written, meant):
    found = parse_date(written)
    assert (found, found.utcoffset()) == (meant, meant.utcoffset())
    assert SearchFilters(taken_from=written).taken_from == meant


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_anything_else_is_refused_with_a_hint_and_never_read_as_seconds(nonsense):
    with pytest.raises(DateTextError, match="write 2024, 2024-07, 2024-07-01"):
        parse_date(nonsense)
    with pytest.raises(ValidationError, match="write 2024, 2024-07, 2024-07-01"):
        SearchFilters(taken_to=nonsense)


def test_a_long_text_is_not_repeated_whole():
    with pytest.raises(DateTextError) as raised:
        parse_date("9" * 5_000)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("written", "period"),
    [
        ("2023", Period(datetime(2023, 1, 1), datetime(2024, 1, 1), Precision.YEAR)),
        ("2023-12", Period(datetime(2023, 12, 1), datetime(2024, 1, 1), Precision.MONTH)),
        ("2023-11", Period(datetime(2023, 11, 1), datetime(2023, 12, 1), Precision.MONTH)),
        ("2024-02-29", Period(datetime(2024, 2, 29), datetime(2024, 3, 1), Precision.DAY)),
        ("9999", Period(datetime(9999, 1, 1), None, Precision.YEAR)),
    ],
)
def test_a_period_ends_where_the_next_begins(written, period):
    assert parse_period(written) == period


def test_a_moment_is_no_period():
    with pytest.raises(DateTextError, match="is a moment"):
        parse_period("2023-01-01T10:00")
    assert end_of(datetime(2023, 1, 1, 10), Precision.SECOND) == datetime(2023, 1, 1, 10, 0, 1)


def test_seconds_are_of_the_clock_that_a_date_is_of():
    assert seconds_of(datetime(1970, 1, 1, 1)) == 3600
    assert seconds_of(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0
    assert seconds_of(datetime(1, 1, 1)) == -62_135_596_800


def test_a_filter_survives_the_way_through_json_with_its_clock():
    filters = SearchFilters(taken_from="2024", taken_to="2024-05-01T00:00+02:00")
    again = SearchFilters.model_validate_json(filters.model_dump_json())
    assert (again, again.taken_from.tzinfo, again.taken_to.utcoffset()) == (filters, None, timedelta(hours=2))
