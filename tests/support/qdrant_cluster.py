"""A real Qdrant cluster for tests: three servers on loopback, each of which can be killed and started again.

Ports are free ones, kept over restarts: a node's peers know it by its address. Storage lies below one folder, a node each.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports

NODES = 3
_READY_SECONDS = 120.0


@dataclass
class QdrantNode:
    """One node: its ports, its folder, and its process while it runs."""

    number: int
    folder: Path
    http_port: int
    grpc_port: int
    p2p_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def peer(self) -> str:
        return f"http://127.0.0.1:{self.p2p_port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def get(self, path: str) -> Any:
        """The `result` of a GET on this node.

        Raises:
            OSError: it does not answer.
        """
        return self._ask(urllib.request.Request(f"{self.url}{path}"))

    def post(self, path: str, body: Any) -> Any:
        """The `result` of a POST of JSON to this node; `OSError` as `get`."""
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self.url}{path}", data=data, headers=kind))

    def delete(self, path: str) -> Any:
        """The `result` of a DELETE on this node; `OSError` as `get`."""
        return self._ask(urllib.request.Request(f"{self.url}{path}", method="DELETE"))

    def _ask(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)["result"]


@dataclass
class QdrantCluster:
    """Some nodes of one consensus."""

    binary: Path
    nodes: list[QdrantNode] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """HTTP addresses of all nodes, running or not."""
        return [node.url for node in self.nodes]

    @property
    def grpc_ports(self) -> list[int]:
        """gRPC ports, in the order of `urls`."""
        return [node.grpc_port for node in self.nodes]

    def start(self, number: int) -> None:
        """Start a node (again), and return when it answers."""
        node = self.nodes[number]
        assert not node.alive, f"node {number} is running"
        address = ["--uri", node.peer]
        if number:
            address += ["--bootstrap", self.nodes[0].peer]
        settings = {
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(node.http_port),
            "QDRANT__SERVICE__GRPC_PORT": str(node.grpc_port),
            "QDRANT__STORAGE__STORAGE_PATH": str(node.folder / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(node.folder / "snapshots"),
            "QDRANT__CLUSTER__ENABLED": "true",
            "QDRANT__CLUSTER__P2P__PORT": str(node.p2p_port),
            "QDRANT__TELEMETRY_DISABLED": "true",
            "QDRANT__LOG_LEVEL": "WARN",
        }
        node.folder.mkdir(parents=True, exist_ok=True)
        with (node.folder / "log").open("ab") as log:
            command = [str(self.binary), *address]
            node.process = subprocess.Popen(command, cwd=node.folder, env={**os.environ, **settings}, stdout=log, stderr=log)
        until = time.monotonic() + _READY_SECONDS
        while not _answers(node):
            if not node.alive or time.monotonic() > until:
                raise AssertionError(f"Qdrant node {number} did not start: {(node.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self, number: int) -> None:
        """SIGKILL a node; its files stay."""
        node = self.nodes[number]
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def restart_dead(self) -> None:
        """Start every node that is not running, and return when the cluster agrees and all replicas are active."""
        for node in self.nodes:
            if not node.alive:
                self.start(node.number)
        self.wait_until_whole()

    def wait_until_whole(self, seconds: float = 90.0) -> None:
        """Return when all nodes see each other and no shard replica is anything but active."""
        until = time.monotonic() + seconds
        while problem := self._problem():
            if time.monotonic() > until:
                raise AssertionError(f"the Qdrant cluster is not whole after {seconds} s: {problem}")
            time.sleep(0.1)

    def _problem(self) -> str:
        try:
            for node in self.nodes:
                state = node.get("/cluster")
                if len(state["peers"]) != len(self.nodes) or state["raft_info"]["leader"] is None:
                    return f"node {node.number} sees {len(state['peers'])} peers, leader {state['raft_info']['leader']}"
            for node in self.nodes:
                for collection in node.get("/collections")["collections"]:
                    shards = node.get(f"/collections/{collection['name']}/cluster")
                    local, remote = shards["local_shards"], shards["remote_shards"]
                    states = {shard["state"] for shard in local + remote}
                    if shards["shard_transfers"] or states - {"Active"}:
                        return f"{collection['name']}: {sorted(states)}, {len(shards['shard_transfers'])} transfers"
        except OSError as error:
            return str(error)
        return ""


@contextmanager
def run_qdrant_cluster(binary: Path, home: Path, *, nodes: int = NODES) -> Iterator[QdrantCluster]:
    """Run a cluster that keeps its files under `home`, whole inside the block, killed at its end."""
    ports = free_ports(3 * nodes)
    cluster = QdrantCluster(
        binary,
        [
            QdrantNode(n, home / f"node-{n}", http_port=ports[3 * n], grpc_port=ports[3 * n + 1], p2p_port=ports[3 * n + 2])
            for n in range(nodes)
        ],
    )
    try:
        for number in range(nodes):
            cluster.start(number)
        cluster.wait_until_whole()
        yield cluster
    finally:
        for number in range(nodes):
            cluster.kill(number)


def _answers(node: QdrantNode) -> bool:
    try:
        with urllib.request.urlopen(f"{node.url}/readyz", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
