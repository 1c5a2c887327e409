"""How does a deadline cross from one machine to another? As a time of day; each hop turns it into seconds that are left.

In a process a deadline is absolute on `time.monotonic()`'s clock, which means nothing elsewhere. On the wire it is absolute on
the wall clock, so that time spent in queues and on the way counts. The clocks of a cluster's nodes must agree (NTP does).
"""

from __future__ import annotations

import time

from lodestone.clock import remaining


def on_the_wire(deadline: float | None) -> float | None:
    """A deadline of this process's monotonic clock -> seconds since 1970; None stays None."""
    return None if deadline is None else time.time() + remaining(deadline)


def from_the_wire(until: float | None) -> float | None:
    """Seconds since 1970 -> a deadline of this process's monotonic clock; one that has passed is now."""
    return None if until is None else time.monotonic() + max(0.0, until - time.time())
