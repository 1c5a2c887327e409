"""An embedded collection survives a build, a disk or a file that goes wrong, or the damage is told with the way out."""

from __future__ import annotations

import errno
import shutil
import signal
import threading
from pathlib import Path

import pytest
from tests.support.points import make_points

from lodestone.errors import OutOfSpaceError, StoreError, UnknownNameError
from lodestone.store import files
from lodestone.store.base import VectorQuery, VectorStore
from lodestone.store.edge import collection as edge_collection
from lodestone.store.edge import store as edge
from lodestone.store.edge.build import run_build_child
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec, HnswSpec

SPEC = CollectionSpec("pictures-1", 16)
POINTS = make_points(1_000, 16)


@pytest.fixture
def store(tmp_path: Path):
    opened = open_store("edge", root=tmp_path, lock_timeout=0)
    opened.create(SPEC)
    opened.upsert(SPEC.name, POINTS)
    yield opened
    opened.close()


def generations(root: Path) -> list[str]:
    return sorted(entry.name for entry in (root / "collections" / SPEC.name).iterdir() if entry.is_dir())


def in_force(root: Path) -> str:
    return (root / "collections" / SPEC.name / "CURRENT").read_text()


def assert_whole(store: VectorStore, *, count: int = 1_000) -> None:
    assert store.count(SPEC.name) == count
    (found,) = store.search(SPEC.name, [VectorQuery(POINTS.vectors[3], 1)])
    assert found.ids == (POINTS.ids[3],)


def test_a_build_moves_to_a_new_generation_and_removes_the_old(store: VectorStore, tmp_path: Path) -> None:
    before = in_force(tmp_path)
    store.build(SPEC.name)
    assert in_force(tmp_path) != before
    assert generations(tmp_path) == [in_force(tmp_path)]
    assert store.info(SPEC.name).indexed == 1_000
    assert_whole(store)


def test_a_build_with_nothing_to_do_starts_no_child(store: VectorStore, tmp_path: Path) -> None:
    store.build(SPEC.name)
    before = in_force(tmp_path)
    store.build(SPEC.name)
    assert in_force(tmp_path) == before
    store.create(CollectionSpec(SPEC.name, 16, hnsw=HnswSpec(m=8)))
    store.build(SPEC.name)
    assert in_force(tmp_path) != before


def test_a_killed_child_leaves_the_old_generation_in_force(
    store: VectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = in_force(tmp_path)
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(edge, "run_build_child", lambda shard, spec, _, *, threads: run_build_child(shard, spec, stop))
    with pytest.raises(StoreError, match=f"signal {int(signal.SIGKILL)}") as caught:
        store.build(SPEC.name)
    assert "build again" in caught.value.hint
    assert (in_force(tmp_path), generations(tmp_path)) == (before, [before])
    assert not store.info(SPEC.name).building
    assert_whole(store)
    store.upsert(SPEC.name, make_points(10, 16, first=2_000))
    assert_whole(store, count=1_010)


def test_a_child_that_cannot_open_its_copy_is_reported_with_what_it_said(
    store: VectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(shard, spec, stop, *, threads):
        shutil.rmtree(shard)
        run_build_child(shard, spec, stop, threads=threads)

    before = in_force(tmp_path)
    monkeypatch.setattr(edge, "run_build_child", spoil)
    with pytest.raises(StoreError, match="exited with 1: building the graph failed"):
        store.build(SPEC.name)
    assert generations(tmp_path) == [before]
    assert_whole(store)


def test_closing_during_a_build_stops_the_child_and_keeps_everything(store: VectorStore, tmp_path: Path, monkeypatch) -> None:
    started, failures = threading.Event(), []

    def slow(shard, spec, stop, *, threads):
        started.set()
        assert stop.wait(180)
        raise StoreError("stopped")

    def build() -> None:
        try:
            store.build(SPEC.name)
        except StoreError as error:
            failures.append(error.message)

    monkeypatch.setattr(edge, "run_build_child", slow)
    thread = threading.Thread(target=build)
    thread.start()
    assert started.wait(180)
    assert store.info(SPEC.name).building
    store.close()
    thread.join(180)
    assert failures == ["stopped"]
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    assert_whole(again)
    again.close()


def test_dropping_during_a_build_removes_the_collection(store: VectorStore, tmp_path: Path, monkeypatch) -> None:
    started, failures = threading.Event(), []

    def slow(shard, spec, stop, *, threads):
        started.set()
        assert stop.wait(180)

    def build() -> None:
        try:
            store.build(SPEC.name)
        except (StoreError, UnknownNameError) as error:
            failures.append(error)

    monkeypatch.setattr(edge, "run_build_child", slow)
    thread = threading.Thread(target=build)
    thread.start()
    assert started.wait(180)
    store.drop(SPEC.name)
    thread.join(180)
    assert len(failures) == 1
    assert store.collections() == []
    assert list((tmp_path / "collections").iterdir()) == []


@pytest.mark.parametrize("half", ["copied", "built"])
def test_what_a_crash_during_a_build_leaves_is_swept_and_the_old_generation_answers(
    store: VectorStore, tmp_path: Path, half: str
) -> None:
    store.close()
    home = tmp_path / "collections" / SPEC.name
    before = in_force(tmp_path)
    shutil.copytree(home / before, home / "gen-000000000000")
    if half == "built":
        (home / "gen-000000000000" / "built.json").write_text("{}")
    shutil.copytree(home / before, home / ".trash-1")
    (home / ".CURRENT.0.tmp").write_text("gen-0000")
    (tmp_path / "collections" / ".new-1").mkdir()
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    assert_whole(again)
    assert generations(tmp_path) == [before]
    assert sorted(entry.name for entry in home.iterdir()) == sorted([before, "CURRENT", "spec.json"])
    assert [entry.name for entry in (tmp_path / "collections").iterdir()] == [SPEC.name]
    again.close()


def test_a_failure_while_bringing_writes_over_keeps_the_old_generation(
    store: VectorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self, touched, target):
        raise OSError(errno.EIO, "input/output error")

    before = in_force(tmp_path)
    monkeypatch.setattr(edge_collection.EdgeCollection, "_replay", refuse)
    with pytest.raises(StoreError, match="input/output error"):
        store.build(SPEC.name)
    assert generations(tmp_path) == [before]
    assert_whole(store)


# -- the disk


def test_a_full_disk_is_told_before_the_engine_writes(store: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage._replace(free=10_000))
    with pytest.raises(OutOfSpaceError, match="10,000 bytes free") as caught:
        store.upsert(SPEC.name, make_points(1, 16, first=5_000))
    assert "free some space" in caught.value.hint
    with pytest.raises(OutOfSpaceError):
        store.build(SPEC.name)
    with pytest.raises(OutOfSpaceError):
        store.create(CollectionSpec("other", 4))
    monkeypatch.undo()
    assert store.collections() == [SPEC.name]
    assert_whole(store)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Exception("IO: No space left on device")])
