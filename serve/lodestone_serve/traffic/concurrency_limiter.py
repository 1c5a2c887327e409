"""How many queries can be worked on at once before they only slow each other down? Found out while they are.

A query alone takes so long; with too many at once, each takes many times that, all of them near their deadlines, and not one
more is answered a second. What is compared is the time of the text pass: it is this service's own work, while guides may wait
for others without using anything here. (The idea is that of TCP Vegas, and of Netflix's concurrency-limits.)
"""

from __future__ import annotations

from typing import Final

from lodestone.models.hardware import cores as machine_cores

SLOWER: Final = 4.0  # times as long as alone: what others may cost a query
OF_DEADLINE: Final = 0.25  # of the time that queries allow, at most: the rest is for waiting, guides and bad luck
LEAST_PER_CPU: Final = 1
START_PER_CPU: Final = 2
_ALONE: Final = 2  # queries at work, the one included, beside which it counts as alone
_BACK: Final = 0.97
_NEW_SHARE: Final = 0.1  # of the newest value in a running mean
_SPREADS: Final = 2.0  # above the mean: what nearly all values stay below


class RunningMean:
    """A mean that follows what happens now, and how far values stray from it (as TCP estimates round trips, RFC 6298).

    Args:
        least: Values before anything is said: 0 until then.
    """

    def __init__(self, least: int = 1) -> None:
        self._left = least
        self._first = True
        self._mean = 0.0
        self._spread = 0.0

    @property
    def mean(self) -> float:
        """About the last ten values count."""
        return 0.0 if self._left else self._mean

    @property
    def bound(self) -> float:
        """What nearly all values stay below."""
        return 0.0 if self._left else self._mean + _SPREADS * self._spread

    def add(self, value: float) -> None:
        """One more value."""
        self._left = max(0, self._left - 1)
        if self._first:
            self._mean, self._spread, self._first = value, value / 2, False
            return
        self._spread += _NEW_SHARE * (abs(value - self._mean) - self._spread)
        self._mean += _NEW_SHARE * (value - self._mean)


class ConcurrencyLimiter:
    """Queries that may be worked on at once.

    More while their text passes take a small part of the time that they allow, and less than `SLOWER` times as long as alone;
    else fewer.

    Args:
        most: Never more.
        adaptive: Else always `most`.
        cpus: Of this machine, if not all.
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
        """How many."""
        return int(self._limit)

    def took(self, seconds: float, *, beside: int, allowed_s: float) -> None:
        """A query's text pass took so long.

        Args:
            seconds: Its time.
            beside: Queries at work when it began, itself included.
            allowed_s: From the query's arrival to its deadline.
        """
        self._now.add(seconds)
        self._allowed.add(allowed_s)
        if beside <= _ALONE:
            self._alone.add(seconds)
        if beside < self.slots:  # the limit was not what held others back
            return
        most = OF_DEADLINE * self._allowed.mean
        if self._alone.mean:
            most = min(most, SLOWER * self._alone.mean)
        if self._now.mean > most:
            self._limit = max(float(self._least), self._limit * _BACK)
        else:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)
