"""Filters of the command line: corpora, folders, and the options `--from`, `--to`, `--year` and `--month` as two bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.options import (
    CorpusFilterOption,
    DateFromOption,
    DateToOption,
    MonthOption,
    PathPrefixOption,
    RootFilterOption,
    YearOption,
)
from lodestone_schemas.dates import DateTextError, Precision, parse_date, parse_period

if TYPE_CHECKING:
    from lodestone_schemas.api import SearchFilters

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


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Options that restrict a search, or a list of pictures, to corpora, folders and dates."""

    corpus: CorpusFilterOption = None
    root: RootFilterOption = None
    path: PathPrefixOption = None
    taken_from: DateFromOption = None
    taken_to: DateToOption = None
    year: YearOption = None
    month: MonthOption = None

    def dates(self) -> Dates:
        """Return the bounds that the options give; raise as `dates_of`."""
        return dates_of(self.taken_from, self.taken_to, self.year, self.month)

    def filters(self, context: CommandContext) -> SearchFilters:
        """Return the filters that the options name, as `filters_of` does."""
        return filters_of(context, self.corpus, self.root, self.path, self.dates())


def _read(text: str | None, option: str, read: Callable[[object], _T]) -> _T | None:
    if text is None:
        return None
    try:
        return read(text)
    except DateTextError as error:
        raise InvalidRequestError(f"{option} {error.problem}", hint=error.hint) from error


def filters_of(
    context: CommandContext,
    corpus: list[str] | None,
    root: list[str] | None,
    path: str | None,
    dates: Dates,
) -> SearchFilters:
    """Return the filters that a command's options name, and say which folders below a folder are roots of their own."""
    from lodestone_cli.folders import FolderFilters
    from lodestone_schemas.searching import SearchFilters

    place = FolderFilters(corpus or [], root or [], path)
    if path is not None:
        place = context.locator.folder(path, corpora=place.corpora, roots=place.roots)
    if place.beside:
        left_out = ", ".join(f"--root {name}" for name in place.beside)
        context.messages.print(printable(f"note: folders below it that are roots of their own: {left_out}"), markup=False)
    return SearchFilters(
        corpora=place.corpora,
        roots=place.roots,
        path_prefix=place.prefix,
        taken_from=dates.start,
        taken_to=dates.end,
    )
