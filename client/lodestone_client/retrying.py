"""Retry policy: when a call is sent again and after how long, without doing work twice and within the deadline."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from typing import Any

from lodestone_client.call import Call, Repeat
from lodestone_client.problems import FailedResponse
from lodestone_schemas.errors import IdempotencyConflictError

_MARGIN_S = 15.0  # beyond a query's own deadline: to be admitted, read out and sent


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast a client sends a call again.

    Attributes:
        attempts: Sendings of one call at most; 1: never again.
        first_s: Pause after the first failure, twice as long after each further one, with jitter.
        longest_s: Longest pause of the client's own; the service may ask for a longer one.
        unreached: Try again where nobody is reached. Not on one machine: there nobody will be.
    """

    attempts: int = 4
    first_s: float = 0.2
    longest_s: float = 8.0
    unreached: bool = True

    def pause(self, failed: FailedResponse, failures: int) -> float:
        """Return the seconds to wait after the `failures`-th failure in a row."""
        own = min(self.first_s * 2.0 ** (failures - 1), self.longest_s) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        return own if failed.retry_after is None else max(failed.retry_after, own)

    def again(self, call: Call[Any], failed: FailedResponse, failures: int) -> bool:
        """Whether the call may be sent once more."""
        if failures >= self.attempts:
            return False
        if failures > 1 and call.repeat is Repeat.KEYED and isinstance(failed.error, IdempotencyConflictError):
            return True  # its own first sending is still being worked on: soon there is an answer
        if failed.fatal or not (failed.reached or self.unreached or failed.retry_after is not None):
            return False
        return not failed.reached or call.repeat is not Repeat.NEVER


@dataclass(frozen=True, slots=True)
class RetryState:
    """How long one call may take, over all attempts. Moments are of `time.monotonic`.

    Attributes:
        seconds: Until its end; None: no end.
        deadline_ms: Of the query itself.
        started: Moment.
    """

    seconds: float | None
    deadline_ms: int | None = None
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, call: Call[Any], timeout_s: float) -> RetryState:
        """Return the state for a client that waits `timeout_s` for an answer, and longer for queries with a longer deadline."""
        if call.endless:
            return cls(None)
        own = 0.0 if call.deadline_ms is None else call.deadline_ms / 1000 + _MARGIN_S
        return cls(max(timeout_s, own), call.deadline_ms)

    @property
    def elapsed(self) -> float:
        """Seconds since the first attempt."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least a millisecond; None for no end."""
        return None if self.seconds is None else max(self.seconds - self.elapsed, 0.001)

    def allows(self, pause: float) -> bool:
        """Whether there is time for an answer after `pause` seconds."""
        wanted = self.seconds if self.deadline_ms is None else self.deadline_ms / 1000
        return wanted is None or self.elapsed + pause < wanted

    def left_ms(self) -> int | None:
        """Milliseconds of the query's deadline that a further attempt may name; None without a deadline."""
        return None if self.deadline_ms is None else max(math.ceil(self.deadline_ms - self.elapsed * 1000), 1)
