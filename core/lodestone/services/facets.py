"""Facets: the values of one kind of facts among the pictures that pass filters, with the number of pictures of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import SHOWN
from lodestone.errors import UnknownNameError
from lodestone.facts.facts import FIELD, KINDS, shown_fact
from lodestone.store.algebra import all_of
from lodestone.store.base import Filter, MatchAny, VectorStore
from lodestone_schemas.searching import Facets, FacetValue

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

_MOST_VALUES: Final = 20_000  # facts of all kinds that are counted at once
_EXAMPLES: Final = 5  # pictures whose facts are read to see how people write a value


def facets_of(
    kind: str, filter_: Filter | None, catalog: Catalog, store: VectorStore, collection: str | None, *, most: int
) -> Facets:
    """Return the commonest values of a kind of facts among the points that a filter matches.

    Values that only repeat others in other words are left out.

    Args:
        kind: One of `KINDS`.
        filter_: What the pictures must fulfil; None for all.
        catalog: Knows the pictures.
        store: Holds the collection.
        collection: A collection with one point for each picture; None where there is none yet.
        most: Values, at most.

    Raises:
        UnknownNameError: there is no such kind.
    """
    if kind not in KINDS:
        raise UnknownNameError.among("kind of facts", kind, list(KINDS))
    if collection is None:
        return Facets(values=[], pictures=0, more=False)
    counted = store.facet(collection, FIELD, filter_, most=_MOST_VALUES)
    values: list[FacetValue] = []
    more = len(counted) == _MOST_VALUES
    for code, pictures in counted:
        if not code.startswith(f"{kind}:"):
            continue
        having = all_of([*([] if filter_ is None else [filter_]), Filter(must=(MatchAny(FIELD, (code,)),))])
        found = next(iter(store.scroll(collection, having, batch_size=_EXAMPLES)), None)
        examples = [] if found is None else [image for image in catalog.images(found.ids).values() if image.state in SHOWN]
        named = ((image.image_id, *shown) for image in examples if (shown := shown_fact(image, code)) is not None)
        image_id, value, name = next(named, ("", "", ""))
        if not name:
            continue  # it repeats another one in other words
        if len(values) == most:
            more = True
            break
        values.append(FacetValue(value=value, name=name, pictures=pictures, image_id=image_id))
    values.sort(key=lambda value: (-value.pictures, value.name))
    return Facets(values=values, pictures=store.count(collection, filter_), more=more)
