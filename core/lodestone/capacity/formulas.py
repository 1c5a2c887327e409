"""Formulas of capacity planning (docs/capacity.md): machines, hours, network, memory and disk for a workload.

Indexing is a pipeline: the slowest of reading, decoding, models, the driver and loading limits its rate. Listing runs before
it, and graphs are built after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from lodestone.capacity import buckets
from lodestone.capacity.rates import Gpu, Rates
from lodestone.capacity.store import GB, Size, fused_size, servers, shards, size_of
from lodestone.capacity.workload import Workload
from lodestone.errors import InvalidRequestError
from lodestone.store.limits import MERGE_ABOVE, MERGED_SEARCHES

CatalogKind = Literal["sqlite", "postgresql"]

_HALF_BYTES: Final = 2
_META_BYTES: Final = 300  # one compressed row of facts about a picture
_CATALOG_BYTES: Final[dict[CatalogKind, int]] = {
    "sqlite": 1_130,  # measured: 900 to 1,130
    "postgresql": 1_700,  # its rows and indexes take half as much more
}
SLICE: Final = 256
_OUTSIDE: Final = {"read", "fetch", "requests", "write", "record", "load"}  # stages that no core or card of a worker limits
_REST_CORES: Final = 8  # build cores per server, where the number is not given


@dataclass(frozen=True, slots=True)
class Cluster:
    """Describes the hardware to plan for.

    Attributes:
        gpus: Number of graphics cards; 0 to run the models on processors.
        gpu: Kind of card; None for a kind of which only `card_rate` is known.
        card_rate: Measured rate of one card with all models, in pictures a second; 0 to derive it from `gpu`.
        gpus_per_node: Cards of one machine.
        model_cores: Cores for the models where there are no cards.
        decode_cores: Cores that only decode; 0 for as many as the other stages can use, or the models' own.
        network_gbit: Bandwidth of the whole path from the pictures to the decoders, network or disks, in Gbit/s.
        qdrant_nodes: Servers that points are spread over; 0 for as many as are needed to hold them.
        node_ram_gb: Memory of one server, in GB.
        build_cores: Cores that build graphs, over all servers; 0 for eight per server.
        writers: Parallel upserts of the driver; no more servers than this receive points at once.
        object_requests: Requests that the object store takes at once; 0 for no limit.
        catalog: Database of the catalog.
    """

    gpus: int = 0
    gpu: Gpu | None = None
    card_rate: float = 0.0
    gpus_per_node: int = 8
    model_cores: int = 0
    decode_cores: int = 0
    network_gbit: float = 10.0
    qdrant_nodes: int = 0
    node_ram_gb: float = 128.0
    build_cores: int = 0
    writers: int = 4
    object_requests: int = 0
    catalog: CatalogKind = "postgresql"

    def __post_init__(self) -> None:
        wrong = [
            (name, value)
            for name in ("gpus", "model_cores", "decode_cores", "qdrant_nodes", "build_cores", "card_rate", "object_requests")
            if not 0 <= (value := getattr(self, name)) < math.inf
        ]
        if wrong:
            name, value = wrong[0]
            raise InvalidRequestError(f"{name} cannot be {value!r}", hint="give 0 or more")
        if self.gpus_per_node < 1:
            raise InvalidRequestError(f"{self.gpus_per_node} cards in a machine are none", hint="e.g. --gpus-per-node 8")
        if not 0 < self.network_gbit < math.inf:
            raise InvalidRequestError(f"a network of {self.network_gbit} Gbit/s carries nothing", hint="e.g. --network-gbit 10")
        if bool(self.gpus) != (self.gpu is not None or self.card_rate > 0) or not (self.gpus or self.model_cores):
            raise InvalidRequestError(
                f"nothing would run the models: {self.gpus} cards of an unknown kind, {self.model_cores} cores",
                hint="name a kind of card and how many (--gpu h100 --gpus 8), or cores (--cores 64)",
            )


@dataclass(frozen=True, slots=True)
class Rate:
    """Holds how many pictures a second one stage of the pipeline can process."""

    stage: str
    images_per_second: float


@dataclass(frozen=True, slots=True)
class Swap:
    """Holds the cost of a new model behind the largest space, which needs a second copy while the swap lasts.

    Attributes:
        space: Name of the space.
        ram_gb: Memory of the second copy, in GB.
        disk_gb: Disk of the second copy, in GB.
        projection_hours: Hours where stored outputs are projected again: loading and building.
        backbone_hours: Hours where a new model processes every picture: reading, decoding, that model, loading, building.
    """

    space: str
    ram_gb: float
    disk_gb: float
    projection_hours: float
    backbone_hours: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds what a workload needs on a cluster: sizes in GB (10^9 bytes), times in hours, network in Gbit/s.

    Attributes:
        stages: Rates of the pipeline's stages, in order.
        bottleneck: Name of the slowest stage.
        images_per_second: Rate of the whole pipeline.
        discover_hours: Hours for listing, and for files hashing, before anything is embedded.
        index_hours: Hours for embedding and loading.
        build_hours: Hours for building graphs after that.
        gpu_nodes: Machines with cards.
        decode_cores: Cores that decode.
        network_gbit: Bandwidth that the pipeline uses.
        wanted_network_gbit: Bandwidth that the decoders and models could use.
        embeddings_gb: Size of the Parquet files.
        thumbnails_gb: Size of the thumbnails.
        catalog_gb: Size of the catalog.
        store: Size of all collections.
        fused: Share of the fused indexes in it.
        qdrant_nodes: Servers of the store.
        build_cores: Cores of these servers that build graphs.
        shards: Shards of each collection.
        swap: Cost of a new model.
        searches_per_query: Searches over all spaces and shards.
        search_cores: Cores of the servers, for the requested query rate.
        service_cores: Cores of the service, for the same rate.
        slices: Number of slices, the units of work.
    """

    stages: tuple[Rate, ...]
    bottleneck: str
    images_per_second: float
    discover_hours: float
    index_hours: float
    build_hours: float
    gpu_nodes: int
    decode_cores: int
    network_gbit: float
    wanted_network_gbit: float
    embeddings_gb: float
    thumbnails_gb: float
    catalog_gb: float
    store: Size
    fused: Size
    qdrant_nodes: int
    build_cores: int
    shards: int
    swap: Swap
    searches_per_query: int
    search_cores: float
    service_cores: float
    slices: int

    @property
    def hours(self) -> float:
        """Return the hours from the first file to the last graph."""
        return self.discover_hours + self.index_hours + self.build_hours


