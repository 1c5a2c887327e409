"""What does a workload need of machines, hours, network, memory and disk? The formulas of docs/capacity.md, one a line.

Indexing is a pipeline: the slowest of reading, decoding, models, the driver and loading sets its pace. Listing goes before it,
building the graphs comes after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone.planner.rates import Gpu, Rates
from lodestone.planner.store import GB, Size, servers, shards, size_of
from lodestone.planner.workload import Workload

_MANY: Final = 10_000_000  # from here on a query's guides are to be merged: two searches a space
_MERGED_SEARCHES: Final = 2
_HALF_BYTES: Final = 2
_META_BYTES: Final = 300  # a row of what is known about a picture, compressed
_CATALOG_BYTES: Final = 1_700  # 900 to 1,130 measured in SQLite; PostgreSQL's rows and indexes half as much again
_SLICE: Final = 256
_REST_CORES: Final = 8  # a server, where nobody says how many build


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is to work with.

    Attributes:
        gpus: Graphics cards; 0 for models on processors.
        gpu: Their kind; None for a kind of which only `card_rate` is known.
        card_rate: Pictures a second that one card was measured to do with all models; 0: from `gpu`.
        gpus_per_node: Cards of one machine.
        model_cores: Cores for the models where there are no cards.
        decode_cores: Cores that decode and do nothing else; 0 for as many as the rest can use, or the models' own.
        network_gbit: Of the whole path from the pictures to the decoders, network or disks, Gbit/s.
        qdrant_nodes: Servers that points are spread over; 0 for as many as hold them.
        node_ram_gb: Memory of one of them, GB.
        build_cores: Cores that build graphs, over all servers; 0 for eight a server.
        writers: Parallel upserts of the driver: no more servers take in points at once.
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

    def __post_init__(self) -> None:
        wrong = [
            (name, value)
            for name in ("gpus", "model_cores", "decode_cores", "qdrant_nodes", "build_cores", "card_rate")
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
    """Pictures a second that one stage of the pipeline can take."""

    stage: str
    images_per_second: float


@dataclass(frozen=True, slots=True)
class Swap:
    """A new model behind the largest space, beside the old one while it lasts.

    Attributes:
        space: Its name.
        ram_gb: Memory of the second copy.
        disk_gb: Disk of the second copy.
        projection_hours: With outputs that are stored: loading and building.
        backbone_hours: With a model that looks at every picture again: reading, decoding, that model, loading, building.
    """

    space: str
    ram_gb: float
    disk_gb: float
    projection_hours: float
    backbone_hours: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workload needs on a cluster. Sizes in GB (10^9 bytes), times in hours, network in Gbit/s.

    Attributes:
        stages: Of the pipeline, in order.
        bottleneck: The slowest.
        images_per_second: The pace.
        discover_hours: Listing, and for files hashing, before anything is embedded.
        index_hours: Embedding and loading.
        build_hours: Graphs, after that.
        gpu_nodes: Machines with cards.
        decode_cores: That decode.
        network_gbit: That the pace uses.
        wanted_network_gbit: That the decoders and models could use.
        embeddings_gb: Parquet.
        thumbnails_gb: JPEGs.
        catalog_gb: PostgreSQL.
        store: Of all collections.
        qdrant_nodes: Servers.
        build_cores: Of theirs.
        shards: Of each collection.
        swap: What a new model costs.
        searches_per_query: Over all spaces and shards.
        search_cores: Of the servers, for the queries asked for.
        service_cores: Of the service, for the same.
        slices: Units of work.
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
        """From the first file to the last graph."""
        return self.discover_hours + self.index_hours + self.build_hours


def plan(workload: Workload, cluster: Cluster, rates: Rates) -> Plan:
    """Apply the formulas.

    Where `cluster.decode_cores` is 0, as many are planned as the rest can use; without cards the models' cores decode too.

    Raises:
        InvalidRequestError: there are fewer servers than copies, or they have no memory.
    """
    size = size_of(workload, len(workload.spaces), workload.dims)
    needed = servers(size, node_ram_gb=cluster.node_ram_gb, replication=workload.replication)
    nodes = cluster.qdrant_nodes or needed
    if nodes < workload.replication:
        raise InvalidRequestError(
            f"{workload.replication} copies of a point need as many servers, and there are {nodes}",
            hint=f"--qdrant-nodes {workload.replication} or more, or 0 for as many as hold the points",
        )
    build_cores = cluster.build_cores or _REST_CORES * nodes
    stages, decode_cores = _stages(workload, cluster, rates, nodes)
    planned = not cluster.decode_cores  # as many as the rest can use: decoders neither limit nor want anything of their own
    slowest = min(
        (stage for stage in stages if not (planned and stage.stage == "decode")), key=lambda stage: stage.images_per_second
    )
    pace = slowest.images_per_second
    busy = {stage.stage: stage.images_per_second for stage in stages if stage.stage not in {"read", "record", "load"}}
    if planned:
        busy.pop("decode", None)
    wanted = min(busy.values())
    pieces = shards(workload.images, nodes)
    searches = searches_a_query(workload)
    return Plan(
        stages=stages,
        bottleneck=slowest.stage,
        images_per_second=pace,
        discover_hours=workload.images / discover_rate(workload, cluster, rates) / 3600,
        index_hours=workload.images / pace / 3600,
        build_hours=build_core_seconds(workload, rates) / build_cores / 3600,
        gpu_nodes=math.ceil(cluster.gpus / cluster.gpus_per_node),
        decode_cores=decode_cores,
        network_gbit=_gbit(pace, workload),
        wanted_network_gbit=_gbit(wanted, workload),
        embeddings_gb=workload.images * (workload.stored * _HALF_BYTES + _META_BYTES) / GB,
        thumbnails_gb=workload.images * workload.thumbnail_bytes / GB,
        catalog_gb=workload.images * _CATALOG_BYTES / GB,
        store=size,
        qdrant_nodes=nodes,
        build_cores=build_cores,
        shards=pieces,
        swap=_swap(workload, _with_decoders(cluster, decode_cores), rates, nodes=nodes, build_cores=build_cores),
        searches_per_query=searches * pieces,
        search_cores=search_cores(workload, rates, searches, shards=pieces),
        service_cores=workload.queries_per_second * rates.query_core_s,
        slices=math.ceil(workload.images / _SLICE),
    )  # fmt: skip


def _gbit(rate: float, workload: Workload) -> float:
    return rate * workload.megabytes * 8e6 / GB


def _stages(workload: Workload, cluster: Cluster, rates: Rates, nodes: int) -> tuple[tuple[Rate, ...], int]:
    """The pipeline's stages, and the cores that decode."""
    models, decode_one = model_rate(workload, cluster, rates), decode_rate(workload, rates)
    read = Rate("read", cluster.network_gbit * GB / 8 / (workload.megabytes * 1e6))
    record = Rate("record", rates.record)
    load = Rate("load", load_rate(workload.dims, workload, rates, nodes=nodes, writers=cluster.writers))
    if not cluster.gpus and not cluster.decode_cores:
        busy = rates.decode_seconds(workload.megapixels) + cluster.model_cores / models
        one = 1 / max(busy, 1 / decode_one)  # while a thread waits for the next picture, the models have its core
        return (read, Rate("decode and models", cluster.model_cores * one), record, load), cluster.model_cores
    useful = min(rate.images_per_second for rate in (read, record, load))
    cores = cluster.decode_cores or math.ceil(min(models, useful) / decode_one)
    return (read, Rate("decode", cores * decode_one), Rate("models", models), record, load), cores


