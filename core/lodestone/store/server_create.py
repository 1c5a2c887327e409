"""How does a collection come to be on a Qdrant server, and how are its settings changed afterwards?"""

from __future__ import annotations

from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import StoreError
from lodestone.store.checks import other_vectors
from lodestone.store.limits import SPARSE_VECTOR
from lodestone.store.server_connection import CollectionExistsError, ServerConnection
from lodestone.store.server_engine import (
    EF_KEY,
    FIELD_TYPES,
    METADATA_SERVER,
    graph_config,
    is_as_specified,
    quantization_config,
    shape_of,
    version_of,
)
from lodestone.store.server_writes import WriteKeeper
from lodestone_schemas.collections import CollectionSpec


def create_collection(server: ServerConnection, keeper: WriteKeeper, spec: CollectionSpec, *, patience: float) -> None:
    """Make the collection as specified, or change the one that exists where it differs in more than its vectors.

    Args:
        server: Connection.
        keeper: Changes settings where no write is undone by it.
        spec: The collection, checked.
        patience: Seconds to wait for an existing collection to come to rest.

    Raises:
        StoreError: It exists with other vectors, or did not come to rest.
    """
    settings = {} if spec.sparse else _settings(server, spec)
    create = partial(server.client.create_collection, server.at(spec.name), **_vectors(spec), **settings)
    try:
        server.call("creating a collection", create)
    except CollectionExistsError:
        _respecify(server, keeper, spec, settings, patience=patience)
    indexed = server.state(spec.name).payload_schema
    for field, kind in spec.fields:
        if field not in indexed:
            index = partial(server.client.create_payload_index, server.at(spec.name), field, FIELD_TYPES[kind], wait=True)
            server.call("indexing a field", index, name=spec.name)


def _vectors(spec: CollectionSpec) -> dict[str, Any]:
    if spec.sparse:
        return {"vectors_config": {}, "sparse_vectors_config": {SPARSE_VECTOR: models.SparseVectorParams()}}
    # Without a graph until it is built.
    no_graph = models.HnswConfigDiff(m=0)
    dense = models.VectorParams(size=spec.dim, distance=models.Distance.DOT, on_disk=spec.on_disk, hnsw_config=no_graph)
    return {"vectors_config": dense}


def _settings(server: ServerConnection, spec: CollectionSpec) -> dict[str, Any]:
    settings: dict[str, Any] = {"hnsw_config": graph_config(spec), "quantization_config": quantization_config(spec)}
    if version_of(server.version) >= METADATA_SERVER:
        settings["metadata"] = {EF_KEY: spec.hnsw.ef}
    return settings


def _respecify(
    server: ServerConnection, keeper: WriteKeeper, spec: CollectionSpec, settings: dict[str, Any], *, patience: float
) -> None:
    state = server.state(spec.name)
    shape = shape_of(state, name=spec.name)
    if (shape.dim, shape.sparse) != (spec.dim, spec.sparse):
        raise other_vectors(spec.name, dim=shape.dim, sparse=shape.sparse, wanted=spec)
    # A change breaks off what the server is optimizing: none is made where there is nothing to change.
    if spec.sparse or is_as_specified(state, settings):
        return
    settings["quantization_config"] = settings["quantization_config"] or models.Disabled.DISABLED
    change = partial(server.client.update_collection, server.at(spec.name), **settings)
    changing = partial(server.call, "changing a collection", change, name=spec.name)
    if not keeper.at_rest(spec.name, changing, patience=patience):
        raise StoreError(
            f"Qdrant is still optimizing {spec.name!r}; its settings cannot be changed now",
            hint="try again when the server has come to rest, or with the settings of before",
        )
