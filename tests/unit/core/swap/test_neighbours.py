"""Neighbours of pictures in two versions of a space: a picture is no neighbour of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch
from lodestone.store.edge.store import EdgeStore
from lodestone.swap.shadow import _neighbours
from lodestone_schemas.collections import CollectionSpec

IDS = [f"00000000-0000-5000-8000-{number:012}" for number in range(4)]
ANGLES = (0, 10, 90, 100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EdgeStore]:
    """Four pictures in two versions: in the old one 0 is next to 1 and 2 to 3, in the new one 0 to 2 and 1 to 3."""
    opened = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    for name, order in (("old", (0, 1, 2, 3)), ("new", (0, 2, 1, 3))):
        opened.create(CollectionSpec(name, 2))
        angles = np.deg2rad([ANGLES[place] for place in order])
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        opened.upsert(name, PointBatch(IDS, vectors, [{} for _ in IDS]))
    yield opened
    opened.close()


def test_versions_whose_neighbours_all_differ_agree_in_nothing(store: EdgeStore) -> None:
    """With the picture itself among its neighbours, half of them would agree."""
    assert _neighbours(store, ("old", "new"), 4, 1)["neighbours"]["mean"] == 0.0
    assert _neighbours(store, ("old", "old"), 4, 1)["neighbours"]["mean"] == 1.0


def test_of_three_neighbours_of_four_pictures_all_agree(store: EdgeStore) -> None:
    found = _neighbours(store, ("old", "new"), 4, 3)["neighbours"]
    assert (found["mean"], found["compared"]) == (1.0, 4)
