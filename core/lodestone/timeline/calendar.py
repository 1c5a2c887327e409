"""Names of a day: its weekday, its season, and the holidays of the country in which it was spent.

Christmas, Easter (that of the Western churches) and the like are named everywhere. Public holidays are those of the package
`holidays`, of whole countries, in English where it has English names. Seasons are those of meteorology, three whole months
each, and belong to a hemisphere: without a position a day has no season.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
"""English names of the months, in lower case."""

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Final = (("winter",), ("spring",), ("summer",), ("autumn", "fall"))  # of the north, from December on
# (month, day) -> names that hold in every country.
_FIXED: Final[Mapping[tuple[int, int], tuple[str, ...]]] = {
    (1, 1): ("new year",),
    (2, 14): ("valentine's day",),
    (10, 31): ("halloween",),
    (12, 24): ("christmas eve", "christmas"),
    (12, 25): ("christmas",),
    (12, 26): ("christmas",),
    (12, 31): ("new year's eve",),
}
_FIRST_EASTER: Final = 1583  # of the Gregorian calendar
_EASTER_DAYS: Final[Mapping[int, tuple[str, ...]]] = {
    -2: ("good friday", "easter"),
    -1: ("easter",),
    0: ("easter",),
    1: ("easter monday", "easter"),
}  # after Easter Sunday
_REMARK: Final = re.compile(r"\([^)]*(?:observed|estimated|substitute)[^)]*\)", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[;/()]")
_SMALL_WORDS: Final = frozenset({"after", "al", "and", "at", "before", "de", "for", "in", "of", "on", "the", "to"})
_ROMAN: Final = re.compile(r"(?:x{0,2}(?:ix|iv|v?i{2,3}|vi{0,3}))")
_MOST_YEARS: Final = 4_096  # pairs of a country and a year whose holidays are kept


def names_of_time(local: str, latitude: float | None, country_code: str | None) -> Iterator[str]:
    """Yield the names of a time in lower case: its month and season, and its weekday and holidays where the day is known.

    Args:
        local: The time in ISO 8601, as far as it is known; "" where it is not.
        latitude: Degrees, north positive; None where it is unknown, and with it the season.
        country_code: ISO 3166-1 code of the country; None where it is unknown.
    """
    if len(local) > len("2017-"):
        month = int(local[5:7])
        yield MONTHS[month - 1]
        yield from () if latitude is None else season_of(month, latitude)
    if len(local) > len("2017-05-"):
        day = date.fromisoformat(local[:10])
        yield weekday_of(day)
        yield from holidays_of(day, country_code)


def season_of(month: int, latitude: float) -> tuple[str, ...]:
    """Return the names of the season of a month, 1 to 12, at a latitude in degrees, north positive: ("autumn", "fall")."""
    quarter = month % 12 // 3
    return _SEASONS[quarter if latitude >= 0 else (quarter + 2) % 4]


def weekday_of(day: date) -> str:
    """Return the English name of a day's weekday, in lower case."""
    return _WEEKDAYS[day.weekday()]


def holidays_of(day: date, country_code: str | None = None) -> tuple[str, ...]:
    """Return the distinct names of a day's holidays in lower case, those of every country first.

    Args:
        day: The day, in the calendar of the place.
        country_code: ISO 3166-1 code of the country, two capital letters; None where it is unknown.
    """
    names = [*_FIXED.get((day.month, day.day), ())]
    if day.year >= _FIRST_EASTER:
        names += _EASTER_DAYS.get((day - _easter(day.year)).days, ())
    if country_code is not None:
        names += _public(country_code, day.year).get(day, ())
    return tuple(dict.fromkeys(names))


@lru_cache(maxsize=_MOST_YEARS)
def _public(country_code: str, year: int) -> Mapping[date, tuple[str, ...]]:
    """Return the public holidays of a country in a year; empty for a country that the package does not know."""
    from holidays import country_holidays

    _hush()
    try:
        found = country_holidays(country_code, years=year, observed=False, language="en_US")
    except NotImplementedError:
        return {}
    return {day: _names(text) for day, text in found.items()}


@lru_cache(maxsize=1)
def _hush() -> None:
    """Let the package say nothing of years whose lunar holidays it does not know: these have the others."""
    warnings.filterwarnings("ignore", message="Requested Holidays are available only", category=UserWarning)


def _names(text: str) -> tuple[str, ...]:
    """Return the names in an entry: "Chinese New Year (Spring Festival); Founding Day" has three."""
    return tuple(name.strip().lower() for name in _SEPARATORS.split(_REMARK.sub("", text)) if name.strip())


@lru_cache(maxsize=1_024)
def _easter(year: int) -> date:
    """Return Easter Sunday by the anonymous Gregorian computus (Meeus, *Astronomical Algorithms*, chapter 8)."""
    a, b, c = year % 19, year // 100, year % 100
    d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
    m = (a + 11 * d + 22 * e) // 451
    return date(year, (d + e - 7 * m + 114) // 31, 1) + timedelta(days=(d + e - 7 * m + 114) % 31)


def shown_name(name: str) -> str:
    """Return a name in lower case as people write it: "Coronation of Charles III", "Eid al-Fitr", "New Year's Eve"."""
    words = name.split()
    return " ".join(_shown_word(word, first=not number) for number, word in enumerate(words))


def _shown_word(word: str, *, first: bool) -> str:
    if word in _SMALL_WORDS and not first:
        return word
    if _ROMAN.fullmatch(word):
        return word.upper()
    if "-" in word:
        return "-".join(part if part in _SMALL_WORDS else part[:1].upper() + part[1:] for part in word.split("-"))
    return word[:1].upper() + word[1:]
