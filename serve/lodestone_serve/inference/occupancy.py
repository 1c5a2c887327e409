"""Occupancy of batches: how full the passes of a model are, averaged over time.

An occupancy of 1 means that all passes that may run at once are as large as they may be. Below it, a pass takes in more items
before anything waits longer, so calls alone say little about the load: twenty calls of one text each share a pass, and one call
with twenty pictures fills several. Items that wait count too, so under overload the occupancy rises above 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable


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
