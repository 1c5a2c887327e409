"""Settings section `store`: address, sharding, graph and storage of the vector store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, SecretStr, field_validator, model_validator

from lodestone.config.section import SettingsSection
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec, Placement, Quantization

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile

# 12 shards spread evenly over 2, 3, 4 or 6 nodes.
CLUSTER_SHARDS = 12
CLUSTER_REPLICATION = 2


class StoreSettings(SettingsSection):
    """Settings that configure the vector store, embedded or on a server."""

    kind: str = Field("edge", description="edge: embedded; server: a Qdrant server or cluster.")
    url: str | tuple[str, ...] = Field(
        "http://127.0.0.1:6333",
        description="Qdrant server (kind = server); of a cluster several nodes: a list, or with commas.",
    )
    grpc_port: int | tuple[int, ...] = Field(6334, description="Of every node, or one a node, in the order of url.")
    api_key: SecretStr | None = None
    timeout_s: float = Field(30.0, gt=0, description="Seconds a call to the server may take.")
    patience_s: float = Field(60.0, ge=0, description="Seconds that a write is repeated while the server is away or busy.")
    writers: int = Field(4, ge=1, le=64, description="Parallel upserts to the server.")
    lock_timeout_s: float = Field(5.0, ge=0, description="Seconds to wait for the owner of an embedded store.")
    build_threshold: int = Field(20_000, ge=0, description="Points from which a collection gets an HNSW graph.")
    matrix_points: int = Field(
        200_000, ge=0, description="edge: points up to which a collection is also held as a matrix; 0: never."
    )
    m: int | None = Field(None, ge=2, le=512, description="Edges a node of the graph; default: the profile's.")
    ef_construct: int | None = Field(None, ge=4, le=4096, description="Candidates while building; default: the profile's.")
    ef: int | None = Field(None, ge=4, le=4096, description="Candidates while searching; default: the profile's.")
    quantization: Quantization | None = Field(None, description="none, int8 or binary; default: the profile's.")
    rescore: bool = Field(True, description="Compare what the quantized pass finds by the original vectors.")
    oversampling: float | None = Field(
        None, ge=1, le=100, description="Candidates of the quantized pass a wanted neighbour; default: 2 (int8), 4 (binary)."
    )
    on_disk: bool | None = Field(None, description="Original vectors on disk, not in RAM; default: the profile's.")
    graph_on_disk: bool = Field(False, description="The graph on disk instead of in RAM.")
    payload_on_disk: bool | None = Field(None, description="Filter fields on disk; default: as the engine does.")
    shards: int | None = Field(None, ge=1, le=1024, description="Of a new collection; default: 12 with several urls.")
    replication: int | None = Field(None, ge=1, le=64, description="Copies of a new collection; default: 2 with several urls.")
    write_consistency: int | None = Field(
        None, ge=1, le=64, description="Copies that must take a write; default: the server's (1)."
    )

    @field_validator("url", "grpc_port", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        if isinstance(value, str) and "," in value:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @model_validator(mode="after")
    def _fits(self) -> StoreSettings:
        if not self.urls or not all(self.urls):
            raise ValueError("url names no server; expected one such as http://localhost:6333")
        if isinstance(self.grpc_port, tuple) and len(self.grpc_port) != len(self.urls):
            raise ValueError(f"{len(self.urls)} urls have {len(self.grpc_port)} grpc_ports; expected one for all, or one each")
        if wrong := [port for port in self.grpc_ports if not 1 <= port <= 65535]:
            raise ValueError(f"grpc_port {wrong[0]} is out of range; expected 1 to 65535")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the URL of every node."""
        return (self.url,) if isinstance(self.url, str) else self.url

    @property
    def grpc_ports(self) -> tuple[int, ...]:
        """Return the gRPC port of every node, in the order of `urls`."""
        return (self.grpc_port,) * len(self.urls) if isinstance(self.grpc_port, int) else self.grpc_port

    def specify(self, name: str, *, dim: int, fields: tuple[tuple[str, FieldKind], ...], profile: Profile) -> CollectionSpec:
        """Return the specification of a collection of dense vectors under these settings.

        Args:
            name: Name of the collection.
            dim: Length of its vectors.
            fields: Payload fields with an index.
            profile: Profile whose values are used where the settings leave a value out.
        """
        graph = profile.hnsw
        return CollectionSpec(
            name=name,
            dim=dim,
            fields=fields,
            hnsw=HnswSpec(
                m=self.m or graph.m,
                ef_construct=self.ef_construct or graph.ef_construct,
                ef=self.ef or graph.ef,
                on_disk=self.graph_on_disk,
            ),
            quantization=profile.quantization if self.quantization is None else self.quantization,
            rescore=self.rescore,
            oversampling=self.oversampling,
            on_disk=profile.on_disk if self.on_disk is None else self.on_disk,
            payload_on_disk=self.payload_on_disk,
        )

    @property
    def placement(self) -> Placement:
        """Return the shards, replication and write consistency of new collections of any kind."""
        several = self.kind == "server" and len(self.urls) > 1
        return Placement(
            shards=self.shards or (CLUSTER_SHARDS if several else None),
            replication=self.replication or (CLUSTER_REPLICATION if several else None),
            write_consistency=self.write_consistency,
        )
