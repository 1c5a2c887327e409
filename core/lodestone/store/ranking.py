"""In which order, and with which of equally good points, are an engine's hits handed on? The same for every adapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from lodestone.store.base import Neighbours, Payload, SparseVector
from lodestone.store.limits import SPARSE_VECTOR

_R = TypeVar("_R")

# How many hits more than wanted are fetched to see whether equal scores go on past the last.
TIE_MARGIN = 8
# By how much, of the score, an engine's sparse scores may be off: it adds the terms up in no fixed order.
SPARSE_ERROR = 1e-5

# (id, score, payload), best first.
Hit = tuple[str, float, Payload | None]
# Rows of the queries to ask, each with how many hits to fetch, to the hits of each in the same order.
Ask = Callable[[Mapping[int, int]], Sequence[Sequence[Hit]]]
# Row of the query and an engine's hit, to its score.
Score = Callable[[int, Any], float]


class RankingRequest(Protocol):
    """What ranking needs to know of a `VectorQuery` or `SparseQuery`."""

    @property
    def limit(self) -> int:
        """How many neighbours at most."""

    @property
    def with_payload(self) -> bool:
        """Whether neighbours carry payloads."""


class SparseScore:
    """Inner products with one question, exact up to the last rounding: equal in whatever order the terms come.

    Args:
        question: The other factor.
    """

    def __init__(self, question: SparseVector) -> None:
        self._weights: dict[int, float] = dict(zip(question.indices.tolist(), question.values.tolist(), strict=True))

    def __call__(self, indices: Sequence[int], values: Sequence[float]) -> float:
        """The product with a point's terms, as a float32."""
        pairs = zip(indices, values, strict=True)
        # Two float32 multiply without rounding in a float64.
        return float(np.float32(math.fsum(self._weights.get(index, 0.0) * value for index, value in pairs)))


def engine_score(row: int, hit: Any) -> float:  # noqa: ANN401, ARG001 - each engine has its class; the same for every question
    """The score that the engine gives."""
    score: float = hit.score
    return score


def sparse_score(questions: Sequence[SparseVector]) -> Score:
    """Scores hits of sparse collections, that come with their vectors, as `SparseScore` does."""
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
    """What the engine finds for each query.

    Args:
        fetches: Rows of the queries, each with how many hits to fetch.
        request: Makes a query, in the engine's terms, of its row and that number.
        send: One call of the engine: its hits for each of some queries.
        at_once: Queries a call.
        score: Of a row's hit.
    """
    rows = list(fetches)
    hits: list[list[Hit]] = []
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        found = send([request(row, fetches[row]) for row in some])
        for row, each in zip(some, found, strict=True):
            hits.append([(str(hit.id), score(row, hit), hit.payload) for hit in each])
    return hits


def answer(queries: Sequence[RankingRequest], ask: Ask, *, exact: Sequence[bool], error: float = 0.0) -> list[Neighbours]:
    """Ask the engine and rank what it finds by descending score, equal scores by id.

    Which of equally good points an engine returns is chance when it stops among them: where `exact`, more are fetched until
    the tie ends, so that every engine gives the same answer.

    Args:
        queries: The questions.
        ask: One engine call for some of them.
        exact: Of each question, whether the answer must not depend on the engine's chance.
        error: Part of a score, below which a difference between scores is the engine's rounding.
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
    best = sorted(scores, reverse=True)
    return len(best) == fetched and best[-1] >= best[limit - 1] - error * abs(best[limit - 1])


def _ranked(hits: Sequence[Hit], *, limit: int, with_payload: bool) -> Neighbours:
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]
    return Neighbours(
        ids=tuple(hit[0] for hit in best),
        scores=np.array([hit[1] for hit in best], dtype=np.float32),
        payloads=tuple(hit[2] or {} for hit in best) if with_payload else (),
    )
