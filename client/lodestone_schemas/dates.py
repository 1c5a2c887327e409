"""Dates as people write them in requests: one reader for HTTP, clients, the command line and the page.

A date without an offset is a time of the clock where a picture was taken, so "2024-01-01" means that day wherever it was. A
date with an offset (`Z`, `+02:00`) is a moment of absolute time. Numbers are never read as seconds since 1970: four digits are
a year.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema


class Precision(StrEnum):
    """Names the smallest part of a date that is known."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    SECOND = "second"


class DateTextError(ValueError):
    """Raised for what is no date; `hint` says how dates are written."""

    hint = "write 2024, 2024-07, 2024-07-01 or 2024-07-01T18:30; with an offset, as in 2024-07-01T18:30+02:00, it is absolute"

    def __init__(self, what: object, why: str = "is not a date") -> None:
        self.problem = f"{reprlib.repr(what)} {why}"
        super().__init__(f"{self.problem}; {self.hint}")


_WRITTEN: Final = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?|(?P<month2>\d\d)(?P<day2>\d\d))?"
    r"(?:[T ](?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_OFFSET: Final = timedelta(hours=14)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(value: object) -> datetime:
    """Return the beginning of the year, month, day or time that a request names.

    Args:
        value: ISO 8601 text, extended ("2024-07-01") or basic ("20240701"), with or without a time and an offset; a year as a
            number; or a date of Python's.

    Returns:
        A datetime without an offset for a time of the picture's own clock, and with one for a moment of absolute time.

    Raises:
        DateTextError: It is no such date.
    """
    return _parsed(value)[0]


@dataclass(frozen=True, slots=True)
class Period:
    """Holds a year, a month or a day; `end` is not included, and None behind year 9999."""

    start: datetime
    end: datetime | None
    precision: Precision


def parse_period(value: object) -> Period:
    """Return the year, month or day that a text names.

    Raises:
        DateTextError: It is no date, or has a time.
    """
    start, precision = _parsed(value)
    if precision is Precision.SECOND:
        raise DateTextError(value, "is a moment, not a year, a month or a day")
    return Period(start, end_of(start, precision), precision)


def end_of(start: datetime, precision: Precision) -> datetime | None:
    """Return where a period that begins at `start` ends, which is not included; None behind year 9999."""
    try:
        if precision is Precision.YEAR:
            return start.replace(year=start.year + 1)
        if precision is Precision.MONTH:
            return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        return start + (timedelta(days=1) if precision is Precision.DAY else timedelta(seconds=1))
    except (ValueError, OverflowError):
        return None


def seconds_of(moment: datetime) -> float:
    """Return seconds since 1970-01-01T00:00:00 of the clock that the datetime is of: of UTC where it has an offset."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


def _parsed(value: object) -> tuple[datetime, Precision]:
    if isinstance(value, datetime):
        return value, Precision.SECOND
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day), Precision.DAY  # noqa: DTZ001 - of the picture's own clock
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DateTextError(value)
    match = _WRITTEN.fullmatch(str(value).strip())
    if match is None:
        raise DateTextError(value)
    parts = match.groupdict()
    try:
        return _start(parts), _precision(parts)
    except (ValueError, OverflowError) as error:
        raise DateTextError(value, f"is not in the calendar ({error})") from error


def _start(parts: Mapping[str, str | None]) -> datetime:
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    month, day = parts["month"] or parts["month2"] or 1, parts["day"] or parts["day2"] or 1
    microsecond = int((parts["fraction"] or "")[:6].ljust(6, "0"))
    carried = (hour, minute, second, microsecond) == (24, 0, 0, 0)  # ISO's name of the day's end
    local = datetime(int(parts["year"] or 0), int(month), int(day))  # noqa: DTZ001 - may have no offset
    local = local.replace(hour=0 if carried else hour, minute=minute, second=second, microsecond=microsecond)
    local += timedelta(days=carried)
    zone = parts["zone"]
    return local if zone is None else local.replace(tzinfo=_offset(zone))


def _offset(zone: str) -> timezone:
    if zone in {"Z", "z"}:
        return UTC
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].lstrip(":") or 0))
    if offset > _LONGEST_OFFSET:
        raise ValueError("no clock is so far from UTC")
    return timezone(-offset if zone[0] == "-" else offset)


def _precision(parts: Mapping[str, str | None]) -> Precision:
    if parts["hour"] is not None:
        return Precision.SECOND
    if parts["day"] or parts["day2"]:
        return Precision.DAY
    return Precision.MONTH if parts["month"] else Precision.YEAR


RequestDate = Annotated[
    datetime,
    BeforeValidator(parse_date),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1, "maximum": 9999_12_31}],
            "examples": ["2024", "2024-07", "2024-07-01", "2024-07-01T18:30", "2024-07-01T18:30+02:00"],
        }
    ),
]
"""A date in a request. Without an offset it is of the picture's own clock; with one it is absolute."""
