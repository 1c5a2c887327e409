"""Conversion of deadlines between machines: a call carries a time of day, which each process turns into its own clock.

In a process a deadline is absolute on `time.monotonic()`'s clock, which means nothing in another process. On the wire it is
absolute on the wall clock, so that time spent in queues and in transit counts. The clocks of a cluster's nodes must agree (NTP
ensures it).
"""

from __future__ import annotations

import time

from lodestone.clock import remaining


def on_the_wire(deadline: float | None) -> float | None:
    """Convert a deadline of this process's monotonic clock to seconds since 1970; None stays None."""
    return None if deadline is None else time.time() + remaining(deadline)


def from_the_wire(until: float | None) -> float | None:
    """Convert seconds since 1970 to a deadline of this process's monotonic clock; one that has passed becomes now."""
    return None if until is None else time.monotonic() + max(0.0, until - time.time())
