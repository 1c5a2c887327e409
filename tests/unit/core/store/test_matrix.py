"""The matrix of a collection answers as the engine does, whatever was written, and its file is never trusted wrongly."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.support.homes import wait_until
from tests.support.points import clustered, make_points, point_id

from lodestone.config.store import StoreSettings
from lodestone.errors import OutOfSpaceError, UnknownNameError
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Between, Filter, HasId, MatchAny, PointBatch, VectorQuery, Vectors
from lodestone.store.edge import matrix_file, matrix_keeper
from lodestone.store.edge.collection import EdgeCollection
from lodestone.store.edge.columns import FilterColumns
from lodestone.store.edge.matrix import VectorMatrix, _candidates
from lodestone.store.edge.matrix_file import MATRIX_FILE
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.matrix_view import SharedProducts, View
from lodestone.store.edge.records import answers_by_matrix
from lodestone.store.edge.store import EdgeStore
from lodestone.store.factory import open_store
from lodestone_schemas.collections import PAYLOAD_FIELDS, CollectionSpec, Quantization

DIM = 24
SPEC = CollectionSpec("pictures-1", DIM)
POINTS = make_points(300, DIM)
FIRST = 1_000_000_000

Opener = Callable[..., EdgeStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Open a store under a folder of the test, which closes it."""
    stores = []

    def open_at(name: str = "store", policy: MatrixPolicy | None = None) -> EdgeStore:
        aliases = JsonAliasTable(tmp_path / f"{name}.json")
        store = EdgeStore(tmp_path / name, aliases=aliases, lock_timeout=0, matrix=policy or MatrixPolicy(after=0))
        stores.append(store)
        return store

    yield open_at
    for store in stores:
        store.close()


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give small matrices files, too."""
    monkeypatch.setattr(matrix_keeper, "FILE_NUMBERS", 1)


def filled(points: PointBatch = POINTS) -> VectorMatrix:
    matrix = VectorMatrix(DIM, FilterColumns(PAYLOAD_FIELDS))
    matrix.put(points)
    return matrix


def matrix_of(store: EdgeStore) -> VectorMatrix | None:
    return store._collection(SPEC.name).matrix()


def file_of(store: EdgeStore) -> Path:
    return store._collection(SPEC.name).generation() / MATRIX_FILE


def forbid_reading_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("the matrix was made from the engine")

    monkeypatch.setattr(matrix_keeper.MatrixKeeper, "_read_engine", refuse)


def test_scores_of_equal_vectors_are_equal_wherever_they_stand_and_whatever_else_is_asked() -> None:
    """BLAS sums the last row of an odd number of them, or a single one, in another order than the rows before it."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((1_003, 384)).astype(np.float32)
    vectors[[5, 400, 900, 1_002]] = vectors[7]
    points = PointBatch([point_id(row) for row in range(1_003)], vectors, [{}] * 1_003)
    matrix = VectorMatrix(384, FilterColumns(()))
    matrix.put(points)
    asked = [vectors[7], *rng.standard_normal((20, 384)).astype(np.float32)]
    same = sorted(points.ids[row] for row in (5, 7, 400, 900, 1_002))
    (alone,) = matrix.search([VectorQuery(asked[0], 5)], asked[:1])
    among = matrix.search([VectorQuery(vector, 5) for vector in asked], asked)[0]
    by_id = matrix.search([VectorQuery(asked[0], 5, filter=Filter((HasId(tuple(same)),)))], asked[:1])[0]
    for found in (alone, among, by_id):
        assert found is not None
        assert list(found.ids) == same
        assert len(set(found.scores.tolist())) == 1
        assert found.scores[0] == alone.scores[0]
    (single,) = matrix.search([VectorQuery(asked[0], 1, filter=Filter((HasId((same[0],)),)))], asked[:1])
    assert single is not None
    assert single.scores[0] == alone.scores[0]


