"""Choice of the node of a Qdrant cluster that each call goes to.

Reads go to the first node that answers, so that each call sees the effects of the one before; upserts go to the nodes in turn,
because the node that takes one also distributes its points. A node that does not answer is not used for a while.
"""

from __future__ import annotations

import logging
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from qdrant_client import QdrantClient, grpc

from lodestone.store.server.engine import CLIENT_ERRORS, is_busy, is_transient

# By default, a channel that failed once refuses calls without trying for up to two minutes; a machine that vanishes without
# closing its connections is noticed by pings only.
_CHANNEL = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 5_000,
}
_AVOIDED_SECONDS = 5.0
_SPREAD = frozenset({"upsert"})
_SEGMENTS_LEVEL = 4  # lower levels of telemetry leave the segments out
_log = logging.getLogger(__name__)


class Nodes:
    """Clients of all nodes behind the interface of one `QdrantClient`; each call chooses its node when it is made.

    Args:
        urls: URLs of the nodes' HTTP ports.
        grpc_ports: gRPC port of each node.
        api_key: API key, if the nodes require one.
        prefer_grpc: Use gRPC.
        timeout: Seconds of one call.
    """

    def __init__(
        self, urls: Sequence[str], grpc_ports: Sequence[int], *, api_key: str | None, prefer_grpc: bool, timeout: float
    ) -> None:
        # The client warns when its minor version is more than one from the server's; the connection decides instead.
        self._nodes = [
            _Node(
                QdrantClient(
                    url=url,
                    api_key=api_key,
                    prefer_grpc=prefer_grpc,
                    grpc_port=port,
                    timeout=math.ceil(timeout),
                    check_compatibility=False,
                    grpc_options=dict(_CHANNEL),
                    **_tls_of(url),
                )
            )
            for url, port in zip(urls, grpc_ports, strict=True)
        ]
        self._timeout = math.ceil(timeout)
        self._lock = threading.Lock()
        self._turn = 0

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def one_is_left(self) -> bool:
        """Return True if some node is not known to be away, so that a failed call is worth repeating at once."""
        now = time.monotonic()
        return any(node.away_until <= now for node in self._nodes)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return the client's method of that name; the node is chosen when the method is called."""

        def ask(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - the client's
            with self._node(spread=method in _SPREAD) as client:
                return getattr(client, method)(*arguments, **keywords)

        return ask

    def upsert_message(self, request: grpc.UpsertPoints) -> None:
        """Send an upsert that already is a gRPC message."""
        with self._node(spread=True) as client:
            client.grpc_points.Upsert(request, timeout=self._timeout)

    def telemetry(self) -> list[dict[str, Any]]:
        """Return the telemetry of each node, down to its segments. Nodes that do not answer or refuse it are left out."""
        found: list[dict[str, Any]] = []
        for node in self._nodes:
            if node.away_until > time.monotonic():
                continue
            try:
                # Not by the client's method, whose class for the answer fits servers of its own version only.
                reply = node.client.http.client.request(
                    type_=dict[str, Any], method="GET", url="/telemetry", params={"details_level": _SEGMENTS_LEVEL}
                )
            except CLIENT_ERRORS as error:
                _log.info("a node does not tell of its segments: %s", error)
                continue
            found.append(reply.get("result") or {})
        return found

    def close(self) -> None:
        """Close the connections to all nodes."""
        for node in self._nodes:
            node.client.close()

    @contextmanager
    def _node(self, *, spread: bool) -> Iterator[QdrantClient]:
        """Yield a node's client; if it does not answer inside the block, the node is not used for a while."""
        node = self._choose(spread=spread)
        try:
            yield node.client
        except CLIENT_ERRORS as error:
            if is_transient(error) and not is_busy(error):
                node.away_until = time.monotonic() + _AVOIDED_SECONDS
            raise
        node.away_until = 0.0

    def _choose(self, *, spread: bool) -> _Node:
        now = time.monotonic()
        available = [node for node in self._nodes if node.away_until <= now]
        if not available:
            return min(self._nodes, key=lambda node: node.away_until)
        if not spread:
            return available[0]
        with self._lock:
            self._turn += 1
            return available[self._turn % len(available)]


def _tls_of(url: str) -> dict[str, Any]:
    """Return the TLS option of a node's client: for plain HTTP one without authorities, which take 30 ms to read."""
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)} if url.startswith("http://") else {}


class _Node:
    """Client of a node, and the time (monotonic seconds) until which the node is avoided if another is available."""

    def __init__(self, client: QdrantClient) -> None:
        self.client = client
        self.away_until = 0.0
