"""Building of a collection's graph on a Qdrant server, and waiting until it is complete.

The server builds the graph in its optimizer. `m` is set, the size below which the server leaves segments without a graph is set
to its minimum, and the collection's state is polled until every vector is in a graph.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import StoreError
from lodestone.store.server.connection import ServerConnection
from lodestone.store.server.engine import shape_of
from lodestone.store.server.graph_reach import inside_graph
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
