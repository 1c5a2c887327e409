"""Dates as cameras, scanners, phones and programs write them, read into one record that knows how much of a date is known.

A date that a device writes while its clock is not set, or that lies in the future, says nothing and counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz
from enum import StrEnum
from typing import Final

from lodestone_schemas.dates import Precision, seconds_of


class DateSource(StrEnum):
    """Names what a date was read from."""

    EXIF = "exif"
    DIGITIZED = "exif_digitized"
    CHANGED = "exif_changed"
    GPS = "gps"
    XMP = "xmp"
    IPTC = "iptc"
    TEXT = "text"
    SIDECAR = "sidecar"
    NAME = "name"


class Zone(StrEnum):
    """Names what says the distance of a picture's clock from UTC."""

    STATED = "stated"
    GPS = "gps"


@dataclass(frozen=True, slots=True)
class FileDate:
    """Holds a date that a file states.

    Attributes:
        local: What the clock showed where the picture was taken, without an offset; the beginning of what is known.
        precision: How much of it is known.
        offset: Local time minus UTC; None where nothing says it.
        milliseconds: Milliseconds to add to `local`, 0 to 999; None where the file has no fraction of the second.
        source: What it was read from.
        zone: What says the offset.
    """

    local: datetime
    precision: Precision = Precision.SECOND
    offset: timedelta | None = None
    milliseconds: int | None = None
    source: DateSource = DateSource.EXIF
    zone: Zone | None = None

    @property
    def taken_at(self) -> int:
        """Return whole seconds since 1970-01-01T00:00:00Z; without an offset the clock is read as if it showed UTC."""
        return int(seconds_of(self.local - (self.offset or timedelta())))

    @property
    def offset_minutes(self) -> int | None:
        """Return local time minus UTC in minutes; None where it is unknown."""
        return None if self.offset is None else round(self.offset.total_seconds() / 60)

    def at(self, offset: timedelta | None, zone: Zone) -> FileDate:
        """Return the date with this offset where it has none of its own and a time that an offset belongs to."""
        if offset is None or self.offset is not None or self.precision is not Precision.SECOND:
            return self
        return replace(self, offset=offset, zone=zone)


FIRST_YEAR: Final = 1826  # of the oldest photograph that is kept
_FIRST_NAMED_YEAR: Final = 1990  # eight digits of a name are a date from here on
_MAX_OFFSET: Final = timedelta(hours=14)
_AHEAD: Final = timedelta(days=1)  # a clock of another zone, or one that is a little fast

_DATE: Final = re.compile(
    r"(?P<year>\d{4})[:\-/.](?P<month>\d{1,2})[:\-/.](?P<day>\d{1,2})[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{1,2})"
    r"(?::(?P<second>\d{1,2}))?(?:\.(?P<fraction>\d+))?\s*(?P<half>[AP]M\b)?\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.IGNORECASE | re.ASCII,
)
_PARTIAL: Final = re.compile(r"(?P<year>\d{4})(?:[:\-/.](?P<month>\d{1,2})(?:[:\-/.](?P<day>\d{1,2}))?)?[\s:]*", re.ASCII)
_COMPACT: Final = re.compile(
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"
    r"(?:[T ]?(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):?([0-5]\d)", re.ASCII)
