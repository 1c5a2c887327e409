"""The pool of embedding actors without Ray: who gets which slice, and what happens when actors and nodes come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lodestone.errors import RunFailedError, ServiceUnavailableError, WorkerDiedError
from lodestone.indexing.tasks import Advance, SliceReceipt, SliceTask
from lodestone_jobs.actor_pool import ActorPool, Death, News, Surroundings
from lodestone_jobs.embed_actor import Event, Hello
from lodestone_jobs.rooms import Bounds

_LOOK_S = 4.0  # more than the pool lets pass between two looks


class FakeHost:
    """A cluster that does what a test says; an actor says hello as soon as there is room for it."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.leaving: frozenset[str] = frozenset()
        self.held: dict[int, list[SliceTask]] = {}
        self.started = 0
        self.greeted: set[int] = set()
        self.stopped: list[int] = []
        self.coming: list[tuple[int, News]] = []
        self.time = 0.0

    def start(self) -> int:
        self.started += 1
        self.held[self.started] = []
        return self.started

    def give(self, actor: int, tasks: Sequence[SliceTask]) -> None:
        self.held[actor] += tasks

    def stop(self, actor: int) -> None:
        del self.held[actor]
        self.greeted.discard(actor)
        self.stopped.append(actor)

    def news(self, seconds: float) -> list[tuple[int, News]]:
        self.time += seconds
        for actor in self.held:
            if actor not in self.greeted and len(self.greeted) < self.room:
                self.greeted.add(actor)
                self.coming.append((actor, Hello(f"host:{actor}", f"node-{actor}")))
        coming, self.coming = self.coming, []
        return coming

    def look(self) -> Surroundings:
        return Surroundings(self.room, self.leaving, "a fake cluster")

    def finish(self, actor: int, number: int = 1) -> None:
        done = [self.held[actor].pop(0) for _ in range(number)]
        self.coming.append((actor, [SliceReceipt(task.slice_id, ()) for task in done]))

    def die(self, actor: int, *, node_lost: bool = False) -> None:
        del self.held[actor]
        self.greeted.discard(actor)
        self.coming.append((actor, Death("it ended", node_lost)))

    def ids(self, actor: int) -> list[str]:
        return [task.slice_id for task in self.held[actor]]


def pool_of(host: FakeHost, bounds: Bounds, *, slices: int = 2, patience: float = 100.0) -> ActorPool:
    return ActorPool(host, bounds, slices=slices, patience=patience, clock=lambda: host.time)


def task(name: str, **fields: Any) -> SliceTask:
    return SliceTask(name, "corpus", "f" * 32, (), ("meta",), **fields)


def feed(pool: ActorPool, *names: str) -> None:
    for name in names:
        pool.add(task(name))


def errors(events: Sequence[Event]) -> dict[str, Any]:
    return {event.slice_id: event.error for event in events if isinstance(event, SliceReceipt)}


def test_slices_go_to_the_actors_with_the_fewest_and_no_actor_gets_more_than_it_may_hold() -> None:
    host = FakeHost(2)
    pool = pool_of(host, Bounds(2, 2))
    pool.step(0)
    assert pool.wanted() == 6  # two in flight in each, and one to have ready
    feed(pool, *"abcdefg")
    pool.step(0)
    assert [host.ids(1), host.ids(2)] == [["a", "c"], ["b", "d"]]
    assert pool.wanted() == -1
    host.finish(2)
    assert errors(pool.step(0)) == {"b": None}
    assert host.ids(2) == ["d", "e"]  # supplied again in the same step
    assert not pool.is_idle


def test_actors_stay_when_there_is_nothing_to_do() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 1))
    pool.step(0)
    for name in "abc":
        feed(pool, name)
        pool.step(0)
        host.finish(1)
        pool.step(0)
        assert pool.is_idle
        pool.step(_LOOK_S)
    assert (host.started, host.stopped) == (1, [])


def test_progress_is_passed_on_and_keeps_the_slice_in_flight() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 1))
    feed(pool, "a")
    pool.step(0)
    host.coming.append((1, [Advance("a", 3)]))
    assert pool.step(0) == [Advance("a", 3)]
    assert not pool.is_idle


def test_a_slice_that_needs_an_actor_for_itself_gets_one_and_the_others_go_on() -> None:
    host = FakeHost(2)
    pool = pool_of(host, Bounds(2, 2))
    pool.step(0)
    feed(pool, *"abcd")
    pool.step(0)
    pool.add(task("killer", alone=True))
    feed(pool, *"efg")
    pool.step(0)
    kept = next(actor for actor in host.held if host.held[actor])
    other = 3 - kept
    host.finish(kept)
    host.finish(other)
    pool.step(0)
    assert len(host.held[kept]) == 1  # it gets nothing more
    assert "e" in host.ids(other)
    host.finish(kept)
    pool.step(0)
    assert host.ids(kept) == ["killer"]
    host.finish(other, 2)
    pool.step(0)
    assert host.ids(kept) == ["killer"]  # and has no company
    assert sorted(host.ids(other)) == ["f", "g"]


