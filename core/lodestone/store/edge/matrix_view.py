"""Rows of a matrix as they are at one time, and multiplications with them, which calls of several threads share."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.store.base import Vectors
from lodestone.store.edge.columns import Mask

# Vectors of one multiplication: at most `_AT_ONCE`, and fewer where their scores would be more than `_SCORES` numbers.
_AT_ONCE: Final = 64
_SCORES: Final = 4 * 2**20
# More than eight vectors are filled up to a multiple of this: OpenBLAS takes longer for 11 than for 16 (7.6 and 4.1 ms for
# 10,000 rows of 898 numbers).
_TILE: Final = 16
_TRANSPOSED: Final = 4_096  # rows whose scores are transposed at once, while they are in the cache
_GATHERED: Final = 4_096  # rows that are copied together at once

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class View:
    """A matrix as it is at one time.

    Attributes:
        blocks: The rows in order: (rows, dim) float32 each.
        alive: (rows,) True for rows that hold a point; None if all do.
        longest: Length of the longest vector.
    """

    blocks: tuple[Vectors, ...]
    alive: Mask | None
    longest: float

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def gather(self, rows: Rows) -> Vectors:
        """Return the vectors of some rows, (n, dim) float32, as a copy."""
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        gathered = np.empty((len(rows), self.blocks[0].shape[1]), np.float32)
        start = 0
        for block in self.blocks:
            here = (rows >= start) & (rows < start + len(block))
            gathered[here] = block[rows[here] - start]
            start += len(block)
        return gathered

    def products(self, vectors: Vectors) -> Vectors:
        """Return the inner products of all rows with some vectors, (n, dim) -> (n, rows) float32, as BLAS rounds them."""
        wanted = len(vectors)
        if wanted > _TILE // 2 and wanted % _TILE:
            vectors = np.concatenate([vectors, np.zeros((-wanted % _TILE, vectors.shape[1]), np.float32)])
        products = np.empty((wanted, len(self)), np.float32)
        first = 0
        for block in self.blocks:
            for start in range(0, len(block), _TRANSPOSED):
                piece = block[start : start + _TRANSPOSED] @ vectors.T
                products[:, first : first + len(piece)] = piece[:, :wanted].T
                first += len(piece)
        return products

    @property
    def at_once(self) -> int:
        """Number of vectors that are multiplied at once, at most."""
        return max(_TILE, min(_AT_ONCE, _SCORES // max(1, len(self))))

    def scores(self, rows: Rows, vector: Vectors) -> Vectors:
        """Return the inner products of some rows with a vector, (len(rows),) float32, the same wherever the rows stand."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _GATHERED):
            piece = rows[start : start + _GATHERED]
            np.einsum("ij,j->i", self.gather(piece), vector, out=scores[start : start + len(piece)])
        return scores


class SharedProducts:
    """Multiplications that calls of several threads share. Thread-safe.

    One runs at a time: a call whose turn comes multiplies the vectors of all calls that wait with it. The rows are read from
    memory once for all of them, and more vectors cost less each (10,000 rows of 898 numbers: 1.3 ms for one vector, .3 each
    for sixteen, .2 for sixty-four).
    """

    def __init__(self) -> None:
        self._waiting: list[_Asked] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of calls that wait for their multiplication to begin."""
        return len(self._waiting)

    def products(self, view: View, vectors: Vectors) -> Vectors:
        """Return `view.products(vectors)`, (n, rows) float32."""
        asked = _Asked(view, vectors)
        with self._lock:
            self._waiting.append(asked)
        with self._turn:
            if asked.products is None:
                self._multiply(asked)
        if asked.products is None:
            raise AssertionError("a call takes part in its own multiplication")
        return asked.products

    def _multiply(self, first: _Asked) -> None:
        """Multiply the vectors of one call, and of others that wait for the same rows."""
        together, room = [first], first.view.at_once - len(first.vectors)
        with self._lock:
            for other in self._waiting:
                if other is not first and _same_rows(other.view, first.view) and len(other.vectors) <= room:
                    together.append(other)
                    room -= len(other.vectors)
            self._waiting = [asked for asked in self._waiting if asked not in together]
        products = first.view.products(np.concatenate([asked.vectors for asked in together]))
        start = 0
        for asked in together:
            asked.products = products[start : start + len(asked.vectors)]
            start += len(asked.vectors)


@dataclass(slots=True, eq=False)
class _Asked:
    """A call's share of a multiplication, without products until it is done."""

    view: View
    vectors: Vectors
    products: Vectors | None = None


def _same_rows(one: View, other: View) -> bool:
    blocks = zip(one.blocks, other.blocks, strict=False)
    return len(one.blocks) == len(other.blocks) and all(len(a) == len(b) and a.ctypes.data == b.ctypes.data for a, b in blocks)
