"""Ranking of an engine's hits by score and id, the same for every adapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from lodestone.store.base import Neighbours, Payload, SparseVector
from lodestone.store.limits import SPARSE_VECTOR

_R = TypeVar("_R")

# Additional hits that are fetched to see whether equal scores continue after the last requested one.
TIE_MARGIN = 8
# Relative error of an engine's sparse scores, because it adds up the terms in no fixed order.
SPARSE_ERROR = 1e-5

# (id, score, payload), best first.
Hit = tuple[str, float, Payload | None]
# From rows of the queries to send, each with the number of hits to fetch, to the hits of each in the same order.
Ask = Callable[[Mapping[int, int]], Sequence[Sequence[Hit]]]
# From the row of a query and an engine's hit to the hit's score.
Score = Callable[[int, Any], float]


class RankingRequest(Protocol):
    """Part of a `VectorQuery` or `SparseQuery` that ranking uses."""

    @property
    def limit(self) -> int:
        """Return the most neighbours to return."""

    @property
    def with_payload(self) -> bool:
        """Return True if neighbours carry payloads."""


class SparseScore:
    """Inner products with one query, summed exactly and rounded once, so that they do not depend on the order of the terms.

    Args:
        question: Vector of the query.
    """

    def __init__(self, question: SparseVector) -> None:
        self._weights: dict[int, float] = dict(zip(question.indices.tolist(), question.values.tolist(), strict=True))

    def __call__(self, indices: Sequence[int], values: Sequence[float]) -> float:
        """Return the inner product with a point's terms, rounded to float32."""
        pairs = zip(indices, values, strict=True)
        # Two float32 multiply without rounding in a float64.
        return float(np.float32(math.fsum(self._weights.get(index, 0.0) * value for index, value in pairs)))


def engine_score(row: int, hit: Any) -> float:  # noqa: ANN401, ARG001 - each engine has its class; the same for every question
    """Return the score that the engine gives."""
    score: float = hit.score
    return score


def sparse_score(questions: Sequence[SparseVector]) -> Score:
    """Return a function that scores hits of sparse collections, which come with their vectors, as `SparseScore` does."""
    scores = [SparseScore(question) for question in questions]

    def score(row: int, hit: Any) -> float:  # noqa: ANN401 - as above
        terms = hit.vector[SPARSE_VECTOR]
        return scores[row](terms.indices, terms.values)

    return score


def hits_of(
    fetches: Mapping[int, int],
    request: Callable[[int, int], _R],
    send: Callable[[list[_R]], Sequence[Sequence[Any]]],
    *,
    at_once: int,
    score: Score = engine_score,
) -> list[list[Hit]]:
    """Return the engine's hits for each query.

    Args:
        fetches: Rows of the queries, each with the number of hits to fetch.
        request: Makes the engine's request from a query's row and that number.
        send: Makes one call of the engine, and returns its hits for each request.
        at_once: Queries in one call.
        score: Returns the score of a row's hit.
    """
    rows = list(fetches)
    hits: list[list[Hit]] = []
    for start in range(0, len(rows), at_once):
        batch = rows[start : start + at_once]
        answers = send([request(row, fetches[row]) for row in batch])
        for row, answer_hits in zip(batch, answers, strict=True):
            hits.append([(str(hit.id), score(row, hit), hit.payload) for hit in answer_hits])
    return hits


def answer(queries: Sequence[RankingRequest], ask: Ask, *, exact: Sequence[bool], error: float = 0.0) -> list[Neighbours]:
    """Query the engine and rank its hits by descending score, equal scores by id.

    If an engine stops among equally good points, it is chance which of them it returns. Where `exact`, more hits are fetched
    until the tie ends, so that every engine gives the same answer.

    Args:
        queries: Queries to answer.
        ask: Makes one engine call for some of them.
        exact: For each query, True if the answer must not depend on the engine's choice among ties.
        error: Share of a score; a smaller difference between scores counts as the engine's rounding.
    """
    hits: dict[int, Sequence[Hit]] = {}
    fetches = {row: query.limit + TIE_MARGIN if exact[row] else query.limit for row, query in enumerate(queries)}
    while fetches:
        hits.update(zip(fetches, ask(fetches), strict=True))
        fetches = {
            row: 2 * fetched
            for row, fetched in fetches.items()
            if exact[row] and _cuts_a_tie([hit[1] for hit in hits[row]], limit=queries[row].limit, fetched=fetched, error=error)
        }
    return [_ranked(hits[row], limit=query.limit, with_payload=query.with_payload) for row, query in enumerate(queries)]


def _cuts_a_tie(scores: Sequence[float], *, limit: int, fetched: int, error: float) -> bool:
    ordered = sorted(scores, reverse=True)
    return len(ordered) == fetched and ordered[-1] >= ordered[limit - 1] - error * abs(ordered[limit - 1])


def _ranked(hits: Sequence[Hit], *, limit: int, with_payload: bool) -> Neighbours:
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]
    return Neighbours(
        ids=tuple(hit[0] for hit in best),
        scores=np.array([hit[1] for hit in best], dtype=np.float32),
        payloads=tuple(hit[2] or {} for hit in best) if with_payload else (),
    )