def discover_rate(workload: Workload, cluster: Cluster, rates: Rates) -> float:
    """New pictures a second that the driver lists and records; files are read and hashed once, objects have etags."""
    if workload.objects:
        return rates.discover
    read = min(cluster.network_gbit * GB / 8, rates.hash_mb_s * 1e6) / (workload.megabytes * 1e6)
    return 1 / (1 / rates.discover + 1 / read)


def model_rate(workload: Workload, cluster: Cluster, rates: Rates) -> float:
    """Pictures a second through all models, one after the other on each card; or on cores."""
    if cluster.gpus and cluster.card_rate:
        return cluster.gpus * cluster.card_rate
    if cluster.gpus and cluster.gpu is not None:
        gpu = cluster.gpu
        return cluster.gpus / max(sum(rates.card_seconds(name, gpu, work) for name, work in workload.models.items()), 1e-9)
    return cluster.model_cores * rates.core_gmacs / max(workload.gmacs, 1e-9)


def decode_rate(workload: Workload, rates: Rates) -> float:
    """Pictures a second of one decoding core. Its thread waits for objects; files are read ahead by the system."""
    waiting = rates.object_wait_s + workload.megabytes / rates.object_mb_s if workload.objects else 0.0
    return 1 / (rates.decode_seconds(workload.megapixels) + waiting)


