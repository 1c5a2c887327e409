"""Acknowledged deletes hold on a server that forgets them when an optimization is broken off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from qdrant_client import QdrantClient, models
from tests.support.points import make_points
from tests.support.qdrant_server import QdrantServer

from lodestone.store.base import Filter, MatchAny, PointBatch, VectorQuery, VectorStore
from lodestone.store.server.writes import WriteGate
from lodestone_schemas.collections import CollectionSpec, HnswSpec

SPEC = CollectionSpec("pictures-1", 64, hnsw=HnswSpec(ef_construct=256))
COUNT = 16_000
POINTS = make_points(COUNT, 64, seed=5)


@pytest.fixture
def optimizing(qdrant_server: QdrantServer, server_store: VectorStore) -> Iterator[tuple[VectorStore, QdrantClient]]:
    """A store whose server is in the middle of an optimization, and another's connection to that server."""
    client = QdrantClient(url=qdrant_server.url, grpc_port=qdrant_server.grpc_port, prefer_grpc=True, check_compatibility=False)
    server_store.create(SPEC)
    server_store.upsert(SPEC.name, POINTS)
    wait_for(client, models.CollectionStatus.GREEN)
    graph = models.VectorParamsDiff(hnsw_config=models.HnswConfigDiff(m=16))
    client.update_collection(SPEC.name, vectors_config={"": graph}, optimizers_config=threshold(1))
    wait_for(client, models.CollectionStatus.YELLOW)
    time.sleep(0.3)  # yellow is a segment's turn to be optimized, too
    yield server_store, client
    client.close()


def threshold(kilobytes: int) -> models.OptimizersConfigDiff:
    return models.OptimizersConfigDiff(indexing_threshold=kilobytes)


def wait_for(client: QdrantClient, status: models.CollectionStatus) -> None:
    until = time.monotonic() + 180
    while client.get_collection(SPEC.name).status != status:
        assert time.monotonic() < until
        time.sleep(0.005)


def written_while_optimizing(client: QdrantClient, write: Callable[[], object]) -> None:
    """Write while the server optimizes, and break that off, as another process's change of settings does.

    A server that was done first, because this process had to wait for a processor, builds another graph, and all is repeated.
    """
    for m in range(17, 27):
        write()
        if client.get_collection(SPEC.name).status == models.CollectionStatus.YELLOW:
            client.update_collection(SPEC.name, optimizers_config=threshold(1_000_000))
            return
        graph = models.VectorParamsDiff(hnsw_config=models.HnswConfigDiff(m=m))
        client.update_collection(SPEC.name, vectors_config={"": graph})
        wait_for(client, models.CollectionStatus.YELLOW)
    pytest.fail("this server optimizes faster than anything is written")


def wait_for_rest(client: QdrantClient) -> None:
    """Wait until the server optimizes nothing for a second: between two segments it is green for a moment."""
    until, green = time.monotonic() + 180, 0
    while green < 10:
        assert time.monotonic() < until
        green = green + 1 if client.get_collection(SPEC.name).status == models.CollectionStatus.GREEN else 0
        time.sleep(0.1)


def wait_for_points(store: VectorStore, expected: set[str]) -> None:
    """Wait until a store holds these points: it repeats deletes when the server rests, which may optimize once more."""
    until = time.monotonic() + 180
    while (held := {point_id for batch in store.scroll(SPEC.name) for point_id in batch.ids}) != expected:
        assert time.monotonic() < until, (len(held - expected), len(expected - held))
        time.sleep(0.05)


