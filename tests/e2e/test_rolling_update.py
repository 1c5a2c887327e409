"""A cluster takes a changed configuration, and the loss of a replica, while clients ask all the time.

A real Ray cluster, Qdrant and PostgreSQL; the ingress has two replicas. LODESTONE_ROLLING=1000 asks that many times.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.homes import home_settings, index, wait_until, write_pictures
from tests.support.ports import free_ports
from tests.support.postgres_server import PostgresServer
from tests.support.pressing import Pressing, pressing
from tests.support.qdrant_server import QdrantServer
from tests.support.serve_cluster import ServeCluster, run_serve_cluster

from lodestone_serve.graph.config import as_yaml, serve_config

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly, pytest.mark.server, pytest.mark.timeout(1200)]

ASKED = int(os.environ.get("LODESTONE_ROLLING", "200"))
BODIES = [
    {"query": "a photo of a cat", "limit": 3, "guides": 0},
    {"query": "a cup of coffee", "limit": 3, "guides": 2},
    {"query": "a rocket at night", "limit": 3, "guides": 0},
]


STAGE = {"cpus": 0.5, "max_ongoing": 32}
TWO = {**STAGE, "min_replicas": 2, "max_replicas": 2}


@dataclass(frozen=True)
class Graph:
    """A deployed service."""

    cluster: ServeCluster
    url: str
    flags: dict[str, Any]
    folder: Path

    def deploy(self, *, encoders: dict[str, Any] = TWO, **changes: Any) -> None:
        """Deploy the configuration with these changes, and wait until it is in force."""
        graph = {"shape": "graph", "ingress": TWO, "encoders": encoders}
        flags = {**self.flags, **changes, "serve": {**self.flags["serve"], "graph": graph}}
        file = self.folder / "serve.yaml"
        file.write_text(as_yaml(serve_config(home_settings(self.folder / "home", **flags))), "utf8")
        self.cluster.deploy(file)

    def replicas(self, deployment: str) -> dict[str, int]:
        return self.cluster.replicas("lodestone", deployment)


@pytest.fixture(scope="module")
def graph(
    tmp_path_factory: pytest.TempPathFactory, qdrant_server: QdrantServer, postgres_server: PostgresServer
) -> Iterator[Graph]:
    folder = tmp_path_factory.mktemp("graph")
    write_pictures(folder / "pictures", drawn=4)
    flags: dict[str, Any] = {
        "catalog_url": postgres_server.create_database(),
        "store": {"kind": "server", "url": qdrant_server.url, "grpc_port": qdrant_server.grpc_port},
        "serve": {"port": free_ports(1)[0], "upkeep": False},
    }
    index(home_settings(folder / "home", **flags), folder / "pictures")
    with run_serve_cluster() as cluster:
        served = Graph(cluster, f"http://127.0.0.1:{flags['serve']['port']}", flags, folder)
        served.deploy(encoders=STAGE)
        yield served


@pytest.fixture
def asked(graph: Graph) -> Iterator[Pressing]:
    with pressing(graph.url, BODIES) as clients:
        clients.wait_for(12)
        yield clients


def assert_right(pressing: Pressing) -> None:
    assert {one.first for one in pressing.told if not one.failed} == {"chelsea.jpg", "coffee.jpg", "rocket.jpg"}


def test_no_request_fails_while_replicas_are_added_restarted_and_reconfigured(graph: Graph, asked: Pressing) -> None:
    """The number of replicas, a limit that is changed in place, and a setting that restarts every replica."""
    before = graph.replicas("Encoders")
    graph.deploy(encoders={**TWO, "batch": 4})
    added = graph.replicas("Encoders")
    assert set(before) < set(added)
    assert len(added) == 2
    graph.deploy(query={"history": 7})
    restarted = graph.replicas("Encoders")
    assert not set(restarted) & set(before)
    asked.wait_for(max(30, ASKED - len(asked.told)))
    assert len(asked.told) >= ASKED
    assert asked.failures == [], graph.cluster.logs()[-5000:]
    assert_right(asked)


def test_what_a_proxy_of_the_cluster_says_by_itself_is_a_problem(graph: Graph) -> None:
    """`ENVIRONMENT` reaches the proxies: Ray Serve's own 408 is plain text."""
    hurried = {"X-Request-Timeout-Seconds": "0.000001"}
    answer = httpx.post(f"{graph.url}/v1/search", json=BODIES[0], headers=hurried, trust_env=False, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")


def test_a_killed_replica_of_encoders_costs_no_answer(graph: Graph, asked: Pressing) -> None:
    if len(graph.replicas("Encoders")) < 2:
        graph.deploy()
    replica, pid = next(iter(graph.replicas("Encoders").items()))
    os.kill(pid, signal.SIGKILL)
    asked.wait_for(40)
    wait_until(lambda: replica not in (now := graph.replicas("Encoders")) and len(now) == 2)
    assert asked.failures == []
    assert_right(asked)


def test_a_killed_replica_of_the_ingress_costs_its_own_requests_alone(graph: Graph, asked: Pressing) -> None:
    """Nobody but the client can ask again: what the replica was answering is lost, and said to be; the others go on."""
    replica, pid = next(iter(graph.replicas("Ingress").items()))
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    asked.wait_for(40)
    wait_until(lambda: replica not in (now := graph.replicas("Ingress")) and len(now) == 2)
    lost = asked.failures
    assert len(lost) <= 6  # three clients, each with a request there, perhaps twice before the proxy notices
    assert all(one.status in {0, 503} and one.seconds < 30 for one in lost)
    assert not [one for one in asked.since(killed + 10) if one.failed]
    assert_right(asked)