_MAIL_ZONE: Final = re.compile(r"(?:[+-]\d{4}|GMT|UTC?)\s*$", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+")
_TIME_IN_NAME: Final = (
    r"(?:(?:[-_T ]|,? at |\.)(?P<hour>[01]\d|2[0-3])(?P<mark>[-_.:h ]?)(?P<minute>[0-5]\d)(?P=mark)(?P<second>[0-5]\d))?"
)
_IN_NAME: Final = (
    re.compile(rf"(?<!\d)(?P<year>\d{{4}})(?P<sep>[-_.])(?P<month>\d\d)(?P=sep)(?P<day>\d\d){_TIME_IN_NAME}(?!\d)", re.ASCII),
    re.compile(r"(?<!\d)(?P<year>\d{4})(?P<sep>[-_.])(?P<month>\d\d)(?P=sep)(?P<day>\d\d)(?!\d)", re.ASCII),
    re.compile(rf"(?<!\d)(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d){_TIME_IN_NAME}(?:\d{{3}})?(?!\d)", re.ASCII),
    re.compile(
        r"(?<!\d)(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)"
        r"(?:\d{3})?(?!\d)",
        re.ASCII,
    ),
    re.compile(r"(?<!\d)(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?!\d)", re.ASCII),
)
_UTC_NAMES: Final = ("PXL_",)  # names by the clock of UTC: nothing says what the clock showed where the picture was taken

# Beginnings of clocks that were never set: the first hour of these days,
_UNSET_DAYS: Final = frozenset({(1904, 1, 1), (1970, 1, 1), (1980, 1, 1)})
# and these very moments, which firmware writes.
_UNSET_MOMENTS: Final = frozenset(
    {datetime(2002, 12, 8, 12), datetime(2000, 1, 1), datetime(1899, 12, 30), datetime(1979, 12, 31)}  # noqa: DTZ001 - local
)


def read_date(text: str | None, source: DateSource = DateSource.EXIF) -> FileDate | None:
    """Return the date that a text of a file's metadata states; None for what is no date or cannot be true."""
    found = _read(text or "")
    return None if found is None or is_doubtful(found) else replace(found, source=source)


def date_in_name(name: str) -> FileDate | None:
    """Return the date that a phone or a program wrote into a file's name; None if there is none.

    `IMG-20161224-WA0014.jpg`, `Screenshot_20190201-212530.png` and `2014-08-25 17.15.33.jpg` have one, `DSC_2016.jpg` has none.
    """
    for pattern in _IN_NAME:
        for match in pattern.finditer(name):
            parts = match.groupdict()
            if not parts.get("sep") and int(match["year"]) < _FIRST_NAMED_YEAR:
                continue
            found = _assembled(parts)
            if found is None or is_doubtful(found):
                continue
            if name.startswith(_UTC_NAMES):
                found = FileDate(found.local.replace(hour=0, minute=0, second=0), Precision.DAY)
            return replace(found, source=DateSource.NAME)
    return None


def is_doubtful(date: FileDate) -> bool:
    """Return whether a device wrote the date without knowing it: in the future, before photography, or its clock's first."""
    local = date.local
    if local.year < FIRST_YEAR or local > datetime.now(UTC).replace(tzinfo=None) + _AHEAD:
        return True
    if date.precision is not Precision.SECOND:
        return False
    day = (local.year, local.month, local.day)
    if day in _UNSET_DAYS and local.hour == 0:
        return True
    # The first second of 1970, by a clock of any zone.
    is_hour_of_epoch = local.minute % 30 == 0 and local.second == 0
    if is_hour_of_epoch and abs(local - datetime(1970, 1, 1)) <= _MAX_OFFSET:  # noqa: DTZ001 - both local
        return True
    return local in _UNSET_MOMENTS


def read_offset(text: str | None) -> timedelta | None:
    """Return the offset from UTC that a text such as "+02:00" states; None for anything else, or beyond 14 hours."""
    match = _OFFSET.match(text or "")
    if match is None:
        return timedelta() if text in {"Z", "z"} else None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    if offset > _MAX_OFFSET:
        return None
    return -offset if match[1] == "-" else offset


def read_fraction(digits: str | None) -> int | None:
    """Return the milliseconds of the digits behind a decimal point: "5" is 500, "0429" is 42; None for anything else."""
    return int(digits[:3].ljust(3, "0")) if digits and _DIGITS.fullmatch(digits) else None


def _read(text: str) -> FileDate | None:
    text = text.strip()
    match = _DATE.match(text) or _PARTIAL.fullmatch(text) or _COMPACT.fullmatch(text)
    return _of_mail(text) if match is None else _assembled(_known(match.groupdict()))


def _known(parts: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Return the written parts without those that a month or a day of 00 declares unknown."""
    for name, larger in (("month", ("year",)), ("day", ("year", "month"))):
        if not int(parts.get(name) or 1):
            return {part: parts[part] for part in larger}
    return parts


def _assembled(parts: Mapping[str, str | None]) -> FileDate | None:
    """Return the date of its written parts; those that are missing or empty are unknown."""
    numbers = {name: int(parts[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second") if parts.get(name)}
    precision = _precision(numbers)
    half = (parts.get("half") or "").upper()
    hour, second = numbers.get("hour", 0), numbers.get("second", 0)
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "PM" else 0)
    # The end of a day or of a minute, as some devices name it.
    carried = timedelta(days=hour == 24, seconds=second == 60)
    try:
        local = datetime(  # noqa: DTZ001 - local on purpose
            numbers["year"],
            numbers.get("month", 1),
            numbers.get("day", 1),
            0 if carried.days else hour,
            numbers.get("minute", 0),
            59 if carried.seconds else second,
        )
        local += carried
    except (ValueError, OverflowError):
        return None
    offset = read_offset(parts.get("zone"))
    return FileDate(
        local,
        precision,
        offset=offset,
        milliseconds=read_fraction(parts.get("fraction")),
        zone=None if offset is None else Zone.STATED,
    )


def _precision(numbers: Mapping[str, int]) -> Precision:
    if "hour" in numbers:
        return Precision.SECOND
    if "day" in numbers:
        return Precision.DAY
    return Precision.MONTH if "month" in numbers else Precision.YEAR


def _of_mail(text: str) -> FileDate | None:
    """Return a date as in mail and as C's library prints it: "10 Sep 2019 11:12:13 +0200", "Tue Sep 10 11:12:13 2019"."""
    if not re.search(r"[A-Za-z]{3}", text) or not re.search(r"\d:\d\d", text):
        return None
    parsed = parsedate_tz(text)
    if parsed is None or parsed[0] < FIRST_YEAR:
        return None
    try:
        local = datetime(*parsed[:6])  # noqa: DTZ001 - local on purpose
    except ValueError:
        return None
    is_zoned = _MAIL_ZONE.search(text) is not None and abs(parsed[9] or 0) <= _MAX_OFFSET.total_seconds()
    offset = timedelta(seconds=parsed[9] or 0) if is_zoned else None
    return FileDate(local, offset=offset, zone=None if offset is None else Zone.STATED)
