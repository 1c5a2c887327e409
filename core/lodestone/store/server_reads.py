"""How are points read from a Qdrant server? Searches in batches, and whole collections page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.store.ranking import Hit
from lodestone.store.server_connection import ServerConnection
from lodestone.store.server_engine import engine_score

CALL_QUERIES = 64


def ask(
    server: ServerConnection,
    name: str,
    request: Callable[[int, int], models.QueryRequest],
    fetches: Mapping[int, int],
    *,
    score: Callable[[int, models.ScoredPoint], float] = engine_score,
) -> list[list[Hit]]:
    """Hits of each query. `fetches` says how many of which; `request` makes a query of its row and that number."""
    rows, requests = list(fetches), [request(row, fetch) for row, fetch in fetches.items()]
    hits: list[list[Hit]] = []
    for start in range(0, len(requests), CALL_QUERIES):
        some = requests[start : start + CALL_QUERIES]
        found = server.call("searching", partial(server.client.query_batch_points, server.at(name), some), name=name)
        for row, reply in zip(rows[start : start + CALL_QUERIES], found, strict=True):
            hits.append([(str(hit.id), score(row, hit), hit.payload) for hit in reply.points])
    return hits


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
