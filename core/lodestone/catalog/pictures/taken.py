"""Filter fields of the time when a picture was taken, as every collection of pictures holds them.

A day is the day where a picture was taken, so `taken_at` of a point is local time, while `taken_at` of the catalog is UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lodestone_schemas.dates import Precision, end_of, seconds_of

_SHOWN: Final = {Precision.YEAR: 4, Precision.MONTH: 7, Precision.DAY: 10}  # characters of ISO 8601


def taken_fields(taken_at: int | None, offset_minutes: int | None, precision: str | None) -> dict[str, int]:
    """Return the filter fields of a time, all in whole seconds.

    Args:
        taken_at: Seconds since 1970-01-01T00:00:00Z; None where the time is unknown, which gives no field.
        offset_minutes: Local time minus UTC; None where it is unknown, and `taken_at` is local time.
        precision: How much of the time is known; None for all of it.

    Returns:
        `taken_at`: what the clock showed, since 1970-01-01T00:00:00 of that clock; `taken_utc`: the same moment in UTC, where
        that is another number; `taken_until`: where the period of a partial date ends, not included, on the clock of
        `taken_at`.
    """
    if taken_at is None:
        return {}
    local = taken_at + 60 * (offset_minutes or 0)
    until = _until(local, precision)
    return {
        "taken_at": local,
        **({"taken_utc": taken_at} if local != taken_at else {}),
        **({} if until is None else {"taken_until": until}),
    }


def taken_local(taken_at: int | None, offset_minutes: int | None, precision: str | None) -> str | None:
    """Return what the clock showed in ISO 8601, as precisely as is known: "2024-07-01T18:30:15", "1993-06", "1993"."""
    if taken_at is None:
        return None
    shown = datetime.fromtimestamp(taken_at + 60 * (offset_minutes or 0), UTC).replace(tzinfo=None).isoformat()
    return shown[: _SHOWN.get(Precision(precision or Precision.SECOND))]


def _until(local: int, precision: str | None) -> int | None:
    if precision is None or precision == Precision.SECOND:
        return None
    end = end_of(datetime.fromtimestamp(local, UTC), Precision(precision))
    return None if end is None else int(seconds_of(end))
