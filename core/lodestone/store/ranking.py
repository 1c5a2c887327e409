"""In which order, and with which of equally good points, are an engine's hits handed on? The same for every adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lodestone.store.base import Neighbours, Payload, VectorQuery

# How many hits more than wanted are fetched to see whether equal scores go on past the last.
TIE_MARGIN = 8

# (id, score, payload), best first.
Hit = tuple[str, float, Payload | None]
# Rows of the queries to ask, each with how many hits to fetch, to the hits of each in the same order.
Ask = Callable[[Mapping[int, int]], Sequence[Sequence[Hit]]]


def answer(queries: Sequence[VectorQuery], ask: Ask) -> list[Neighbours]:
    """Ask the engine and rank what it finds by descending score, equal scores by id.

    Which of equally good points an engine returns is chance when it stops among them: with `exact=True` more are fetched until
    the tie ends, so that every engine gives the same answer.

    Args:
        queries: The questions.
        ask: One engine call for some of them.
    """
    hits: dict[int, Sequence[Hit]] = {}
    fetches = {row: query.limit + TIE_MARGIN if query.exact else query.limit for row, query in enumerate(queries)}
    while fetches:
        hits.update(zip(fetches, ask(fetches), strict=True))
        fetches = {
            row: 2 * fetched
            for row, fetched in fetches.items()
            if queries[row].exact and _cuts_a_tie([hit[1] for hit in hits[row]], limit=queries[row].limit, fetched=fetched)
        }
    return [_ranked(hits[row], limit=query.limit, with_payload=query.with_payload) for row, query in enumerate(queries)]


def _cuts_a_tie(scores: Sequence[float], *, limit: int, fetched: int) -> bool:
    return len(scores) == fetched and scores[limit - 1] == scores[-1]


def _ranked(hits: Sequence[Hit], *, limit: int, with_payload: bool) -> Neighbours:
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]
    return Neighbours(
        ids=tuple(hit[0] for hit in best),
        scores=np.array([hit[1] for hit in best], dtype=np.float32),
        payloads=tuple(hit[2] or {} for hit in best) if with_payload else (),
    )
