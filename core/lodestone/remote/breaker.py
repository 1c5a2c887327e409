"""Circuit breaker of one remote service: after several failures in a row the service is not called for a while.

closed: every call is admitted. open: none is, until the rest is over. half_open: one call (the probe) is admitted; its success
closes the breaker, its failure opens it again. Results of calls that began before it opened are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

State = Literal["closed", "open", "half_open"]

LONGEST_REST_S: Final = 3600.0  # upper bound of a server's Retry-After


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """Permission to make one call; it is passed back with the outcome."""

    era: int


class Breaker:
    """Circuit breaker for one event loop: not thread-safe, and no method blocks.

    Args:
        failures: Number of failures in a row that open it.
        seconds: Seconds that it stays open.
        clock: Returns seconds, monotonic.
        on_change: Called with every new state.
    """

    def __init__(
        self,
        *,
        failures: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[State], None] | None = None,
    ) -> None:
        self._most = failures
        self._rest = seconds
        self._clock = clock
        self._on_change = on_change
        self._state: State = "closed"
        self._in_a_row = 0
        self._until = 0.0  # end of the rest
        self._probe: Permit | None = None
        self._era = 0

    @property
    def state(self) -> State:
        """Return the present state; `half_open` from the end of the rest on, before and during the probe."""
        if self._state == "open" and self._clock() >= self._until:
            return "half_open"
        return self._state

    def admit(self) -> Permit | None:
        """Return permission to call now, or None."""
        if self.state == "closed":
            return Permit(self._era)
        if self.state == "open" or self._probe is not None:
            return None
        self._enter("half_open")
        self._probe = Permit(self._era)
        return self._probe

    def succeeded(self, permit: Permit) -> None:
        """Record that the call returned an answer."""
        if permit is self._probe:
            self._enter("closed")
        elif permit.era == self._era:
            self._in_a_row = 0

    def failed(self, permit: Permit, *, rest: float | None = None) -> None:
        """Record that the call failed.

        Args:
            permit: The permit of the call.
            rest: Seconds of rest that the service itself asked for; they are granted after any number of failures.
        """
        if permit is not self._probe and (self._state != "closed" or permit.era != self._era):
            return
        self._in_a_row += 1
        if permit is self._probe or rest is not None or self._in_a_row >= self._most:
            self._until = self._clock() + (self._rest if rest is None else min(max(rest, 0.0), LONGEST_REST_S))
            self._enter("open")

    def withdrawn(self, permit: Permit) -> None:
        """Record that we gave up the call, which says nothing about the service. A probe may be sent again at once."""
        if permit is self._probe:
            self._probe = None
            self._state = "open"  # its rest is over, so `state` stays half_open

    def _enter(self, state: State) -> None:
        self._probe = None
        self._in_a_row = 0
        self._era += 1
        self._state = state
        if self._on_change is not None:
            self._on_change(state)