@pytest.mark.nightly_beyond(4)
@pytest.mark.parametrize(
    "filter_",
    [
        None,
        Filter(must=(MatchAny("corpus", ("corpus0", "none")),)),
        Filter(must=(MatchAny("folders", ("year1", "year2/month0")),), must_not=(MatchAny("root", ("root1",)),)),
        Filter(must=(Between("taken_at", FIRST + 10, FIRST + 900),), must_not=(HasId(tuple(POINTS.ids[:100])),)),
        Filter(must_not=(Between("taken_at"),)),
        Filter(must=(Between("taken_utc", FIRST + 10, FIRST + 300, otherwise="taken_at"),)),
        Filter(must_not=(Between("taken_utc", gte=FIRST + 300, otherwise="taken_at"), Between("taken_until", gte=5))),
        Filter(must=(MatchAny("taken_at", (FIRST + 3, FIRST + 7, FIRST + 8, "text")),)),
        Filter(must=(HasId((*POINTS.ids[:40], point_id(10_000))), MatchAny("root", ("root0",)))),
        Filter(must=(HasId((POINTS.ids[3].upper(), POINTS.ids[4])), HasId((POINTS.ids[3],)))),
    ],
)
def test_matrix_and_engine_agree_after_many_writes(opened: Opener, filter_: Filter | None) -> None:
    rng = np.random.default_rng(4)
    engine, multiplied = opened("engine", MatrixPolicy(points=0)), opened("matrix")
    for store in (engine, multiplied):
        store.create(SPEC)
        store.upsert(SPEC.name, POINTS)
    assert matrix_of(multiplied) is not None
    for step in range(6):
        late = make_points(700, DIM, seed=step, first=200 + 300 * step)  # replaces some, and fills more than one block
        gone = [late.ids[row] for row in rng.choice(700, 60, replace=False)]
        for store in (engine, multiplied):
            store.upsert(SPEC.name, late)
            store.delete(SPEC.name, gone)
    held = matrix_of(multiplied)
    assert held is not None
    assert len(held) == engine.count(SPEC.name)
    queries = [
        VectorQuery(vector, limit, filter=filter_, with_payload=limit == 7)
        for vector, limit in zip(clustered(6, DIM, seed=9), (1, 7, 60, 300, 5_000, 25), strict=True)
    ]
    assert None not in held.search(queries, [query.vector for query in queries])
    for ours, theirs in zip(multiplied.search(SPEC.name, queries), engine.search(SPEC.name, queries), strict=True):
        assert ours.ids == theirs.ids
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)
        assert ours.payloads == theirs.payloads
    wanted = [*late.ids[:5], point_id(99_999)]
    ours, theirs = multiplied.retrieve(SPEC.name, wanted), engine.retrieve(SPEC.name, wanted)
    assert list(ours.ids) == list(theirs.ids)
    np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    assert list(ours.payloads) == list(theirs.payloads)


@pytest.mark.parametrize(
    "odd", [{"corpus": 3}, {"taken_at": "then"}, {"taken_at": True}, {"taken_at": [1, 2]}, {"taken_at": 2**60}]
)
def test_fields_with_values_of_another_kind_are_left_to_the_engine(odd: dict[str, object]) -> None:
    matrix = filled()
    matrix.put(PointBatch([point_id(9_000)], POINTS.vectors[:1], [odd]))
    (field,) = odd
    filters = [Filter((MatchAny(field, ("corpus0", 3)),)), Filter(must_not=(MatchAny("unknown", ("a",)),))]
    queries = [VectorQuery(POINTS.vectors[0], filter=filter_) for filter_ in (*filters, None)]
    found = matrix.search(queries, [query.vector for query in queries])
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert matrix.snapshot() is None


def test_a_view_goes_on_reading_what_was_there() -> None:
    matrix = filled()
    before = matrix._view()
    matrix.put(PointBatch(POINTS.ids[:50], -POINTS.vectors[:50], POINTS.payloads[:50]))
    matrix.remove(POINTS.ids[100:])
    assert len(before) == 300
    assert before.alive is None
    np.testing.assert_array_equal(before.gather(np.arange(300)), POINTS.vectors)
    (found,) = matrix.search([VectorQuery(POINTS.vectors[0], 300)], [POINTS.vectors[0]])
    assert found is not None
    assert set(found.ids) == set(POINTS.ids[:100])


