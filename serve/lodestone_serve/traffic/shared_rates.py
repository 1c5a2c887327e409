"""Rates that all replicas count together: each takes some requests of a sender in advance from the shared counter.

So a request costs no round trip: the counter is asked once for each lease, and a lease grows with what its sender asks, up to a
twentieth of the rate. A sender that has nothing left is refused for a moment without asking again. Together the replicas never
let in more than the rate. While a sender spreads its requests over several replicas, what the others hold is missing: at most a
twentieth of the rate each.

When the counter does not answer, `take` says so, and the caller counts by itself. The counter is tried again some seconds
later.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from lodestone.catalog.service.rate_windows import TokenGrant
from lodestone.errors import LodestoneError
from lodestone_serve.telemetry.metrics import Metrics

PATIENCE_S: Final = 0.25
"""Seconds for which a request waits for the shared counter."""

AWAY_S: Final = 5.0
"""Seconds for which the counter is not asked after it did not answer."""

LARGEST_LEASE: Final = 0.05
"""Most of a rate that one replica takes in advance."""

_QUICKLY_S: Final = 1.0  # a lease that is used up within this time was too small
_ASK_AGAIN_S: Final = (0.1, 5.0)  # least and most seconds before a sender that has nothing left is looked up again
_ROUNDS: Final = 3
_log = structlog.get_logger("lodestone.serve")


class SharedCounter(Protocol):
    """Counter of all replicas."""

    async def take(self, sender: str, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        """Take tokens of a sender; raises `LodestoneError` or `OSError` when the counter does not answer."""


@dataclass(slots=True)
class _Lease:
    """Tokens of one sender in this replica; times are those of the monotonic clock."""

    size: int = 1
    tokens: int = 0
    taken_at: float = 0.0
    ends_at: float = 0.0
    remaining: int = 0
    nothing_until: float = 0.0
    waiting: int = 0
    asked: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """Whether one request may come in.

    Attributes:
        allowed: Whether it may.
        remaining: Requests that are left to its sender, as far as this replica knows.
        reset_s: Seconds until the window ends.
    """

    allowed: bool
    remaining: int
    reset_s: float


class SharedRates:
    """Decides for one replica, by leases from the shared counter. For one event loop.

    Args:
        counter: The counter.
        metrics: Say whether the counter answers.
        most_senders: Number of senders whose leases are kept.
        clock: Returns seconds; for tests.
    """

    def __init__(
        self, counter: SharedCounter, metrics: Metrics, *, most_senders: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counter = counter
        self._metrics = metrics
        self._most_senders = most_senders
        self._clock = clock
        self._leases: OrderedDict[tuple[str, int, int], _Lease] = OrderedDict()
        self._away_until = 0.0
        metrics.rates_local.set(0)

    @property
    def answers(self) -> bool:
        """Return whether the counter answered when it was asked last."""
        return self._away_until == 0.0

    async def take(self, sender: str, *, amount: int, window_s: int) -> Allowance | None:
        """Take one request of a sender; None when the counter does not answer.

        Args:
            sender: Key or address.
            amount: Requests that it may send in each window.
            window_s: Length of a window, seconds.
        """
        lease = self._lease((sender, amount, window_s))
        for _ in range(_ROUNDS):
            now = self._clock()
            if lease.tokens > 0 and now < lease.ends_at:
                lease.tokens -= 1
                return Allowance(True, lease.remaining + lease.tokens, lease.ends_at - now)
            if now < lease.nothing_until:
                return Allowance(False, 0, max(0.0, lease.ends_at - now))
            if now < self._away_until:
                return None
            if not await self._more(lease, sender, amount=amount, window_s=window_s):
                return None
        return Allowance(False, 0, max(0.0, lease.ends_at - self._clock()))  # others took all of each lease

    async def _more(self, lease: _Lease, sender: str, *, amount: int, window_s: int) -> bool:
        """Wait for a new lease; all requests of a sender wait for the same one."""
        lease.waiting += 1
        try:
            if lease.asked is None:
                lease.asked = asyncio.create_task(self._ask(lease, sender, amount=amount, window_s=window_s))
                lease.asked.add_done_callback(_retrieved)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.shield(lease.asked)
        except TimeoutError:
            self._lost(f"no answer within {PATIENCE_S:g} s")
            return False
        except (LodestoneError, OSError) as error:
            self._lost(str(error))
            return False
        finally:
            lease.waiting -= 1
        return True

    async def _ask(self, lease: _Lease, sender: str, *, amount: int, window_s: int) -> None:
        await asyncio.sleep(0)  # whoever waits, too, is counted first
        now = self._clock()
        most = max(1, int(amount * LARGEST_LEASE))
        lease.size = min(most, max(1, lease.waiting, lease.size * 2 if now - lease.taken_at < _QUICKLY_S else lease.size // 2))
        try:
            grant = await self._counter.take(sender, amount=amount, window_s=window_s, wanted=lease.size)
        finally:
            lease.asked = None
        now = self._clock()
        lease.tokens, lease.remaining = grant.granted, grant.remaining
        lease.taken_at, lease.ends_at = now, now + grant.left_s
        if not grant.granted:
            least, longest = _ASK_AGAIN_S
            lease.nothing_until = now + min(longest, max(least, window_s / amount))
        self._found()

    def _lost(self, why: str) -> None:
        if self.answers:
            _log.warning("rates are counted by this replica alone: the shared counter does not answer", detail=why)
        self._away_until = self._clock() + AWAY_S
        self._metrics.rates_local.set(1)

    def _found(self) -> None:
        if not self.answers:
            _log.info("rates are counted by all replicas together again")
        self._away_until = 0.0
        self._metrics.rates_local.set(0)

    def _lease(self, sender: tuple[str, int, int]) -> _Lease:
        lease = self._leases.pop(sender, None) or _Lease()
        self._leases[sender] = lease
        if len(self._leases) > self._most_senders:
            self._leases.popitem(last=False)
        return lease


def _retrieved(task: asyncio.Task[None]) -> None:
    """Take the error of a task for which nobody may wait any more."""
    if not task.cancelled():
        task.exception()
