"""Batching of concurrent queries: a lane runs a model's passes, one or a few at a time, each over the calls that wait.

While passes run, calls that arrive wait; the next passes divide them up. A single call never waits for others, and under load
batches grow by themselves to what arrives during one pass (`@serve.batch` holds every call for its time-out). Cancelled and
late calls are dropped before a pass. An invalid item in one call does not affect the other calls' results.

Occupancy of batches: how full the passes of a model are, averaged over time. An occupancy of 1 means that all passes that may
run at once are as large as they may be. Below it, a pass takes in more items before anything waits longer, so calls alone say
little about the load: twenty calls of one text each share a pass, and one call with twenty pictures fills several. Items that
wait count too, so under overload the occupancy rises above 1.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import DeadlineExceededError


class TimeWeightedMean:
    """Mean of a count over time, since it was last taken. Belongs to one thread.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = self._changed = clock()
        self._count = self._total = 0.0

    def add(self, change: float) -> None:
        """Change the count from now on."""
        self._advance()
        self._count += change

    def take(self) -> float:
        """Return the mean since the last call, and begin anew; the count itself where no time has passed."""
        self._advance()
        seconds = self._changed - self._since
        mean = self._total / seconds if seconds > 0 else self._count
        self._since, self._total = self._changed, 0.0
        return mean

    def _advance(self) -> None:
        now = self._clock()
        self._total += self._count * (now - self._changed)
        self._changed = now


Item = TypeVar("Item")
Name = TypeVar("Name", bound=Hashable)
Vectors = NDArray[np.float32]


@dataclass(slots=True, eq=False)
class _Call(Generic[Item, Name]):
    items: list[Item]
    deadline: float | None
    rows: asyncio.Future[dict[Name, Vectors]]


class Lane(Generic[Item, Name]):
    """Queue of one model. Belongs to one event loop.

    Args:
        run: Items -> name -> (n, d) float32, rows in the order of the items. Called in threads, `parallel` at once.
        most: Most items in one pass; a call with more is split, and its parts are treated like separate calls.
        least: Items that must wait before a further pass begins beside others; fewer wait together for the next one.
        parallel: Passes at once: 1 where one pass uses all of the hardware, the number of cores where one pass uses one core.
        observe: Called with the number of items of every pass.
    """

    def __init__(
        self,
        run: Callable[[list[Item]], Mapping[Name, Vectors]],
        *,
        most: int,
        least: int = 1,
        parallel: int = 1,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.most = most
        self._least = least
        self._parallel = parallel
        self._run = run
        self._observe = observe
        self._queue: deque[_Call[Item, Name]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers = self._passing = 0
        self._load = TimeWeightedMean()

    @property
    def waiting(self) -> int:
        """Return the number of items that no pass has taken yet."""
        return sum(len(call.items) for call in self._queue)

    def occupancy(self) -> float:
        """Return how full the passes were since the last call, items that waited included; 1: all of them, all of the time."""
        return self._load.take() / (self.most * self._parallel)

    async def ask(self, items: Sequence[Item], *, deadline: float | None = None) -> dict[Name, Vectors]:
        """Return name -> (n, d) float32 for n items, at least one. A cancelled call takes part in no later pass.

        Args:
            items: Inputs of the model.
            deadline: Absolute, on `time.monotonic()`'s clock.

        Raises:
            DeadlineExceededError: the deadline passed before the last of its passes began.
        """
        loop = asyncio.get_running_loop()
        parts = [list(items[start : start + self.most]) for start in range(0, len(items), self.most)]
        calls = [_Call[Item, Name](part, deadline, loop.create_future()) for part in parts]
        for call in calls:
            self._queue.append(call)
            self._begin()
        self._load.add(len(items))
        try:
            rows = await asyncio.gather(*(call.rows for call in calls))
        finally:
            for call in calls:  # after a failure or a cancellation the other parts are not needed
                call.rows.cancel()
            self._load.add(-len(items))
        return {name: np.concatenate([part[name] for part in rows]) for name in rows[0]}

    def _begin(self) -> None:
        if not self._workers or (self._workers < self._parallel and self.waiting >= self._least):
            self._workers += 1
            task = asyncio.create_task(self._work(), name="passes of a model")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        # Nothing is awaited between the last check of the queue and the count, so a call that comes then starts a new worker.
        try:
            while self._queue:
                calls = self._next()
                if not calls:
                    continue
                self._passing += 1
                try:
                    await self._answer(calls)
                finally:
                    self._passing -= 1
        finally:
            self._workers -= 1

    async def _answer(self, calls: Sequence[_Call[Item, Name]]) -> None:
        try:
            answers = await self._pass(calls)
        except Exception as error:  # noqa: BLE001 - not swallowed: raised in the call that it belongs to
            if len(calls) == 1:
                _fail(calls[0], error)
            else:
                await self._one_by_one(calls)
            return
        for call, rows in zip(calls, answers, strict=True):
            if not call.rows.done():
                call.rows.set_result(rows)

    def _next(self) -> list[_Call[Item, Name]]:
        """Return calls for one pass, in order: a fair share for each pass that could begin, or as many as a pass is worth.

        Cancelled and late calls are removed.
        """
        calls: list[_Call[Item, Name]] = []
        taken = 0
        most = min(self.most, max(self._least, math.ceil(self.waiting / max(1, self._parallel - self._passing))))
        while self._queue and (not calls or taken + len(self._queue[0].items) <= most):
            call = self._queue.popleft()
            if call.rows.done():  # cancelled
                continue
            if call.deadline is not None and time.monotonic() >= call.deadline:
                message = "the deadline passed while waiting for the models"
                call.rows.set_exception(DeadlineExceededError(message, hint="allow more time: deadline_ms"))
                continue
            taken += len(call.items)
            calls.append(call)
        return calls

    async def _pass(self, calls: Sequence[_Call[Item, Name]]) -> list[dict[Name, Vectors]]:
        items = [item for call in calls for item in call.items]
        self._observe(len(items))
        rows = await asyncio.to_thread(self._run, items)
        ends = np.cumsum([len(call.items) for call in calls]).tolist()
        starts = [0, *ends[:-1]]
        return [{name: vectors[a:b] for name, vectors in rows.items()} for a, b in zip(starts, ends, strict=True)]

    async def _one_by_one(self, calls: Sequence[_Call[Item, Name]]) -> None:
        for call in calls:
            if call.rows.done():
                continue
            try:
                (rows,) = await self._pass([call])
            except Exception as error:  # noqa: BLE001 - as above
                _fail(call, error)
            else:
                if not call.rows.done():
                    call.rows.set_result(rows)


def _fail(call: _Call[Item, Name], error: Exception) -> None:
    if not call.rows.done():
        call.rows.set_exception(error)
