"""The stream of slices without Ray: how many tasks are out, which receipts count, and how long it waits for workers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from lodestone.errors import RunFailedError, ServiceUnavailableError
from lodestone.indexing.tasks import Advance, SliceReceipt, SliceTask
from lodestone_jobs.desk import DeskNews
from lodestone_jobs.slice_stream import SliceStream


class FakeHost:
    """A dataset that does what a test says; its clock moves as long as the stream waits."""

    def __init__(self) -> None:
        self.time = 0.0
        self.ready = 0
        self.failed_starts = 0
        self.room = 0
        self.advances: list[Advance] = []
        self.given: list[str] = []
        self.coming: list[tuple[int, SliceReceipt | None]] = []
        self.received: list[int] = []
        self.stopped: list[bool] = []

    def start(self) -> None:
        self.time += 1

    def give(self, tasks: Sequence[SliceTask]) -> None:
        self.given += [task.slice_id for task in tasks]

    def receive(self, seconds: float) -> list[tuple[int, SliceReceipt | None]]:
        self.time += seconds
        coming, self.coming = self.coming, []
        return coming

    def news(self, received: Sequence[int]) -> DeskNews:
        self.received += received
        advances, self.advances = tuple(self.advances), []
        return DeskNews(self.ready, self.failed_starts, advances)

    def summary(self) -> tuple[int, str]:
        return self.room, "a fake cluster"

    def stop(self, *, at_once: bool) -> None:
        self.stopped.append(at_once)

    def finish(self, ticket: int) -> None:
        self.coming.append((ticket, SliceReceipt(self.given[ticket], ())))


def stream_of(host: FakeHost, *, slices: int = 2, patience: float = 100.0) -> SliceStream[SliceTask, SliceReceipt]:
    return SliceStream(host, slices=slices, patience=patience, clock=lambda: host.time)


def task(name: str) -> SliceTask:
    return SliceTask(name, "corpus", "f" * 32, (), ("meta",))


def names(events: Sequence[Advance | SliceReceipt]) -> list[str]:
    return [event.slice_id for event in events]


def test_one_task_is_made_before_workers_are_there_and_then_as_many_as_they_take_and_two_more_for_each() -> None:
    host = FakeHost()
    stream = stream_of(host)
    assert stream.wanted() == 1
    stream.add(task("a"))
    assert stream.wanted() == 0
    host.ready = 3
    stream.step(1)
    assert stream.wanted() == 3 * (2 + 2) - 1
    host.finish(0)
    assert names(stream.step(1)) == ["a"]
    assert stream.wanted() == 12
    assert stream.is_idle


def test_a_receipt_counts_once_and_the_host_hears_that_it_has_come() -> None:
    host = FakeHost()
    stream = stream_of(host)
    for name in "ab":
        stream.add(task(name))
    stream.step(1)
    host.finish(1)
    host.finish(1)
    host.coming.append((0, None))  # a read task was executed again, and its task was gone
    assert names(stream.step(1)) == ["b"]
    assert not stream.is_idle
    stream.step(1)
    assert host.received == [1]


def test_progress_counts_for_slices_in_flight_alone() -> None:
    host = FakeHost()
    stream = stream_of(host)
    stream.add(task("a"))
    host.advances = [Advance("a", 3), Advance("done before", 4)]
    assert stream.step(1) == [Advance("a", 3)]


def test_workers_that_die_before_any_is_ready_end_the_run() -> None:
    host = FakeHost()
    stream = stream_of(host)
    host.failed_starts = 2
    stream.step(1)
    host.failed_starts = 3
    with pytest.raises(RunFailedError, match="3 embedding workers died before one was ready"):
        stream.step(1)


@pytest.mark.parametrize(("room", "told"), [(0, "no node has room for"), (2, "no embedding worker has started")])
def test_a_cluster_without_workers_is_waited_for_with_a_warning_and_then_given_up(
    room: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = FakeHost()
    host.room = room
    stream = stream_of(host, patience=100)
    stream.add(task("a"))
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            stream.step(10)
    assert [record.message.count("a fake cluster") for record in caplog.records] == [1, 1, 1]
    with pytest.raises(ServiceUnavailableError, match=told):
        stream.step(10)


def test_waiting_begins_anew_when_a_worker_was_there_and_never_without_work() -> None:
    host = FakeHost()
    stream = stream_of(host, patience=50)
    stream.add(task("a"))
    stream.step(40)
    host.ready = 1
    stream.step(1)
    host.ready = 0
    for _ in range(4):
        stream.step(10)
    host.finish(0)
    stream.step(5)
    for _ in range(20):
        stream.step(10)


def test_what_is_in_flight_is_stopped_at_once_and_an_idle_dataset_ends_by_itself() -> None:
    host = FakeHost()
    stream = stream_of(host)
    stream.close()
    stream.add(task("a"))
    stream.step(1)
    stream.close()
    assert host.stopped == [False, True]
