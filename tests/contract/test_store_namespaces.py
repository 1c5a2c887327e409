"""Stores of different namespaces on one server stay out of each other's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.points import make_points
from tests.support.qdrant_server import QdrantServer

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.store.base import VectorStore
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec

pytestmark = pytest.mark.server
SPEC = CollectionSpec("bridge-1", 16)


def opened(server: QdrantServer, namespace: str) -> VectorStore:
    return open_store("server", url=server.url, grpc_port=server.grpc_port, namespace=namespace)


@pytest.fixture
def pair(qdrant_server: QdrantServer, server_store: VectorStore) -> Iterator[tuple[VectorStore, VectorStore]]:
    """`one` is the beginning of `one2`; `server_store` sees everything, and clears the server afterwards."""
    first, second = opened(qdrant_server, "one"), opened(qdrant_server, "one2")
    yield first, second
    first.close()
    second.close()


def test_the_same_names_are_different_collections_and_aliases(pair: tuple[VectorStore, VectorStore]) -> None:
    for number, store in enumerate(pair):
        store.create(SPEC)
        store.upsert(SPEC.name, make_points(5 + number, 16, first=100 * number))
        store.set_alias("bridge", SPEC.name)
    first, second = pair
    assert [store.count("bridge-1") for store in pair] == [5, 6]
    first.drop_alias("bridge")
    first.drop("bridge-1")
    assert (first.collections(), first.aliases()) == ([], {})
    assert (second.collections(), second.aliases()) == (["bridge-1"], {"bridge": "bridge-1"})
    assert second.count("bridge-1") == second.info("bridge-1").points == 6
    assert second.info("bridge-1").name == "bridge-1"


def test_collections_of_others_are_neither_listed_nor_found(
    pair: tuple[VectorStore, VectorStore], server_store: VectorStore
) -> None:
    first, second = pair
    server_store.create(CollectionSpec("nobodys-1", 16))
    second.create(SPEC)
    second.set_alias("bridge", SPEC.name)
    assert first.collections() == []
    assert first.aliases() == {}
    first.drop("bridge-1")
    first.drop("nobodys-1")
    first.drop_alias("bridge")
    first.create(CollectionSpec("labels-1", 16))
    with pytest.raises(UnknownNameError, match="bridge-1") as caught:
        first.count("bridge-1")
    assert caught.value.hint == "known: labels-1"
    assert server_store.collections() == ["nobodys-1", "one.labels-1", "one2.bridge-1"]
    assert server_store.aliases() == {"one2.bridge": "one2.bridge-1"}


@pytest.mark.parametrize("namespace", ["a.b", "../up", "ä", "x" * 65])
def test_a_namespace_that_could_be_taken_for_another_is_refused(qdrant_server: QdrantServer, namespace: str) -> None:
    with pytest.raises(InvalidRequestError, match="namespace"):
        opened(qdrant_server, namespace)
