"""Titles of events: the days as people write them."""

from __future__ import annotations

from datetime import date

import pytest

from lodestone.services.timeline import shown_days


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (date(2018, 5, 1), date(2018, 5, 1), "1 May 2018"),
        (date(2018, 5, 1), date(2018, 5, 4), "1–4 May 2018"),
        (date(2018, 4, 30), date(2018, 5, 2), "30 April – 2 May 2018"),
        (date(2018, 12, 30), date(2019, 1, 2), "30 December 2018 – 2 January 2019"),
    ],
)
def test_days_are_written_as_people_write_them(first: date, last: date, shown: str) -> None:
    assert shown_days(first, last) == shown
