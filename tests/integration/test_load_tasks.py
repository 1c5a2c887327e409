"""Groups loaded by Ray tasks, and by a store that refuses: nothing is lost, nothing is there twice, the driver only records."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
import numpy as np
import pytest
import tenacity
from benchmarks.indexing.load import make_home
from tests.support.qdrant_server import QdrantServer

from lodestone.errors import ClusterLostError, OutOfSpaceError, StoreError
from lodestone.files.area import FileArea
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import silent
from lodestone.indexing.sync.load_groups import LoadGroup, PointMaker
from lodestone.indexing.sync.loaders import GroupLoader
from lodestone.indexing.sync.loading import load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.indexing.sync.verify import verify
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.factory import StoreServer
from lodestone.store.server import connection
from lodestone.store.server.nodes import Nodes
from lodestone_jobs.cluster import LocalRay
from lodestone_jobs.loading import TaskLoader
from lodestone_schemas.collections import CollectionSpec

pytestmark = pytest.mark.server
POINTS, DIM = 60, 8
_T = TypeVar("_T")


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpaceTarget:
    """60 pictures in 15 slices, which are loaded in groups of at most 8."""
    monkeypatch.setattr("lodestone.indexing.sync.loading._FIRST_ROWS", 8)
    monkeypatch.setattr("lodestone.indexing.sync.loading._GROUP_ROWS", 8)
    return make_home(tmp_path, points=POINTS, dim=DIM, slice_rows=4)


@pytest.fixture
def server(qdrant_server: QdrantServer) -> StoreServer:
    return StoreServer(qdrant_server.url, grpc_port=qdrant_server.grpc_port, namespace="loadtasks", patience=20)


@pytest.fixture
def store(server: StoreServer, target: SpaceTarget) -> Iterator[VectorStore]:
    opened = server.open()
    opened.create(CollectionSpec(target.collection, DIM))
    yield opened
    opened.drop(target.collection)
    opened.close()


@dataclass(frozen=True)
class DyingMaker(PointMaker):
    """Kills its process once, when half of a group is in the store."""

    maker: PointMaker
    server: StoreServer
    marker: Path

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.maker.dim

    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        made = self.maker.points(embeddings, group)
        if not self.marker.exists():
            self.marker.write_text(str(os.getpid()))
            self.server.open().upsert(group.collection, PointBatch(made.ids[:4], made.vectors[:4], made.payloads[:4]))
            os.kill(os.getpid(), signal.SIGKILL)
        return made


@dataclass(frozen=True)
class DamagedMaker(PointMaker):
    """Fails as a store does whose disk is full."""

    dim: int = DIM

    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        raise OutOfSpaceError("the disk is full", hint="make room")


class DyingLoader:
    """Passes groups on, with a maker that dies once."""

    def __init__(self, inner: GroupLoader, server: StoreServer, marker: Path) -> None:
        self._inner, self._server, self._marker = inner, server, marker

    def load(self, maker: PointMaker, group: LoadGroup) -> int:
        return self._inner.load(DyingMaker(maker, self._server, self._marker), group)


def bring(store: VectorStore, target: SpaceTarget, loader: GroupLoader | None = None) -> int:
    return load(store, target, progress=silent, faults=Faults(), loader=loader, loaders=3)


def check_complete(store: VectorStore, target: SpaceTarget) -> None:
    wanted = target.points(list(target.catalog.slices()))
    found = store.retrieve(target.collection, wanted.ids)
    assert len(found) == store.count(target.collection) == POINTS
    np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-6)
    assert [dict(one) for one in found.payloads] == [dict(one) for one in wanted.payloads]
    assert verify(store, target, progress=silent) is None
    assert bring(store, target) == 0


@pytest.mark.ray
def test_tasks_load_every_point_and_the_driver_writes_none(
    ray_cluster: None, store: VectorStore, target: SpaceTarget, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: VectorStore, name: str, points: PointBatch) -> None:
        raise AssertionError("the driver wrote points")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "upsert", refused)
        assert bring(store, target, TaskLoader(server, store, target.embeddings, LocalRay(workers=2))) == POINTS
    check_complete(store, target)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.ray
def test_a_task_whose_process_dies_with_half_a_group_is_run_again(
    ray_cluster: None, store: VectorStore, target: SpaceTarget, server: StoreServer, tmp_path: Path
) -> None:
    marker = tmp_path / "died"
    tasks = TaskLoader(server, store, target.embeddings, LocalRay(workers=2))
    assert bring(store, target, DyingLoader(tasks, server, marker)) == POINTS
    assert marker.exists()
    check_complete(store, target)


@pytest.mark.ray
def test_an_error_of_a_task_is_the_error_of_the_load(
    ray_cluster: None, store: VectorStore, target: SpaceTarget, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpaceTarget, "maker", DamagedMaker())
    with pytest.raises(OutOfSpaceError, match="the disk is full"):
        bring(store, target, TaskLoader(server, store, target.embeddings, LocalRay(workers=2)))
    assert target.catalog.count_loaded(target.collection) == 0


def test_a_load_outlives_the_cluster(store: VectorStore, target: SpaceTarget, server: StoreServer) -> None:
    asked = []

    class Lost(LocalRay):
        def answered(self, call: Callable[[], _T]) -> _T:
            asked.append(call)
            raise ClusterLostError("the head is gone", hint="start it")

    assert bring(store, target, TaskLoader(server, store, target.embeddings, Lost(workers=1))) == POINTS
    assert 1 <= len(asked) <= 3  # those in flight; after that nobody asks
    check_complete(store, target)


class Refusal(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """Error of a call, as gRPC raises it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "Too Many Requests"


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_a_store_that_refuses_is_asked_again(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    send, calls, late = Nodes.upsert_message, iter(range(1000)), []

    def refusing(self: Nodes, request: object) -> None:
        number = next(calls)
        if number % 3 == 1:
            raise Refusal(grpc.StatusCode[code])
        send(self, request)  # type: ignore[arg-type]
        if number % 3 == 2:  # it was taken, and the answer is lost
            late.append(number)
            raise Refusal(grpc.StatusCode[code])

    monkeypatch.setattr(Nodes, "upsert_message", refusing)
    monkeypatch.setattr(connection, "_BACKOFF", tenacity.wait_fixed(0.01))
    assert bring(store, target) == POINTS
    assert late
    check_complete(store, target)


def test_writers_that_were_refused_together_do_not_come_back_together() -> None:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = 8
    waits = [connection._BACKOFF(state) for _ in range(200)]
    assert min(waits) >= connection.LONGEST_WAIT_SECONDS / 2
    assert max(waits) <= connection.LONGEST_WAIT_SECONDS
    assert np.ptp(waits) > connection.LONGEST_WAIT_SECONDS / 4


def test_a_store_that_goes_on_refusing_ends_the_load_and_counts_nothing(
    store: VectorStore, target: SpaceTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(self: Nodes, request: object) -> None:
        raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)

    with monkeypatch.context() as patch:
        patch.setattr(Nodes, "upsert_message", refusing)
        patch.setattr(store._server, "patience", 0.5)  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="asks for fewer calls"):
            bring(store, target)
    assert target.catalog.count_loaded(target.collection) == 0
    assert bring(store, target) == POINTS
    check_complete(store, target)
