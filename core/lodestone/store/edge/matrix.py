"""Matrix of a collection's vectors: exact answers to all queries of a call by one multiplication, which lets the GIL go.

Rows are only ever added. A point that is replaced gets a new row, and its old one is dead, like that of a removed point. So
whoever took a view of the matrix goes on reading what was there then.

How a multiplication rounds a row's product depends on where the row stands and what else is multiplied. So it only chooses the
candidates. Their scores are summed again, row by row in one fixed order: equal vectors have equal scores wherever they stand.

Answers of a matrix to queries that recur, kept while the matrix stays as it is. Pictures of the collection are guides again
and again, and what lies nearest to one of them changes only with the collection.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise, repeat
from typing import Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lodestone.store.base import Filter, HasId, Neighbours, PointBatch, VectorQuery, Vectors
from lodestone.store.checks import check_ids
from lodestone.store.edge.columns import FilterColumns, Mask
from lodestone.store.edge.matrix_view import Rows, SharedProducts, View

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


_FIRST_BLOCK: Final = 1_024
_FEW: Final = 8  # rows are gathered when fewer than this share of them match, or than a block
# Error of a multiplication, as a share of the lengths of both vectors; for 1,000 numbers about 2e-6 was seen.
_ROUNDING: Final = 1e-5


class VectorMatrix:
    """Points of one collection in rows. Thread-safe; writers come one at a time.

    Args:
        dim: Length of the vectors.
        columns: Filter fields, empty or those of `ids`.
        ids: Ids of the first rows.
        vectors: (len(ids), dim) float32, C-ordered; never written to.
    """

    def __init__(self, dim: int, columns: FilterColumns, *, ids: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._dim = dim
        self._columns = columns
        self._key = uuid4().hex
        self._ids = list(ids)
        self._row_of = {point_id: row for row, point_id in enumerate(self._ids)}
        self._ascending = _ascending(self._ids)  # rows at the beginning whose order is that of their ids
        self._full: tuple[Vectors, ...] = () if vectors is None or not len(vectors) else (vectors,)
        self._last = np.empty((0, dim), np.float32)  # the block that has room
        self._used = 0
        self._alive: Mask | None = None
        self._longest = 0.0 if vectors is None else _longest(vectors)
        self._lock = threading.Lock()
        self._shared = SharedProducts()
        self._kept = KeptAnswers()
        self.writes = 0

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def version(self) -> str:
        """Return a text that changes with every write, and that no other matrix has."""
        return f"{self._key}-{self.writes}"

    @property
    def dead(self) -> int:
        """Number of rows without a point."""
        return len(self._ids) - len(self._row_of)

    def put(self, points: PointBatch) -> None:
        """Insert or replace points, whose ids are canonical and differ."""
        if not len(points):
            return
        with self._lock:
            first = len(self._ids)
            replaced = [self._row_of[point_id] for point_id in points.ids if point_id in self._row_of]
            self._append(np.asarray(points.vectors, np.float32))
            self._ids += points.ids
            if self._ascending == first and (not first or self._ids[first - 1] < points.ids[0]):
                self._ascending += _ascending(points.ids)
            self._columns.append(first, points.payloads)
            self._row_of.update((point_id, row) for row, point_id in enumerate(points.ids, first))
            self._longest = max(self._longest, _longest(points.vectors))
            self._kill(replaced)
            self.writes += 1

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points by id; missing ones are ignored."""
        with self._lock:
            self._kill([self._row_of.pop(point_id) for point_id in ids if point_id in self._row_of])
            self.writes += 1

    def vectors_of(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Map canonical ids to their vectors, (dim,) float32; missing ids are left out."""
        with self._lock:
            view = self._view()
            row_of = {point_id: self._row_of[point_id] for point_id in ids if point_id in self._row_of}
        return dict(zip(row_of, view.gather(np.fromiter(row_of.values(), np.intp, len(row_of))), strict=True)) if row_of else {}

    def search(self, queries: Sequence[VectorQuery], vectors: Sequence[Vectors]) -> list[Neighbours | None]:
        """Answer queries exactly, equal scores by ascending id, without payloads; None where only the engine knows the filter.

        Args:
            queries: The queries.
            vectors: The vectors of the queries, (dim,) float32 each.
        """
        answers: list[Neighbours | None] = [None] * len(queries)
        for filter_, numbers in _by_filter(queries).items():
            with self._lock:
                view, writes = self._view(), self.writes
                selected = self._selected(filter_, len(view))
            if selected is None:
                continue
            rows, mask = selected
            if filter_ is None:
                for number in numbers:
                    answers[number] = self._kept.find(queries[number], vectors[number], writes)
            left = [number for number in numbers if answers[number] is None]
            for start in range(0, len(left), view.at_once):
                batch = left[start : start + view.at_once]
                if rows is not None:
                    found = [rows] * len(batch)
                else:
                    stacked = np.stack([vectors[i] for i in batch])
                    products = self._shared.products(view, stacked)
                    chosen = _candidates(view, mask, [queries[i].limit for i in batch], stacked, products)
                    found = [self._by_id(candidates) for candidates in chosen]
                for number, candidates in zip(batch, found, strict=True):
                    answer = answers[number] = self._ranked(view, candidates, vectors[number], queries[number].limit)
                    if filter_ is None:
                        self._kept.keep(queries[number], vectors[number], writes, answer)
        return answers

    def snapshot(self) -> tuple[list[str], Vectors, dict[str, dict[str, Any]]] | None:
        """Return ids, vectors and columns without dead rows, for a file; None if a column is left to the engine."""
        with self._lock:
            view, columns = self._view(), self._columns.by_field
            if not all(column.regular for column in columns.values()):
                return None
            if view.alive is None:
                vectors = np.concatenate(view.blocks) if len(view.blocks) > 1 else view.blocks[0]
                return list(self._ids), vectors, {name: column.arrays(None) for name, column in columns.items()}
            rows = np.flatnonzero(view.alive)
            arrays = {name: column.arrays(view.alive) for name, column in columns.items()}
            return [self._ids[row] for row in rows.tolist()], view.gather(rows), arrays

    def _append(self, vectors: Vectors) -> None:
        while len(vectors):
            if self._used == len(self._last):
                self._full += (self._last,) if self._used else ()
                self._last = np.empty((max(_FIRST_BLOCK, len(self._ids) // 2), self._dim), np.float32)
                self._used = 0
            piece = vectors[: len(self._last) - self._used]
            self._last[self._used : self._used + len(piece)] = piece
            self._used += len(piece)
            vectors = vectors[len(piece) :]

    def _kill(self, rows: Sequence[int]) -> None:
        if self._alive is not None or rows:
            # A new mask: views keep theirs.
            alive = np.ones(len(self._ids), np.bool_)
            if self._alive is not None:
                alive[: len(self._alive)] = self._alive
            alive[list(rows)] = False
            self._alive = alive

    def _view(self) -> View:
        last = (self._last[: self._used],) if self._used or not self._full else ()
        return View((*self._full, *last), self._alive, self._longest)

    def _selected(self, filter_: Filter | None, count: int) -> tuple[Rows | None, Mask | None] | None:
        """Return the rows to score, in the order of their ids; or no rows and the mask of those that match, None for all.

        Returns None where the engine has to say what matches.
        """
        if filter_ is None:
            return None, self._alive
        has_id = [condition for condition in filter_.must if isinstance(condition, HasId)]
        mask = self._columns.matching(filter_, count, self._rows)
        if mask is None:
            return None
        if has_id:
            rows = self._rows(has_id[0])
            for condition in has_id[1:]:
                mask &= np.isin(np.arange(count), self._rows(condition))
            return self._by_id(rows[mask[rows]]), None
        if self._alive is not None:
            mask &= self._alive
        rows = np.flatnonzero(mask)
        if len(rows) <= max(_FIRST_BLOCK, count // _FEW):
            return self._by_id(rows), None
        return None, mask

    def _rows(self, condition: HasId) -> Rows:
        rows = list(map(self._row_of.get, condition.ids, repeat(-1)))
        if -1 in rows:
            rows = list(map(self._row_of.get, check_ids(condition.ids), repeat(-1)))
        found = np.unique(np.array(rows, np.intp))
        return found[1:] if len(found) and found[0] < 0 else found

    def _by_id(self, rows: Rows) -> Rows:
        """Return ascending rows in the order of their ids."""
        if not len(rows) or rows[-1] < self._ascending:
            return rows  # read from the engine or from the file, which have them in this order
        ids = self._ids
        return np.array(sorted(rows.tolist(), key=ids.__getitem__), np.intp)

    def _ranked(self, view: View, rows: Rows, vector: Vectors, limit: int) -> Neighbours:
        """Return the best of some rows, which come in the order of their ids."""
        scores = view.scores(rows, vector)
        best = np.argsort(-scores, kind="stable")[:limit]
        ids = self._ids
        return Neighbours(tuple([ids[row] for row in rows[best].tolist()]), scores[best])


def _candidates(view: View, mask: Mask | None, limits: Sequence[int], vectors: Vectors, products: Vectors) -> list[Rows]:
    """Return for each vector, of (n, dim), the rows among which its `limit` best ones are, ties and rounding included.

    Its products, (n, rows), are changed: those of rows that do not match.
    """
    matched = products.shape[1]
    if mask is not None:
        products[:, ~mask] = -np.inf
        matched = int(np.count_nonzero(mask))
    margins = _ROUNDING * view.longest * np.linalg.norm(vectors, axis=1)
    candidates = []
    for scores, limit, margin in zip(products, limits, margins, strict=True):
        if limit >= matched:
            candidates.append(np.flatnonzero(scores > -np.inf))
        else:
            place = len(scores) - limit
            candidates.append(np.flatnonzero(scores >= np.partition(scores, place)[place] - margin))
    return candidates


def _by_filter(queries: Sequence[VectorQuery]) -> dict[Filter | None, list[int]]:
    groups: dict[Filter | None, list[int]] = {}
    for number, query in enumerate(queries):
        filter_ = query.filter if query.filter is not None and (query.filter.must or query.filter.must_not) else None
        groups.setdefault(filter_, []).append(number)
    return groups


def _ascending(ids: Sequence[str]) -> int:
    """Return the number of ids at the beginning that ascend."""
    return next((place for place, (one, other) in enumerate(pairwise(ids), 1) if one >= other), len(ids))


def _longest(vectors: Vectors) -> float:
    return float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max())) if len(vectors) else 0.0