def test_the_engine_answers_first_and_a_graph_or_compressed_vectors_where_there_are_any(opened: Opener) -> None:
    store = opened(policy=MatrixPolicy(after=2))
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    vector = POINTS.vectors[0]
    for _ in range(2):
        store.search(SPEC.name, [VectorQuery(vector)])
        assert store._collection(SPEC.name)._keeper._matrix is None
    store.search(SPEC.name, [VectorQuery(vector)])
    collection = store._collection(SPEC.name)
    assert collection.matrix() is not None
    by_ids = Filter((HasId(tuple(POINTS.ids[:9])),))
    queries = [VectorQuery(vector), VectorQuery(vector, exact=True), VectorQuery(vector, filter=by_ids)]
    vectors = [vector] * 3

    def multiplied() -> list[bool]:
        return [found is not None for found in answers_by_matrix(collection, queries, vectors)]

    assert multiplied() == [True, True, True]
    store.build(SPEC.name)
    assert multiplied() == [False, True, True]
    coarse = CollectionSpec("coarse-1", DIM, quantization=Quantization.BINARY, rescore=False)
    store.create(coarse)
    store.upsert(coarse.name, POINTS)
    collection = store._collection(coarse.name)
    collection._keeper._asked = 2
    assert multiplied() == [False, True, True]


def test_a_collection_that_outgrows_the_limit_is_left_to_the_engine(opened: Opener) -> None:
    store = opened(policy=MatrixPolicy(points=320, after=0))
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is not None
    store.upsert(SPEC.name, make_points(50, DIM, first=300))
    assert matrix_of(store) is None
    assert len(store.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 500)])[0]) == 350


@pytest.mark.parametrize("write", ["replace", "remove"])
def test_a_matrix_with_more_dead_rows_than_points_is_made_anew(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    monkeypatch.setattr(matrix_keeper, "_DEAD_ROWS", 20)
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, make_points(100, DIM))
    first = matrix_of(store)
    assert first is not None and first.dead == 0
    few = make_points(60 if write == "replace" else 40, DIM)
    for _ in range(2):  # 120 dead rows beside 100 points; or 40 beside 60, then 20 more
        if write == "replace":
            store.upsert(SPEC.name, few)
        else:
            store.delete(SPEC.name, few.ids)
        few = few if write == "replace" else make_points(20, DIM, first=40)
    kept = matrix_of(store)
    assert kept is first, "as many dead rows as points, and a few, are borne"
    assert kept.dead == (120 if write == "replace" else 60)
    one = make_points(1, DIM, first=99)
    if write == "replace":
        store.upsert(SPEC.name, one)
    else:
        store.delete(SPEC.name, one.ids)
    made = matrix_of(store)
    assert made is not None and made is not first
    assert made.dead == 0


