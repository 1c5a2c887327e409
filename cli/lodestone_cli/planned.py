"""Terminal rendering of a capacity plan, which fits into 80 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone_cli.terminal.console import print_table, text_width

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.capacity.formulas import Cluster, Plan
    from lodestone.capacity.simulate import Simulated
    from lodestone.capacity.workload import Workload

_SECONDS_A_MINUTE: Final = 60
_SECONDS_AN_HOUR: Final = 3600
_WIDEST: Final = 100  # columns, on a terminal
_CATALOGS: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_LIMITS: Final = {
    "read": "reading (network or disks)",
    "fetch": "requests for objects (workers)",
    "requests": "requests that the object store takes at once",
    "decode": "decoding (cores)",
    "models": "the models (cards)",
    "decode and models": "decoding and models (cores)",
    "write": "writing the files of slices (workers)",
    "record": "the driver, which records",
    "load": "loading the vector store",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan to print, with this machine's prediction (`seconds_here`), if any, and the age of its measurement in words."""

    workload: Workload
    cluster: Cluster
    made: Plan
    simulated: tuple[Simulated, ...]
    assumptions: tuple[str, ...]
    seconds_here: float | None = None
    age: str = ""


def print_plan(console: Console, planned: Planned) -> None:
    """Print the limiting stage first, then machines, sizes and the assumptions that are guesses."""
    from rich.table import Table

    console.soft_wrap = False
    console.width = text_width(console, _WIDEST)
    workload, made = planned.workload, planned.made
    kind = "objects" if workload.objects else "files"
    console.print(
        f"[bold]{workload.images:,} pictures[/] ({kind} of {workload.megabytes:.3g} MB, {workload.megapixels:.3g} MP)"
        f" on {_machines(planned)}"
    )
    worst = min(run.efficiency for run in planned.simulated)
    hours = made.hours + made.index_hours * (1 / worst - 1)
    console.print(f"[bold]{time_text(hours * _SECONDS_AN_HOUR)}[/] in all, limited by [bold]{_limit(made)}[/]")
    if planned.seconds_here is not None:
        console.print(f"[bold]{time_text(planned.seconds_here)}[/] on this machine by the clock, measured {planned.age}")
    for title, rows in _sections(planned):
        console.print(f"\n[bold]{title}[/]")
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
        table.add_column(style="dim", no_wrap=True, min_width=23)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(name, value)
        print_table(console, table)
    console.print("\n[bold]Where figures are from[/]")
    notes = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    notes.add_column(width=1)
    notes.add_column(overflow="fold")
    for note in planned.assumptions:
        guess = note.startswith("a guess")
        notes.add_row("[yellow]![/]" if guess else "-", f"[yellow]{note}[/]" if guess else note)
    print_table(console, notes)


def _limit(made: Plan) -> str:
    """Return what to improve first: the slowest stage, unless listing or building graphs takes longer than indexing."""
    if made.discover_hours > max(made.index_hours, made.build_hours):
        return "listing and hashing (one driver)"
    if made.build_hours > made.index_hours:
        return "building graphs (cores)"
    return _LIMITS[made.bottleneck]


def _machines(planned: Planned) -> str:
    cluster = planned.cluster
    if not cluster.gpus:
        return f"{cluster.model_cores:,} cores"
    name = cluster.gpu.name if cluster.gpu else "a card"
    return f"{cluster.gpus:,} x {name}, {planned.made.gpu_nodes:,} machine{'s' if planned.made.gpu_nodes > 1 else ''}"