def plan(workload: Workload, cluster: Cluster, rates: Rates) -> Plan:
    """Apply the formulas to a workload on a cluster.

    Where `cluster.decode_cores` is 0, as many are planned as the other stages can use; without cards the models' cores decode
    too.

    Raises:
        InvalidRequestError: there are fewer servers than copies, or they have no memory.
    """
    fused = fused_size(workload)
    size = size_of(workload, len(workload.spaces), workload.dims).plus(fused)
    needed = servers(size, node_ram_gb=cluster.node_ram_gb, replication=workload.replication)
    nodes = cluster.qdrant_nodes or needed
    if nodes < workload.replication:
        raise InvalidRequestError(
            f"{workload.replication} copies of a point need as many servers, and there are {nodes}",
            hint=f"--qdrant-nodes {workload.replication} or more, or 0 for as many as hold the points",
        )
    build_cores = cluster.build_cores or _REST_CORES * nodes
    stages, decode_cores = _stages(workload, cluster, rates, nodes)
    decoders_planned = not cluster.decode_cores  # planned decoders match the other stages, so they are never the limit
    slowest = min(
        (stage for stage in stages if not (decoders_planned and stage.stage == "decode")),
        key=lambda stage: stage.images_per_second,
    )
    slowest_pace = slowest.images_per_second
    compute_rates = {stage.stage: stage.images_per_second for stage in stages if stage.stage not in _OUTSIDE}
    if decoders_planned:
        compute_rates.pop("decode", None)
    compute_pace = min(compute_rates.values())
    shard_count = shards(workload.images, nodes)
    searches = searches_a_query(workload)
    return Plan(
        stages=stages,
        bottleneck=slowest.stage,
        images_per_second=slowest_pace,
        discover_hours=workload.images / discover_rate(workload, cluster, rates) / 3600,
        index_hours=workload.images / slowest_pace / 3600,
        build_hours=build_core_seconds(workload, rates) / build_cores / 3600,
        gpu_nodes=math.ceil(cluster.gpus / cluster.gpus_per_node),
        decode_cores=decode_cores,
        network_gbit=_gbit(slowest_pace, workload),
        wanted_network_gbit=_gbit(compute_pace, workload),
        embeddings_gb=workload.images * (workload.stored * _HALF_BYTES + _META_BYTES) / GB,
        thumbnails_gb=workload.images * workload.thumbnail_bytes / GB,
        catalog_gb=workload.images * _CATALOG_BYTES[cluster.catalog] / GB,
        store=size,
        fused=fused,
        qdrant_nodes=nodes,
        build_cores=build_cores,
        shards=shard_count,
        swap=_swap(workload, _with_decoders(cluster, decode_cores), rates, nodes=nodes, build_cores=build_cores),
        searches_per_query=searches * shard_count,
        search_cores=search_cores(workload, rates, searches, shards=shard_count),
        service_cores=workload.queries_per_second * rates.query_core_s,
        slices=math.ceil(workload.images / SLICE),
    )  # fmt: skip


