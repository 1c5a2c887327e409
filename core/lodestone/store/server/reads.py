"""How are points read from a Qdrant server? Searches in batches, and whole collections page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.store.ranking import Hit, Score, engine_score, hits_of
from lodestone.store.server.connection import ServerConnection

CALL_QUERIES = 64


def ask(
    server: ServerConnection,
    name: str,
    request: Callable[[int, int], models.QueryRequest],
    fetches: Mapping[int, int],
    *,
    score: Score = engine_score,
) -> list[list[Hit]]:
    """Hits of each query. `fetches` says how many of which; `request` makes a query of its row and that number."""

    def send(requests: list[models.QueryRequest]) -> list[list[models.ScoredPoint]]:
        found = server.call("searching", partial(server.client.query_batch_points, server.at(name), requests), name=name)
        return [reply.points for reply in found]

    return hits_of(fetches, request, send, at_once=CALL_QUERIES, score=score)


def pages(
    server: ServerConnection,
    name: str,
    conditions: models.Filter | None,
    size: int,
    *,
    payload: bool = True,
    vectors: bool = False,
) -> Iterator[list[models.Record]]:
    """The points that match, `size` at a time."""
    offset: Any = None
    while True:
        records, offset = server.call(
            "reading points",
            partial(
                server.client.scroll,
                server.at(name),
                conditions,
                limit=size,
                offset=offset,
                with_payload=payload,
                with_vectors=vectors,
            ),
            name=name,
        )
        if records:
            yield records
        if offset is None:
            return
