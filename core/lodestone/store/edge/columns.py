"""Filter fields of a matrix's rows as columns, from which the rows that a filter matches are computed at once.

Columns hold what the collection's specification declares: texts, or lists of texts, of keyword fields, and single numbers of
number fields. A field that the specification does not name, or one with any other value in it, is left to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.store.base import AnyOf, Between, Condition, Filter, HasId, MatchAny
from lodestone_schemas.collections import FieldKind

Mask = NDArray[np.bool_]
_FEWEST: Final = 1_024
_EXACT: Final = 2**53  # whole numbers up to here are floats without rounding


class Growing:
    """One-dimensional array with room at its end. What was read from it before does not change when it grows.

    Args:
        values: First values.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._room = values
        self._used = len(values)

    @property
    def values(self) -> NDArray[Any]:
        """The values so far, as a view."""
        return self._room[: self._used]

    def extend(self, values: Sequence[Any]) -> None:
        """Append values at the end."""
        if not len(values):
            return  # nothing may be written to the pages of a file, not even that
        used = self._used + len(values)
        if used > len(self._room):
            room = np.empty(max(2 * used, _FEWEST), self._room.dtype)
            room[: self._used] = self._room[: self._used]
            self._room = room
        self._room[self._used : used] = values
        self._used = used


class KeywordColumn:
    """Texts of the rows, any number a row, as pairs of a row and the number of a text.

    Args:
        texts: Distinct texts, in the order of their numbers.
        rows: (pairs,) int32.
        codes: (pairs,) int32 numbers of texts.
    """

    def __init__(
        self, texts: Sequence[str] = (), rows: NDArray[np.int32] | None = None, codes: NDArray[Any] | None = None
    ) -> None:
        self._code_of = {text: code for code, text in enumerate(texts)}
        self._rows = Growing(np.empty(0, np.int32) if rows is None else rows)
        self._codes = Growing(np.empty(0, np.int32) if codes is None else codes)
        self.regular = True

    def append(self, first: int, values: Sequence[object]) -> None:
        """Append the values of further rows, of which `first` is the number of the first one."""
        rows: list[int] = []
        codes: list[int] = []
        for row, value in enumerate(values, first):
            for text in value if isinstance(value, (list, tuple)) else () if value is None else (value,):
                if not isinstance(text, str):
                    self.regular = False
                    return
                rows.append(row)
                codes.append(self._code_of.setdefault(text, len(self._code_of)))
        self._rows.extend(rows)
        self._codes.extend(codes)

    def matching(self, condition: MatchAny | Between, count: int) -> Mask | None:
        """Return (count,) True for the rows that a condition matches; None if the engine has to say."""
        if not self.regular or isinstance(condition, Between):
            return None
        wanted = [self._code_of[value] for value in condition.values if isinstance(value, str) and value in self._code_of]
        matched = np.zeros(count, np.bool_)
        if wanted:
            codes = self._codes.values
            table = np.zeros(len(self._code_of), np.bool_)
            table[wanted] = True
            matched[self._rows.values[table[codes]]] = True
        return matched

    def arrays(self, kept: Mask | None) -> dict[str, Any]:
        """Return the constructor's arguments for the rows that are kept, (rows,) bool, numbered anew; None: all rows."""
        rows, codes = self._rows.values, self._codes.values
        if kept is not None:
            pairs = kept[rows]
            rows, codes = (np.cumsum(kept) - 1).astype(np.int32)[rows[pairs]], codes[pairs]
        return {"texts": list(self._code_of), "rows": rows, "codes": codes}


