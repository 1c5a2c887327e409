"""Count of a collection's points that lie outside the graph on a Qdrant server.

A collection's `indexed_vectors_count` adds up segments that have a graph with their deleted and replaced vectors, which the
server removes when they are a fifth of a segment of at least 1,000. So it can be as large as the number of points while half
of them are in segments without a graph. The telemetry of a node has the living points of each of its segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from lodestone.store.server.connection import ServerConnection
from lodestone.store.server.engine import shape_of


def outside_graph(server: ServerConnection, state: models.CollectionInfo, *, name: str, points: int) -> int:
    """Return how many of a collection's points lie outside the graph; too many rather than too few.

    Args:
        server: Connection to the server.
        state: The server's description of the collection.
        name: Name of the collection.
        points: Number of its points.
    """
    at_least = points - (state.indexed_vectors_count or 0)
    if at_least >= points:
        return points
    inside = inside_graph(server, state, name=name)
    outside = _most_outside(state, name=name, points=points) if inside is None else points - inside
    return min(max(outside, at_least, 0), points)


def inside_graph(server: ServerConnection, state: models.CollectionInfo, *, name: str) -> int | None:
    """Return how many of a collection's points are in a graph; of each shard, the replica with the fewest counts.

    Returns:
        The number, or None if some shard is on no node that was asked, or the nodes refuse telemetry to this API key.
    """
    inside: dict[int, int] = {}
    for telemetry in server.telemetry():
        for collection in (telemetry.get("collections") or {}).get("collections") or ():
            for shard in (collection.get("shards") or ()) if collection.get("id") == server.at(name) else ():
                segments = (shard.get("local") or {}).get("segments")
                if segments:
                    count = sum(_inside(segment["info"]) for segment in segments)
                    inside[shard["id"]] = min(count, inside.get(shard["id"], count))
    return sum(inside.values()) if len(inside) >= (state.config.params.shard_number or 1) else None


def _inside(segment: Mapping[str, Any]) -> int:
    # A segment has one graph over all its vectors, or none.
    return min(int(segment["num_points"]), int(segment["num_indexed_vectors"]))


def _most_outside(state: models.CollectionInfo, *, name: str, points: int) -> int:
    """Return how many points the segments without a graph have at most: a server at rest leaves only small ones so."""
    kilobytes = state.config.optimizer_config.indexing_threshold
    if state.status != models.CollectionStatus.GREEN or not kilobytes:
        return points
    return state.segments_count * (kilobytes * 1024 // (4 * shape_of(state, name=name).dim) + 1)
