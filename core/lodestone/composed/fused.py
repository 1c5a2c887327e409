"""Layout of fused vectors: for each picture the concatenation of its vectors in all spaces of a composition (MUST, lemma 1).

MUST scales the vector of space i by w_i and builds its index over the concatenation, with learnt weights. Here all roots in the
index are equal, and the weights of a query stand in the query alone:

    stored(o) = [v_0, …, v_{s-1}] / sqrt(s)          asked(q) = sqrt(s) * [sum of weight_p * q_p over the parts p in space i]_i

The inner product is the weighted sum of all similarities, whatever the weights. Graphs over equal roots keep their recall for
every weighting, those over other roots do not (docs/adr/0020). A space that a picture lacks is zeros, and what it lacks is in
the field `holds`. Pictures that lack the same spaces are searched together, and their products are divided by the weight of
the spaces that they have, which is the renormalisation of `joint.scores`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from lodestone.composed.joint import JointPart, Rows
from lodestone.errors import InvalidRequestError
from lodestone.store.base import Condition, Filter, MatchAny
from lodestone_schemas.collections import HOLDS

FUSED: Final = "fused"
_FORMULA: Final = "1"  # change it whenever other vectors or fields would be stored for the same spaces
_LACKS: Final = "-"


@dataclass(frozen=True, slots=True)
class FusedSpace:
    """One space of a fused vector.

    Attributes:
        name: Its name, as in the parts of a query.
        collection: Collection of the version whose vectors are fused.
        dim: Length of its vectors.
        optional: True if there are pictures without a vector in it, such as captions.
    """

    name: str
    collection: str
    dim: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class PresencePattern:
    """Pictures of a query that lack the same spaces.

    Attributes:
        condition: What they match in the fused collection; empty if all pictures are alike.
        weight: Weight of the parts that they can be compared with, > 0.
        complete: Whether they lack nothing.
    """

    condition: tuple[Condition, ...]
    weight: float
    complete: bool = True


@dataclass(frozen=True, slots=True)
class FusedLayout:
    """What a fused vector of a composition consists of.

    Attributes:
        composition: Name of the composition.
        spaces: Its spaces, in the order of their numbers.
    """

    composition: str
    spaces: tuple[FusedSpace, ...]

    @property
    def alias(self) -> str:
        """Return the alias of the fused collection."""
        return fused_alias(self.composition)

    @property
    def collection(self) -> str:
        """Return the name of the fused collection, which differs for other spaces and for other versions of them."""
        parts = [f"{space.name}={space.collection}:{space.dim}:{space.optional}" for space in self.spaces]
        return f"{self.alias}-{hashlib.blake2b('|'.join([_FORMULA, *parts]).encode(), digest_size=6).hexdigest()}"

    @property
    def dim(self) -> int:
        """Return the length of a fused vector."""
        return sum(space.dim for space in self.spaces)

    def covers(self, spaces: Collection[str]) -> bool:
        """Return whether a query in these spaces can be answered by fused vectors."""
        return set(spaces) <= {space.name for space in self.spaces}

    def join(self, vectors: Mapping[str, Rows]) -> Rows:
        """Return the fused vectors of n pictures, (n, dim) float32, of length at most 1.

        Args:
            vectors: Space -> (n, dim of the space) float32, L2-normalised; NaN rows where a picture has none.
        """
        joined = np.concatenate([vectors[space.name] for space in self.spaces], axis=1, dtype=np.float32)
        joined /= np.float32(math.sqrt(len(self.spaces)))
        return np.nan_to_num(joined, copy=False)

    def split(self, fused: Rows, holds: Sequence[Collection[str]]) -> dict[str, Rows]:
        """Return what `join` was given, but for rounding.

        Args:
            fused: (n, dim) float32, as stored.
            holds: The field `holds` of each picture (n).
        """
        vectors: dict[str, Rows] = {}
        start = 0
        for space in self.spaces:
            rows = fused[:, start : start + space.dim] * np.float32(math.sqrt(len(self.spaces)))
            start += space.dim
            if space.optional:
                lacking = np.array([lacks(space.name) in held for held in holds], np.bool_)
                rows[lacking] = np.nan
            vectors[space.name] = rows
        return vectors

    def holds(self, vectors: Mapping[str, Rows]) -> list[list[str]]:
        """Return the field `holds` of n pictures: the optional spaces that each has, and with a minus those that it lacks."""
        optional = [space.name for space in self.spaces if space.optional]
        rows = len(next(iter(vectors.values())))
        missing = {name: np.isnan(vectors[name][:, 0]) for name in optional}
        return [[lacks(name) if missing[name][row] else name for name in optional] for row in range(rows)]

    def asked(self, parts: Sequence[JointPart]) -> Rows:
        """Return the vector of a query, (dim,) float32; its inner product with a stored one is the weighted sum.

        Raises:
            InvalidRequestError: a part is in another space, or its vector has another length.
        """
        sums = summed(parts)
        names = [space.name for space in self.spaces]
        if unknown := sums.keys() - set(names):
            raise InvalidRequestError(
                f"the composition {self.composition!r} has no space {min(unknown)!r}", hint=f"it has {', '.join(names)}"
            )
        slots = []
        for space in self.spaces:
            vector = sums.get(space.name, np.zeros(space.dim))
            if len(vector) != space.dim:
                raise InvalidRequestError(
                    f"a part in the space {space.name!r} has {len(vector)} numbers; its vectors have {space.dim}",
                    hint="encode the query with the version of the space that is searched",
                )
            slots.append(vector)
        return (np.concatenate(slots) * math.sqrt(len(self.spaces))).astype(np.float32)

    def presences(self, parts: Sequence[JointPart]) -> Iterator[PresencePattern]:
        """Yield the groups of pictures by what they lack of a query's spaces, the complete ones first; not those that lack all.

        There are two to the power of the optional spaces that have a weight, so mostly one or two.
        """
        weights = weights_of(parts)
        optional = [space.name for space in self.spaces if space.optional and weights.get(space.name, 0) > 0]
        for number in range(len(optional) + 1):
            for lacking in combinations(optional, number):
                weight = math.fsum(amount for name, amount in weights.items() if name not in lacking)
                if weight > 0:
                    held = [lacks(name) if name in lacking else name for name in optional]
                    yield PresencePattern(tuple(MatchAny(HOLDS, (value,)) for value in held), weight, complete=not lacking)


def fused_alias(composition: str) -> str:
    """Return the alias of a composition's fused collection."""
    return f"{FUSED}.{composition}"


