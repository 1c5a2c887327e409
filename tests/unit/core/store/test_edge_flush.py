"""Tests that an embedded collection is flushed when it is closed after writes, and left alone after searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodestone.store.base import PointBatch
from lodestone.store.edge import collection as module
from lodestone.store.edge.collection import UNFLUSHED_FILE, EdgeCollection
from lodestone_schemas.collections import CollectionSpec

IDS = tuple(f"00000000-0000-0000-0000-{number:012d}" for number in range(3))
VECTORS = np.eye(3, 4, dtype=np.float32)


class CountingShard:
    """An engine's shard that counts its flushes."""

    flushes = 0

    def __init__(self, shard: Any) -> None:
        self._shard = shard

    def flush(self) -> None:
        CountingShard.flushes += 1
        self._shard.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shard, name)


class CountingEngine:
    """The engine's `EdgeShard`, whose opened shards count their flushes."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def load(self, path: str) -> CountingShard:
        return CountingShard(self._engine.load(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection with three points, whose flushes are counted from now on."""
    created = EdgeCollection.create(tmp_path / "bridge-1", CollectionSpec(name="bridge-1", dim=4))
    created.upsert(_points())
    created.close()
    monkeypatch.setattr(module.qe, "EdgeShard", CountingEngine(module.qe.EdgeShard))
    monkeypatch.setattr(CountingShard, "flushes", 0)
    return created.path


def _points() -> PointBatch:
    return PointBatch(IDS, VECTORS, tuple({} for _ in IDS))


def _count(collection: EdgeCollection) -> int:
    with collection.reading() as shard:
        return int(shard.info().points_count)


def test_a_collection_that_was_only_read_is_not_flushed(path: Path) -> None:
    reader = EdgeCollection(path)
    assert _count(reader) == len(IDS)
    reader.close()
    assert CountingShard.flushes == 0


@pytest.mark.parametrize("write", [lambda c: c.upsert(_points()), lambda c: c.delete(IDS[:1])])
def test_a_collection_that_was_written_is_flushed_once(path: Path, write: Any) -> None:
    writer = EdgeCollection(path)
    write(writer)
    assert list(path.glob(f"*/{UNFLUSHED_FILE}"))
    writer.close()
    assert CountingShard.flushes == 1
    assert not list(path.glob(f"*/{UNFLUSHED_FILE}"))


def test_the_first_reader_after_a_killed_writer_flushes_what_the_log_holds(path: Path) -> None:
    killed = EdgeCollection(path)
    killed.delete(IDS[:1])
    with killed.reading() as shard:
        shard.close()  # as when the process ends: nothing is flushed
    assert CountingShard.flushes == 0

    for flushes in (1, 1):  # the second reader has nothing left to do
        reader = EdgeCollection(path)
        assert _count(reader) == len(IDS) - 1
        reader.close()
        assert CountingShard.flushes == flushes
