"""Stores and catalogs of every kind, for tests of the contract."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest
from tests.support.qdrant_server import QdrantServer

from lodestone.catalog.catalog import Catalog
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import VectorStore
from lodestone.store.change_count import ChangeCount
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.store import EdgeStore
from lodestone.store.factory import open_store
from lodestone.store.proxy.client import StoreProxy
from lodestone.store.proxy.host import StoreHost

PATIENT = 120.0  # seconds of one call: the server may have to share its processors with anything


@pytest.fixture(scope="session")
def sqlite_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalog") / "empty.sqlite"
    Catalog.open(path).close()
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def catalog_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(request.getfixturevalue('sqlite_catalog'), tmp_path / 'catalog.sqlite')}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def catalog(catalog_url: str) -> Iterator[Catalog]:
    with Catalog.open(catalog_url) as opened:
        yield opened


@pytest.fixture
def edge_store(tmp_path: Path) -> Iterator[VectorStore]:
    store = open_store("edge", root=tmp_path / "store", lock_timeout=0, owner="contract test")
    assert isinstance(store, EdgeStore)
    yield store
    store.close()


@pytest.fixture
def matrix_store(tmp_path: Path) -> Iterator[VectorStore]:
    """The embedded store, which multiplies with a matrix of every collection from the first search on."""
    aliases = JsonAliasTable(tmp_path / "aliases.json")
    store = EdgeStore(tmp_path / "store", aliases=aliases, lock_timeout=0, matrix=MatrixPolicy(after=0))
    yield store
    store.close()


@pytest.fixture
def proxied_store(edge_store: EdgeStore) -> Iterator[VectorStore]:
    """The embedded store as another process of this machine has it: behind pipes, with matrices of its own."""
    edge_store.changes = ChangeCount()
    pairs = [Pipe() for _ in range(4)]
    StoreHost(edge_store, [own for own, _ in pairs]).start()
    changes = ChangeCount(os.dup(edge_store.changes.descriptor))
    with closing(StoreProxy([other for _, other in pairs], changes=changes)) as store:
        yield store


@pytest.fixture
def server_store(qdrant_server: QdrantServer, whole_server: VectorStore) -> Iterator[VectorStore]:
    yield from _on(qdrant_server, "", whole_server)


@pytest.fixture
def namespace_store(qdrant_server: QdrantServer, whole_server: VectorStore) -> Iterator[VectorStore]:
    yield from _on(qdrant_server, "home1", whole_server)


@pytest.fixture(scope="module")
def whole_server(qdrant_server: QdrantServer) -> Iterator[VectorStore]:
    """A store that sees the collections of all namespaces."""
    store = open_store("server", url=qdrant_server.url, grpc_port=qdrant_server.grpc_port, timeout=PATIENT)
    yield store
    store.close()


def _on(qdrant_server: QdrantServer, namespace: str, whole_server: VectorStore) -> Iterator[VectorStore]:
    _empty(whole_server)  # other modules' homes are on this server, too
    store = open_store("server", url=qdrant_server.url, grpc_port=qdrant_server.grpc_port, namespace=namespace, timeout=PATIENT)
    yield store
    store.close()
    _empty(whole_server)


def _empty(whole_server: VectorStore) -> None:
    for name in whole_server.collections():
        whole_server.drop(name)


# A namespace changes the names of collections alone, which test_store_namespaces.py tries.
IN_A_NAMESPACE = pytest.param("namespace", marks=[pytest.mark.server, pytest.mark.slow, pytest.mark.nightly])


# It asks the embedded store for everything but exact searches, which test_held_matrices.py tries.
BEHIND_PIPES = pytest.param("proxied", marks=[pytest.mark.slow, pytest.mark.nightly])


@pytest.fixture(params=["edge", "matrix", pytest.param("server", marks=pytest.mark.server), IN_A_NAMESPACE, BEHIND_PIPES])
def store(request: pytest.FixtureRequest) -> VectorStore:
    return request.getfixturevalue(f"{request.param}_store")
