"""Deadlines and stopwatches: the time that a query has left, and where it went.

Deadlines are absolute, on the clock of `time.monotonic()`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lodestone.observe import observer

T = TypeVar("T")


def remaining(deadline: float | None) -> float:
    """Seconds until the deadline, never below 0; infinite without one."""
    return float("inf") if deadline is None else max(0.0, deadline - time.monotonic())


async def within(work: Awaitable[T], deadline: float) -> T:
    """The result of `work`, or `TimeoutError` at the deadline. Work in a thread runs on unheard; coroutines are cancelled."""
    async with asyncio.timeout(remaining(deadline)):
        return await work


class Stopwatch:
    """Milliseconds of each stage of one query; a stage that runs twice adds up. Tells the task's observer of every one.

    Args:
        arrived: `time.monotonic()` when the query came; None: now.
    """

    def __init__(self, arrived: float | None = None) -> None:
        self._started = time.monotonic() if arrived is None else arrived
        self._spent: dict[str, float] = {}
        self.observed = observer().query()

    @property
    def started(self) -> float:
        """`time.monotonic()` when the query arrived."""
        return self._started

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block as `name`."""
        start = time.monotonic()
        try:
            with self.observed.stage(name):
                yield
        finally:
            self._count(name, time.monotonic() - start)

    def add(self, name: str, seconds: float) -> None:
        """Count time that was measured elsewhere."""
        self._count(name, seconds)
        self.observed.spent(name, seconds)

    def _count(self, name: str, seconds: float) -> None:
        self._spent[name] = self._spent.get(name, 0.0) + seconds * 1000

    def seconds(self, name: str) -> float:
        """Spent on a stage so far."""
        return self._spent.get(name, 0.0) / 1000

    def timings_ms(self) -> dict[str, float]:
        """Stage -> milliseconds so far, and `total` since the start."""
        spent = {name: round(value, 3) for name, value in self._spent.items()}
        return {**spent, "total": round((time.monotonic() - self._started) * 1000, 3)}
