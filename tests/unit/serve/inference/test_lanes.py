"""Concurrent calls share passes of a model, and nobody pays for those who left or came too late."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

from lodestone.errors import DeadlineExceededError
from lodestone_serve.inference.lanes import Lane, TimeWeightedMean


class Model:
    """Rows of one number, each the item's; the first pass waits until it is let go."""

    def __init__(self, *, bad: int | None = None):
        self.passes: list[list[int]] = []
        self.go = threading.Event()
        self.bad = bad

    def __call__(self, items):
        self.passes.append(list(items))
        if len(self.passes) == 1:
            assert self.go.wait(180)
        if self.bad in items:
            raise ValueError("one of them cannot be embedded")
        return {"space": np.array([[item] for item in items], np.float32)}


async def behind_a_pass(model: Model, lane: Lane, *calls, then=lambda tasks: None):
    """Results of calls that all arrive while a first pass, of item 0, runs."""
    first = asyncio.create_task(lane.ask([0]))
    while not model.passes:
        await asyncio.sleep(0.001)
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0.01)
    then(tasks)
    await asyncio.sleep(0.01)
    model.go.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_mean_over_time_weighs_each_count_by_how_long_it_lasted():
    seconds = iter([0.0, 0.0, 3.0, 4.0, 4.0, 6.0])
    mean = TimeWeightedMean(lambda: next(seconds))
    mean.add(4)  # for three seconds
    mean.add(-4)  # for one
    assert mean.take() == 3.0
    assert mean.take() == 0.0  # no time has passed
    assert mean.take() == 0.0


async def test_the_occupancy_of_a_lane_counts_items_that_run_and_that_wait_until_they_are_done_or_gone():
    model, now = Model(), 0.0
    lane = Lane(model, most=8)
    lane._load = TimeWeightedMean(lambda: now)
    first = asyncio.create_task(lane.ask([0, 1]))
    while not model.passes:
        await asyncio.sleep(0.001)
    now = 10.0
    assert lane.occupancy() == 2 / 8
    gone = asyncio.create_task(lane.ask(list(range(14))))
    await asyncio.sleep(0.01)
    now = 15.0
    assert lane.occupancy() == 16 / 8  # more than the passes hold
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    now = 16.0
    assert lane.occupancy() == 2 / 8
    model.go.set()
    await first
    now = 20.0
    lane.occupancy()
    now = 21.0
    assert lane.occupancy() == 0


async def test_calls_that_arrive_during_a_pass_share_the_next_one_and_get_their_own_rows():
    model = Model()
    lane = Lane(model, most=16)
    rows = await behind_a_pass(model, lane, lane.ask([1, 2]), lane.ask([3]), lane.ask([4, 5, 6]))
    assert model.passes == [[0], [1, 2, 3, 4, 5, 6]]
    assert [one["space"].ravel().tolist() for one in rows] == [[1, 2], [3], [4, 5, 6]]


