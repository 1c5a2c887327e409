"""The feed of a bulk run: a lane that is read again gets what it got, and no task goes to two lanes."""

from __future__ import annotations

from lodestone_jobs.feed import TaskFeed


def test_a_lane_that_is_read_again_gets_the_same_tickets_and_no_ticket_is_given_twice() -> None:
    feed = TaskFeed(2)
    feed.give([b"a", b"b", b"c"])
    assert feed.pull(1, 0) == [(0, b"a"), (1, b"b")]
    assert feed.pull(0, 0) == [(2, b"c")]
    assert feed.pull(0, 1) == []
    feed.give([b"d"])
    assert feed.pull(1, 0) == [(0, b"a"), (1, b"b")]
    assert feed.pull(1, 1) == [(1, b"b")]
    assert feed.pull(1, 2) == [(3, b"d")]
    assert feed.pull(0, 1) == []


def test_a_lane_that_never_runs_holds_nothing_back() -> None:
    feed = TaskFeed(8)
    feed.give([b"a", b"b", b"c"])
    assert [feed.pull(0, 0), feed.pull(0, 2)] == [[(0, b"a"), (1, b"b")], [(2, b"c")]]


def test_a_lane_ends_when_the_feed_is_over_and_it_has_passed_on_everything() -> None:
    feed = TaskFeed(1)
    feed.give([b"a"])
    feed.is_over = True
    assert feed.pull(0, 0) == [(0, b"a")]
    assert feed.pull(0, 1) is None
    assert feed.pull(0, 0) == [(0, b"a")]


def test_tasks_whose_receipts_the_driver_has_are_empty_and_keep_their_places() -> None:
    feed = TaskFeed(1)
    feed.give([b"a", b"b"])
    feed.pull(0, 0)
    feed.forget([0])
    assert feed.pull(0, 0) == [(0, b""), (1, b"b")]
    assert list(feed._tasks) == [1]
