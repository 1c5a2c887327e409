"""What does a workload need of machines, hours, network, memory and disk? The formulas of docs/capacity.md, one a line.

Indexing is a pipeline: the slowest of reading, decoding, models and loading sets its pace; building the graphs follows. Sizes
are for all copies (`replication`). A swap of one space's model needs that space's collection a second time while it lasts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone.planner.rates import Gpu, Rates
from lodestone.planner.workload import Workload
from lodestone_schemas.collections import Quantization

_GB: Final = 1e9
_ID_BYTES: Final = 40  # a point's uuid and its place in the id tracker
_LINK_BYTES: Final = 4
_LEVEL_0: Final = 2  # a node of the lowest level has 2 m links
_MANY: Final = 10_000_000  # from here on a query's guides are merged: two searches a space
_MERGED_SEARCHES: Final = 2
_SHARD_POINTS: Final = 10_000_000
_SHARDS: Final = (1, 24)
_BITS: Final = {Quantization.NONE: 32, Quantization.INT8: 8}
_BINARY_BITS: Final = 1
_HALF_BYTES: Final = 2
_META_BYTES: Final = 300  # a row of what is known about a picture, compressed
_THUMBNAIL_BYTES: Final = 18_000
_JPEG_FIXED_S: Final = 0.2  # share of the decoding time that does not shrink with the picture


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is to work with.

    Attributes:
        gpus: Graphics cards; 0 for models on processors.
        gpu: Their kind.
        model_cores: Cores for the models where there are no cards.
        decode_cores: Cores that decode and do nothing else; 0 for as many as keep the cards busy, or the models' own.
        network_gbit: Of the whole path from the pictures to the decoders, Gbit/s.
        qdrant_nodes: Servers that points are spread over.
        build_cores: Cores that build graphs, over all servers.
    """

    gpus: int = 0
    gpu: Gpu | None = None
    model_cores: int = 0
    decode_cores: int = 0
    network_gbit: float = 10.0
    qdrant_nodes: int = 1
    build_cores: int = 8

    def __post_init__(self) -> None:
        if self.gpus < 0 or self.model_cores < 0 or self.decode_cores < 0 or min(self.qdrant_nodes, self.build_cores) < 1:
            raise InvalidRequestError(
                "a cluster cannot have less than nothing", hint="give numbers of cards, cores and nodes above zero"
            )
        if not 0 < self.network_gbit < math.inf:
            raise InvalidRequestError(f"a network of {self.network_gbit} Gbit/s carries nothing", hint="e.g. --network-gbit 10")
        if bool(self.gpus) != (self.gpu is not None) or not (self.gpus or self.model_cores):
            raise InvalidRequestError("nothing would run the models", hint="name a kind of card and how many, or cores")


