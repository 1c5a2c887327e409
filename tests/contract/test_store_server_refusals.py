"""What a Qdrant server refuses is told at once, as what it is, and with what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from tests.support.points import make_points
from tests.support.qdrant_server import QdrantServer, run_qdrant

from lodestone.errors import StoreError
from lodestone.store.base import VectorQuery, VectorStore
from lodestone.store.factory import open_store
from lodestone.store.server.engine import version_of
from lodestone_schemas.collections import CollectionSpec

pytestmark = pytest.mark.server
KEY = "a-key"
DIM = 4
SPEC = CollectionSpec("pictures-1", DIM)


@pytest.fixture(scope="module")
def guarded(qdrant_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    """A server that asks for a key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QDRANT__SERVICE__API_KEY", KEY)
        with run_qdrant(qdrant_binary, tmp_path_factory.mktemp("guarded")) as server:
            yield server


@pytest.fixture
def store(guarded: QdrantServer) -> Iterator[VectorStore]:
    opened = open_store("server", url=guarded.url, grpc_port=guarded.grpc_port, api_key=KEY, patience=1)
    opened.create(SPEC)
    yield opened
    opened.drop(SPEC.name)
    opened.close()


@pytest.mark.parametrize("prefer_grpc", [True, False])
@pytest.mark.parametrize("key", [None, "another"])
def test_a_wrong_key_is_told_when_the_store_is_opened(guarded: QdrantServer, key: str | None, prefer_grpc: bool) -> None:
    with pytest.raises(StoreError, match="refuses the API key") as caught:
        open_store("server", url=guarded.url, grpc_port=guarded.grpc_port, api_key=key, prefer_grpc=prefer_grpc)
    assert "api_key" in caught.value.hint


def test_tls_that_is_not_spoken_is_named(guarded: QdrantServer) -> None:
    with pytest.raises(StoreError, match="does not answer") as caught:
        open_store("server", url=guarded.url.replace("http:", "https:"), grpc_port=guarded.grpc_port, api_key=KEY)
    assert "TLS" in caught.value.hint


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_search_does_not_wait_as_long_as_a_busy_server_asks_for(
    guarded: QdrantServer, store: VectorStore, nodes: int
) -> None:
    assert store.count(SPEC.name) == 0
    limit(guarded, read_rate_limit=2)
    urls, ports = (guarded.url,) * nodes, (guarded.grpc_port,) * nodes
    with closing(open_store("server", url=urls, grpc_port=ports, api_key=KEY, patience=1)) as opened:
        search = partial(opened.search, SPEC.name, [VectorQuery(np.ones(DIM, np.float32))])
        with pytest.raises(StoreError, match="asks for fewer calls"):  # noqa: PT012
            for _ in range(4):
                began = time.monotonic()
                search()
    assert time.monotonic() - began < 15  # the server asks for 30 s


def test_a_piece_that_no_waiting_makes_small_enough_is_refused_at_once(guarded: QdrantServer, store: VectorStore) -> None:
    limit(guarded, write_rate_limit=10)
    with pytest.raises(StoreError, match="fewer points a minute than one call has") as caught:
        store.upsert(SPEC.name, make_points(50, DIM))
    assert "strict mode" in caught.value.hint


def limit(server: QdrantServer, **limits: int) -> None:
    with pytest.warns(UserWarning, match="insecure connection"):
        client = QdrantClient(url=server.url, api_key=KEY, check_compatibility=False)
    client.update_collection(SPEC.name, strict_mode_config=models.StrictModeConfig(enabled=True, **limits))
    client.close()


def test_an_alias_cannot_have_a_collections_name(store: VectorStore) -> None:
    store.create(CollectionSpec("pictures", DIM))
    with pytest.raises(StoreError, match="'pictures' cannot become an alias"):
        store.set_alias("pictures", SPEC.name)
    store.drop("pictures")


@pytest.mark.parametrize(("text", "version"), [("1.16.3", (1, 16)), ("1.17.0-dev", (1, 17)), ("2.0", (2, 0)), ("dev", (0, 0))])
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert version_of(text) == version
