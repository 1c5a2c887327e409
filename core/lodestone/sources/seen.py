"""Compact set of the names in one listing: eight bytes per name, where a Python set takes ninety."""

from __future__ import annotations

from typing import Final

import numpy as np

_RECENT: Final = 1 << 16


class Seen:
    """Set of the names of one archive or table, kept as digests. Two names share a digest once in 2^64 pairs."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.int64)

    def add(self, name: str) -> bool:
        """Add a name; return whether it is new."""
        digest = hash(name)
        if digest in self._recent:
            return False
        at = int(np.searchsorted(self._sorted, digest))
        if at < len(self._sorted) and self._sorted[at] == digest:
            return False
        self._recent.add(digest)
        if len(self._recent) == _RECENT:
            recent = np.fromiter(self._recent, np.int64, _RECENT)
            self._sorted = np.sort(np.concatenate((self._sorted, recent)))
            self._recent = set()
        return True
