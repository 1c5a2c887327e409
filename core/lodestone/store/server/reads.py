"""Reads from a Qdrant server: searches in batches, and whole collections page by page."""

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
    """Return the hits of each query; `fetches` maps a row to its number of hits, `request` makes the request of a row."""

    def send(requests: list[models.QueryRequest]) -> list[list[models.ScoredPoint]]:
        replies = server.call("searching", partial(server.client.query_batch_points, server.at(name), requests), name=name)
        return [reply.points for reply in replies]

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
    """Yield the matching points, `size` at a time."""
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
