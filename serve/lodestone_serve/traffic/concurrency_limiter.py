"""Adaptive concurrency limit: it finds out in operation how many queries can run at once before they slow each other down.

A query alone takes a certain time; with too many at once, each takes many times that, all come near their deadlines, and
throughput does not rise. The limit compares the time of the text pass, which is this service's own work, while guides may wait
for other services without using anything here. (The idea is that of TCP Vegas, and of Netflix's concurrency-limits.)
"""

from __future__ import annotations

from typing import Final

from lodestone.models.hardware import cores as machine_cores

SLOWER: Final = 4.0  # most by which concurrent queries may slow a query down, as a multiple of its time alone
OF_DEADLINE: Final = (
    0.25  # most of a query's deadline that its text pass may take: the rest is for waiting, guides and variance
)
LEAST_PER_CPU: Final = 1
START_PER_CPU: Final = 2
_ALONE: Final = 2  # up to so many queries at work, itself included, a query counts as alone
_BACK: Final = 0.97
_NEW_SHARE: Final = 0.1  # weight of the newest value in a running mean
_SPREADS: Final = 2.0  # spreads above the mean that nearly all values stay below


class RunningMean:
    """A mean that follows recent values, with their spread (as TCP estimates round trips, RFC 6298).

    Args:
        least: Number of values before the results are other than 0.
    """

    def __init__(self, least: int = 1) -> None:
        self._left = least
        self._first = True
        self._mean = 0.0
        self._spread = 0.0

    @property
    def mean(self) -> float:
        """Return the mean, to which about the last ten values contribute."""
        return 0.0 if self._left else self._mean

    @property
    def bound(self) -> float:
        """Return a bound that nearly all values stay below."""
        return 0.0 if self._left else self._mean + _SPREADS * self._spread

    def add(self, value: float) -> None:
        """Add one value to the mean and the spread."""
        self._left = max(0, self._left - 1)
        if self._first:
            self._mean, self._spread, self._first = value, value / 2, False
            return
        self._spread += _NEW_SHARE * (abs(value - self._mean) - self._spread)
        self._mean += _NEW_SHARE * (value - self._mean)


class ConcurrencyLimiter:
    """Limit of queries that run at once.

    It rises while their text passes take a small part of their deadlines, and less than `SLOWER` times as long as alone;
    otherwise it falls.

    Args:
        most: Upper bound of the limit.
        adaptive: False for a constant limit of `most`.
        cpus: CPUs that may be used; None for all of this machine.
    """

    def __init__(self, most: int, *, adaptive: bool = True, cpus: int | None = None) -> None:
        cores = cpus or machine_cores()
        self._most = most
        self._least = min(most, LEAST_PER_CPU * cores) if adaptive else most
        self._limit = float(min(most, START_PER_CPU * cores) if adaptive else most)
        self._alone = RunningMean()
        self._now = RunningMean()
        self._allowed = RunningMean()

    @property
    def slots(self) -> int:
        """Return the present limit."""
        return int(self._limit)

    def took(self, seconds: float, *, beside: int, allowed_s: float) -> None:
        """Record the time of a query's text pass, and adapt the limit.

        Args:
            seconds: Duration of the text pass.
            beside: Queries at work when it began, itself included.
            allowed_s: Seconds from the query's arrival to its deadline.
        """
        self._now.add(seconds)
        self._allowed.add(allowed_s)
        if beside <= _ALONE:
            self._alone.add(seconds)
        if beside < self.slots:  # the limit was not reached, so it held no query back
            return
        most = OF_DEADLINE * self._allowed.mean
        if self._alone.mean:
            most = min(most, SLOWER * self._alone.mean)
        if self._now.mean > most:
            self._limit = max(float(self._least), self._limit * _BACK)
        else:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)
