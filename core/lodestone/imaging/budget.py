"""Memory budget that the pictures which a process decodes at the same time share, first come, first served."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from lodestone.errors import OverloadedError

MOST_WAITING: Final = 16
"""Most pictures that wait for room; a thread waits with each."""
PATIENCE_S: Final = 10.0
"""Longest wait of a picture that nobody set a deadline for, in seconds."""
_LARGE_BYTES: Final = 64 << 20  # what is freed in smaller portions is used again soon


class DecodingBudget:
    """Bounds the bytes that decoding takes, of all pictures that are decoded at once. Thread-safe.

    Args:
        capacity: Bytes that all pictures take together. A picture that needs more is decoded alone.
        most_waiting: Pictures that may wait; further ones are refused at once.
    """

    def __init__(self, capacity: int, *, most_waiting: int = MOST_WAITING) -> None:
        self._capacity = capacity
        self._most_waiting = most_waiting
        self._taken = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def taken(self) -> int:
        """Return the bytes that are taken now."""
        return self._taken

    @contextmanager
    def room(self, needed: int, *, until: float | None = None) -> Iterator[None]:
        """Hold room for a picture while it is decoded, and give the memory back to the system behind a large one.

        Args:
            needed: Bytes that decoding the picture takes.
            until: When waiting ends, on the clock of `time.monotonic()`; None for `PATIENCE_S` seconds from now.

        Raises:
            OverloadedError: there was no room in time, or too many pictures wait.
        """
        taken = min(needed, self._capacity)
        self._take(taken, time.monotonic() + PATIENCE_S if until is None else until)
        try:
            yield
        finally:
            if needed >= _LARGE_BYTES:
                give_memory_back()
            with self._changed:
                self._taken -= taken
                self._changed.notify_all()

    def _take(self, needed: int, until: float) -> None:
        with self._changed:
            if self._waiting or self._taken + needed > self._capacity:
                if len(self._waiting) >= self._most_waiting:
                    raise _overloaded(f"{len(self._waiting)} large pictures wait to be decoded already")
                self._wait(needed, until)
            self._taken += needed

    def _wait(self, needed: int, until: float) -> None:
        ticket = object()
        self._waiting.append(ticket)
        try:
            fits = self._changed.wait_for(
                lambda: self._waiting[0] is ticket and self._taken + needed <= self._capacity,
                timeout=max(until - time.monotonic(), 0.0),
            )
        finally:
            self._waiting.remove(ticket)
            self._changed.notify_all()
        if not fits:
            raise _overloaded("other large pictures are being decoded, and there was no room for this one in time")


def give_memory_back() -> None:
    """Return memory that was freed to the operating system, where the C library would keep it (Linux with glibc)."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:  # noqa: ANN401 - a function of the C library
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library
        return None


def _overloaded(message: str) -> OverloadedError:
    return OverloadedError(message, hint="try again in a moment, or send smaller pictures", retry_after=1)