@dataclass(frozen=True, slots=True)
class Rate:
    """Pictures a second that one stage of the pipeline can take."""

    stage: str
    images_per_second: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workload needs on a cluster. Sizes in GB (10^9 bytes), times in hours, network in Gbit/s."""

    stages: tuple[Rate, ...]
    bottleneck: str
    images_per_second: float
    index_hours: float
    build_hours: float
    decode_cores: int
    network_gbit: float
    embeddings_gb: float
    thumbnails_gb: float
    vectors_ram_gb: float
    graph_ram_gb: float
    other_ram_gb: float
    store_disk_gb: float
    swap_gb: float
    shards: int
    searches_per_query: int
    search_cores: float
    slices: int

    @property
    def ram_gb(self) -> float:
        """Memory of all servers together."""
        return self.vectors_ram_gb + self.graph_ram_gb + self.other_ram_gb


def plan(workload: Workload, cluster: Cluster, rates: Rates) -> Plan:
    """Apply the formulas.

    Where `cluster.decode_cores` is 0, as many are planned as keep the cards busy; without cards the models' cores decode too.
    """
    models = model_rate(workload, cluster, rates)
    decode_one = decode_rate(workload, rates)
    if cluster.gpu is None and not cluster.decode_cores:
        decode_cores = cluster.model_cores
        shared = 1 / (1 / (decode_cores * decode_one) + 1 / models)
        computing: tuple[Rate, ...] = (Rate("decode and models", shared),)
    else:
        decode_cores = cluster.decode_cores or math.ceil(models / decode_one)
        computing = (Rate("decode", decode_cores * decode_one), Rate("models", models))
    read = cluster.network_gbit * _GB / 8 / (workload.megabytes * 1e6)
    points = cluster.qdrant_nodes * rates.upsert * rates.reference_dim / max(workload.dims, 1) / workload.replication
    stages = (
        Rate("read", read),
        *computing,
        Rate("load", points),
    )
    slowest = min(stages, key=lambda stage: stage.images_per_second)
    pace = slowest.images_per_second
    bits = _BITS.get(workload.quantization, _BINARY_BITS)
    floats = workload.images * workload.dims * workload.replication
    compressed = floats * bits / 8
    originals = 0 if workload.quantization is Quantization.NONE else floats * 4  # on disk beside the compressed ones
    graph = workload.images * len(workload.spaces) * _LEVEL_0 * workload.hnsw.m * _LINK_BYTES * workload.replication
    other = workload.images * len(workload.spaces) * (_ID_BYTES + workload.payload_bytes) * workload.replication
    largest = max(workload.spaces.values(), default=0)
    one_space = (
        workload.images
        * workload.replication
        * (
            largest * bits / 8
            + (0 if originals == 0 else largest * 4)
            + _LEVEL_0 * workload.hnsw.m * _LINK_BYTES
            + _ID_BYTES
            + workload.payload_bytes
        )
    )
    shards = min(max(math.ceil(workload.images / _SHARD_POINTS), _SHARDS[0]), _SHARDS[1])
    searches = searches_a_query(workload)
    return Plan(
        stages=stages,
        bottleneck=slowest.stage,
        images_per_second=pace,
        index_hours=workload.images / pace / 3600,
        build_hours=build_core_seconds(workload, rates) / cluster.build_cores / 3600,
        decode_cores=decode_cores,
        network_gbit=pace * workload.megabytes * 8e6 / _GB,
        embeddings_gb=workload.images * (workload.stored * _HALF_BYTES + _META_BYTES) / _GB,
        thumbnails_gb=workload.images * _THUMBNAIL_BYTES / _GB,
        vectors_ram_gb=compressed / _GB,
        graph_ram_gb=graph / _GB,
        other_ram_gb=other / _GB,
        store_disk_gb=(compressed + originals + graph + other) / _GB,
        swap_gb=one_space / _GB,
        shards=shards,
        searches_per_query=searches * shards,
        search_cores=search_cores(workload, rates, searches),
        slices=math.ceil(workload.images / 256),
    )  # fmt: skip


def model_rate(workload: Workload, cluster: Cluster, rates: Rates) -> float:
    """Pictures a second through all models: cards x peak x utilisation / (2 FLOP a multiply-accumulate), or cores."""
    if cluster.gpu is not None and cluster.gpus:
        return cluster.gpus * cluster.gpu.tflops * 1e12 * rates.gpu_utilisation / (2e9 * max(workload.gmacs, 1e-9))
    return cluster.model_cores * rates.core_gmacs / max(workload.gmacs, 1e-9)


def decode_rate(workload: Workload, rates: Rates) -> float:
    """Pictures a second of one core. A part of the time is the same for small pictures; the rest goes with their pixels."""
    share = _JPEG_FIXED_S + (1 - _JPEG_FIXED_S) * workload.megapixels / rates.decode_megapixels
    return rates.decode / share


def build_core_seconds(workload: Workload, rates: Rates) -> float:
    """Core seconds of all graphs: points x dimensions x candidates x the logarithm of the collection's size."""
    growth = math.log2(max(workload.images, 2)) / math.log2(rates.reference_points)
    effort = workload.hnsw.ef_construct / rates.reference_ef_construct
    one = effort * max(growth, 0.1) / (rates.build * rates.reference_dim)
    return workload.images * workload.replication * workload.dims * one


def searches_a_query(workload: Workload) -> int:
    """Searches of one query in one shard: words and guides in each space; above ten million pictures two a space."""
    a_space = 1 + workload.guides
    return len(workload.spaces) * (min(a_space, _MERGED_SEARCHES) if workload.images > _MANY else a_space)


def search_cores(workload: Workload, rates: Rates, searches: int) -> float:
    """Cores that answer the queries asked for; the work goes with the dimensions and with the logarithm of the size."""
    if not workload.queries_per_second:
        return 0.0
    mean = workload.dims / max(len(workload.spaces), 1) / rates.reference_dim
    growth = math.log2(max(workload.images, 2)) / math.log2(rates.reference_points)
    return workload.queries_per_second * searches * max(mean, 0.1) * max(growth, 0.1) / rates.search
