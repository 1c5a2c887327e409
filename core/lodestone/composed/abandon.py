"""Exact joint search that stops comparing a picture once it cannot be among the best any more (MUST, equations 8 and 9).

The spaces of a query are scanned one after the other, the one with the most weight first. What a picture can still reach is
bounded, and pictures whose bound lies below the k-th best score are not compared in the spaces that are left.

The paper's bound is 1 - sum of weight_i * |o_i - q_i|^2 / 2 over the scanned modalities. For unit vectors that is the sum of
weight_i * <q_i, o_i> plus 1 minus the scanned weights: right only if all weights sum to 1 and if query and picture have every
modality (lemma 4). With weights that sum to 1.5 it drops right answers, and for a query with fewer modalities it is looser than
it need be. The bound here is that of Cauchy and Schwarz, divided by the weights that the picture is scored by:

    (sum over scanned spaces of <c_s, o_s> + sum over the others of |c_s| * |o_s|) / weights of the parts that o has vectors of

where c_s is the sum of weight_p * q_p over the parts compared in space s, so several parts in one space cost one inner product.
It holds for any weights, parts to avoid, zero vectors and missing ones, and equals the paper's where that is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.joint import JointPart, Rows, scores
from lodestone.composed.weights import ModalityWeights
from lodestone.errors import InvalidRequestError

_SLACK: Final = 2e-5
"""What float32 inner products of unit vectors may be wrong by, several times over; what is that near is scored in float64."""
_GATHER_BELOW: Final = 0.5
"""Share of the pictures below which copying the rows that are left is cheaper than comparing all."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AbandonedSearch:
    """Result of a joint search with early abandoning.

    Attributes:
        rows: (<= k,) rows of the best pictures, best first; of equal scores the lower row first.
        scores: (<= k,) float64 joint similarities, as `joint.scores` gives them.
        multiplied: Multiplications that were done.
        total: Multiplications of a scan that abandons nothing: pictures times numbers of all searched spaces.
    """

    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    multiplied: int
    total: int

    @property
    def saved(self) -> float:
        """Return the share of the multiplications that was saved; below 0 where nothing could be abandoned."""
        return 1 - self.multiplied / self.total