def _gbit(rate: float, workload: Workload) -> float:
    return rate * workload.megabytes * 8e6 / GB


def _stages(workload: Workload, cluster: Cluster, rates: Rates, nodes: int) -> tuple[tuple[Rate, ...], int]:
    """Return the rates of the pipeline's stages, and the number of cores that decode."""
    models, decode_one = model_rate(workload, cluster, rates), decode_rate(workload, rates)
    read = Rate("read", cluster.network_gbit * GB / 8 / (workload.megabytes * 1e6))
    record = Rate("record", rates.record)
    load = Rate("load", load_rate(workload.dims + workload.fused_dims, workload, rates, nodes=nodes, writers=cluster.writers))
    before, after = _bucket_stages(workload, cluster, rates)
    if not cluster.gpus and not cluster.decode_cores:
        together = cluster.model_cores / (1 / decode_one + cluster.model_cores / models)
        return (read, *before, Rate("decode and models", together), *after, record, load), cluster.model_cores
    useful = min(rate.images_per_second for rate in (read, *before, *after, record, load))
    cores = cluster.decode_cores or math.ceil(min(models, useful) / decode_one)
    return (read, *before, Rate("decode", cores * decode_one), Rate("models", models), *after, record, load), cores


def _bucket_stages(workload: Workload, cluster: Cluster, rates: Rates) -> tuple[tuple[Rate, ...], tuple[Rate, ...]]:
    """Return what an object store takes part in before the models and after them; nothing for pictures on disks."""
    if not workload.objects:
        return (), ()
    workers = cluster.gpus or cluster.model_cores
    before = [Rate("fetch", buckets.fetch_rate(workload, rates, workers=workers, cards=bool(cluster.gpus)))]
    if cluster.object_requests:
        before.append(Rate("requests", buckets.request_rate(workload, rates, at_once=cluster.object_requests)))
    return tuple(before), (Rate("write", buckets.write_rate(workload, rates, workers=workers)),)


def discover_rate(workload: Workload, cluster: Cluster, rates: Rates) -> float:
    """Return how many new pictures a second the driver lists and records.

    Files are read and hashed once; objects have etags instead.
    """
    if workload.objects:
        return rates.discover
    read = min(cluster.network_gbit * GB / 8, rates.hash_mb_s * 1e6) / (workload.megabytes * 1e6)
    return 1 / (1 / rates.discover + 1 / read)