def test_a_row_that_a_multiplication_rounded_down_is_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are rounded by where a row stands; only the margin keeps a best row among the candidates."""
    exact = SharedProducts.products
    noise = np.random.default_rng(3)

    def rounded(self: SharedProducts, view: View, vectors: Vectors) -> Vectors:
        products = exact(self, view, vectors)
        error = 4e-6 * view.longest * np.linalg.norm(vectors, axis=1, keepdims=True)
        return products + (error * noise.uniform(-1, 1, products.shape)).astype(np.float32)

    rows = clustered(400, DIM, seed=2)
    near = np.repeat(rows[:1], 300, axis=0) + 1e-6 * noise.standard_normal((300, DIM)).astype(np.float32)
    vectors = np.concatenate([near.astype(np.float32), rows])
    points = PointBatch([point_id(row) for row in range(len(vectors))], vectors, [{}] * len(vectors))
    matrix = VectorMatrix(DIM, FilterColumns(()))
    matrix.put(points)
    for limit in (1, 7, 60):
        query = VectorQuery(rows[0], limit)
        monkeypatch.undo()
        plain = VectorMatrix(DIM, FilterColumns(()))
        plain.put(points)
        every = plain.search([VectorQuery(rows[0], len(vectors))], [rows[0]])[0]
        monkeypatch.setattr(SharedProducts, "products", rounded)
        (found,) = matrix.search([query], [rows[0]])
        assert found is not None and every is not None
        assert found.ids == every.ids[:limit]
    view = View((vectors,), None, float(np.linalg.norm(vectors, axis=1).max()))
    (candidates,) = _candidates(view, None, [1], rows[:1], view.products(rows[:1]))
    assert 1 < len(candidates) < 400, "the margin keeps what may be best, not everything"


def test_the_setting_turns_matrices_off(tmp_path: Path) -> None:
    for points, held in ((0, False), (StoreSettings().matrix_points, True)):
        store = open_store("edge", root=tmp_path / str(points), matrix_points=points)
        store.create(SPEC)
        store.upsert(SPEC.name, POINTS)
        for _ in range(20):
            store.search(SPEC.name, [VectorQuery(POINTS.vectors[0])])
        assert (store._collection(SPEC.name)._keeper._matrix is not None) is held  # type: ignore[attr-defined]
        store.close()


def test_a_large_matrix_is_made_by_a_thread_while_the_engine_answers(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_keeper, "AT_ONCE_NUMBERS", 100)
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is None
    keeper = store._collection(SPEC.name)._keeper
    assert keeper._thread is not None
    keeper._thread.join(180)
    assert len(matrix_of(store) or ()) == 300


def test_a_write_that_fails_drops_the_matrix(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is not None
    with monkeypatch.context() as patch:
        patch.setattr(VectorMatrix, "put", lambda *_: (_ for _ in ()).throw(RuntimeError("no memory")))
        with pytest.raises(RuntimeError):
            store.upsert(SPEC.name, make_points(5, DIM, first=400))
    assert len(matrix_of(store) or ()) == 305


def test_a_dropped_or_closed_collection_answers_no_more(opened: Opener) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    collection = store._collection(SPEC.name)
    assert collection.matrix() is not None
    store.drop(SPEC.name)
    with pytest.raises(UnknownNameError):
        collection.matrix()


@pytest.mark.usefixtures("small_files")
def test_the_file_is_used_at_once_by_the_next_process(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    filter_ = Filter((MatchAny("folders", ("year1",)), Between("taken_at", FIRST + 5, FIRST + 250)))
    queries = [VectorQuery(vector, 40, filter=f) for vector in clustered(3, DIM, seed=2) for f in (None, filter_)]
    store.search(SPEC.name, queries)
    store.delete(SPEC.name, POINTS.ids[:30])  # dead rows are left out of the file
    before = store.search(SPEC.name, queries)
    store.close()
    forbid_reading_the_engine(monkeypatch)
    again = opened(policy=MatrixPolicy(after=1_000))
    for ours, theirs in zip(again.search(SPEC.name, queries), before, strict=True):
        assert ours.ids == theirs.ids
        np.testing.assert_array_equal(ours.scores, theirs.scores)
    held = matrix_of(again)
    assert held is not None
    assert len(held) == 270
    again.upsert(SPEC.name, make_points(20, DIM, first=600))
    assert len(held) == 290


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("write", ["upsert", "replace", "delete"])
def test_a_file_from_before_a_write_is_stale(opened: Opener, write: str) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is not None
    store.close()
    old = opened(policy=MatrixPolicy(points=0))  # as a version without matrices writes
    if write == "delete":
        old.delete(SPEC.name, POINTS.ids[:1])
    else:
        ids = POINTS.ids[:1] if write == "replace" else [point_id(5_000)]
        old.upsert(SPEC.name, PointBatch(ids, -POINTS.vectors[:1], [{}]))
    wanted = old.search(SPEC.name, [VectorQuery(-POINTS.vectors[0], 400)])[0]
    old.close()
    (found,) = opened().search(SPEC.name, [VectorQuery(-POINTS.vectors[0], 400)])
    assert found.ids == wanted.ids


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch, VectorQuery
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.matrix_view import SharedProducts, View
from lodestone.store.edge.store import EdgeStore
root = Path(sys.argv[1])
store = EdgeStore(root, aliases=JsonAliasTable(root / "aliases.json"), matrix=MatrixPolicy(after=1_000))
store.search("pictures-1", [VectorQuery(np.ones(24, np.float32))])
assert store.instant("pictures-1"), "the file was not used"
store.upsert("pictures-1", PointBatch([sys.argv[2]], np.full((1, 24), 9, np.float32), [{}]))
store.delete("pictures-1", [sys.argv[3]])
os._exit(9)
"""


