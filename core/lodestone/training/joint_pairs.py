"""Composed queries with the pictures that are right for them, as vectors, and their exact joint search in batches.

Weights of modalities are learnt and measured on these (modality_weights.py). The joint similarity is that of `composed.joint`,
renormalised where a picture or a query lacks a modality; here it is computed in float32 for many queries at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.joint import Rows
from lodestone.errors import InvalidRequestError

_QUERIES_AT_ONCE: Final = 128
_NEVER: Final = np.float32(-np.inf)
_CHUNK: Final = 128
_FEWEST_CHUNKS: Final = 4

Weights = NDArray[np.float64]
RowIds = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class PartVectors:
    """One part of each of q queries: all of one modality, and so compared in one space.

    Attributes:
        modality: The modality that its weight belongs to; several parts may share it, such as words and words to avoid.
        space: Space in which it is compared.
        vectors: (q, dim) float32, L2-normalised, negated for a part to avoid; NaN rows where a query has no such part.
    """

    modality: str
    space: str
    vectors: Rows


class ObjectVectors:
    """Vectors of the objects that are searched.

    Args:
        vectors: Space -> (n, dim) float32, L2-normalised, one row an object in the same order; NaN rows where it has none.

    Raises:
        InvalidRequestError: there are no vectors, or spaces have different numbers of rows.
    """

    def __init__(self, vectors: Mapping[str, Rows]) -> None:
        counts = {len(rows) for rows in vectors.values()}
        if len(counts) != 1:
            raise InvalidRequestError(f"spaces have {sorted(counts)} objects", hint="give one row an object in every space")
        self.vectors = dict(vectors)
        self.count = counts.pop()

    @cached_property
    def filled(self) -> dict[str, tuple[Rows, Rows | None]]:
        """Space -> rows with 0 for NaN, and 1 where an object has a vector, 0 elsewhere; None where all have one."""
        filled: dict[str, tuple[Rows, Rows | None]] = {}
        for space, rows in self.vectors.items():
            missing = np.isnan(rows[:, 0])
            filled[space] = (np.nan_to_num(rows), (~missing).astype(np.float32)) if missing.any() else (rows, None)
        return filled


@dataclass(frozen=True, eq=False)
class JointPairs:
    """Queries of several parts and the objects that are right for them.

    Attributes:
        parts: The parts of all q queries.
        objects: The n objects that are searched.
        positives: (q) rows of all objects that are right for a query, at least one each, without repeats.
        ignored: (q) rows that are neither right nor wrong and are not searched, such as the reference picture of the query.

    Raises:
        InvalidRequestError: numbers of rows do not fit together, a query has no right object, or a row does not exist.
    """

    parts: tuple[PartVectors, ...]
    objects: ObjectVectors
    positives: Sequence[RowIds]
    ignored: Sequence[RowIds]

    def __post_init__(self) -> None:
        for part in self.parts:
            rows = self.objects.vectors.get(part.space)
            if rows is None or rows.shape[1] != part.vectors.shape[1]:
                held = "no vectors" if rows is None else f"vectors of {rows.shape[1]} numbers"
                raise InvalidRequestError(
                    f"modality {part.modality!r} has {part.vectors.shape[1]} numbers, and space {part.space!r} holds {held}",
                    hint="encode queries and objects with the same version of the space",
                )
        if not self.parts or {len(part.vectors) for part in self.parts} | {len(self.ignored)} != {len(self.positives)}:
            raise InvalidRequestError("queries and parts are of different numbers", hint="give one row a query in every part")
        if any(len(rows) == 0 or rows.max() >= self.objects.count or rows.min() < 0 for rows in self.positives):
            raise InvalidRequestError("a query has no right object, or one that does not exist", hint="leave such queries out")

    def __len__(self) -> int:
        return len(self.positives)

    @cached_property
    def modalities(self) -> tuple[str, ...]:
        """Return the modalities of all parts, each once, in order."""
        return tuple(dict.fromkeys(part.modality for part in self.parts))

    def take(self, queries: RowIds) -> JointPairs:
        """Return some of the queries, over the same objects."""
        return JointPairs(
            tuple(replace(part, vectors=part.vectors[queries]) for part in self.parts),
            self.objects,
            [self.positives[query] for query in queries],
            [self.ignored[query] for query in queries],
        )

    def features(self, queries: RowIds, rows: RowIds) -> tuple[Weights, Weights]:
        """Return what the joint similarities of some pairs are made of: (similarity @ w) / (presence @ w).

        Args:
            queries: (p,) queries.
            rows: (p,) an object for each.

        Returns:
            Two (p, modalities) float64 arrays: the similarities of a modality's parts, summed, and the number of these parts
            that both sides have. Both are 0 where there is none.
        """
        similarity = np.zeros((len(queries), len(self.modalities)))
        presence = np.zeros_like(similarity)
        for part in self.parts:
            column = self.modalities.index(part.modality)
            products = np.einsum("ij,ij->i", part.vectors[queries], self.objects.vectors[part.space][rows])
            here = ~np.isnan(products)
            similarity[here, column] += products[here]
            presence[:, column] += here
        return similarity, presence

    def hardest(self, weightings: Weights, k: int) -> RowIds:
        """Return the wrong objects of highest joint similarity under some weightings.

        Wrong are all objects but those that are right for the query, every one of them, and the ignored ones.

        Args:
            weightings: (w, modalities) weights.
            k: Wrong objects a query and weighting.

        Returns:
            (q, w * k) rows, which may repeat; -1 where there are fewer.
        """
        found = np.full((len(self), len(weightings) * k), -1, np.intp)
        for start, blocks in self._blocks():
            for place, weights in enumerate(weightings):
                scores = _joint(blocks, weights)
                here = range(start, start + len(scores))
                for row, query in zip(scores, here, strict=True):
                    row[self.positives[query]] = _NEVER
                    row[self.ignored[query]] = _NEVER
                found[here.start : here.stop, place * k : (place + 1) * k] = _best(scores, k)
        return found

    def search(self, weightings: Weights, k: int) -> SearchQuality:
        """Search all queries under several weightings, exactly.

        Args:
            weightings: (w, modalities) weights.
            k: Length of the result list.
        """
        recall = np.empty((len(weightings), len(self)))
        reciprocal = np.empty_like(recall)
        for start, blocks in self._blocks():
            for place, weights in enumerate(weightings):
                scores = _joint(blocks, weights)
                for row, ignored in zip(scores, self.ignored[start : start + len(scores)], strict=True):
                    row[ignored] = _NEVER
                right = self.positives[start : start + len(scores)]
                results = _best(scores, k)
                best = np.array([row[rows].max() for row, rows in zip(scores, right, strict=True)], np.float32)
                ranks = 1 + (scores > best[:, None]).sum(axis=1)
                here = slice(start, start + len(scores))
                reciprocal[place, here] = np.where(best > _NEVER, 1 / ranks, 0)
                recall[place, here] = [
                    np.isin(rows, found).sum() / len(rows) for rows, found in zip(right, results, strict=True)
                ]
        return SearchQuality(recall, reciprocal)

    def _blocks(self) -> Iterator[tuple[int, _Block]]:
        for start in range(0, len(self), _QUERIES_AT_ONCE):
            sums: dict[int, Rows] = {}
            counts: dict[int, Rows] = {}
            for part in self.parts:
                queries = part.vectors[start : start + _QUERIES_AT_ONCE]
                has = ~np.isnan(queries[:, :1])
                objects, present = self.objects.filled[part.space]
                if not has.any():
                    continue
                column = self.modalities.index(part.modality)
                products = np.nan_to_num(queries) @ objects.T
                ones = np.ones(1, np.float32) if present is None else present
                both = np.broadcast_to(has.astype(np.float32) * ones, (len(queries), len(ones)))
                sums[column] = sums[column] + products if column in sums else products
                counts[column] = counts[column] + both if column in counts else both
            yield start, _Block(sums, counts)


@dataclass(frozen=True, slots=True)
class SearchQuality:
    """Quality of a search under several weightings.

    Attributes:
        recall: (w, q) share of a query's right objects among the first k (MUST, equation 1).
        reciprocal: (w, q) reciprocal rank of the first right object.
    """

    recall: Weights
    reciprocal: Weights


@dataclass(frozen=True, slots=True)
class _Block:
    """Similarities of a block of b queries to all n objects: modality's place -> (b, n) sums, and (b, n or 1) counts."""

    sums: Mapping[int, Rows]
    counts: Mapping[int, Rows]


