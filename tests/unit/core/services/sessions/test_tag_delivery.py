"""Behind the answers, everything is recorded and delivered, in order and within bounds, whatever fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.traces import trace_of_scores

from lodestone.catalog.catalog import Catalog
from lodestone.config.settings import TagSettings
from lodestone.errors import StoreError
from lodestone.query.answering.memory import Memory
from lodestone.query_log.recorder import Recorder
from lodestone.query_log.trace import Trace, load_trace
from lodestone.services.sessions import serving
from lodestone.services.sessions.serving import TagDelivery


class Observed:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.most_waiting = self.all_lost = 0

    def waiting(self, records: int) -> None:
        self.most_waiting = max(self.most_waiting, records)

    def lost(self, records: int) -> None:
        self.all_lost += records


class Slow:
    """Keeps nothing before it is let go."""

    def __init__(self) -> None:
        self.at_work, self.go = threading.Event(), threading.Event()
        self.kept: list[list[str]] = []

    def keep_all(self, traces: list[Trace]) -> list[str]:
        self.at_work.set()
        self.go.wait(180)
        self.kept.append([trace.query_id for trace in traces])
        return []


def trace(query_id: str) -> Trace:
    return replace(trace_of_scores("words", {"labels": {"a": 1.0, "b": 0.5}}), query_id=query_id, owner="key:a")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path / "catalog.sqlite")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder(most=4)
    yield made
    made.close()


def test_a_query_is_found_once_it_has_settled(catalog: Catalog, recorder: Recorder) -> None:
    memory = Memory(catalog, None, history=100, tags=TagSettings(implicit=False))  # type: ignore[arg-type]
    assert recorder.offer("q1", memory, lambda: trace("q1"))
    assert recorder.settle("q1")
    assert load_trace(catalog, "q1").hits == trace("q1").hits
    found = catalog.query("q1")
    assert found is not None
    assert found.owner == "key:a"
    assert not recorder.pending()
    assert recorder.settle("never asked")


def test_what_comes_together_is_written_together_and_in_order() -> None:
    slow, observed = Slow(), Observed()
    recorder = Recorder(most=50, observer=observed)
    for number in range(20):
        assert recorder.offer(f"q{number}", slow, lambda number=number: trace(f"q{number}"))  # type: ignore[misc]
        assert slow.at_work.wait(180)  # on the first, and nobody knows how many with it otherwise
    assert recorder.pending("q19")
    assert not recorder.settle("q19", timeout_s=0.01)
    slow.go.set()
    assert recorder.settle()
    assert [name for batch in slow.kept for name in batch] == [f"q{number}" for number in range(20)]
    assert len(slow.kept) <= 3
    assert observed.most_waiting >= 19
    recorder.close()


def test_a_full_queue_takes_nothing_more_until_there_is_room(recorder: Recorder) -> None:
    slow = Slow()
    assert recorder.offer("q", slow, lambda: trace("q"))
    assert slow.at_work.wait(180)
    while recorder.offer("q", slow, lambda: trace("q")):
        pass
    assert not recorder.offer("q", slow, lambda: trace("q"))
    slow.go.set()
    slow.go.set()
    assert recorder.settle()
    assert recorder.offer("q", slow, lambda: trace("q"))


def test_closing_writes_what_is_queued_and_takes_nothing_more(catalog: Catalog) -> None:
    recorder = Recorder()
    memory = Memory(catalog, None, history=100, tags=TagSettings(implicit=False))  # type: ignore[arg-type]
    for number in range(10):
        recorder.offer(f"q{number}", memory, lambda number=number: trace(f"q{number}"))  # type: ignore[misc]
    assert recorder.close()
    assert len(catalog.queries(limit=100)) == 10
    assert not recorder.offer("late", memory, lambda: trace("late"))
    assert recorder.close()


def test_a_record_that_fails_costs_no_other_and_is_counted(catalog: Catalog) -> None:
    observed = Observed()
    recorder = Recorder(observer=observed)
    memory = Memory(catalog, None, history=100, tags=TagSettings(implicit=False))  # type: ignore[arg-type]

    def broken() -> Trace:
        raise ValueError("a defect")

    recorder.offer("bad", memory, broken)
    recorder.offer("good", memory, lambda: trace("good"))
    assert recorder.settle()
    assert [query.query_id for query in catalog.queries()] == ["good"]
    catalog.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Catalog, "add_queries", lambda *_: (_ for _ in ()).throw(StoreError("gone")))
        recorder.offer("lost", memory, lambda: trace("lost"))
        assert recorder.settle()
    recorder.offer("later", memory, lambda: trace("later"))
    assert recorder.close()
    assert observed.all_lost == 2
    assert {query.query_id for query in catalog.queries()} == {"good", "later"}


def test_several_records_at_once_forget_the_oldest(catalog: Catalog) -> None:
    memory = Memory(catalog, None, history=3, tags=TagSettings(implicit=False))  # type: ignore[arg-type]
    assert memory.keep_all([trace(f"q{number}") for number in range(8)]) == []
    assert len(catalog.queries()) == 3
    assert memory.keep_all([]) == []


# -- tags ---------------------------------------------------------------------------------------------------------------------


class Store:
    """Takes deliveries, unless it is down."""

    def __init__(self) -> None:
        self.delivered = 0
        self.down = False
        self.go = threading.Event()
        self.go.set()

    def deliver(self) -> int:
        self.go.wait(180)
        if self.down:
            raise StoreError("the store is gone", hint="start it")
        self.delivered += 1
        return 1


async def test_what_was_left_from_before_is_delivered_at_the_start() -> None:
    store = Store()
    delivery = TagDelivery(store.deliver)
    delivery.start()
    async with asyncio.timeout(120):
        while not store.delivered:
            await asyncio.sleep(0.002)
    await delivery.close()
    await delivery.close()


async def test_a_change_is_delivered_before_its_writer_goes_on_unless_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SHOWN_S", 180.0)  # nothing takes long that is not held
    store = Store()
    delivery = TagDelivery(store.deliver)
    delivery.start()
    await delivery.changed()
    before = store.delivered
    await delivery.changed()
    assert store.delivered == before + 1
    store.go.clear()
    monkeypatch.setattr(serving, "SHOWN_S", 0.25)
    async with asyncio.timeout(120):
        await delivery.changed()
    assert store.delivered == before + 1, "the writer went on without it"
    store.go.set()
    monkeypatch.setattr(serving, "SHOWN_S", 180.0)
    await delivery.changed()
    assert store.delivered >= before + 2
    await delivery.close()


async def test_a_delivery_that_fails_is_tried_again_until_it_is_done() -> None:
    store = Store()
    store.down = True
    delivery = TagDelivery(store.deliver, first_pause_s=0.005)
    delivery.start()
    await delivery.changed()
    assert store.delivered == 0
    store.down = False
    async with asyncio.timeout(120):
        while not store.delivered:
            await asyncio.sleep(0.002)
    await delivery.close()


async def test_many_writers_share_deliveries() -> None:
    store = Store()
    delivery = TagDelivery(store.deliver)
    delivery.start()
    await asyncio.gather(*(delivery.changed() for _ in range(50)))
    assert 1 <= store.delivered <= 3
    await delivery.close()