class AbandoningScorer:
    """Finds the pictures of highest joint similarity exactly, without comparing all of them in all spaces.

    Args:
        vectors: Space -> (n, dim) float32, one row a picture in the same order; NaN rows where a picture has none. Rows need
            not have length 1. They are not copied, and must not change.
    """

    def __init__(self, vectors: Mapping[str, Rows]) -> None:
        self._vectors = dict(vectors)
        self._lengths: dict[str, Floats] = {space: np.linalg.norm(rows, axis=1) for space, rows in vectors.items()}
        longest = [float(np.nanmax(lengths, initial=1.0)) for lengths in self._lengths.values()]
        self._slack = _SLACK * max(longest, default=1.0)

    def search(
        self, parts: Sequence[JointPart], k: int, *, among: NDArray[np.intp] | None = None, order: Sequence[str] | None = None
    ) -> AbandonedSearch:
        """Return the k pictures of highest joint similarity; those that no part can be compared with are left out.

        Args:
            parts: The parts of one query, at least one of weight above 0.
            k: Most pictures to return, at least 1.
            among: Rows to search, each once; None for all.
            order: Spaces in the order in which they are scanned; None for that of their weight.

        Raises:
            InvalidRequestError: as `joint.scores`, k is below 1, or the order does not name the query's spaces.
        """
        if k < 1:
            raise InvalidRequestError(f"{k} pictures are asked for", hint="ask for at least 1")
        query = _JoinedQuery.of(parts, self._vectors, order)
        pictures = len(self._vectors[query.order[0]])
        total = (pictures if among is None else len(among)) * query.numbers(0)
        alive = self._start(query, np.arange(pictures, dtype=np.intp) if among is None else among)
        multiplied = 0
        for place, space in enumerate(query.order):
            products, compared = self._products(space, query.vectors[place], alive.rows)
            multiplied += compared * len(query.vectors[place])
            alive.scan(place, products)
            if place < len(query.order) - 1 and len(alive.rows) > k:
                # The k most promising pictures are scored in full: what they reach, the others must be able to reach.
                promising = np.argpartition(-alive.upper(), k - 1)[:k]
                multiplied += k * query.numbers(place + 1)
                reached = self._exact(parts, query, alive.rows[promising]).min()
                alive = alive.only(alive.upper() >= reached - self._slack)
        rows = alive.rows
        if len(rows) > k:
            found = alive.upper()  # nothing is left to scan, so this is the score
            rows = rows[found >= np.partition(found, len(found) - k)[len(found) - k] - self._slack]
        exact = self._exact(parts, query, rows)
        best = np.lexsort((rows, -exact))[:k]
        return AbandonedSearch(rows[best], exact[best], multiplied, total)

    def _start(self, query: _JoinedQuery, rows: NDArray[np.intp]) -> _Alive:
        lengths = np.stack([self._lengths[space][rows] for space in query.order]).astype(np.float64)
        present = ~np.isnan(lengths)
        reach = np.where(present, lengths * np.array(query.lengths)[:, None], 0)
        weight = np.array(query.shares) @ present
        return _Alive(rows, present, reach, weight, np.zeros(len(rows)), reach.sum(axis=0)).only(weight > 0)

    def _products(self, space: str, vector: Floats, rows: NDArray[np.intp]) -> tuple[Floats, int]:
        """Return (rows,) inner products, and with how many rows they were made."""
        matrix = self._vectors[space]
        if len(rows) < _GATHER_BELOW * len(matrix):
            return matrix[rows] @ vector, len(rows)
        products: Floats = matrix @ vector
        return products[rows], len(matrix)

    def _exact(self, parts: Sequence[JointPart], query: _JoinedQuery, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return scores(parts, {space: self._vectors[space][rows] for space in query.order})


@dataclass(frozen=True, slots=True)
class _JoinedQuery:
    """Parts of a query, joined by the space that they are compared in, with weights that sum to 1.

    Attributes:
        order: Spaces in the order in which they are scanned.
        vectors: Sum of the weighted vectors of a space's parts.
        lengths: Lengths of `vectors`.
        shares: Weights of a space's parts together.
    """

    order: tuple[str, ...]
    vectors: tuple[Floats, ...]
    lengths: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, parts: Sequence[JointPart], vectors: Mapping[str, Rows], order: Sequence[str] | None) -> _JoinedQuery:
        scores(parts, {space: rows[:0] for space, rows in vectors.items()})  # refuses what it refuses
        weights = ModalityWeights.of({str(place): part.weight for place, part in enumerate(parts)})
        joined: dict[str, NDArray[np.float64]] = {}
        shares: dict[str, float] = {}
        for part, weight in zip(parts, weights.values(), strict=True):
            if weight > 0:
                joined[part.space] = joined.get(part.space, 0.0) + weight * part.vector.astype(np.float64)
                shares[part.space] = shares.get(part.space, 0.0) + weight
        lengths = {space: float(np.linalg.norm(vector)) for space, vector in joined.items()}
        chosen = tuple(order or sorted(joined, key=lambda space: -lengths[space]))
        if set(chosen) != set(joined) or len(chosen) != len(joined):
            raise InvalidRequestError(
                f"the order names {list(chosen)}, and the query is compared in {sorted(joined)}", hint="name each space once"
            )
        return cls(
            chosen,
            tuple(joined[space].astype(np.float32) for space in chosen),
            tuple(lengths[space] for space in chosen),
            tuple(shares[space] for space in chosen),
        )

    def numbers(self, place: int) -> int:
        """Return how many numbers a picture has in the spaces from `place` on."""
        return sum(len(vector) for vector in self.vectors[place:])


@dataclass(slots=True)
class _Alive:
    """Pictures that may still be among the best, with what is known of each; `n` of them, in `s` spaces.

    Attributes:
        rows: (n,) their rows.
        present: (s, n) whether they have a vector.
        reach: (s, n) the most that their inner product with the query can be; 0 without a vector.
        weight: (n,) weights of the parts that they can be compared with, above 0.
        partial: (n,) inner products so far, summed.
        left: (n,) `reach` of the spaces that are not scanned yet, summed.
    """

    rows: NDArray[np.intp]
    present: NDArray[np.bool_]
    reach: NDArray[np.float64]
    weight: NDArray[np.float64]
    partial: NDArray[np.float64]
    left: NDArray[np.float64]

    def scan(self, place: int, products: Floats) -> None:
        """Add the inner products, (n,), in one more space."""
        self.partial += np.where(self.present[place], products, 0)
        self.left -= self.reach[place]

    def upper(self) -> NDArray[np.float64]:
        """Return the most that each picture's joint similarity can be."""
        return (self.partial + self.left) / self.weight

    def only(self, chosen: NDArray[np.bool_]) -> _Alive:
        """Return the chosen pictures."""
        if chosen.all():
            return self
        return _Alive(
            self.rows[chosen],
            self.present[:, chosen],
            self.reach[:, chosen],
            self.weight[chosen],
            self.partial[chosen],
            self.left[chosen],
        )