def load_rate(dims: int, workload: Workload, rates: Rates, *, nodes: int, writers: int) -> float:
    """Pictures a second into the collections of `dims` dimensions, all copies, by one driver."""
    return min(nodes / workload.replication, writers) * rates.upsert * rates.reference_dim / max(dims, 1)


def build_core_seconds(workload: Workload, rates: Rates, dims: int | None = None) -> float:
    """Core seconds of the graphs: points x dimensions x candidates x the logarithm of the collection's size."""
    growth = math.log2(max(workload.images, 2)) / math.log2(rates.reference_points)
    effort = workload.hnsw.ef_construct / rates.reference_ef_construct
    one = effort * max(growth, 0.1) / (rates.build * rates.reference_dim)
    return workload.images * workload.replication * (workload.dims if dims is None else dims) * one


def searches_a_query(workload: Workload) -> int:
    """Searches of one query in one shard: words and guides in each space; above ten million pictures two a space."""
    a_space = 1 + workload.guides
    return len(workload.spaces) * (min(a_space, _MERGED_SEARCHES) if workload.images > _MANY else a_space)


def search_cores(workload: Workload, rates: Rates, searches: int, *, shards: int) -> float:
    """Cores that answer the queries asked for: every search goes to every shard, whose graph is smaller for it."""
    if not workload.queries_per_second:
        return 0.0
    mean = workload.dims / max(len(workload.spaces), 1) / rates.reference_dim
    growth = math.log2(max(workload.images / shards, 2)) / math.log2(rates.search_points)
    return workload.queries_per_second * searches * shards * max(mean, 0.1) * max(growth, 0.1) / rates.search


def _swap(workload: Workload, cluster: Cluster, rates: Rates, *, nodes: int, build_cores: int) -> Swap:
    """The dearest space; for a new backbone, the dearest model of those there are."""
    space, dims = max(workload.spaces.items(), key=lambda one: one[1], default=("", 0))
    size = size_of(workload, 1, dims)
    load = load_rate(dims, workload, rates, nodes=nodes, writers=cluster.writers)
    built = build_core_seconds(workload, rates, dims) / build_cores / 3600
    pace = min(load, *(rate.images_per_second for rate in _stages(_dearest(workload), cluster, rates, nodes)[0][:-1]))
    hours = workload.images / 3600
    return Swap(space, size.ram_gb, size.disk_gb, hours / load + built, hours / pace + built)


def _with_decoders(cluster: Cluster, cores: int) -> Cluster:
    """The cluster as it is bought: a swap has the decoders that indexing was given, where they are apart from the models."""
    return replace(cluster, decode_cores=cores) if cluster.gpus or cluster.decode_cores else cluster


def _dearest(workload: Workload) -> Workload:
    return replace(workload, models=dict([max(workload.models.items(), key=lambda one: one[1])] if workload.models else []))