def _joint(block: _Block, weights: Weights) -> Rows:
    """Return (b, n) joint similarities, -inf where there is nothing to compare."""
    used = [(column, np.float32(weights[column])) for column in block.sums if weights[column] > 0]
    if not used:
        shape = np.broadcast_shapes(*(sums.shape for sums in block.sums.values()))
        return np.full(shape, _NEVER)
    scores: Rows = block.sums[used[0][0]] * used[0][1]
    for column, weight in used[1:]:
        scores += block.sums[column] * weight
    total = sum(block.counts[column] * weight for column, weight in used)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores /= total
    if not np.all(total > 0):
        scores[np.broadcast_to(total <= 0, scores.shape)] = _NEVER
    return scores


def _best(scores: Rows, k: int) -> RowIds:
    """Return the columns of the k highest scores of each row, -1 where there are fewer; in no order.

    The k-th highest maximum of chunks is a lower bound of the k-th highest score. Selecting among what reaches it takes a tenth
    of the time of a partition of everything.
    """
    width = min(k, scores.shape[1])
    chunks = scores.shape[1] // _CHUNK
    found = np.full((len(scores), k), -1, np.intp)
    if chunks >= _FEWEST_CHUNKS * k:
        maxima = scores[:, : chunks * _CHUNK].reshape(len(scores), chunks, _CHUNK).max(axis=2)
        least = np.partition(maxima, chunks - k, axis=1)[:, chunks - k]
    else:
        least = np.full(len(scores), _NEVER)
    for row, values in enumerate(scores):
        columns = np.flatnonzero(values >= least[row])
        if len(columns) > width:
            columns = columns[np.argpartition(values[columns], len(columns) - width)[len(columns) - width :]]
        columns = columns[values[columns] > _NEVER]
        found[row, : len(columns)] = columns
    return found
