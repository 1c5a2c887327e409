"""Matrices of another process's collections, held here as long as the owner's count of changes says that they are true."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lodestone.errors import UnknownNameError
from lodestone.store.base import Neighbours, VectorQuery, Vectors
from lodestone.store.change_count import ChangeCount
from lodestone.store.checks import check_query
from lodestone.store.edge.matrix import VectorMatrix
from lodestone.store.edge.records import has_ids
from lodestone.store.edge.shared_matrix import SharedMatrix

FRESH_S: Final = 1.0
"""Seconds after a comparison with the owner's before the next one: while somebody writes, the owner answers."""

_KEPT_S: Final = 60.0
Fetch = Callable[[str, str | None], SharedMatrix | None]


@dataclass(slots=True)
class _Held:
    """What is known of a collection's matrix.

    Attributes:
        matrix: The matrix; None where the owner has to answer.
        shared: What it was made from.
        count: The owner's count of changes for which it is true.
        compared: When it was last compared, on the clock of `time.monotonic()`.
    """

    matrix: VectorMatrix | None = None
    shared: SharedMatrix | None = None
    count: int = -1
    compared: float = float("-inf")


class HeldMatrices:
    """The matrices that this process holds. Thread-safe.

    Args:
        fetch: Asks the owner for a collection's matrix: its name, and the version that is held here.
        changes: The owner's count.
    """

    def __init__(self, fetch: Fetch, changes: ChangeCount) -> None:
        self._fetch = fetch
        self._changes = changes
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def holds(self, name: str) -> bool:
        """Return whether a matrix of the collection is held, and true now."""
        held = self._held.get(name)
        return held is not None and held.matrix is not None and held.count == self._changes.count

    def answers(self, name: str, queries: Sequence[VectorQuery]) -> list[Neighbours | None]:
        """Return the answers that the matrix gives; None for queries that the owner has to answer.

        Raises:
            InvalidRequestError: a query is none.
        """
        answers: list[Neighbours | None] = [None] * len(queries)
        held = self._true(name)
        if held is None or held.matrix is None or held.shared is None:
            return answers
        vectors = [check_query(query, dim=held.shared.spec.dim) for query in queries]
        chosen = [
            number
            for number, query in enumerate(queries)
            if not query.with_payload and (query.exact or not held.shared.approximate or has_ids(query.filter))
        ]
        found = held.matrix.search([queries[number] for number in chosen], [vectors[number] for number in chosen])
        for number, neighbours in zip(chosen, found, strict=True):
            answers[number] = neighbours
        return answers

    def vectors(self, name: str, ids: Sequence[str]) -> dict[str, Vectors] | None:
        """Map canonical ids to their vectors, without missing ones; None where the owner has to answer."""
        held = self._true(name)
        return None if held is None or held.matrix is None else held.matrix.vectors_of(ids)

    def _true(self, name: str) -> _Held | None:
        """Return a matrix that is true now; None where there is none, or it cannot be had at once."""
        count = self._changes.count
        held = self._held.get(name)
        if held is not None and held.count == count:
            return held
        if held is not None and time.monotonic() - held.compared < FRESH_S:
            return None
        if not self._lock.acquire(blocking=False):
            return None  # another thread compares one: the owner answers meanwhile
        try:
            return self._compared(name, held, count)
        finally:
            self._lock.release()

    def _compared(self, name: str, held: _Held | None, count: int) -> _Held | None:
        """Compare what is held with the owner's matrix as it is after `count` changes."""
        known = None if held is None or held.shared is None else held.shared.version
        try:
            shared = self._fetch(name, known)
        except UnknownNameError:
            self._held.pop(name, None)
            raise
        if shared is not None and held is not None and shared.version == known:
            renewed = _Held(held.matrix, shared, count, time.monotonic())
        else:
            matrix = None if shared is None else shared.open()
            renewed = _Held(matrix, None if matrix is None else shared, count if matrix is not None else -1, time.monotonic())
        self._held[name] = renewed
        for other, kept in list(self._held.items()):  # what nobody asks for may hold what was deleted since
            if kept.count != count and time.monotonic() - kept.compared > _KEPT_S:
                self._held.pop(other, None)
        return renewed if renewed.matrix is not None else None
