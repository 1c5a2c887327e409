"""Matrices that another process holds are true or not used: after every kind of change, and while one is written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, HasId, MatchAny, PointBatch, VectorQuery
from lodestone.store.change_count import ChangeCount
from lodestone.store.edge.collection import EdgeCollection
from lodestone.store.edge.matrix_keeper import MatrixKeeper, MatrixPolicy
from lodestone.store.edge.store import EdgeStore
from lodestone.store.proxy import held_matrices
from lodestone.store.proxy.client import StoreProxy
from lodestone.store.proxy.host import StoreHost
from lodestone_schemas.collections import CollectionSpec

COUNT, DIM = 60, 8
IDS = [f"00000000-0000-0000-0000-{number:012d}" for number in range(COUNT)]
RNG = np.random.default_rng(3)
VECTORS = RNG.normal(size=(COUNT, DIM)).astype(np.float32)
WORDS = VectorQuery(RNG.normal(size=DIM).astype(np.float32), limit=12, exact=True)


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[EdgeStore]:
    aliases = JsonAliasTable(tmp_path / "aliases.json")
    with closing(EdgeStore(tmp_path / "store", aliases=aliases, lock_timeout=0, matrix=MatrixPolicy(after=0))) as store:
        store.changes = ChangeCount()
        store.create(CollectionSpec("photos", DIM))
        store.upsert("photos", PointBatch(IDS, VECTORS, [{"corpus": f"c{row % 3}"} for row in range(COUNT)]))
        yield store


@pytest.fixture
def asked() -> list[str]:
    """Methods that were asked of the owner."""
    return []


@pytest.fixture
def proxy(owned: EdgeStore, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreProxy]:
    monkeypatch.setattr(held_matrices, "FRESH_S", 0.0)
    outcome = StoreHost._outcome
    monkeypatch.setattr(StoreHost, "_outcome", lambda host, method, *more: asked.append(method) or outcome(host, method, *more))
    with closing(connected(owned)) as store:
        yield store


def connected(owned: EdgeStore) -> StoreProxy:
    own, other = Pipe()
    StoreHost(owned, [own]).start()
    assert owned.changes is not None
    return StoreProxy([other], changes=ChangeCount(os.dup(owned.changes.descriptor)))


def agree(proxy: StoreProxy, owned: EdgeStore) -> None:
    for query in (
        WORDS,
        VectorQuery(WORDS.vector, limit=9, filter=Filter((MatchAny("corpus", ("c1",)),))),
        VectorQuery(WORDS.vector, limit=9, filter=Filter((HasId(tuple(IDS[5:25])),), (MatchAny("corpus", ("c2",)),))),
    ):
        (found,), (expected,) = proxy.search("photos", [query]), owned.search("photos", [query])
        assert found.ids == expected.ids
        assert found.scores == pytest.approx(expected.scores, abs=1e-6)


def test_without_changes_the_owner_is_asked_once(proxy: StoreProxy, owned: EdgeStore, asked: list[str]) -> None:
    assert not proxy.instant("photos")
    for _ in range(5):
        agree(proxy, owned)
    points = proxy.retrieve("photos", [IDS[7], IDS[3], IDS[9]], with_payload=False)
    assert list(points.ids) == [IDS[7], IDS[3], IDS[9]]
    assert np.array_equal(points.vectors, VECTORS[[7, 3, 9]])
    assert proxy.instant("photos")
    assert asked == ["shared_matrix"]


@pytest.mark.parametrize("change", ["upsert", "replace", "delete", "delete_matching", "erase", "build", "drop"])
def test_every_change_is_seen_at_once(proxy: StoreProxy, owned: EdgeStore, asked: list[str], change: str) -> None:
    agree(proxy, owned)
    best = proxy.search("photos", [WORDS])[0].ids[0]
    if change == "upsert":
        new = "00000000-0000-0000-0001-000000000000"
        owned.upsert("photos", PointBatch([new], 9 * WORDS.vector[None], [{"corpus": "c1"}]))
        assert proxy.search("photos", [WORDS])[0].ids[0] == new
    elif change == "replace":
        owned.upsert("photos", PointBatch([best], -WORDS.vector[None], [{"corpus": "c1"}]))
        assert best not in proxy.search("photos", [WORDS])[0].ids
    elif change == "delete":
        owned.delete("photos", [best])
        assert best not in proxy.search("photos", [WORDS])[0].ids
    elif change == "delete_matching":
        owned.delete_matching("photos", Filter((MatchAny("corpus", ("c1",)),)))
        assert len(proxy.search("photos", [VectorQuery(WORDS.vector, limit=COUNT, exact=True)])[0]) == COUNT * 2 // 3
    elif change == "erase":
        owned.delete("photos", [best])
        agree(proxy, owned)
        before = asked.count("shared_matrix")
        owned.erase("photos")
        agree(proxy, owned)
        assert asked.count("shared_matrix") > before
    elif change == "build":
        owned.build("photos")
        assert proxy.search("photos", [WORDS])[0].ids == owned.search("photos", [WORDS])[0].ids
    else:
        owned.drop("photos")
        assert not proxy.instant("photos")
        with pytest.raises(UnknownNameError):
            proxy.search("photos", [WORDS])
        return
    agree(proxy, owned)
    assert asked.count("shared_matrix") > 1


def test_while_somebody_writes_the_owner_answers(
    proxy: StoreProxy, owned: EdgeStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agree(proxy, owned)
    monkeypatch.setattr(held_matrices, "FRESH_S", 60.0)
    owned.delete("photos", [IDS[0]])
    agree(proxy, owned)
    assert asked.count("shared_matrix") == 1
    assert asked.count("search") == 3


def test_what_is_compared_between_two_pieces_of_a_write_is_not_true_after_the_next_one(
    proxy: StoreProxy, owned: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 700  # three pieces
    ids = [f"00000000-0000-0000-0002-{number:012d}" for number in range(many)]
    vectors = RNG.normal(size=(many, DIM)).astype(np.float32) + WORDS.vector
    upsert, seen = EdgeCollection.upsert, []

    def watched(collection: EdgeCollection, points: PointBatch) -> None:
        upsert(collection, points)
        agree(proxy, owned)
        seen.append(len(points))

    monkeypatch.setattr(EdgeCollection, "upsert", watched)
    owned.upsert("photos", PointBatch(ids, vectors, [{"corpus": "c1"}] * many))
    assert len(seen) == 3
    agree(proxy, owned)


def test_a_change_that_goes_on_is_one_already_and_its_end_another(
    proxy: StoreProxy, owned: EdgeStore, asked: list[str]
) -> None:
    agree(proxy, owned)
    assert owned.changes is not None
    with owned.changes.changing():
        assert not proxy.instant("photos")
        agree(proxy, owned)
        assert asked.count("shared_matrix") == 2
    assert not proxy.instant("photos")
    agree(proxy, owned)
    assert asked.count("shared_matrix") == 3


def test_what_nobody_asks_for_any_more_is_let_go(
    proxy: StoreProxy, owned: EdgeStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owned.create(CollectionSpec("others", DIM))
    owned.upsert("others", PointBatch(IDS[:3], VECTORS[:3], [{}] * 3))
    proxy.search("others", [WORDS])
    assert proxy.instant("others")
    owned.delete("others", [IDS[0]])
    monkeypatch.setattr(held_matrices, "_KEPT_S", 0.0)
    agree(proxy, owned)
    assert proxy._matrices is not None
    assert set(proxy._matrices._held) == {"photos"}
    assert list(proxy.search("others", [WORDS])[0].ids) == list(owned.search("others", [WORDS])[0].ids)


def test_payloads_and_graphs_are_asked_of_the_owner(proxy: StoreProxy, owned: EdgeStore, asked: list[str]) -> None:
    agree(proxy, owned)
    (found,) = proxy.search("photos", [VectorQuery(WORDS.vector, limit=2, exact=True, with_payload=True)])
    assert (
        found.payloads
        == owned.search("photos", [VectorQuery(WORDS.vector, limit=2, exact=True, with_payload=True)])[0].payloads
    )
    assert asked.count("search") == 1
    owned.build("photos")
    proxy.search("photos", [VectorQuery(WORDS.vector, limit=2)])
    assert asked.count("search") == 2
    proxy.search("photos", [WORDS])
    assert asked.count("search") == 2
    with pytest.raises(InvalidRequestError, match="the collection takes"):
        proxy.search("photos", [VectorQuery(np.ones(3, np.float32), exact=True)])


def test_a_large_matrix_is_mapped_and_its_file_follows_when_nobody_writes(
    proxy: StoreProxy, owned: EdgeStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone.store.edge.matrix_keeper.FILE_NUMBERS", 1)
    monkeypatch.setattr("lodestone.store.edge.matrix_keeper._QUIET_S", 0.05)
    for step in range(4):
        agree(proxy, owned)  # asks the owner until the file is there
        while not proxy.instant("photos"):
            agree(proxy, owned)
        before = len(asked)
        agree(proxy, owned)
        assert len(asked) == before
        if step == 1:
            owned.erase("photos")  # another generation, which has no file yet
            with closing(connected(owned)) as later:
                while not later.instant("photos"):
                    agree(later, owned)
        else:
            owned.delete("photos", [IDS[step]])
        assert not proxy.instant("photos")


def test_a_file_that_cannot_be_written_is_not_tried_again_before_the_next_write(
    proxy: StoreProxy, owned: EdgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr("lodestone.store.edge.matrix_keeper.FILE_NUMBERS", 1)
    monkeypatch.setattr("lodestone.store.edge.matrix_keeper._QUIET_S", 0.02)
    monkeypatch.setattr(MatrixKeeper, "_write", lambda _keeper, _stamp, matrix, **_: tried.append(matrix.version) or False)
    for expected in (1, 2):
        while len(tried) < expected:
            agree(proxy, owned)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            agree(proxy, owned)
        assert len(tried) == expected
        owned.delete("photos", [IDS[expected]])


def test_a_counter_is_seen_through_another_descriptor() -> None:
    own = ChangeCount()
    other = ChangeCount(os.dup(own.descriptor))
    assert own.count == other.count == 0
    with own.changing():
        assert other.count == 1
    assert other.count == 2
    with pytest.raises(RuntimeError), own.changing():
        raise RuntimeError
    assert other.count == 4
