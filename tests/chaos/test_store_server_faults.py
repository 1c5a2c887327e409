"""Loads and searches lose nothing when a Qdrant node dies, restarts, is full, or asks for fewer writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from tests.support.homes import wait_until
from tests.support.points import make_points
from tests.support.qdrant_cluster import run_qdrant_cluster
from tests.support.qdrant_server import QdrantServer, _start, run_qdrant
from tests.support.small_disk import small_disk

from lodestone.config.store import StoreSettings
from lodestone.errors import ConfigurationError, OutOfSpaceError, StoreError
from lodestone.store.base import VectorQuery, VectorStore
from lodestone.store.factory import open_store
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec, Placement

pytestmark = [pytest.mark.server, pytest.mark.chaos]
DIM = 16
SPEC = CollectionSpec("pictures-1", DIM)
BATCHES = [make_points(CALL_POINTS, DIM, seed=number, first=number * CALL_POINTS) for number in range(8)]


def all_there(store: VectorStore) -> None:
    """Every point of every batch, with its vector, once."""
    assert store.count(SPEC.name) == CALL_POINTS * len(BATCHES)
    for batch in BATCHES:
        found = store.retrieve(SPEC.name, batch.ids)
        assert list(found.ids) == list(batch.ids)
        np.testing.assert_allclose(found.vectors, batch.vectors, atol=1e-6)


def in_background(work: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    return thread, failures


@pytest.mark.nightly
@pytest.mark.slow
def test_with_copies_a_node_that_dies_fails_no_load_and_no_search(qdrant_binary: Path, tmp_path: Path) -> None:
    with run_qdrant_cluster(qdrant_binary, tmp_path) as cluster:
        settings = StoreSettings(kind="server", url=tuple(cluster.urls), grpc_port=tuple(cluster.grpc_ports))
        store = open_store(
            "server", url=settings.urls, grpc_port=settings.grpc_ports, placement=Placement(shards=6, replication=2)
        )
        store.create(SPEC)
        store.set_alias("pictures", SPEC.name)
        for batch in BATCHES[:2]:
            store.upsert(SPEC.name, batch)
        done = threading.Event()
        answered: list[int] = []

        def load() -> None:
            for batch in BATCHES[2:]:
                store.upsert(SPEC.name, batch)
                time.sleep(0.2)

        def search() -> None:
            while not done.is_set():
                (found,) = store.search(store.aliases()["pictures"], [VectorQuery(BATCHES[0].vectors[0], 1)])
                assert found.ids == (BATCHES[0].ids[0],)
                answered.append(1)
                time.sleep(0.02)

        loading, load_failures = in_background(load)
        searching, search_failures = in_background(search)
        wait_until(lambda: answered or search_failures)
        cluster.kill(0)  # the one that was asked so far
        loading.join()
        before = len(answered)
        wait_until(lambda: len(answered) > before or search_failures)
        done.set()
        searching.join()
        assert load_failures == search_failures == []
        all_there(store)
        state = QdrantClient(url=cluster.urls[1], check_compatibility=False).get_collection(SPEC.name).config.params
        assert (state.shard_number, state.replication_factor) == (6, 2)
        again = open_store("server", url=settings.urls, grpc_port=settings.grpc_ports)  # the first node is still dead
        all_there(again)
        again.close()
        store.close()


def test_a_server_that_restarts_in_the_middle_of_a_load_gets_every_point(qdrant_binary: Path, tmp_path: Path) -> None:
    with run_qdrant(qdrant_binary, tmp_path) as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port)
        store.create(SPEC)
        counts: list[int] = []

        def load() -> None:
            with store.patient():
                for batch in BATCHES:
                    store.upsert(SPEC.name, batch)
                    counts.append(store.count(SPEC.name))

        loading, failures = in_background(load)
        while not counts:
            time.sleep(0.01)
        server.process.kill()
        server.process.wait()
        with pytest.raises(StoreError, match="does not answer"):
            store.count(SPEC.name)  # who is not patient is told soon
        port = int(server.url.rsplit(":", 1)[1])
        restarted = _start(qdrant_binary, tmp_path, http_port=port, grpc_port=server.grpc_port)
        try:
            loading.join()
            assert failures == []
            assert counts == sorted(counts)
            all_there(store)
            store.close()
        finally:
            restarted.kill()
            restarted.wait()


def test_a_server_that_asks_for_fewer_writes_slows_the_load_and_loses_nothing(qdrant_server: QdrantServer) -> None:
    store = open_store("server", url=qdrant_server.url, grpc_port=qdrant_server.grpc_port, writers=8, patience=1)
    client = QdrantClient(url=qdrant_server.url, check_compatibility=False)
    store.create(SPEC)
    try:
        a_minute = models.StrictModeConfig(enabled=True, write_rate_limit=60 * CALL_POINTS)
        client.update_collection(SPEC.name, strict_mode_config=a_minute)
        use_up(client, 61)
        for batch in BATCHES[:4]:
            store.upsert(SPEC.name, batch)
        client.update_collection(SPEC.name, strict_mode_config=models.StrictModeConfig(enabled=False))
        for batch in BATCHES[4:]:
            store.upsert(SPEC.name, batch)
        all_there(store)
    finally:
        store.drop(SPEC.name)
        client.close()
        store.close()


def use_up(client: QdrantClient, calls: int) -> None:
    """Write until the server refuses."""
    batch = models.Batch(ids=list(BATCHES[0].ids), vectors=BATCHES[0].vectors.tolist())
    with pytest.raises(ResourceExhaustedResponse):  # noqa: PT012
        for _ in range(2 * calls):
            client.upsert(SPEC.name, batch)


def test_a_server_whose_disk_is_full_says_so_keeps_what_it_had_and_takes_the_rest_later(
    qdrant_binary: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("this system allows no mounts")
        with run_qdrant(qdrant_binary, disk.path, prefix=disk.prefix) as server:
            store = open_store("server", url=server.url, grpc_port=server.grpc_port, patience=2)
            store.create(SPEC)
            store.upsert(SPEC.name, BATCHES[0])
            disk.leave(1 << 20)
            with pytest.raises(OutOfSpaceError):  # noqa: PT012
                for batch in BATCHES[1:] * 20:
                    store.upsert(SPEC.name, batch)
            assert list(store.retrieve(SPEC.name, BATCHES[0].ids).ids) == list(BATCHES[0].ids)
            disk.grow()
            for batch in BATCHES:
                store.upsert(SPEC.name, batch)
            all_there(store)
            store.close()


def test_as_many_ports_as_urls_or_one(qdrant_server: QdrantServer) -> None:
    with pytest.raises(ConfigurationError, match="2 urls of Qdrant have 3 gRPC ports"):
        open_store("server", url=[qdrant_server.url] * 2, grpc_port=[1, 2, 3])
    dead = "http://127.0.0.1:9"
    store = open_store("server", url=[dead, qdrant_server.url], grpc_port=[9, qdrant_server.grpc_port])
    assert SPEC.name not in store.collections()
    store.close()