def lacks(space: str) -> str:
    """Return the value of the field `holds` of a picture that has no vector in an optional space."""
    return f"{_LACKS}{space}"


def summed(parts: Sequence[JointPart]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return the weighted sum of the parts' vectors in each space, of the parts with a weight; it is linear (MUST, lemma 1).

    Returns:
        Space -> (dim,) float64, not normalised.

    Raises:
        InvalidRequestError: no part has a weight above 0, or parts of one space differ in length.
    """
    sums: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for part in parts:
        if part.weight <= 0:
            continue
        vector = part.weight * part.vector.astype(np.float64)
        if part.space in sums and len(sums[part.space]) != len(vector):
            raise InvalidRequestError(
                f"two parts in the space {part.space!r} have {len(sums[part.space])} and {len(vector)} numbers",
                hint="encode both with the version of the space that is searched",
            )
        sums[part.space] = sums[part.space] + vector if part.space in sums else vector
    if not sums:
        raise InvalidRequestError("no part of the query has a weight above 0", hint="give a picture or words to look for")
    return sums


def weights_of(parts: Sequence[JointPart]) -> dict[str, float]:
    """Return the weight of each space: the sum of those of its parts, for the spaces that have any."""
    weights: dict[str, float] = {}
    for part in parts:
        if part.weight > 0:
            weights[part.space] = weights.get(part.space, 0.0) + part.weight
    return weights


def narrowed(filter_: Filter | None, conditions: tuple[Condition, ...]) -> Filter | None:
    """Return the filter with more conditions that must hold."""
    if not conditions:
        return filter_
    return Filter(conditions) if filter_ is None else Filter((*filter_.must, *conditions), filter_.must_not)
