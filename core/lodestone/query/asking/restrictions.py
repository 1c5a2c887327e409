"""Restrictions of queries: one table from the type of a restriction to its member of the API and to what says who meets it.

A row answers with a filter of the store: a condition on the fields of pictures, or the ids of those that the catalog knows to
meet it. A new restriction needs its class in tree.py, its member of `QuerySet` (lodestone_schemas.searching) and its row here
(docs/recipes/add-a-restriction.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lodestone.errors import InvalidRequestError
from lodestone.query.asking.filters import FilterSources, restriction
from lodestone.query.asking.tree import Among, Meets, Restriction, Tagged
from lodestone.store.algebra import EVERY_POINT
from lodestone.store.base import Filter, HasId
from lodestone.store.checks import check_ids

MOST_IDS: Final = 50_000
"""Pictures that a set of ids may hold: each search hands all of them to the store."""


@dataclass(frozen=True, slots=True)
class RestrictionRow:
    """How restrictions of one type are asked for and answered.

    Attributes:
        member: Member of `QuerySet` that asks for one.
        made_of: Makes the node of the member's value.
        filter_of: Returns the filter that matches the pictures which meet the node. Blocking.
    """

    member: str
    made_of: Callable[[Any], Restriction]
    filter_of: Callable[[Any, FilterSources], Filter]


def _meeting(node: Meets, sources: FilterSources) -> Filter:
    return restriction(node.filters, sources)[0] or EVERY_POINT


def _among(node: Among, sources: FilterSources) -> Filter:  # noqa: ARG001 (a row of the table)
    return _of_ids(node.image_ids, "pictures are named")


def _tagged(node: Tagged, sources: FilterSources) -> Filter:
    return _of_ids(sources.catalog.tagged_pictures(node.tag, MOST_IDS + 1), f"or more pictures have the tag {node.tag!r}")


RESTRICTIONS: Final[dict[type[Restriction], RestrictionRow]] = {
    Meets: RestrictionRow("filters", Meets, _meeting),
    Among: RestrictionRow("images", lambda image_ids: Among(tuple(image_ids)), _among),
    Tagged: RestrictionRow("tagged", Tagged, _tagged),
}


def filter_of(node: Restriction, sources: FilterSources) -> Filter:
    """Return the filter that matches the pictures which meet a restriction. Blocking.

    Raises:
        InvalidRequestError: there is no row for its type, an id is none, or it holds too many pictures.
        UnknownNameError: it names a corpus or root that is unknown or not seen, or a field that no part has.
    """
    if type(node) not in RESTRICTIONS:
        name = type(node).__name__
        known = ", ".join(sorted(one.__name__ for one in RESTRICTIONS))
        raise InvalidRequestError(f"restrictions of the type {name!r} are not answered", hint=f"known: {known}", node=name)
    return RESTRICTIONS[type(node)].filter_of(node, sources)


def _of_ids(image_ids: tuple[str, ...] | list[str], what: str) -> Filter:
    if len(image_ids) > MOST_IDS:
        raise InvalidRequestError(
            f"{len(image_ids):,} {what}, and a set holds at most {MOST_IDS:,}",
            hint="restrict by corpus, folder or date instead, which have no such limit",
            most=MOST_IDS,
        )
    return Filter(must=(HasId(tuple(sorted(set(check_ids(image_ids))))),))
