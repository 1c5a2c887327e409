"""Answers of a matrix to queries that recur, kept while the matrix stays as it is.

Pictures of the collection are guides again and again, and what lies nearest to one of them changes only with the collection.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import Final

from lodestone.store.base import Neighbours, VectorQuery, Vectors

MOST_KEPT: Final = 4_096  # with 25 neighbours each, about 2 MB
_Key = tuple[int, bytes]


class KeptAnswers:
    """A bounded memory of answers; those that were asked for longest ago go first. Thread-safe.

    Args:
        most: Answers that are kept.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._answers: OrderedDict[_Key, Neighbours] = OrderedDict()
        self._writes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, query: VectorQuery, vector: Vectors, writes: int) -> Neighbours | None:
        """Return the answer to a query without a filter; None where none is kept.

        Args:
            query: The query.
            vector: Its vector, (dim,) float32.
            writes: Number of writes to the matrix so far.
        """
        if not query.recurring:
            return None
        key = _key(query, vector)
        with self._lock:
            if writes != self._writes:
                return None
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
        return answer

    def keep(self, query: VectorQuery, vector: Vectors, writes: int, answer: Neighbours) -> None:
        """Keep the answer that a query had when there were so many writes, unless there were more since."""
        if not query.recurring:
            return
        answer.scores.flags.writeable = False
        with self._lock:
            if writes < self._writes:
                return
            if writes > self._writes:
                self._answers.clear()
                self._writes = writes
            self._answers[_key(query, vector)] = answer
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


def _key(query: VectorQuery, vector: Vectors) -> _Key:
    return query.limit, blake2b(vector.tobytes(), digest_size=16).digest()