class NumberColumn:
    """One number a row; rows without one have NaN.

    Args:
        numbers: (rows,) float64.
        whole: Whether the field holds whole numbers.
    """

    def __init__(self, numbers: NDArray[np.float64] | None = None, *, whole: bool) -> None:
        self._numbers = Growing(np.empty(0, np.float64) if numbers is None else numbers)
        self._whole = whole
        self.regular = True

    def append(self, first: int, values: Sequence[object]) -> None:  # noqa: ARG002 - rows are numbered as they come
        """Append the values of further rows."""
        fits = all(value is None or _is_number(value, whole=self._whole) for value in values)
        self.regular = self.regular and fits
        if self.regular:
            self._numbers.extend([np.nan if value is None else value for value in values])

    def matching(self, condition: MatchAny | Between, count: int) -> Mask | None:
        """Return (count,) True for the rows that a condition matches; None if the engine has to say."""
        if not self.regular:
            return None
        numbers = self._numbers.values[:count]
        if isinstance(condition, Between):
            matched: Mask = ~np.isnan(numbers)
            if condition.gte is not None:
                matched &= numbers >= condition.gte
            if condition.lt is not None:
                matched &= numbers < condition.lt
            return matched
        if not self._whole:
            return None
        wanted = [value for value in condition.values if not isinstance(value, str)]
        return np.isin(numbers, np.array(wanted, np.float64)) if all(_is_number(v, whole=True) for v in wanted) else None

    def arrays(self, kept: Mask | None) -> dict[str, Any]:
        """Return the constructor's array for the rows that are kept, (rows,) bool; None: all rows."""
        return {"numbers": self._numbers.values if kept is None else self._numbers.values[kept]}


Column = KeywordColumn | NumberColumn


class FilterColumns:
    """All columns of one matrix. Not thread-safe: the matrix locks.

    Args:
        fields: Filter fields of the collection.
        made: Columns that were read from a file; None for empty ones.
    """

    def __init__(self, fields: Sequence[tuple[str, FieldKind]], made: Mapping[str, Column] | None = None) -> None:
        empty = {
            name: KeywordColumn() if kind is FieldKind.KEYWORD else NumberColumn(whole=kind is FieldKind.INTEGER)
            for name, kind in fields
        }
        self.by_field: dict[str, Column] = empty if made is None else dict(made)

    def append(self, first: int, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Append the fields of further rows, of which `first` is the number of the first one."""
        for name, column in self.by_field.items():
            if column.regular:
                column.append(first, [payload.get(name) for payload in payloads])

    def matching(self, filter_: Filter, count: int, rows_of: Callable[[HasId], NDArray[np.intp]]) -> Mask | None:
        """Return (count,) True for the rows that all conditions match, or None if the engine has to say.

        Args:
            filter_: The conditions; those on ids in `filter_.must` itself are left out, as their few rows are better looked up.
            count: Number of rows.
            rows_of: Returns the rows of the points that a condition on ids names.
        """
        kept = tuple(condition for condition in filter_.must if not isinstance(condition, HasId))
        return self._all_hold(Filter(kept, filter_.must_not), count, rows_of)

    def _all_hold(self, filter_: Filter, count: int, rows_of: Callable[[HasId], NDArray[np.intp]]) -> Mask | None:
        matched = np.ones(count, np.bool_)
        for conditions, wanted in ((filter_.must, True), (filter_.must_not, False)):
            for condition in conditions:
                found = self._holding(condition, count, rows_of)
                if found is None:
                    return None
                matched &= found if wanted else ~found
        return matched

    def _holding(self, condition: Condition, count: int, rows_of: Callable[[HasId], NDArray[np.intp]]) -> Mask | None:
        """Return (count,) True for the rows for which one condition holds; None if the engine has to say."""
        if isinstance(condition, MatchAny | Between):
            return self._matching(condition, count)
        matched = np.zeros(count, np.bool_)
        if isinstance(condition, AnyOf):
            for filter_ in condition.filters:
                found = self._all_hold(filter_, count, rows_of)
                if found is None:
                    return None
                matched |= found
        else:
            matched[rows_of(condition)] = True
        return matched

    def _matching(self, condition: MatchAny | Between, count: int) -> Mask | None:
        column = self.by_field.get(condition.field)
        found = None if column is None else column.matching(condition, count)
        if found is None or not isinstance(condition, Between) or condition.otherwise is None:
            return found
        has_field = self._matching(Between(condition.field), count)
        instead = self._matching(Between(condition.otherwise, condition.gte, condition.lt), count)
        return None if has_field is None or instead is None else np.where(has_field, found, instead)


def _is_number(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return False
    return abs(value) <= _EXACT
