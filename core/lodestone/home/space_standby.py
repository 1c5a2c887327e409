"""Unsettled swaps, and the collections that they hold besides those that are searched.

From its beginning until it is settled (finished, rolled back or cancelled), a swap has two collections: the active one is
searched, the other one is on standby. Pictures that are indexed meanwhile enter both, so that either can take over at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import SwapRecord
from lodestone.catalog.work.swaps import unsettled_swaps
from lodestone.errors import LodestoneError
from lodestone.home.space_definitions import SpaceDefinition, projection_of

if TYPE_CHECKING:
    from lodestone.home.space_resources import SpaceResources
    from lodestone.spaces.base import Projection

OLD: Final = "old"  # keys of a swap's report
NEW: Final = "new"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwapVersions:
    """Holds both sides of a swap: each is a definition and the collection that it had when the swap began."""

    old: SpaceDefinition
    old_collection: str
    new: SpaceDefinition
    new_collection: str

    @classmethod
    def of(cls, swap: SwapRecord) -> SwapVersions:
        """Return the sides of a swap's row.

        Raises:
            CatalogError: the row's definitions cannot be read.
        """
        old, new = (SpaceDefinition.from_dict(swap.report.get(side, {})) for side in (OLD, NEW))
        return cls(old, swap.old_collection, new, swap.new_collection)

    def __iter__(self) -> Iterator[tuple[SpaceDefinition, str]]:
        yield self.old, self.old_collection
        yield self.new, self.new_collection


def has_versions(swap: SwapRecord) -> bool:
    """Return whether the swap's row already holds both definitions."""
    return OLD in swap.report and NEW in swap.report


def standby_projections(resources: SpaceResources) -> dict[str, Projection]:
    """Return collection -> projection of the standby collections, which are kept up to date beside the active ones.

    A side that cannot be made any more (its package is gone, or has another version now) is left out and logged, so that it
    does not stop indexing.
    """
    standby: dict[str, Projection] = {}
    swaps = [swap for swap in unsettled_swaps(resources.catalog) if has_versions(swap)]
    searched = resources.projections() if swaps else {}
    serving = {projection.collection for projection in searched.values()}
    for swap in swaps:
        if swap.space not in searched:
            continue
        for definition, collection in SwapVersions.of(swap):
            if collection in serving:
                continue
            try:
                projection = projection_of(definition, resources)
                actual = projection.collection
            except LodestoneError as error:
                _log.warning("the collection %s of a model swap is not kept up to date: %s", collection, error.message)
                continue
            if actual == collection:
                standby[collection] = projection
            else:
                _log.warning(
                    "the collection %s of a model swap is not kept up to date: its model is %s now", collection, actual
                )
    return standby
