"""Stored outputs are loaded while others are read, and are never counted before the store has them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.indexing.load import make_home

from lodestone.catalog.records import SliceRecord
from lodestone.errors import StoreError
from lodestone.files.area import FileArea
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import ProgressEvent, silent
from lodestone.indexing.sync.load_groups import LoadGroup, PicturePoints, PointMaker
from lodestone.indexing.sync.loaders import GroupLoader, StoreLoader
from lodestone.indexing.sync.loading import IN_FLIGHT, load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.indexing.sync.verify import verify
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


def bring(store: VectorStore, target: SpaceTarget, loader: GroupLoader | None = None, *, loaders: int = IN_FLIGHT) -> int:
    return load(store, target, progress=silent, faults=Faults(), loader=loader, loaders=loaders)


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
    points, upsert = PicturePoints.points, type(store).upsert

    def reads(self: PicturePoints, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        batch = points(self, embeddings, group)
        next(reading).set()
        return batch

    def writes(self: VectorStore, name: str, batch: PointBatch) -> None:
        following = next(writing, None)
        assert following is None or following.wait(180)
        upsert(self, name, batch)

    monkeypatch.setattr(PicturePoints, "points", reads)
    monkeypatch.setattr(type(store), "upsert", writes)
    assert bring(store, target) == POINTS


def test_a_store_that_is_slow_makes_the_reading_wait(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, most = 0, 0
    points, upsert = PicturePoints.points, type(store).upsert
    lock = threading.Lock()

    def reads(self: PicturePoints, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        nonlocal ahead, most
        with lock:
            ahead += 1
            most = max(most, ahead)
        return points(self, embeddings, group)

    def writes(self: VectorStore, name: str, batch: PointBatch) -> None:
        nonlocal ahead
        threading.Event().wait(0.02)
        upsert(self, name, batch)
        with lock:
            ahead -= 1

    monkeypatch.setattr(PicturePoints, "points", reads)
    monkeypatch.setattr(type(store), "upsert", writes)
    assert bring(store, target) == POINTS
    assert most == IN_FLIGHT


def test_groups_that_failed_are_not_counted_and_those_before_are_not_sent_again(
    store: VectorStore, target: SpaceTarget
) -> None:
    calls = iter(range(100))

    class Failing(StoreLoader):
        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            number = next(calls)
            if number == 3:
                raise StoreError("gone", hint="again")
            assert number < 3 + IN_FLIGHT, "groups were begun after one had failed"
            return super().load(maker, group)

    with pytest.raises(StoreError, match="gone"):
        bring(store, target, Failing(store, target.embeddings))
    held = store.count(target.collection)
    assert 3 * 8 <= held <= (3 + IN_FLIGHT) * 8
    assert target.catalog.count_loaded(target.collection) * 4 == held  # what was in flight beside it is recorded too
    assert bring(store, target) == POINTS - held
    assert store.count(target.collection) == POINTS


def test_what_changed_between_its_reading_and_its_writing_is_loaded_again(store: VectorStore, target: SpaceTarget) -> None:
    first = next(iter(target.catalog.slices()))

    class Overtaken(StoreLoader):
        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            loaded = super().load(maker, group)
            if first.slice_id in group.slice_ids:
                receipt = target.catalog.receipts(first.slice_id)["bench-1"]
                target.catalog.forget_receipts(first.slice_id, ["bench-1"])  # as when its file was found damaged
                target.catalog.record_receipts([receipt])
            return loaded

    bring(store, target, Overtaken(store, target.embeddings))
    waiting = list(target.catalog.unloaded_slices(target.collection, parts=target.required))
    assert [record.slice_id for record in waiting] == [first.slice_id]


def test_several_groups_are_in_flight_at_once(store: VectorStore, target: SpaceTarget) -> None:
    meeting = threading.Barrier(3, timeout=180)
    calls = iter(range(100))

    class Meeting(StoreLoader):
        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            if next(calls) < 3:
                meeting.wait()  # breaks unless three loaders are here at once
            return super().load(maker, group)

    assert bring(store, target, Meeting(store, target.embeddings), loaders=3) == POINTS


def test_a_picture_that_changed_slices_waits_for_the_group_that_it_left(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, order = SpaceTarget.plan, list[str]()
    moved = target.catalog.slice_images(next(iter(target.catalog.slices())).slice_id)[0].image_id

    def planned(self: SpaceTarget, slices: Sequence[SliceRecord]) -> LoadGroup:
        group = plan(self, slices)
        if moved in group.touched or len(order) > 1:
            return group
        order.append("planned")
        again = replace(group.slices[0], cleared=[moved])  # as a later state of the picture would be
        return replace(group, slices=(again, *group.slices[1:]))

    class Slow(StoreLoader):
        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            name = "first" if moved in group.slices[0].image_ids else "second" if moved in group.touched else ""
            order.append(f"{name} begins")
            if name == "first":
                threading.Event().wait(0.2)
            loaded = super().load(maker, group)
            order.append(f"{name} ends")
            return loaded

    monkeypatch.setattr(SpaceTarget, "plan", planned)
    assert bring(store, target, Slow(store, target.embeddings), loaders=4) == POINTS
    assert order.index("first ends") < order.index("second begins")


def test_a_loader_that_dies_with_half_a_group_loses_nothing_and_repeats_nothing(
    store: VectorStore, target: SpaceTarget
) -> None:
    class Dying(StoreLoader):
        died = 0

        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            if self.died == 2:
                return super().load(maker, group)
            self.died += 1
            points = maker.points(target.embeddings, group)
            store.upsert(group.collection, PointBatch(points.ids[:3], points.vectors[:3], points.payloads[:3]))
            raise StoreError("the loader is gone", hint="again")

    loader = Dying(store, target.embeddings)
    for _ in range(2):
        with pytest.raises(StoreError, match="gone"):
            bring(store, target, loader, loaders=1)
        assert target.catalog.count_loaded(target.collection) == 0
    assert bring(store, target, loader) == POINTS
    wanted = target.points(list(target.catalog.slices()))
    np.testing.assert_allclose(store.retrieve(target.collection, wanted.ids).vectors, wanted.vectors, atol=1e-6)
    assert store.count(target.collection) == POINTS
    assert verify(store, target, progress=silent) is None


def test_groups_and_makers_can_be_sent_to_another_process(store: VectorStore, target: SpaceTarget) -> None:
    class Sent(StoreLoader):
        def load(self, maker: PointMaker, group: LoadGroup) -> int:
            return super().load(*pickle.loads(pickle.dumps((maker, group))))

    assert bring(store, target, Sent(store, target.embeddings)) == POINTS
