"""Sizes of the vector store: memory, disk and servers, counted for each of Qdrant's parts.

The sum is compared with Qdrant's own rule (its capacity planning: vectors times 4 bytes times 1.5, payload times 1.5), and the
larger of the two is what to buy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final

from lodestone.capacity.workload import Workload
from lodestone.errors import InvalidRequestError
from lodestone_schemas.collections import Quantization

GB: Final = 1e9
_ID_BYTES: Final = 40  # a point's uuid and its entry in the id tracker
_LINK_BYTES: Final = 4
_LEVEL_0: Final = 2  # a node of the lowest level has 2 m links
_BITS: Final = {Quantization.NONE: 32, Quantization.INT8: 8, Quantization.BINARY: 1}
_FLOAT_BYTES: Final = 4
_GROWTH: Final = 1.25  # for segments that are being rewritten, and for growth
_QDRANT_RULE: Final = 1.5
_FREE_DISK: Final = 2.0  # optimisers write a new segment before they delete the old one
_SHARD_POINTS: Final = 10_000_000
_CLUSTER_SHARDS: Final = (12, 24)


@dataclass(frozen=True, slots=True)
class Size:
    """Holds the size of some collections, all copies together, in GB (10^9 bytes).

    Attributes:
        vectors_ram_gb: Memory of the vectors that are searched, compressed or not.
        graph_ram_gb: Memory of the graphs' links.
        other_ram_gb: Memory of ids and filter fields.
        originals_gb: Disk of full vectors beside compressed ones.
        rule_gb: Memory by Qdrant's own rule.
    """

    vectors_ram_gb: float
    graph_ram_gb: float
    other_ram_gb: float
    originals_gb: float
    rule_gb: float

    @property
    def ram_gb(self) -> float:
        """Return the memory that is used."""
        return self.vectors_ram_gb + self.graph_ram_gb + self.other_ram_gb

    @property
    def disk_gb(self) -> float:
        """Return the disk that is used; everything in memory is on disk too."""
        return self.ram_gb + self.originals_gb

    @property
    def ram_to_buy_gb(self) -> float:
        """Return the memory with room to grow, at least what Qdrant's own rule demands."""
        return max(self.ram_gb * _GROWTH, self.rule_gb)

    @property
    def disk_to_buy_gb(self) -> float:
        """Return the disk with the same amount free, for optimisers."""
        return self.disk_gb * _FREE_DISK

    def plus(self, other: Size) -> Size:
        """Return the size of both."""
        return Size(**{part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)})


def size_of(workload: Workload, spaces: int, dims: int, *, edges: int | None = None) -> Size:
    """Return the size of some collections, with all copies.

    Args:
        workload: The pictures, and how vectors are kept.
        spaces: Number of collections.
        dims: Dimensions of all of them together.
        edges: Edges of a node of their graphs; None for those of the collections of spaces.
    """
    points = workload.images * workload.replication
    bits = _BITS[workload.quantization]
    compressed = workload.quantization is not Quantization.NONE
    return Size(
        vectors_ram_gb=points * dims * bits / 8 / GB,
        graph_ram_gb=points * spaces * _LEVEL_0 * (edges or workload.hnsw.m) * _LINK_BYTES / GB,
        other_ram_gb=points * spaces * (_ID_BYTES + workload.payload_bytes) / GB,
        originals_gb=points * dims * _FLOAT_BYTES / GB if compressed else 0.0,
        rule_gb=_QDRANT_RULE * points * (dims * bits / 8 + spaces * workload.payload_bytes) / GB,
    )


def fused_size(workload: Workload) -> Size:
    """Return the size of the fused indexes, with all copies."""
    binary = workload.quantization is Quantization.BINARY  # fused collections have int8 in its place
    kept = replace(workload, quantization=Quantization.INT8) if binary else workload
    return size_of(kept, len(workload.fused), workload.fused_dims, edges=workload.fused_graph.m)


def servers(size: Size, *, node_ram_gb: float, replication: int) -> int:
    """Return how many servers with so much memory hold it, at least as many as there are copies.

    Raises:
        InvalidRequestError: a server has no memory.
    """
    if not 0 < node_ram_gb < math.inf:
        raise InvalidRequestError(
            f"a server with {node_ram_gb:g} GB of memory holds nothing", hint="give its memory in GB, e.g. --node-ram-gb 128"
        )
    return max(math.ceil(size.ram_to_buy_gb / node_ram_gb), replication)


def shards(images: int, nodes: int) -> int:
    """Return the number of shards of each collection.

    It is 1 on one server up to ten million points, else 12 to 24, a multiple of the number of servers. It is fixed when the
    collection is made. More than 24 servers need as many shards as servers.
    """
    wanted = math.ceil(images / _SHARD_POINTS)
    if nodes == 1 and wanted == 1:
        return 1
    lowest, highest = _CLUSTER_SHARDS
    count = min(max(wanted, lowest), highest)
    return math.ceil(count / nodes) * nodes if nodes <= highest else nodes
