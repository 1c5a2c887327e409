"""Joint similarity of a composed query and a picture: the weighted sum of the similarities of its parts (MUST, lemma 1).

A part is a vector in one space, with a weight; several parts may be compared in the same space, such as a reference picture and
words that change it. A part to avoid has its vector negated, so weights are never negative.

A picture that has no vector in a space is not scored 0 there. Its score is renormalised over the parts that it can be compared
with, so that a picture without a caption does not fall behind one with a caption that says something else:

    score(o) = sum of weight_p * <q_p, o_space(p)> over the parts p that o has a vector for / sum of those weights

This is the definition. `scores` computes it directly; indexes and faster scorers are tested against it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class JointPart:
    """One part of a composed query, in one space.

    Attributes:
        name: Name of the part, which answers and explanations show, e.g. `picture` or `words`.
        space: Space (or other named collection) in which it is compared.
        vector: (dim,) float32, L2-normalised; negated for a part to avoid.
        weight: Its weight, at least 0: the square of MUST's w.

    Raises:
        InvalidRequestError: the vector or the weight is not finite, the weight is negative, or the vector is zero.
    """

    name: str
    space: str
    vector: Rows
    weight: float

    def __post_init__(self) -> None:
        length = float(np.linalg.norm(self.vector))
        if self.vector.ndim != 1 or not math.isfinite(length) or length == 0:
            raise InvalidRequestError(
                f"the vector of part {self.name!r} has shape {self.vector.shape} and length {length:g}",
                hint="give one row of finite numbers, not all 0",
            )
        if not math.isfinite(self.weight) or self.weight < 0:
            raise InvalidRequestError(
                f"part {self.name!r} of the query has weight {self.weight!r}", hint="weights are finite and at least 0"
            )
        object.__setattr__(self, "vector", np.asarray(self.vector / length, np.float32))


def part_scores(parts: Sequence[JointPart], vectors: Mapping[str, Rows]) -> NDArray[np.float64]:
    """Return the similarity of each part with each picture, unweighted.

    Args:
        parts: The parts of one query.
        vectors: Space -> (n, dim) float32, one row a picture in the same order; NaN rows where a picture has none.

    Returns:
        (n, len(parts)) float64; NaN where a picture has no vector.

    Raises:
        InvalidRequestError: a part's space is not among `vectors`, or of another length.
    """
    columns = []
    for part in parts:
        rows = vectors.get(part.space)
        if rows is None or rows.shape[1] != len(part.vector):
            held = "no vectors" if rows is None else f"vectors of {rows.shape[1]} numbers"
            raise InvalidRequestError(
                f"part {part.name!r} has {len(part.vector)} numbers, and space {part.space!r} holds {held}",
                hint="encode the query with the version of the space that is searched",
            )
        columns.append(rows.astype(np.float64) @ part.vector.astype(np.float64))
    return np.stack(columns, axis=1)


def scores(parts: Sequence[JointPart], vectors: Mapping[str, Rows]) -> NDArray[np.float64]:
    """Return the joint similarity of a query with each picture.

    Args:
        parts: The parts of one query, at least one of weight above 0.
        vectors: As in `part_scores`.

    Returns:
        (n,) float64 in [-1, 1]; NaN for a picture that no part of weight above 0 can be compared with.

    Raises:
        InvalidRequestError: no part has a weight above 0, or as `part_scores`.
    """
    counting = [part for part in parts if part.weight > 0]
    if not counting:
        raise InvalidRequestError("no part of the query has a weight above 0", hint="give a picture or words to look for")
    weights = np.array([part.weight for part in counting])
    similarities = part_scores(counting, vectors)
    present = ~np.isnan(similarities)
    total = present @ weights
    weighted = np.where(present, similarities, 0.0) @ weights
    joint: NDArray[np.float64] = np.divide(weighted, total, out=np.full(len(total), np.nan), where=total > 0)
    return joint
