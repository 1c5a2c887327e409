"""Filters of the vector store, evaluated over the facts of pictures in memory: no store is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.store.base import AnyOf, Filter, HasId, Payload
from lodestone.store.edge.columns import FilterColumns
from lodestone_schemas.collections import PAYLOAD_FIELDS, FieldKind


class Matcher:
    """Evaluates one filter over many slices.

    Args:
        filter_: The conditions.
        fields: Fields of further parts that pictures may have.
    """

    def __init__(self, filter_: Filter, fields: Mapping[str, FieldKind]) -> None:
        self._filter = filter_
        self._fields = (*PAYLOAD_FIELDS, *fields.items())
        self._ids = {condition: frozenset(condition.ids) for condition in _on_ids(filter_)}

    def matching(self, ids: Sequence[str], payloads: Sequence[Payload]) -> NDArray[np.bool_]:
        """Return (n,) True for the pictures that the filter matches.

        Args:
            ids: Ids of the pictures (n).
            payloads: Their filter fields (n).

        Raises:
            InvalidRequestError: a field holds values of which only a vector store can tell which match.
        """
        columns = FilterColumns(self._fields)
        columns.append(0, payloads)

        def rows_of(condition: HasId) -> NDArray[np.intp]:
            wanted = self._ids[condition]
            return np.array([row for row, image_id in enumerate(ids) if image_id in wanted], np.intp)

        # Conditions on ids that stand by themselves would be left out.
        matched = columns.matching(Filter(must=(AnyOf((self._filter,)),)), len(ids), rows_of)
        if matched is None:
            raise InvalidRequestError(
                "the restrictions ask for a field of a part with values that an export cannot compare",
                hint="leave these restrictions out, and filter the exported files",
            )
        return matched


def _on_ids(filter_: Filter) -> Iterator[HasId]:
    """Yield the conditions on ids of a filter, at any depth."""
    for condition in (*filter_.must, *filter_.must_not):
        if isinstance(condition, HasId):
            yield condition
        elif isinstance(condition, AnyOf):
            for one in condition.filters:
                yield from _on_ids(one)
