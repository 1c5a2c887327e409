"""Unsettled swaps, and the collections that they hold besides those that are searched.

From its beginning until it is settled (finished, rolled back or cancelled), a swap has two collections: the active one is
searched, the other one is on standby. Pictures that are indexed meanwhile enter both, so that either can take over at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import SwapRecord, SwapState
from lodestone.errors import LodestoneError
from lodestone.home.space_definitions import SpaceDefinition, projection_of

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.home.runtime import Runtime
    from lodestone.spaces.base import Projection

UNSETTLED: Final = frozenset({SwapState.BACKFILL, SwapState.SHADOW, SwapState.PROMOTED})
OLD: Final = "old"  # keys of a swap's report
NEW: Final = "new"
_MOST: Final = 1000  # highest number of swaps that are read, newest first
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


def unsettled_swaps(catalog: Catalog, space: str | None = None) -> list[SwapRecord]:
    """Return the swaps that hold two collections, newest first."""
    return [swap for swap in catalog.swaps(_MOST, space=space) if swap.state in UNSETTLED]


def retained_collections(catalog: Catalog) -> set[str]:
    """Return the collections of unsettled swaps; they are kept, searched or not."""
    return {name for swap in unsettled_swaps(catalog) for name in (swap.old_collection, swap.new_collection)}


def standby_projections(runtime: Runtime) -> dict[str, Projection]:
    """Return collection -> projection of the standby collections, which are kept up to date beside the active ones.

    A side that cannot be made any more (its package is gone, or has another version now) is left out and logged, so that it
    does not stop indexing.
    """
    standby: dict[str, Projection] = {}
    swaps = [swap for swap in unsettled_swaps(runtime.catalog) if has_versions(swap)]
    searched = runtime.projections() if swaps else {}
    serving = {projection.collection for projection in searched.values()}
    for swap in swaps:
        if swap.space not in searched:
            continue
        for definition, collection in SwapVersions.of(swap):
            if collection in serving:
                continue
            try:
                projection = projection_of(definition, runtime)
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
