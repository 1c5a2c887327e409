"""Servers behind a disturbed service: three Qdrant nodes and PostgreSQL, each of which can be killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scripts.fetch_qdrant import fetch
from tests.support.postgres_server import PostgresServer, find_binaries, run_postgres
from tests.support.qdrant_cluster import QdrantCluster, run_qdrant_cluster

from benchmarks.loading.disturbing import Fault


@dataclass(frozen=True)
class Stand:
    """The running servers behind a service.

    Attributes:
        qdrant: The cluster.
        postgres: The database server.
        sections: Settings of a home that uses both.
    """

    qdrant: QdrantCluster
    postgres: PostgresServer
    sections: Mapping[str, Any]

    def faults(self, *, seed: int) -> list[Fault]:
        """Return two faults: a Qdrant node and PostgreSQL are killed, and started again."""
        node = int(np.random.default_rng(seed).integers(len(self.qdrant.nodes)))
        return [
            Fault("Qdrant, 1 of 3", lambda: self.qdrant.kill(node), lambda: self.qdrant.start(node)),
            Fault("PostgreSQL", self.postgres.kill, self.postgres.start),
        ]


@contextmanager
def run_stand(folder: Path, *, binary: Path | None = None, postgres: Path | None = None) -> Iterator[Stand]:
    """Run all servers inside the block; their files are under `folder`.

    Args:
        folder: An empty folder.
        binary: Binary of Qdrant; None: it is fetched.
        postgres: Folder of PostgreSQL's binaries; None: they are looked for.

    Raises:
        QdrantUnavailableError, PostgresUnavailableError: there is no such server here.
    """
    with (
        run_qdrant_cluster(binary or fetch(), folder / "qdrant") as qdrant,
        run_postgres(folder, binaries=postgres or find_binaries()) as server,
    ):
        store = {"kind": "server", "url": qdrant.urls, "grpc_port": qdrant.grpc_ports, "shards": 6, "replication": 2}
        yield Stand(qdrant, server, {"store": store, "catalog_url": server.create_database()})
