"""Counter of a store's changes in memory that other processes map, so that they know without a call whether there were any."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SIZE: Final = 8  # one aligned number, which is written and read in one step


class ChangeCount:
    """Counter that grows before and after each change of a store. Thread-safe; one process writes it.

    A reader that notes the count, then asks for something, and later finds the same count, knows that it is still true.

    Args:
        descriptor: Descriptor of the counter's file, which this object closes when it goes; None makes a new counter.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = _new_file()
            os.write(descriptor, bytes(_SIZE))  # a hole would end the process where the disk is full
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._mapped = mmap.mmap(descriptor, _SIZE)
        self._numbers = memoryview(self._mapped).cast("Q")
        self._lock = threading.Lock()

    @property
    def descriptor(self) -> int:
        """The descriptor of its file, for a process that inherits it."""
        return self._descriptor

    @property
    def count(self) -> int:
        """Return how often it has grown."""
        return self._numbers[0]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Run a block that changes the store."""
        self._grow()
        try:
            yield
        finally:
            self._grow()

    def _grow(self) -> None:
        with self._lock:
            self._numbers[0] += 1


def _new_file() -> int:
    """Return the descriptor of a file without a name, in memory where the system has such files."""
    if sys.platform == "linux":
        return os.memfd_create("lodestone-changes")
    descriptor, path = tempfile.mkstemp(prefix="lodestone-changes-")
    Path(path).unlink()
    return descriptor