def test_an_actor_that_dies_alone_is_replaced_and_says_how_many_slices_it_had() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 1))
    feed(pool, *"abc")
    pool.step(0)
    host.die(1)
    found = errors(pool.step(0))
    assert sorted(found) == ["a", "b"]
    assert all(isinstance(error, WorkerDiedError) and error.details["beside"] == 1 for error in found.values())
    assert "host:1 died with 2 slices in flight: it ended" in found["a"].message
    pool.step(0)
    pool.step(0)
    assert (host.started, host.ids(2)) == (2, ["c"])


def test_slices_of_a_lost_node_go_to_others_and_are_blamed_on_nobody() -> None:
    host = FakeHost(2)
    pool = pool_of(host, Bounds(2, 2), slices=1)
    pool.step(0)
    feed(pool, *"abc")
    pool.step(0)
    host.room = 1
    host.die(1, node_lost=True)
    assert pool.step(0) == []
    host.finish(2)
    assert errors(pool.step(0)) == {"b": None}
    assert host.ids(2) == ["a"]  # before those that wait
    host.finish(2)
    assert errors(pool.step(0)) == {"a": None}


def test_a_slice_that_every_node_dies_at_is_blamed_in_the_end() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 1), slices=1)
    feed(pool, "a")
    found: dict[str, Any] = {}
    for _ in range(20):
        pool.step(0)
        if found:
            break
        for actor in list(host.held):
            if host.held[actor]:
                host.die(actor, node_lost=True)
                found = errors(pool.step(0))
    assert isinstance(found["a"], WorkerDiedError)
    assert host.started == 6


def test_the_pool_grows_with_the_cluster_and_takes_requests_back_that_have_no_room() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 0))
    pool.step(0)
    assert host.started == 1
    host.room = 3  # nodes have joined
    pool.step(_LOOK_S)
    pool.step(0)
    assert (host.started, len(host.greeted)) == (3, 3)
    host.room = 2
    host.die(3, node_lost=True)
    pool.step(0)
    pool.step(0)
    assert len(host.held) == 2


def test_up_to_the_upper_bound_actors_are_asked_for_that_have_no_room_yet() -> None:
    host = FakeHost(0)  # a group of GPU nodes that has none yet: an autoscaler sees what is asked for
    pool = pool_of(host, Bounds(1, 3))
    pool.step(0)
    assert (host.started, len(host.greeted)) == (3, 0)
    host.room = 2
    pool.step(_LOOK_S)
    pool.step(0)
    assert len(host.greeted) == 2
    assert host.stopped == []


def test_a_node_that_is_about_to_leave_gets_no_more_slices() -> None:
    host = FakeHost(2)
    pool = pool_of(host, Bounds(1, 0), slices=1)
    pool.step(0)
    feed(pool, *"ab")
    pool.step(0)
    host.leaving, host.room = frozenset({"node-1"}), 1
    pool.step(_LOOK_S)
    feed(pool, "c")
    host.finish(1)
    assert errors(pool.step(0)) == {"a": None}
    pool.step(_LOOK_S)
    pool.step(_LOOK_S)
    assert host.stopped == [1]
    host.finish(2)
    pool.step(0)
    assert host.ids(2) == ["c"]


def test_a_cluster_without_room_is_waited_for_with_warnings_and_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    host = FakeHost(0)
    pool = pool_of(host, Bounds(1, 0), patience=100.0)
    pool.step(0)
    pool.step(31)
    assert "no node has room for an embedding worker (a fake cluster); waiting 69 s more" in caplog.text
    host.room = 1
    pool.step(_LOOK_S)
    pool.step(_LOOK_S)
    host.room = 0
    host.die(1, node_lost=True)
    pool.step(90)
    with pytest.raises(ServiceUnavailableError, match="no node has room for an embedding worker") as raised:
        pool.step(101)
    assert "cluster.wait_s" in raised.value.hint


def test_actors_that_die_before_any_has_answered_end_the_run() -> None:
    host = FakeHost(1)
    pool = pool_of(host, Bounds(1, 1))
    for _ in range(2):
        pool.step(0)
        host.die(max(host.held))
        pool.step(0)
    pool.step(0)
    host.die(max(host.held))
    with pytest.raises(RunFailedError, match="3 embedding workers died before one answered: it ended"):
        pool.step(0)


def test_closing_stops_every_actor() -> None:
    host = FakeHost(2)
    pool = pool_of(host, Bounds(2, 2))
    pool.step(0)
    pool.close()
    pool.close()
    assert sorted(host.stopped) == [1, 2]


def test_actors_start_before_there_is_a_slice_and_the_wait_for_them_begins_with_the_first_step() -> None:
    host = FakeHost(0)
    pool = pool_of(host, Bounds(2, 2), patience=10.0)
    pool.start()
    assert host.started == 2
    host.time += 1000.0  # the driver lists files
    pool.step(0)
    host.room = 2
    pool.step(0)
    assert pool.wanted() == 6


def test_an_actor_that_cannot_even_start_is_replaced_after_a_pause() -> None:
    host = FakeHost(0)
    pool = pool_of(host, Bounds(1, 1))
    pool.step(0)
    host.die(1, node_lost=True)
    pool.step(0)
    pool.step(0)
    assert host.started == 1
    pool.step(_LOOK_S)
    pool.step(0)
    assert host.started == 2