@pytest.mark.server
def test_deletes_that_the_server_undoes_are_repeated(optimizing: tuple[VectorStore, QdrantClient]) -> None:
    store, client = optimizing
    of_a_folder = Filter(must=(MatchAny("folders", ("year3/month1",)),))

    def write() -> None:
        store.delete(SPEC.name, POINTS.ids[:100])
        store.delete_matching(SPEC.name, of_a_folder)
        store.upsert(SPEC.name, PointBatch(POINTS.ids[:40], POINTS.vectors[:40], POINTS.payloads[:40]))

    written_while_optimizing(client, write)
    wait_for(client, models.CollectionStatus.GREEN)
    gone = {row for row in range(COUNT) if 40 <= row < 100 or (row >= 40 and row % 5 == 3 and row % 4 == 1)}
    wait_for_points(store, {POINTS.ids[row] for row in range(COUNT) if row not in gone})
    assert store.count(SPEC.name) == store.info(SPEC.name).points == COUNT - len(gone)
    assert len(store.retrieve(SPEC.name, POINTS.ids[:100])) == 40


@pytest.mark.server
def test_they_are_repeated_for_those_who_only_search_too(optimizing: tuple[VectorStore, QdrantClient]) -> None:
    store, client = optimizing
    written_while_optimizing(client, lambda: store.delete(SPEC.name, POINTS.ids[:100]))
    question = [VectorQuery(vector, 1, exact=True) for vector in POINTS.vectors[:100]]
    until = time.monotonic() + 180
    while back := {found.ids[0] for found in store.search(SPEC.name, question)} & set(POINTS.ids[:100]):
        assert time.monotonic() < until, len(back)
        time.sleep(0.05)


@pytest.mark.server
def test_points_that_another_process_wrote_again_are_not_deleted_again(
    optimizing: tuple[VectorStore, QdrantClient],
) -> None:
    store, client = optimizing
    batch = models.Batch(
        ids=list(POINTS.ids[:40]), vectors=POINTS.vectors[:40].tolist(), payloads=list(map(dict, POINTS.payloads[:40]))
    )

    def write() -> None:
        store.delete(SPEC.name, POINTS.ids[:100])
        with store.written_elsewhere(SPEC.name, POINTS.ids[:40]):
            client.upsert(SPEC.name, batch, wait=True)

    written_while_optimizing(client, write)
    wait_for(client, models.CollectionStatus.GREEN)
    wait_for_points(store, {*POINTS.ids[:40], *POINTS.ids[100:]})


@pytest.mark.server
def test_what_is_not_repeated_yet_when_a_store_is_closed_is_repeated_then(
    optimizing: tuple[VectorStore, QdrantClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, client = optimizing
    monkeypatch.setattr("lodestone.store.server.writes._WATCH_SECONDS", 60)
    for attempt in range(1, 6):  # between two segments' turns nothing is undone
        written_while_optimizing(client, lambda many=100 * attempt: store.delete(SPEC.name, POINTS.ids[:many]))  # type: ignore[misc]
        wait_for_rest(client)
        if client.count(SPEC.name).count > COUNT - 100 * attempt:
            break
        client.update_collection(SPEC.name, optimizers_config=threshold(1))
        wait_for(client, models.CollectionStatus.YELLOW)
        time.sleep(0.3 * attempt)
    else:
        pytest.fail("this server does not undo deletes any more")
    store.close()
    assert client.count(SPEC.name).count == COUNT - 100 * attempt


def test_who_waits_to_be_alone_is_not_overtaken_by_new_writers() -> None:
    gate, order = WriteGate(), []
    first_in, let_go = threading.Event(), threading.Event()

    def first_writer() -> None:
        with gate.writing():
            first_in.set()
            assert let_go.wait(180)
            order.append("first writer")

    def alone() -> None:
        with gate.alone():
            order.append("alone")

    def second_writer() -> None:
        with gate.writing():
            order.append("second writer")

    threads = [threading.Thread(target=work) for work in (first_writer, alone, second_writer)]
    threads[0].start()
    assert first_in.wait(180)
    threads[1].start()
    while not gate._waiting:
        time.sleep(0.001)
    threads[2].start()
    time.sleep(0.05)
    let_go.set()
    for thread in threads:
        thread.join(180)
    assert order == ["first writer", "alone", "second writer"]
