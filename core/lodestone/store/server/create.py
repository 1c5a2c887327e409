"""Creation of collections on a Qdrant server, and changes of their settings afterwards."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from qdrant_client import models

from lodestone.errors import StoreError
from lodestone.store.checks import other_vectors
from lodestone.store.limits import SPARSE_VECTOR
from lodestone.store.server.connection import CollectionExistsError, ServerConnection
from lodestone.store.server.engine import (
    FIELD_TYPES,
    METADATA_SERVER,
    graph_config,
    metadata_of,
    quantization_config,
    quantization_of,
    shape_of,
    version_of,
)
from lodestone.store.server.writes import WriteKeeper
from lodestone_schemas.collections import CollectionSpec, Placement

_log = logging.getLogger(__name__)


def create_collection(
    server: ServerConnection, keeper: WriteKeeper, spec: CollectionSpec, *, default: Placement, patience: float
) -> None:
    """Create the collection as specified, or change an existing one where it differs in more than its vectors.

    Args:
        server: Connection to the server.
        keeper: Changes settings at times when no write is undone by the change.
        spec: The collection, checked.
        default: Placement used for what the specification's placement leaves open.
        patience: Seconds to wait for an existing collection to come to rest.

    Raises:
        StoreError: It exists with other vectors, or did not come to rest.
    """
    create = partial(
        server.client.create_collection,
        server.at(spec.name),
        **_vectors(spec),
        **_settings(server, spec),
        **_placement(spec.placement, default),
        on_disk_payload=spec.payload_on_disk,
    )
    try:
        server.write("creating a collection", create)
    except CollectionExistsError:
        _respecify(server, keeper, spec, default, patience=patience)
    indexed = server.state(spec.name).payload_schema
    for field, kind in spec.fields:
        if field not in indexed:
            index = partial(server.client.create_payload_index, server.at(spec.name), field, FIELD_TYPES[kind], wait=True)
            server.write("indexing a field", index, name=spec.name)


def _vectors(spec: CollectionSpec) -> dict[str, Any]:
    if spec.sparse:
        return {"vectors_config": {}, "sparse_vectors_config": {SPARSE_VECTOR: models.SparseVectorParams()}}
    # The collection has no graph until `build`.
    no_graph = models.HnswConfigDiff(m=0)
    dense = models.VectorParams(size=spec.dim, distance=models.Distance.DOT, on_disk=spec.on_disk, hnsw_config=no_graph)
    return {"vectors_config": dense}


def _settings(server: ServerConnection, spec: CollectionSpec) -> dict[str, Any]:
    if spec.sparse:
        return {}
    settings: dict[str, Any] = {"hnsw_config": graph_config(spec), "quantization_config": quantization_config(spec)}
    if version_of(server.version) >= METADATA_SERVER:
        settings["metadata"] = metadata_of(spec)
    return settings


def _placement(wanted: Placement, default: Placement) -> dict[str, Any]:
    return {
        "shard_number": wanted.shards or default.shards,
        "replication_factor": wanted.replication or default.replication,
        "write_consistency_factor": wanted.write_consistency or default.write_consistency,
    }


def _respecify(
    server: ServerConnection, keeper: WriteKeeper, spec: CollectionSpec, default: Placement, *, patience: float
) -> None:
    state = server.state(spec.name)
    shape = shape_of(state, name=spec.name)
    if (shape.dim, shape.sparse) != (spec.dim, spec.sparse):
        raise other_vectors(spec.name, dim=shape.dim, sparse=shape.sparse, wanted=spec)
    placement = _placement(spec.placement, default)
    for key in ("shard_number", "replication_factor"):
        if placement[key] not in (None, getattr(state.config.params, key)):
            actual = getattr(state.config.params, key)
            _log.warning("collection %s keeps its %s of %s; %s was asked for", spec.name, key, actual, placement[key])
    # A change aborts the server's running optimization, so no call is made if there is nothing to change.
    changes = _changes(state, spec, _settings(server, spec), write_consistency=placement["write_consistency_factor"])
    if not changes:
        return
    change = partial(server.client.update_collection, server.at(spec.name), **changes)
    apply_changes = partial(server.write, "changing a collection", change, name=spec.name)
    if not keeper.at_rest(spec.name, apply_changes, patience=patience):
        raise StoreError(
            f"Qdrant is still optimizing {spec.name!r}; its settings cannot be changed now",
            hint="try again when the server has come to rest, or with the settings of before",
        )


def _changes(
    state: models.CollectionInfo, spec: CollectionSpec, settings: dict[str, Any], *, write_consistency: int | None
) -> dict[str, Any]:
    """Return the settings in which the collection differs from `create`, as keywords of the client."""
    changes: dict[str, Any] = {}
    params = state.config.params
    if spec.payload_on_disk is not None and params.on_disk_payload != spec.payload_on_disk:
        changes["collection_params"] = models.CollectionParamsDiff(on_disk_payload=spec.payload_on_disk)
    if write_consistency is not None and params.write_consistency_factor != write_consistency:
        diff = changes.get("collection_params", models.CollectionParamsDiff())
        changes["collection_params"] = diff.model_copy(update={"write_consistency_factor": write_consistency})
    if spec.sparse:
        return changes
    graph, current = settings["hnsw_config"], state.config.hnsw_config
    keys = ("m", "ef_construct", "full_scan_threshold")
    if any(getattr(graph, key) != getattr(current, key) for key in keys) or graph.on_disk != bool(current.on_disk):
        changes["hnsw_config"] = graph
    if quantization_of(state) is not spec.quantization:
        changes["quantization_config"] = settings["quantization_config"] or models.Disabled.DISABLED
    if isinstance(params.vectors, models.VectorParams) and bool(params.vectors.on_disk) != spec.on_disk:
        changes["vectors_config"] = {"": models.VectorParamsDiff(on_disk=spec.on_disk)}
    metadata = settings.get("metadata", {})
    if metadata != {key: (state.config.metadata or {}).get(key) for key in metadata}:
        changes["metadata"] = metadata
    return changes
