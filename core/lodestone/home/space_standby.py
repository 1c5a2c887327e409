"""Which swaps are not settled yet, and which collections do they hold besides those that are searched?

From its beginning to the moment it is settled (finished, rolled back or cancelled), a swap has two collections: the one in
force is searched, the other one stands by. What is indexed meanwhile enters both, so that either can take over at once.
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
_MOST: Final = 1000  # swaps looked at, newest first
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwapVersions:
    """What a swap is between. Either side is a definition and the collection that it had when the swap began."""

    old: SpaceDefinition
    old_collection: str
    new: SpaceDefinition
    new_collection: str

    @classmethod
    def of(cls, swap: SwapRecord) -> SwapVersions:
        """Out of a swap's row.

        Raises:
            CatalogError: the row's definitions cannot be read.
        """
        old, new = (SpaceDefinition.from_dict(swap.report.get(side, {})) for side in (OLD, NEW))
        return cls(old, swap.old_collection, new, swap.new_collection)

    def __iter__(self) -> Iterator[tuple[SpaceDefinition, str]]:
        yield self.old, self.old_collection
        yield self.new, self.new_collection


def has_versions(swap: SwapRecord) -> bool:
    """Whether the swap got as far as writing down what it is between."""
    return OLD in swap.report and NEW in swap.report


def unsettled_swaps(catalog: Catalog, space: str | None = None) -> list[SwapRecord]:
    """Swaps that hold two collections, newest first."""
    return [swap for swap in catalog.swaps(_MOST, space=space) if swap.state in UNSETTLED]


def retained_collections(catalog: Catalog) -> set[str]:
    """Collections of swaps that are not settled: they stay, searched or not."""
    return {name for swap in unsettled_swaps(catalog) for name in (swap.old_collection, swap.new_collection)}


def standby_projections(runtime: Runtime) -> dict[str, Projection]:
    """Collection -> projection of what is filled and kept beside the spaces in force.

    A side that cannot be made any more (its package is gone, or is another version now) is left out and logged: it must not
    keep pictures from being indexed.
    """
    found: dict[str, Projection] = {}
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
                found[collection] = projection
            else:
                _log.warning(
                    "the collection %s of a model swap is not kept up to date: its model is %s now", collection, actual
                )
    return found