def model_rate(workload: Workload, cluster: Cluster, rates: Rates) -> float:
    """Return how many pictures a second pass all models, one after the other on each card, or on cores."""
    if cluster.gpus and cluster.card_rate:
        return cluster.gpus * cluster.card_rate
    if cluster.gpus and cluster.gpu is not None:
        gpu = cluster.gpu
        return cluster.gpus / max(sum(rates.card_seconds(name, gpu, work) for name, work in workload.models.items()), 1e-9)
    return cluster.model_cores * rates.core_gmacs / max(workload.gmacs, 1e-9)


def decode_rate(workload: Workload, rates: Rates) -> float:
    """Return how many pictures a second one core decodes. It waits for none: objects are fetched apart from it."""
    return 1 / rates.decode_seconds(workload.megapixels)


def load_rate(dims: int, workload: Workload, rates: Rates, *, nodes: int, writers: int) -> float:
    """Return how many pictures a second one driver loads into the collections of `dims` dimensions, with all copies."""
    return min(nodes / workload.replication, writers) * rates.upsert * rates.reference_dim / max(dims, 1)


def build_core_seconds(workload: Workload, rates: Rates) -> float:
    """Return the core seconds of the graphs: points x dimensions x candidates x the logarithm of the collection's size."""
    growth = math.log2(max(workload.images, 2)) / math.log2(rates.reference_points)
    seconds_per_dim = max(growth, 0.1) / (rates.build * rates.reference_dim) / rates.reference_ef_construct
    effort = workload.dims * workload.hnsw.ef_construct + workload.fused_dims * workload.fused_graph.ef_construct
    return workload.images * workload.replication * effort * seconds_per_dim


def searches_a_query(workload: Workload) -> int:
    """Return how many searches one query makes in one shard.

    It makes one for the text and one for each guide in each space; above ten million pictures two per space.
    """
    per_space = 1 + workload.guides
    return len(workload.spaces) * (min(per_space, MERGED_SEARCHES) if workload.images > MERGE_ABOVE else per_space)


def search_cores(workload: Workload, rates: Rates, searches: int, *, shards: int) -> float:
    """Return the cores that answer the requested queries.

    Every search goes to every shard; more shards make each shard's graph smaller.
    """
    if not workload.queries_per_second:
        return 0.0
    mean = workload.dims / max(len(workload.spaces), 1) / rates.reference_dim
    growth = math.log2(max(workload.images / shards, 2)) / math.log2(rates.search_points)
    return workload.queries_per_second * searches * shards * max(mean, 0.1) * max(growth, 0.1) / rates.search


def _swap(workload: Workload, cluster: Cluster, rates: Rates, *, nodes: int, build_cores: int) -> Swap:
    """Return the cost of swapping the largest space, and the fused indexes that hold it.

    For a new backbone it is that of the most expensive present model.
    """
    space, dims = max(workload.spaces.items(), key=lambda item: item[1], default=("", 0))
    again = replace(
        workload,
        spaces={space: dims},
        fused={name: spaces for name, spaces in workload.fused.items() if space in spaces},
    )
    size = size_of(again, 1, dims).plus(fused_size(again))
    load = load_rate(dims + again.fused_dims, workload, rates, nodes=nodes, writers=cluster.writers)
    build_hours = build_core_seconds(again, rates) / build_cores / 3600
    pace = min(load, *(rate.images_per_second for rate in _stages(_costliest(workload), cluster, rates, nodes)[0][:-1]))
    hours = workload.images / 3600
    return Swap(space, size.ram_gb, size.disk_gb, hours / load + build_hours, hours / pace + build_hours)


def _with_decoders(cluster: Cluster, cores: int) -> Cluster:
    """Return the cluster with the decoders that indexing was given, where they are separate from the models' cores."""
    return replace(cluster, decode_cores=cores) if cluster.gpus or cluster.decode_cores else cluster


def _costliest(workload: Workload) -> Workload:
    return replace(workload, models=dict([max(workload.models.items(), key=lambda item: item[1])] if workload.models else []))
