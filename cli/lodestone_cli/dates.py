"""Dates of the command line: the options `--from`, `--to`, `--year` and `--month` as the two bounds of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from lodestone.errors import InvalidRequestError
from lodestone_schemas.dates import DateTextError, Precision, parse_date, parse_period

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Dates:
    """Holds the bounds of a search by date; `start` is included, `end` is not, None leaves a side open."""

    start: datetime | None = None
    end: datetime | None = None


def dates_of(taken_from: str | None, taken_to: str | None, year: str | None, month: str | None) -> Dates:
    """Return the bounds that the options give.

    Raises:
        InvalidRequestError: An option is no date of its kind, or a period is given beside other bounds.
    """
    periods = [(option, text) for option, text in (("--year", year), ("--month", month)) if text is not None]
    if not periods:
        return Dates(_read(taken_from, "--from", parse_date), _read(taken_to, "--to", parse_date))
    (option, text), *more = periods
    if more or taken_from is not None or taken_to is not None:
        raise InvalidRequestError(
            f"{option} names both ends already", hint="give --year, or --month (2024-07), or --from and --to"
        )
    wanted = Precision.YEAR if option == "--year" else Precision.MONTH
    example = "2024" if wanted is Precision.YEAR else "2024-07"
    period = _read(text, option, parse_period)
    if period is None or period.precision is not wanted:
        raise InvalidRequestError(f"{option} {text!r} is not a {wanted}", hint=f"write it as {example}")
    return Dates(period.start, period.end)


def _read(text: str | None, option: str, read: Callable[[object], _T]) -> _T | None:
    if text is None:
        return None
    try:
        return read(text)
    except DateTextError as error:
        raise InvalidRequestError(f"{option} {error.problem}", hint=error.hint) from error
