"""Model swaps that are not settled yet, and the collections that must be kept for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import SwapRecord, SwapState

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

UNSETTLED: Final = frozenset({SwapState.BACKFILL, SwapState.SHADOW, SwapState.PROMOTED})
_MOST: Final = 1000  # highest number of swaps that are read, newest first


def unsettled_swaps(catalog: Catalog, space: str | None = None) -> list[SwapRecord]:
    """Return the swaps that hold two collections, newest first."""
    return [swap for swap in catalog.swaps(_MOST, space=space) if swap.state in UNSETTLED]


def retained_collections(catalog: Catalog) -> set[str]:
    """Return the collections of unsettled swaps; they are kept, searched or not."""
    return {name for swap in unsettled_swaps(catalog) for name in (swap.old_collection, swap.new_collection)}
