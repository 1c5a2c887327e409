"""Deleted points leave the files of an embedded collection, and everything else stays."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lodestone.store import deleted_points
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, MatchAny, PointBatch, SparseBatch, SparseVector, VectorQuery
from lodestone.store.deleted_points import COLLECTIONS_DIR, DeletedPoints, add_deleted, read_deleted, subtract_deleted
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec

SPEC = CollectionSpec("space-1", dim=32, fields=(("folder", FieldKind.KEYWORD),), hnsw=HnswSpec(m=8, ef_construct=32))
DAY_S = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EdgeStore]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def open_store(folder: Path) -> EdgeStore:
    aliases = JsonAliasTable(folder / "aliases.json")
    return EdgeStore(folder / "store", aliases=aliases, build_threads=1, matrix=MatrixPolicy(after=0))


def points(count: int, *, seed: int = 0) -> PointBatch:
    rng = np.random.default_rng(seed)
    ids = [str(uuid.UUID(int=int(number) + 1)) for number in rng.integers(0, 2**62, count)]
    vectors = rng.normal(size=(count, SPEC.dim)).astype(np.float32)
    return PointBatch(ids, vectors, [{"folder": f"folder-of-{number:03}"} for number in range(count)])


def places(folder: Path, batch: PointBatch, row: int) -> list[str]:
    """Files of the store that hold the vector, the payload or the id of a point."""
    number = uuid.UUID(batch.ids[row])
    wanted = (
        batch.vectors[row].tobytes(),
        f"folder-of-{row:03}".encode(),
        number.bytes,
        number.bytes[::-1],
        batch.ids[row].encode(),
    )
    files = [path for path in (folder / "store").rglob("*") if path.is_file()]
    return [str(path) for path in files if any(needle in path.read_bytes() for needle in wanted)]


@pytest.mark.parametrize("built", [False, True], ids=["no graph", "a graph"])
def test_an_erased_point_is_in_no_file_and_the_others_answer_as_before(
    store: EdgeStore, tmp_path: Path, *, built: bool
) -> None:
    batch = points(40)
    store.create(SPEC)
    store.upsert(SPEC.name, batch)
    if built:
        store.build(SPEC.name)
    query = [VectorQuery(batch.vectors[7], limit=50, exact=True, with_payload=True)]
    before = store.search(SPEC.name, query)[0]
    store.delete(SPEC.name, [batch.ids[3]])
    assert places(tmp_path, batch, 3), "the test must look where the engine keeps points"

    assert store.erase(SPEC.name) == 0
    assert store.outside_graph(SPEC.name) == (0 if built else 39)
    after = store.search(SPEC.name, query)[0]
    expected = [(point, score) for point, score in zip(before.ids, before.scores, strict=True) if point != batch.ids[3]]
    assert list(zip(after.ids, after.scores, strict=True)) == expected
    assert store.count(SPEC.name, Filter(must=(MatchAny("folder", ("folder-of-005",)),))) == 1
    store.close()
    assert places(tmp_path, batch, 3) == []
    assert places(tmp_path, batch, 4)
    again = open_store(tmp_path)
    assert set(again.retrieve(SPEC.name, batch.ids).ids) == set(batch.ids) - {batch.ids[3]}
    again.close()


def test_an_erased_sparse_point_is_in_no_file(store: EdgeStore, tmp_path: Path) -> None:
    batch = points(5)
    vectors = [SparseVector(np.array([row + 1]), np.array([0.5], np.float32)) for row in range(5)]
    store.create(CollectionSpec("tags-1", sparse=True, fields=SPEC.fields))
    store.upsert_sparse("tags-1", SparseBatch(batch.ids, vectors, batch.payloads))
    store.delete("tags-1", [batch.ids[2]])
    store.erase("tags-1")
    assert store.count("tags-1") == 4
    store.close()
    assert places(tmp_path, batch, 2) == []


def test_deletes_are_counted_until_they_are_erased_and_only_those_of_points_that_were_there(
    store: EdgeStore, tmp_path: Path
) -> None:
    batch = points(10)
    folder = tmp_path / "store" / COLLECTIONS_DIR / SPEC.name
    store.create(SPEC)
    store.upsert(SPEC.name, batch)
    store.delete(SPEC.name, [str(uuid.UUID(int=5))])
    assert read_deleted(folder) == DeletedPoints()
    store.delete(SPEC.name, batch.ids[:2])
    store.delete(SPEC.name, batch.ids[:3])
    counted = read_deleted(folder)
    assert counted.points == 3
    assert counted.bytes >= 3 * 4 * SPEC.dim
    generation = (folder / "CURRENT").read_text()
    store.erase(SPEC.name, now=False)
    assert read_deleted(folder) == DeletedPoints()
    assert (folder / "CURRENT").read_text() != generation
    generation = (folder / "CURRENT").read_text()
    assert store.erase(SPEC.name) == 0
    assert (folder / "CURRENT").read_text() == generation, "nothing was deleted, and nothing is copied"


def test_a_large_graph_waits_a_week_and_is_then_made_anew(
    store: EdgeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = points(20)
    folder = tmp_path / "store" / COLLECTIONS_DIR / SPEC.name
    store.create(SPEC)
    store.upsert(SPEC.name, batch)
    store.build(SPEC.name)
    store.delete(SPEC.name, batch.ids[:1])
    monkeypatch.setattr(deleted_points, "AT_ONCE_NUMBERS", 19 * SPEC.dim - 1)
    assert store.erase(SPEC.name, now=False) == read_deleted(folder).bytes > 0
    assert store.erase(SPEC.name, now=True) == 0


@pytest.mark.parametrize(
    ("numbers", "age_days", "waits"),
    [(50_000_000, 0.0, False), (50_000_001, 0.0, True), (50_000_001, 6.99, True), (50_000_001, 7.01, False)],
)
def test_only_a_large_graph_waits_and_not_longer_than_a_week(
    numbers: int, age_days: float, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    monkeypatch.setattr(deleted_points.time, "time", lambda: 100 * DAY_S)
    assert DeletedPoints(1, 10, (100 - age_days) * DAY_S).may_wait(numbers) is waits


def test_points_that_are_deleted_during_an_erasure_stay_counted(tmp_path: Path) -> None:
    add_deleted(tmp_path, 2, 200)
    erased = read_deleted(tmp_path)
    add_deleted(tmp_path, 3, 300)
    assert (read_deleted(tmp_path).points, read_deleted(tmp_path).since) == (5, erased.since)
    subtract_deleted(tmp_path, erased)
    assert (read_deleted(tmp_path).points, read_deleted(tmp_path).bytes) == (3, 300)
    (tmp_path / deleted_points.FILE).write_text("{")
    assert read_deleted(tmp_path).points == 1, "a count that cannot be read is no zero"
