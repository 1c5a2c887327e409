"""Loaders of groups: a `GroupLoader` makes the points of a group and writes them to the store, in this process or in others.

The driver of a sync plans groups, hands several at once to a loader, and records what the loader reports. A loader touches no
catalog. Upserts replace whole points, so a group whose loader died is simply loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lodestone.files.area import FileArea
from lodestone.indexing.sync.load_groups import LoadGroup, PointMaker
from lodestone.store.base import VectorStore


class GroupLoader(Protocol):
    """Loads groups of slices; called by several threads at once."""

    def load(self, maker: PointMaker, group: LoadGroup) -> int:
        """Make the points of the group and write them; return their number once the store has them durably.

        Args:
            maker: Makes the points of the group's collection.
            group: The group.

        Raises:
            EmbeddingsDamagedError: a file of the group is missing or damaged.
            StoreError: the store refused the points, or was away for longer than its patience.
            OutOfSpaceError: the store's disk is full.
        """


LoaderFactory = Callable[[VectorStore, FileArea], GroupLoader]
"""Makes the loader of a sync from the opened store and the area of the Parquet files."""


class StoreLoader:
    """Loader that works in the calling thread of this process.

    Args:
        store: The opened store.
        embeddings: Area of the Parquet files.
    """

    def __init__(self, store: VectorStore, embeddings: FileArea) -> None:
        self._store = store
        self._embeddings = embeddings

    def load(self, maker: PointMaker, group: LoadGroup) -> int:
        """Make the points and upsert them."""
        points = maker.points(self._embeddings, group)
        if len(points):
            self._store.upsert(group.collection, points)
        return len(points)
