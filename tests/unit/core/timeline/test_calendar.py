"""Days have weekdays, seasons by hemisphere, and the holidays of every country and of their own."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from dateutil.easter import easter

from lodestone.timeline.calendar import holidays_of, season_of, shown_name, weekday_of


@pytest.mark.parametrize(
    ("month", "north", "south"),
    [
        (12, ("winter",), ("summer",)),
        (2, ("winter",), ("summer",)),
        (3, ("spring",), ("autumn", "fall")),
        (5, ("spring",), ("autumn", "fall")),
        (6, ("summer",), ("winter",)),
        (9, ("autumn", "fall"), ("spring",)),
        (11, ("autumn", "fall"), ("spring",)),
    ],
)
def test_seasons_are_those_of_the_hemisphere(month: int, north: tuple[str, ...], south: tuple[str, ...]) -> None:
    assert season_of(month, 59.9) == north
    assert season_of(month, 1.3) == season_of(month, 0.0) == north
    assert season_of(month, -33.9) == south


def test_weekdays_have_their_names() -> None:
    days = [date(2024, 1, 1) + timedelta(days=number) for number in range(7)]
    assert [weekday_of(day) for day in days][::3] == ["monday", "thursday", "sunday"]


@pytest.mark.parametrize(
    ("day", "country", "names"),
    [
        (date(2017, 12, 25), None, ("christmas",)),
        (date(2017, 12, 24), "NO", ("christmas eve", "christmas")),
        (date(2017, 12, 26), None, ("christmas",)),
        (date(2017, 12, 27), None, ()),
        (date(2017, 5, 17), "NO", ("constitution day",)),
        (date(2017, 5, 17), "SE", ()),
        (date(2017, 5, 17), None, ()),
        (date(2024, 2, 10), "CN", ("chinese new year", "spring festival")),
        (date(2023, 11, 12), "IN", ("diwali",)),
        (date(2023, 11, 23), "US", ("thanksgiving day",)),
        (date(2019, 10, 31), None, ("halloween",)),
        (date(2018, 3, 30), None, ("good friday", "easter")),
        (date(2018, 4, 2), None, ("easter monday", "easter")),
        (date(2021, 12, 27), "GB", ()),  # a day off for Christmas, which it is not
        (date(2040, 8, 15), "IN", ("independence day",)),
        (date(2000, 1, 1), "XX", ("new year",)),
        (date(1, 1, 1), "DE", ("new year",)),
        (date(9999, 12, 31), "DE", ("new year's eve",)),
    ],
)
def test_days_have_their_holidays(day: date, country: str | None, names: tuple[str, ...]) -> None:
    assert holidays_of(day, country) == names


def test_easter_is_that_of_dateutil_from_the_gregorian_calendar_on() -> None:
    for year in (*range(1583, 2300), 4099):
        assert "easter" in holidays_of(easter(year)), year
        assert "easter monday" in holidays_of(easter(year) + timedelta(days=1)), year
        assert "easter" not in holidays_of(easter(year) + timedelta(days=2)), year
    assert not any("easter" in holidays_of(date(1582, 3, 1) + timedelta(days=number)) for number in range(90))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("new year's eve", "New Year's Eve"),
        ("coronation of charles iii", "Coronation of Charles III"),
        ("eid al-fitr", "Eid al-Fitr"),
        ("mid-autumn festival", "Mid-Autumn Festival"),
        ("the day after", "The Day after"),
        ("december", "December"),
        ("vivid day", "Vivid Day"),
    ],
)
def test_names_are_shown_as_people_write_them(name: str, shown: str) -> None:
    assert shown_name(name) == shown
