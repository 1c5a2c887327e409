"""Which names of a listing were there before? By digests: eight bytes a name, where a set of them takes ninety."""

from __future__ import annotations

from typing import Final

import numpy as np

_RECENT: Final = 1 << 16


class Seen:
    """Names of one archive or table. Two names share a digest once in 2^64 pairs."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.int64)

    def add(self, name: str) -> bool:
        """Remember a name; whether it was not there before."""
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
