"""Facts read from an SQLite file that hold until anything is written to it, by whatever process.

`PRAGMA data_version` tells one connection whether another has committed since it asked last. It reads shared memory and takes
microseconds. What queries need anew each time, and what hardly ever changes, is therefore read once and then only checked.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class UnchangedFacts:
    """Facts of one database file by name. Thread-safe; blocking as reading is.

    Args:
        path: The SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._facts: dict[str, tuple[int, Any]] = {}
        self._closed = False

    def get(self, name: str, read: Callable[[], T]) -> T:
        """Return what `read` returned last, or what it returns now if anything was written since.

        Args:
            name: Name of the fact.
            read: Reads it; what it returns must not be changed by anybody.
        """
        version = self._version()
        if version is None:
            return read()
        known = self._facts.get(name)
        if known is not None and known[0] == version:
            value: T = known[1]
            return value
        value = read()
        self._facts[name] = (version, value)  # of before it was read: what is written meanwhile has it read again
        return value

    def close(self) -> None:
        """Close the connection. Idempotent; facts are read anew each time from then on."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _version(self) -> int | None:
        """Return a number that differs after each change of the file by others; None where it cannot be told."""
        with self._lock:
            if self._closed:
                return None
            try:
                if self._connection is None:
                    # Nothing is ever written by this connection: its own changes would not count.
                    address = f"{self._path.absolute().as_uri()}?mode=ro"
                    self._connection = sqlite3.connect(
                        address, uri=True, timeout=0, check_same_thread=False, isolation_level=None
                    )
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error:  # locked, or damaged: whoever reads says so
                return None
        return int(version)
