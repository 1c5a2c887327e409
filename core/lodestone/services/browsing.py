"""Pictures by date, without a query: the filters of a search, answered by the catalog alone."""

from __future__ import annotations

from typing import Final

from lodestone.catalog.pictures.dated import PictureFilter
from lodestone.errors import InvalidRequestError
from lodestone.store.base import Between, Condition, Filter, MatchAny

_KEYWORDS: Final = {"corpus": "corpora", "root": "roots", "folders": "folders"}
_CLOCKS: Final = {"taken_at": "local", "taken_utc": "utc"}


def picture_filter(which: Filter | None) -> PictureFilter:
    """Return the catalog's filter for one of the store.

    Raises:
        InvalidRequestError: A condition is one that only the vector store knows.
    """
    if which is None:
        return PictureFilter()
    members: dict[str, object] = {}
    for condition in which.must:
        if isinstance(condition, MatchAny) and condition.field in _KEYWORDS:
            name = _KEYWORDS[condition.field]
            values = [str(value) for value in condition.values]
            earlier = members.get(name)
            members[name] = [value for value in values if value in earlier] if isinstance(earlier, list) else values
        elif isinstance(condition, Between) and condition.field in _CLOCKS:
            clock = _CLOCKS[condition.field]
            members |= {f"{clock}_from": condition.gte, f"{clock}_to": condition.lt}
        else:
            raise _unknown(condition)
    left_out: list[str] = []
    for condition in which.must_not:
        if isinstance(condition, MatchAny) and condition.field == "root":
            left_out += map(str, condition.values)
        elif isinstance(condition, Between) and condition.field == "taken_until" and condition.gte is not None:
            members["period_to"] = condition.gte - 1  # a period ends at whole seconds
        else:
            raise _unknown(condition)
    return PictureFilter(without_roots=left_out, **members)  # type: ignore[arg-type]


def _unknown(condition: Condition) -> InvalidRequestError:
    return InvalidRequestError(f"pictures cannot be listed by {condition!r}", hint="search by words with this filter")
