"""Are stored outputs loaded side by side with their reading, in order, and never counted before the store has them?"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from benchmarks.load import make_home

from lodestone.catalog.records import SliceRecord
from lodestone.errors import StoreError
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import ProgressEvent, silent
from lodestone.indexing.sync.loading import load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec

POINTS, DIM = 60, 8


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpaceTarget:
    """60 pictures in 15 slices, which are loaded in groups of at most 8."""
    monkeypatch.setattr("lodestone.indexing.sync.loading._FIRST_ROWS", 8)
    monkeypatch.setattr("lodestone.indexing.sync.loading._GROUP_ROWS", 8)
    return make_home(tmp_path, points=POINTS, dim=DIM, slice_rows=4)


@pytest.fixture
def store(tmp_path: Path, target: SpaceTarget) -> Iterator[VectorStore]:
    opened = open_store("edge", root=tmp_path / "store")
    opened.create(CollectionSpec(target.collection, DIM))
    yield opened
    opened.close()


def bring(store: VectorStore, target: SpaceTarget) -> int:
    return load(store, target, progress=silent, faults=Faults())


def test_every_point_is_loaded_once_and_counted(store: VectorStore, target: SpaceTarget) -> None:
    events: list[ProgressEvent] = []
    assert load(store, target, progress=events.append, faults=Faults()) == POINTS
    assert (events[-1].done, events[-1].total) == (POINTS, POINTS)
    wanted = target.points(list(target.catalog.slices()))
    found = store.retrieve(target.collection, wanted.ids)
    assert len(found) == store.count(target.collection) == POINTS
    np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-6)
    assert bring(store, target) == 0


def test_the_next_group_is_read_while_one_is_written(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = [threading.Event() for _ in range(8)]
    reading, writing = iter(read), iter(read[1:])
    points, write = SpaceTarget.points, SpaceTarget.write

    def reads(self: SpaceTarget, slices: Sequence[SliceRecord]) -> PointBatch:
        batch = points(self, slices)
        next(reading).set()
        return batch

    def writes(self: SpaceTarget, *arguments: object, **keywords: object) -> None:
        following = next(writing, None)
        assert following is None or following.wait(30)
        write(self, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(SpaceTarget, "points", reads)
    monkeypatch.setattr(SpaceTarget, "write", writes)
    assert bring(store, target) == POINTS


def test_a_store_that_is_slow_makes_the_reading_wait(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, most = 0, 0
    points, write = SpaceTarget.points, SpaceTarget.write
    lock = threading.Lock()

    def reads(self: SpaceTarget, slices: Sequence[SliceRecord]) -> PointBatch:
        nonlocal ahead, most
        with lock:
            ahead += 1
            most = max(most, ahead)
        return points(self, slices)

    def writes(self: SpaceTarget, *arguments: object, **keywords: object) -> None:
        nonlocal ahead
        threading.Event().wait(0.02)
        write(self, *arguments, **keywords)  # type: ignore[arg-type]
        with lock:
            ahead -= 1

    monkeypatch.setattr(SpaceTarget, "points", reads)
    monkeypatch.setattr(SpaceTarget, "write", writes)
    assert bring(store, target) == POINTS
    assert most <= 3


def test_groups_that_failed_are_not_counted_and_those_before_are_not_sent_again(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = SpaceTarget.write, iter(range(100))

    def fails(self: SpaceTarget, *arguments: object, **keywords: object) -> None:
        if next(calls) == 3:
            raise StoreError("gone", hint="again")
        write(self, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(SpaceTarget, "write", fails)
    with pytest.raises(StoreError, match="gone"):
        bring(store, target)
    assert store.count(target.collection) == 3 * 8
    assert target.catalog.count_loaded(target.collection) == 3 * 2
    assert bring(store, target) == POINTS - 3 * 8
    assert store.count(target.collection) == POINTS


def test_what_changed_between_its_reading_and_its_writing_is_loaded_again(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = SpaceTarget.points
    first = next(iter(target.catalog.slices()))

    def overtaken(self: SpaceTarget, slices: Sequence[SliceRecord]) -> PointBatch:
        batch = points(self, slices)
        if first in slices:
            receipt = self.catalog.receipts(first.slice_id)["bench-1"]
            self.catalog.forget_receipts(first.slice_id, ["bench-1"])  # as when its file was found damaged
            self.catalog.record_receipts([receipt])
        return batch

    monkeypatch.setattr(SpaceTarget, "points", overtaken)
    bring(store, target)
    monkeypatch.undo()
    waiting = list(target.catalog.unloaded_slices(target.collection, parts=target.required))
    assert [record.slice_id for record in waiting] == [first.slice_id]
