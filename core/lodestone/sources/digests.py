"""Set of millions of names that keeps eight bytes of each, where Python's own set takes about a hundred.

A name is represented by its 64-bit hash, which is valid in this process alone. Two names share one once in 2^64 pairs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_RECENT: Final = 1 << 16  # names that `add_if_new` keeps in a set before they are merged into the sorted array


class Digests:
    """A set of names, by their digests. Not thread-safe."""

    def __init__(self) -> None:
        self._sorted: NDArray[np.int64] = np.empty(0, np.int64)
        self._unsorted = array("q")
        self._recent: set[int] = set()  # equals `_unsorted` while only `add_if_new` is used

    def __len__(self) -> int:
        return len(self._sorted) + len(self._unsorted)

    def add(self, names: Iterable[str]) -> None:
        """Add names. A name that is added twice counts twice in the length."""
        self._unsorted.extend(hash(name) for name in names)

    def add_if_new(self, name: str) -> bool:
        """Add a name unless it was added before, and return whether it is new."""
        if len(self._unsorted) >= _RECENT or len(self._recent) != len(self._unsorted):
            self._merge()
        digest = hash(name)
        if digest in self._recent:
            return False
        at = int(np.searchsorted(self._sorted, digest))
        if at < len(self._sorted) and self._sorted[at] == digest:
            return False
        self._recent.add(digest)
        self._unsorted.append(digest)
        return True

    def hold(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of the names were added: (n,) bool."""
        self._merge()
        if not len(self._sorted):
            return np.zeros(len(names), np.bool_)
        wanted = np.fromiter((hash(name) for name in names), np.int64, len(names))
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        held: NDArray[np.bool_] = self._sorted[at] == wanted
        return held

    def _merge(self) -> None:
        if not self._unsorted:
            return
        added = np.frombuffer(self._unsorted, np.int64)
        self._sorted = np.sort(np.concatenate((self._sorted, added)) if len(self._sorted) else added)
        self._unsorted, self._recent = array("q"), set()