async def test_a_pass_takes_no_more_than_the_most_and_calls_keep_their_order():
    model = Model()
    lane = Lane(model, most=3)
    rows = await behind_a_pass(model, lane, lane.ask([1, 2]), lane.ask([3, 4]), lane.ask([5]), lane.ask([6, 7, 8, 9]))
    assert model.passes == [[0], [1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert rows[3]["space"].ravel().tolist() == [6, 7, 8, 9]


async def test_a_call_that_is_cancelled_while_it_waits_is_not_worked_on():
    model = Model()
    lane = Lane(model, most=16)
    gone, kept = await behind_a_pass(model, lane, lane.ask([1]), lane.ask([2]), then=lambda tasks: tasks[0].cancel())
    assert isinstance(gone, asyncio.CancelledError)
    assert kept["space"].ravel().tolist() == [2]
    assert model.passes == [[0], [2]]


async def test_a_call_whose_deadline_passes_while_it_waits_is_refused_and_not_worked_on():
    model = Model()
    lane = Lane(model, most=16)
    late, kept = await behind_a_pass(
        model, lane, lane.ask([1], deadline=time.monotonic() + 0.001), lane.ask([2], deadline=time.monotonic() + 60)
    )
    assert isinstance(late, DeadlineExceededError)
    assert kept["space"].ravel().tolist() == [2]
    assert model.passes == [[0], [2]]


async def test_an_item_that_cannot_be_embedded_fails_its_own_call_alone():
    model = Model(bad=2)
    lane = Lane(model, most=16)
    good, bad, other = await behind_a_pass(model, lane, lane.ask([1]), lane.ask([2]), lane.ask([3]))
    assert good["space"].ravel().tolist() == [1]
    assert other["space"].ravel().tolist() == [3]
    assert isinstance(bad, ValueError)


async def test_every_pass_is_observed_with_its_size():
    model, seen = Model(), []
    lane = Lane(model, most=4, observe=seen.append)
    await behind_a_pass(model, lane, lane.ask([1, 2]), lane.ask([3]))
    assert seen == [1, 3]


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_a_call_that_comes_too_late_is_refused_even_when_the_lane_is_idle(seconds):
    model = Model()
    model.go.set()
    with pytest.raises(DeadlineExceededError):
        await Lane(model, most=4).ask([1], deadline=time.monotonic() + seconds)
    assert model.passes == []


class TwoAtOnce:
    """Rows of one number; notes how many passes run at once, and lets all go together."""

    def __init__(self):
        self.passes: list[list[int]] = []
        self.running = self.most_running = 0
        self.go = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, items):
        with self._lock:
            self.passes.append(list(items))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        assert self.go.wait(180)
        with self._lock:
            self.running -= 1
        return {"space": np.array([[item] for item in items], np.float32)}


async def test_what_waits_is_divided_among_the_passes_that_may_run_at_once():
    model = TwoAtOnce()
    lane = Lane(model, most=16, parallel=2)
    tasks = [asyncio.create_task(lane.ask([item])) for item in range(8)]
    while len(model.passes) < 2:
        await asyncio.sleep(0.001)
    later = [asyncio.create_task(lane.ask([item])) for item in (8, 9)]
    await asyncio.sleep(0.01)
    assert sorted(model.passes) == [[0, 1, 2, 3], [4, 5, 6, 7]], "a third one does not begin"
    model.go.set()
    rows = await asyncio.gather(*tasks, *later)
    assert [row["space"].item() for row in rows] == list(range(10))
    assert model.most_running == 2


async def test_a_lone_call_is_one_pass_even_where_several_could_run():
    model = TwoAtOnce()
    model.go.set()
    rows = await Lane(model, most=16, parallel=4).ask([1, 2, 3])
    assert (model.passes, rows["space"].ravel().tolist()) == ([[1, 2, 3]], [1, 2, 3])


async def test_who_asks_again_as_soon_as_there_is_an_answer_is_answered_too():
    lane = Lane(lambda items: {"space": np.array([[item] for item in items], np.float32)}, most=16)
    async with asyncio.timeout(120):
        for item in range(20):
            assert (await lane.ask([item]))["space"].item() == item


async def test_the_parts_of_a_call_run_at_once_and_come_back_in_order():
    model = TwoAtOnce()
    lane = Lane(model, most=1, parallel=2)
    task = asyncio.create_task(lane.ask([3, 1, 2]))
    while len(model.passes) < 2:
        await asyncio.sleep(0.001)
    model.go.set()
    assert (await task)["space"].ravel().tolist() == [3, 1, 2]
    assert model.most_running == 2


async def test_of_a_call_that_left_no_further_part_is_run():
    model = Model()
    lane = Lane(model, most=1)
    task = asyncio.create_task(lane.ask([0, 1, 2, 3]))
    while not model.passes:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    model.go.set()
    await lane.ask([9])
    assert model.passes == [[0], [9]]


async def test_a_part_that_cannot_be_run_fails_the_call_and_ends_its_other_parts():
    model = Model(bad=0)
    model.go.set()
    lane = Lane(model, most=1)
    with pytest.raises(ValueError, match="cannot be embedded"):
        await lane.ask([0, 1, 2])
    await lane.ask([9])
    assert [0] in model.passes
    assert [2] not in model.passes
