"""Choice of weights by grid search: the highest recall on queries that are not measured afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone_eval.composed.metrics import recall_at
from lodestone_eval.composed.vector_search import best, joined, similarities_of
from lodestone_eval.composed.vector_sets import VectorSet

_STEPS: Final = {1: 1, 2: 20, 3: 20}  # of the grid, by modalities
_FEWEST_STEPS: Final = 10
_FEWEST, _MOST = 50, 500  # queries that choose
_COMPARED: Final = 50_000_000  # objects that all queries that choose are compared with, together, where that is enough queries


def choose_weights(vectors: VectorSet, asked: Sequence[int], *, k: int, wanted: int) -> NDArray[np.float64]:
    """Return the weights of a grid that reach the highest mean recall on these queries; of equal ones the most equal.

    Args:
        vectors: The set, with right objects.
        asked: Numbers of the queries; at most 500 of them are used, and fewer of large sets.
        k: Number of results.
        wanted: k' of Recall@k(k').
    """
    count = len(vectors.modalities)
    grid = list(weight_grid(count, _STEPS.get(count, _FEWEST_STEPS)))
    sums = np.zeros(len(grid))
    for query in list(asked)[: max(_FEWEST, min(_MOST, _COMPARED // vectors.objects))]:
        truth = vectors.right(query, wanted)
        similarities, left_out = similarities_of(vectors, query), vectors.left_out(query)
        for number, weights in enumerate(grid):
            found = best(joined(similarities, weights, vectors.objects), k, left_out)
            sums[number] += recall_at(found.tolist(), truth, k, wanted=wanted)
    evenness = np.array([-float((weights**2).sum()) for weights in grid])
    return grid[int(np.lexsort((-evenness, -sums))[0])]


def weight_grid(count: int, steps: int) -> Iterator[NDArray[np.float64]]:
    """Yield all weights of `count` modalities in multiples of 1 / steps that sum to 1."""
    for cuts in itertools.combinations(range(steps + count - 1), count - 1):
        edges = np.array([-1, *cuts, steps + count - 1])
        yield (np.diff(edges) - 1) / steps


def halves(asked: Sequence[int], *, seed: int) -> tuple[list[int], list[int]]:
    """Return two random halves of the queries, each in ascending order."""
    order = np.random.default_rng(seed).permutation(np.array(asked))
    return sorted(order[: len(order) // 2].tolist()), sorted(order[len(order) // 2 :].tolist())
