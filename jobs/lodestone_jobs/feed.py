"""Feed of a bulk run: tasks that the driver hands out while the run goes on, in lanes that can be read again.

A read task of Ray Data may be executed again at any time, and must then give the same blocks. So each lane (one read task)
keeps the order in which it took tickets: `pull(lane, index)` gives the same ticket whenever it is asked. Tasks whose receipts
the driver has are kept as empty bytes, since nobody will embed them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

TICKET: Final = "ticket"
TASK: Final = "task"
_AT_ONCE: Final = 2  # tickets that a lane takes: those that it takes and cannot pass on wait while other lanes could

Ticketed = tuple[int, bytes]
"""A ticket, and its pickled task; empty where the driver has the receipt."""


class TaskFeed:
    """Tasks in the order in which they were given, and who took which.

    Args:
        lanes: Number of readers.
    """

    def __init__(self, lanes: int) -> None:
        self._tasks: dict[int, bytes] = {}
        self._given = 0
        self._next = 0  # ticket that no lane has taken yet
        self._taken: list[list[int]] = [[] for _ in range(lanes)]
        self.is_over = False  # no task will come any more

    def give(self, tasks: Iterable[bytes]) -> None:
        """Append pickled tasks; their tickets are consecutive numbers from 0."""
        for task in tasks:
            self._tasks[self._given] = task
            self._given += 1

    def pull(self, lane: int, index: int) -> list[Ticketed] | None:
        """Return what a lane has from `index` on, which may be nothing yet; None when nothing will come any more."""
        taken = self._taken[lane]
        if index >= len(taken):
            new = range(self._next, min(self._next + _AT_ONCE, self._given))
            self._next += len(new)
            taken += new
        found = taken[index : index + _AT_ONCE]
        return None if not found and self.is_over else [(ticket, self._tasks.get(ticket, b"")) for ticket in found]

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop the tasks of tickets whose receipts the driver has."""
        for ticket in tickets:
            self._tasks.pop(ticket, None)