@pytest.mark.usefixtures("small_files")
def test_what_a_killed_process_wrote_is_found(opened: Opener, tmp_path: Path) -> None:
    """Its writes are in the engine's log, and the file of the matrix is from before them."""
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is not None
    store.close()
    new, gone = point_id(8_000), POINTS.ids[0]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "store"), new, gone], check=False, timeout=240)
    assert killed.returncode == 9
    (found,) = opened().search(SPEC.name, [VectorQuery(np.ones(DIM, np.float32), 400)])
    assert found.ids[0] == new
    assert set(found.ids) == {new, *POINTS.ids} - {gone}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, 0),
        Path.unlink,
        _flip,
        lambda path: path.write_bytes(path.read_bytes().replace(b'"corpus1"', b'"corpus0"')),
        lambda path: path.write_bytes(b"LODEMTX2" + b"\xff" * 8),
        lambda path: path.write_bytes(b"LODEMTX2" + struct.pack("<II", 4, zlib.crc32(b"[1] ")) + b"[1] " * 26),
    ],
    ids=["half", "empty", "gone", "one bit", "a word of the header", "long header", "other header"],
)
def test_a_damaged_file_is_made_anew(opened: Opener, damage: Callable[[Path], object]) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    one = Filter((MatchAny("corpus", ("corpus1",)),))
    queries = [VectorQuery(vector, 20, filter=filter_) for vector in POINTS.vectors[:5] for filter_ in (None, one)]
    before = store.search(SPEC.name, queries)
    path = file_of(store)
    store.close()
    damage(path)
    again = opened()
    assert [found.ids for found in again.search(SPEC.name, queries)] == [found.ids for found in before]
    again.close()
    assert path.stat().st_size > POINTS.vectors.nbytes


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_costs_the_file_alone(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, needed: int) -> None:
        raise OutOfSpaceError("full", hint="free some")

    monkeypatch.setattr(matrix_file, "require_space", full)
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert len(store.search(SPEC.name, [VectorQuery(POINTS.vectors[0], 5)])[0]) == 5
    assert matrix_of(store) is not None
    path = file_of(store)
    store.close()
    assert not path.exists()
    assert opened().count(SPEC.name) == 300


@pytest.mark.usefixtures("small_files")
def test_what_a_killed_writer_left_is_removed_and_a_build_keeps_the_matrix(opened: Opener) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    held = matrix_of(store)
    left = file_of(store).with_name(f".{MATRIX_FILE}.0123.tmp")
    left.write_bytes(b"half")
    store.close()
    assert not left.exists()
    again = opened()
    held = matrix_of(again)
    again.build(SPEC.name)
    again.upsert(SPEC.name, make_points(10, DIM, first=700))
    assert matrix_of(again) is held
    assert len(held or ()) == 310 == again.count(SPEC.name)


@pytest.mark.usefixtures("small_files")
def test_a_store_that_can_only_be_read_has_its_matrices(opened: Opener, tmp_path: Path) -> None:
    store = opened()
    store.create(SPEC)
    store.upsert(SPEC.name, POINTS)
    assert matrix_of(store) is not None
    store.close()
    shutil.copytree(tmp_path / "store", tmp_path / "copied")  # as `readable_copy` does
    copied = EdgeCollection(tmp_path / "copied" / "collections" / SPEC.name, MatrixPolicy(after=1_000))
    assert len(copied.matrix() or ()) == 300
    copied.close()


def test_equal_scores_come_by_ascending_id_whenever_their_points_were_added() -> None:
    vector = np.ones((1, DIM), np.float32)
    matrix = VectorMatrix(DIM, FilterColumns(()), ids=["b", "d"], vectors=np.repeat(vector, 2, axis=0))
    for point in ("e", "c", "a", "f"):
        matrix.put(PointBatch([point], vector, [{}]))
    (found,) = matrix.search([VectorQuery(vector[0], 10)], [vector[0]])
    assert found is not None
    assert "".join(found.ids) == "abcdef"


@pytest.mark.parametrize("wanted", [1, 7, 9, 16, 23])
def test_products_are_those_of_the_vectors_asked_for_in_blocks_of_any_size(wanted: int) -> None:
    rng = np.random.default_rng(0)
    blocks = tuple(rng.standard_normal((rows, 24)).astype(np.float32) for rows in (5_000, 3, 700))
    vectors = rng.standard_normal((wanted, 24)).astype(np.float32)
    products = View(blocks, None, 1.0).products(vectors)
    np.testing.assert_allclose(products, vectors @ np.concatenate(blocks).T, rtol=1e-4, atol=1e-4)