def test_a_disk_that_fills_up_inside_the_engine_is_told_as_such(
    store: VectorStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_):
        raise error

    collection = store._collection(SPEC.name)
    with pytest.raises(OutOfSpaceError), edge.engine_errors("writing", collection.path):
        fail()
    monkeypatch.setattr(edge_collection.shutil, "copytree", fail)
    if isinstance(error, OSError):
        with pytest.raises(OutOfSpaceError):
            store.build(SPEC.name)
    assert_whole(store)


def test_a_corrupt_collection_is_reported_with_the_way_out_and_does_not_take_others_down(
    store: VectorStore, tmp_path: Path
) -> None:
    store.create(CollectionSpec("healthy", 4))
    store.close()
    for path in (tmp_path / "collections" / SPEC.name / in_force(tmp_path) / "shard" / "segments").rglob("*"):
        if path.is_file():
            path.write_bytes(b"garbage")
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    with pytest.raises(StoreError) as caught:
        again.count(SPEC.name)
    assert "Parquet" in caught.value.hint
    assert str(tmp_path) in caught.value.message
    assert again.count("healthy") == 0
    again.drop(SPEC.name)
    again.create(SPEC)
    again.upsert(SPEC.name, POINTS)
    assert_whole(again)
    again.close()


@pytest.mark.parametrize("name", ["spec.json", "CURRENT"])
def test_an_unreadable_state_file_is_a_store_error_of_that_collection_alone(
    store: VectorStore, tmp_path: Path, name: str
) -> None:
    store.create(CollectionSpec("healthy", 4))
    store.close()
    (tmp_path / "collections" / SPEC.name / name).write_text("gen-{")
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    with pytest.raises(StoreError):
        again.info(SPEC.name)
    assert again.count("healthy") == 0
    again.drop(SPEC.name)
    assert again.collections() == ["healthy"]
    again.close()


def test_everything_is_there_after_closing_and_opening(store: VectorStore, tmp_path: Path) -> None:
    store.set_alias("pictures", SPEC.name)
    store.build(SPEC.name)
    store.close()
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    assert again.aliases() == {"pictures": SPEC.name}
    assert again.info(SPEC.name).indexed == 1_000
    again.ping()
    assert_whole(again)
    again.close()
    assert [entry.name for entry in (tmp_path / "collections").iterdir()] == [SPEC.name]


def test_a_promoted_collection_that_is_gone_makes_the_store_unready(store: VectorStore, tmp_path: Path) -> None:
    store.set_alias("pictures", SPEC.name)
    store.ping()
    store.close()
    shutil.rmtree(tmp_path / "collections")
    again = open_store("edge", root=tmp_path, lock_timeout=0)
    with pytest.raises(StoreError, match="'pictures-1', which is not in") as caught:
        again.ping()
    assert "Parquet" in caught.value.hint
    again.close()