def _sections(planned: Planned) -> list[tuple[str, list[tuple[str, str]]]]:
    workload, made, cluster = planned.workload, planned.made, planned.cluster
    pipeline = [
        (
            stage.stage,
            f"[bold]{stage.images_per_second:,.0f} images/s  <- limits[/]"
            if stage.stage == made.bottleneck
            else f"{stage.images_per_second:,.0f} images/s",
        )
        for stage in made.stages
    ]
    wanted = made.wanted_network_gbit
    more = f" ({wanted:,.1f} would keep the workers busy)" if wanted > made.network_gbit * 1.05 else ""
    worst, best = (round(100 * pick(run.efficiency for run in planned.simulated)) for pick in (min, max))
    lost = f"{worst} to {best} % of that pace left ({len(planned.simulated)} seeds)"
    deaths = max(run.deaths for run in planned.simulated)
    given_up = max(run.given_up for run in planned.simulated)
    lost += f", {deaths:,} deaths" if deaths else ""
    lost += f", [bold]{given_up:,} slices given up[/]" if given_up else ""
    time = [
        ("list" if workload.objects else "list and hash", time_text(made.discover_hours * _SECONDS_AN_HOUR)),
        ("embed and load", f"{time_text(made.index_hours * _SECONDS_AN_HOUR)}, {made.slices:,} slices"),
        ("simulated", lost),
        ("build graphs", f"{time_text(made.build_hours * _SECONDS_AN_HOUR)} on {made.build_cores:,} cores"),
    ]
    store, copies = made.store, workload.replication
    servers = [
        (
            "servers",
            f"{made.qdrant_nodes:,}; shards {made.shards}, copies {copies}",
        ),
        ("memory to buy", f"[bold]{size_text(store.ram_to_buy_gb)}[/] ({size_text(store.ram_gb)} filled)"),
        ("  vectors", size_text(store.vectors_ram_gb)),
        ("  graphs", size_text(store.graph_ram_gb)),
        ("  ids and fields", size_text(store.other_ram_gb)),
        *([("  of it fused", f"{size_text(made.fused.ram_gb)} of {', '.join(workload.fused)}")] if workload.fused else []),
        ("disk to buy", f"[bold]{size_text(store.disk_to_buy_gb)}[/] ({size_text(store.disk_gb)} filled)"),
        ("settings", _settings(planned)),
    ]
    if made.qdrant_nodes * cluster.node_ram_gb < store.ram_to_buy_gb:
        short = f"{made.qdrant_nodes} x {cluster.node_ram_gb:g} GB are less than that"
        servers.insert(2, ("", f"[bold red]{short}[/]"))
    swap = made.swap
    qps = workload.queries_per_second
    each = made.search_cores / made.qdrant_nodes
    cores = f"servers {made.search_cores:,.0f} ({each:,.0f} each), service {made.service_cores:,.0f}" if qps else "give --qps"
    workers = [("decoding cores", f"{made.decode_cores:,}"), ("network", f"{made.network_gbit:,.2f} Gbit/s{more}")]
    if workload.objects:
        from lodestone.capacity.buckets import pictures_a_read, writes_a_picture

        reads, writes = made.images_per_second / pictures_a_read(workload), made.images_per_second * writes_a_picture(workload)
        workers.append(
            ("requests", f"{reads:,.0f} reads/s, {writes:,.0f} writes/s (S3 takes 5,500 and 3,500 a prefix and second)")
        )
    return [
        ("Pace", pipeline),
        ("Time", time),
        ("Workers", workers),
        ("Vector store", servers),
        (
            "Kept besides",
            [
                ("embeddings (Parquet)", size_text(made.embeddings_gb)),
                ("thumbnails", size_text(made.thumbnails_gb)),
                (f"catalog ({_CATALOGS[cluster.catalog]})", size_text(made.catalog_gb)),
            ],
        ),
        (
            f"A new model for {swap.space!r}, the largest space",
            [
                ("second copy", f"{size_text(swap.ram_gb)} of memory, {size_text(swap.disk_gb)} of disk"),
                ("projection alone", time_text(swap.projection_hours * _SECONDS_AN_HOUR)),
                ("backbone too", time_text(swap.backbone_hours * _SECONDS_AN_HOUR)),
            ],
        ),
        ("Queries", [("searches a query", f"{made.searches_per_query:,}"), (f"cores at {qps:g}/s" if qps else "cores", cores)]),
    ]


def _settings(planned: Planned) -> str:
    """Return the settings that `lodestone.toml` needs for this plan."""
    workload, made = planned.workload, planned.made
    said = [f'store.quantization = "{workload.quantization}"']
    if workload.quantization != "none":
        said.append("store.on_disk = true")
    if made.qdrant_nodes > 1:
        said += [f"store.shards = {made.shards}", f"store.replication = {workload.replication}"]
    return ", ".join(said).replace("[", r"\[")


def time_text(seconds: float) -> str:
    """Return a duration in the unit that suits its size: seconds, minutes, hours or days."""
    if seconds < 2 * _SECONDS_A_MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _SECONDS_AN_HOUR:
        return f"{seconds / _SECONDS_A_MINUTE:.0f} min"
    if seconds < 72 * _SECONDS_AN_HOUR:
        return f"{seconds / _SECONDS_AN_HOUR:,.1f} h"
    return f"{seconds / _SECONDS_AN_HOUR:,.0f} h ({seconds / _SECONDS_AN_HOUR / 24:,.1f} days)"


def size_text(gigabytes: float) -> str:
    """Return a size in MB, GB or TB (powers of ten)."""
    if gigabytes >= 1000:
        return f"{gigabytes / 1000:,.2f} TB"
    return f"{gigabytes:,.1f} GB" if gigabytes >= 1 else f"{gigabytes * 1000:,.0f} MB"
