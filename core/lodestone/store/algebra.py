"""Set algebra of filters: the filter of what several match together, of what any of them matches, and of all else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lodestone.store.base import AnyOf, Between, Condition, Filter, HasId, MatchAny

EVERY_POINT: Final = Filter()
"""Filter that matches every point."""

NO_POINT: Final = Filter(must=(HasId(()),))
"""Filter that matches no point."""


def all_of(filters: Iterable[Filter]) -> Filter:
    """Return the filter that matches what every one of the filters matches; without any of them, every point."""
    must: dict[Condition, None] = {}
    must_not: dict[Condition, None] = {}
    for filter_ in filters:
        must |= dict.fromkeys(filter_.must)
        must_not |= dict.fromkeys(filter_.must_not)
    return Filter(tuple(must), tuple(must_not))


def any_of(filters: Iterable[Filter]) -> Filter:
    """Return the filter that matches what at least one of the filters matches; without any of them, no point."""
    distinct = tuple(dict.fromkeys(filters))
    if EVERY_POINT in distinct:
        return EVERY_POINT
    if len(distinct) == 1:
        return distinct[0]
    return Filter(must=(AnyOf(distinct),)) if distinct else NO_POINT


def complement(filter_: Filter) -> Filter:
    """Return the filter that matches what the filter does not match."""
    match filter_:
        case Filter((), ()):
            return NO_POINT
        case Filter((AnyOf(filters),), ()) if len(filters) == 1:
            return complement(filters[0])
        case Filter((), (AnyOf(filters),)):
            return any_of(filters)
        case Filter((condition,), ()):
            return Filter(must_not=(condition,))
        case Filter((), (condition,)):
            return Filter(must=(condition,))
        case _:
            return Filter(must_not=(AnyOf((filter_,)),))


def fields_of(filter_: Filter | None) -> set[str]:
    """Return the names of the fields that a filter asks for."""
    names: set[str] = set()
    for condition in () if filter_ is None else (*filter_.must, *filter_.must_not):
        match condition:
            case MatchAny(field=name) | Between(field=name):
                names.add(name)
            case AnyOf(filters):
                names.update(name for one in filters for name in fields_of(one))
            case _:
                pass
    return names


def by_owner(filter_: Filter | None, field: str = "image") -> Filter | None:
    """Return the same filter for a collection whose points belong to pictures, such as captions.

    Args:
        filter_: A filter of a collection of pictures, whose points have the pictures' ids; None for none.
        field: Field that holds the id of the picture that a point belongs to.
    """

    def of_points(condition: Condition) -> Condition:
        match condition:
            case HasId(ids):
                return MatchAny(field, ids)
            case AnyOf(filters):
                return AnyOf(tuple(of_all(one) for one in filters))
            case _:
                return condition

    def of_all(one: Filter) -> Filter:
        return Filter(tuple(map(of_points, one.must)), tuple(map(of_points, one.must_not)))

    return None if filter_ is None else of_all(filter_)