def test_calls_that_wait_for_a_multiplication_share_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another collection's rows have one of their own, and each call gets its own products."""
    rng = np.random.default_rng(0)
    views = [View((rng.standard_normal((100, 8)).astype(np.float32),), None, 1.0) for _ in range(2)]
    asked = [(views[number == 5], rng.standard_normal((2, 8)).astype(np.float32)) for number in range(7)]
    begun, go_on, products = threading.Event(), threading.Event(), View.products
    sizes: list[int] = []

    def slow(view: View, vectors: Vectors) -> Vectors:
        begun.set()
        assert go_on.wait(180)
        sizes.append(len(vectors))
        return products(view, vectors)

    monkeypatch.setattr(View, "products", slow)
    shared = SharedProducts()
    with ThreadPoolExecutor(len(asked)) as threads:
        calls = [threads.submit(shared.products, *asked[0])]
        assert begun.wait(180)
        calls += [threads.submit(shared.products, *one) for one in asked[1:]]
        wait_until(lambda: shared.waiting == len(asked) - 1)
        go_on.set()
        answers = [call.result(180) for call in calls]
    assert sorted(sizes) == [2, 2, 10]
    for (view, vectors), answer in zip(asked, answers, strict=True):
        np.testing.assert_allclose(answer, products(view, vectors), rtol=1e-5, atol=1e-5)


def test_a_shared_multiplication_that_fails_leaves_the_others_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    view = View((rng.standard_normal((100, 8)).astype(np.float32),), None, 1.0)
    vectors = rng.standard_normal((3, 1, 8)).astype(np.float32)
    begun, go_on, products = threading.Event(), threading.Event(), View.products

    def short_of_memory(view: View, vectors: Vectors) -> Vectors:
        begun.set()
        assert go_on.wait(180)
        if len(vectors) > 1:
            raise MemoryError
        return products(view, vectors)

    monkeypatch.setattr(View, "products", short_of_memory)
    shared = SharedProducts()
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(shared.products, view, vectors[0])]
        assert begun.wait(180)
        calls += [threads.submit(shared.products, view, one) for one in vectors[1:]]
        wait_until(lambda: shared.waiting == 2)
        go_on.set()
        ended = [call.exception(60) for call in calls]
    assert sorted(map(type, ended), key=str) == [MemoryError, type(None), type(None)]


def test_answers_to_queries_that_recur_are_kept_until_something_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = VectorMatrix(DIM, FilterColumns({}))
    matrix.put(POINTS)
    multiplied = []
    products = SharedProducts.products
    monkeypatch.setattr(
        SharedProducts, "products", lambda self, view, vectors: multiplied.append(len(vectors)) or products(self, view, vectors)
    )
    vectors = [POINTS.vectors[row] for row in range(3)]

    def ask(*, recurring: bool, limit: int = 5) -> list[tuple[tuple[str, ...], list[float]]]:
        queries = [VectorQuery(vector, limit=limit, recurring=recurring) for vector in vectors]
        found = matrix.search(queries, vectors)
        return [(one.ids, one.scores.tolist()) for one in found if one is not None]

    plain = ask(recurring=False)
    assert ask(recurring=True) == plain
    assert ask(recurring=True) == plain
    assert multiplied == [3, 3], "the last call multiplied nothing"
    assert ask(recurring=False) == plain
    assert multiplied == [3, 3, 3], "what is not said to recur is not looked up"
    assert [len(ids) for ids, _ in ask(recurring=True, limit=7)] == [7, 7, 7]
    nearest = plain[0][0][0]
    matrix.remove([nearest])
    after = ask(recurring=True)
    assert nearest not in after[0][0]
    assert after == ask(recurring=False)
    matrix.put(PointBatch([nearest], POINTS.vectors[:1], [{}]))
    assert ask(recurring=True)[0][0][0] == nearest


def test_a_kept_answer_cannot_be_changed_by_who_got_it() -> None:
    matrix = filled()
    query = VectorQuery(POINTS.vectors[0], 3, recurring=True)
    for _ in range(2):
        (answer,) = matrix.search([query], [query.vector])
        assert answer is not None
        with pytest.raises(ValueError, match="read-only"):
            answer.scores[0] = 9.0


@pytest.mark.parametrize(("rows", "at_once"), [(0, 64), (10, 64), (65_536, 64), (131_072, 32), (10_000_000, 16)])
def test_as_many_vectors_are_multiplied_at_once_as_their_scores_leave_room_for(rows: int, at_once: int) -> None:
    assert View((np.broadcast_to(np.float32(0), (rows, DIM)),), None, 1.0).at_once == at_once
