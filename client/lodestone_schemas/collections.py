"""Specification of a vector collection: payload fields that can be filtered on, graph parameters, compression, placement.

One collection holds one (space, version). Points are keyed by picture id (a UUID string), and payload holds filter fields only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FieldKind(StrEnum):
    """Names how a payload field is indexed."""

    KEYWORD = "keyword"
    INTEGER = "integer"
    FLOAT = "float"


class Quantization(StrEnum):
    """Names how vectors are compressed for the first pass; the original vectors rescore its candidates."""

    NONE = "none"
    INT8 = "int8"
    BINARY = "binary"


# Filter fields of every picture collection.
#   corpus    corpus id
#   root      root id
#   folders   every ancestor folder of the picture inside its root, "a", "a/b", … ("" for the root): prefix search by equality
#   taken_at  what the clock showed where it was taken, in seconds since 1970-01-01T00:00:00 of that clock, when known
#   taken_utc     the same moment in UTC, where that is another number
#   taken_until   where the period of a partial date ("1993") ends, not included, on the clock of `taken_at`
#   facts     codes of what is known exactly, such as "place=norway" and "during=christmas" (lodestone.facts)
PAYLOAD_FIELDS: tuple[tuple[str, FieldKind], ...] = (
    ("corpus", FieldKind.KEYWORD),
    ("root", FieldKind.KEYWORD),
    ("folders", FieldKind.KEYWORD),
    ("taken_at", FieldKind.INTEGER),
    ("taken_utc", FieldKind.INTEGER),
    ("taken_until", FieldKind.INTEGER),
    ("facts", FieldKind.KEYWORD),
)

# Filter fields of the `captions` collection, which has one point per caption; `image` is the picture that it describes.
CAPTION_FIELDS: tuple[tuple[str, FieldKind], ...] = (
    ("image", FieldKind.KEYWORD),
    ("source", FieldKind.KEYWORD),
    *PAYLOAD_FIELDS,
)

# Filter fields of a fused collection. `holds` names the optional spaces that a picture has a vector in, and with a minus those
# that it lacks.
HOLDS = "holds"
FUSED_FIELDS: tuple[tuple[str, FieldKind], ...] = ((HOLDS, FieldKind.KEYWORD), *PAYLOAD_FIELDS)


@dataclass(frozen=True, slots=True)
class HnswSpec:
    """Holds the parameters of an HNSW graph.

    Attributes:
        m: Edges of a node.
        ef_construct: Candidates while building.
        ef: Candidates while searching.
        on_disk: Whether the graph is kept on disk.
    """

    m: int = 16
    ef_construct: int = 128
    ef: int = 128
    on_disk: bool = False


# Least graph of a fused collection: neighbours under one weighting are not those under another, so it needs more edges.
FUSED_GRAPH = HnswSpec(m=32, ef_construct=256)


@dataclass(frozen=True, slots=True)
class Placement:
    """Describes how a cluster spreads a collection. The embedded store has one copy in one piece and ignores it.

    Attributes:
        shards: Number of shards, spread over the nodes; None: the store's default. Fixed at creation.
        replication: Copies of each shard, on different nodes; None: the store's default. Fixed at creation.
        write_consistency: Copies that must confirm a write before it is acknowledged; None: the store's default.
    """

    shards: int | None = None
    replication: int | None = None
    write_consistency: int | None = None


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """Describes how to create a collection. Vectors are float32 and compared by inner product (for L2-normalised ones: cosine).

    Attributes:
        name: Collection name, e.g. `bridge-4f1c02aa`.
        dim: Length of each vector; 0 for a sparse collection.
        fields: Payload fields with an index, in creation order.
        hnsw: Graph parameters, used once `build` is called.
        quantization: Compression of the first pass.
        on_disk: Whether original vectors are kept on disk (memory-mapped) instead of in RAM.
        sparse: Whether vectors are weights of a few among 2^32 terms. They are searched exactly, through lists of the points
            that have a term; `hnsw`, `quantization` and `on_disk` are then ignored.
        rescore: Whether candidates of a quantized first pass are compared by the original vectors.
        oversampling: Candidates of the quantized pass per wanted neighbour; None: as many as its kind needs.
        payload_on_disk: Whether payloads are kept on disk; None: the engine's default.
        placement: How a cluster spreads the collection.
    """

    name: str
    dim: int = 0
    fields: tuple[tuple[str, FieldKind], ...] = PAYLOAD_FIELDS
    hnsw: HnswSpec = HnswSpec()
    quantization: Quantization = Quantization.NONE
    on_disk: bool = False
    sparse: bool = False
    rescore: bool = True
    oversampling: float | None = None
    payload_on_disk: bool | None = None
    placement: Placement = Placement()
