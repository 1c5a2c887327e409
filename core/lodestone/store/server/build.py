"""Building of a collection's graph on a Qdrant server, and waiting until it is complete.

The server builds the graph in its optimizer. `m` is set, the size below which the server leaves segments without a graph is set
to its minimum, and the collection's state is polled until every vector is in a graph.

Count of a collection's points that lie outside the graph on a Qdrant server. A collection's `indexed_vectors_count` adds up
segments that have a graph with their deleted and replaced vectors, which the server removes when they are a fifth of a segment
of at least 1,000. So it can be as large as the number of points while half of them are in segments without a graph. The
telemetry of a node has the living points of each of its segments.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import StoreError
from lodestone.store.server.connection import ServerConnection
from lodestone.store.server.engine import shape_of
from lodestone.store.server.writes import WriteKeeper

# Segments of fewer points stay without a graph, except during a build. With a higher value the server removes the graph again
# when it next merges the segments of a small collection; with a lower one each batch gets a graph of its own.
_SEGMENT_POINTS = 1_000
_LOWEST_THRESHOLD = 1
_POLL_SECONDS = 0.25
_NEARLY_ALL = 0.95
_SETTLE_SECONDS = 15.0


def build_graph(server: ServerConnection, keeper: WriteKeeper, name: str, *, timeout: float, stall_timeout: float) -> None:
    """Turn the collection's graph on and return when it holds every point.

    Args:
        server: Connection to the server.
        keeper: Changes settings at times when no write is undone by the change.
        name: Name of the collection.
        timeout: Seconds to wait at most.
        stall_timeout: Seconds to wait while the server is idle with points left to index.

    Raises:
        StoreError: The server stopped optimizing or was not done in time. Searches work meanwhile.
    """
    state = server.state(name)
    kilobytes = max(_SEGMENT_POINTS * shape_of(state, name=name).dim * 4 // 1024, 10)
    graph = models.VectorParamsDiff(hnsw_config=models.HnswConfigDiff(m=state.config.hnsw_config.m))
    turn_on = partial(_change, server, name, vectors_config={"": graph}, threshold=_LOWEST_THRESHOLD)
    if not keeper.at_rest(name, turn_on, patience=timeout):
        raise StoreError(
            f"Qdrant did not come to rest for {timeout:.0f} s; the graph of {name!r} was not begun",
            hint="searches work meanwhile; look at the server's load and log, then build again",
        )
    try:
        _wait_until_indexed(server, name, timeout=timeout, stall_timeout=stall_timeout)
    finally:
        # If the server does not come to rest, the threshold stays low until the next build: small graphs, but no lost write.
        keeper.at_rest(name, partial(_change, server, name, threshold=kilobytes), patience=_SETTLE_SECONDS)


def _change(server: ServerConnection, name: str, *, threshold: int, **changes: Any) -> None:  # noqa: ANN401 - client's keywords
    optimizers = models.OptimizersConfigDiff(indexing_threshold=threshold)
    change = partial(server.client.update_collection, server.at(name), optimizers_config=optimizers, **changes)
    server.write("changing a collection", change, name=name)


def _wait_until_indexed(server: ServerConnection, name: str, *, timeout: float, stall_timeout: float) -> None:
    started = changed = time.monotonic()
    last_progress: tuple[Any, ...] = ()
    target: int | None = None
    while True:
        points = server.call("counting points", partial(server.client.count, server.at(name), exact=True), name=name).count
        target = points if target is None else target
        state = server.state(name)
        indexed, segments = state.indexed_vectors_count or 0, state.segments_count or 1
        # A segment of less than 1 KB of vectors stays without a graph.
        spare = segments * (256 // shape_of(state, name=name).dim + 1)
        if state.status == models.CollectionStatus.GREEN and indexed + spare >= points:
            return
        # Under steady writing the server never comes to rest: then it is enough to index the points that existed at the start.
        if points != target and indexed >= _NEARLY_ALL * min(points, target):
            inside = inside_graph(server, state, name=name)  # because `indexed` has deleted vectors in it
            if inside is None or inside >= _NEARLY_ALL * min(points, target):
                return
        if state.status == models.CollectionStatus.RED:
            raise StoreError(f"Qdrant failed to index {name!r}: {state.optimizer_status}", hint="see the server's log")
        now = time.monotonic()
        progress = (state.status, indexed, points, segments)
        # While the state is yellow the server works on a segment, which can take long without any count changing.
        if progress != last_progress or state.status == models.CollectionStatus.YELLOW:
            last_progress, changed = progress, now
        if now - changed > stall_timeout or now - started > timeout:
            raise StoreError(
                f"Qdrant has indexed {indexed:,} of {points:,} points of {name!r} after {now - started:.0f} s "
                f"and is {state.status.value}",
                hint="searches work meanwhile; look at the server's load and log, then build again",
            )
        time.sleep(_POLL_SECONDS)


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
