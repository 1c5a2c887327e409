"""Bounds of the numbers that file systems and stores state about files: those that the catalog can hold."""

from __future__ import annotations

import os
from typing import Final

LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1


def held(number: int) -> int:
    """Return the nearest number that 64 bits hold.

    A time past 2262-04-11 has more nanoseconds than that. Broken clocks write such times, and nothing but equality of times
    matters here.
    """
    return min(max(number, LEAST), MOST)


def changed_ns(status: os.stat_result) -> int:
    """Return the last change of a file, nanoseconds since 1970-01-01T00:00:00Z, between `LEAST` and `MOST`."""
    return held(status.st_mtime_ns)
