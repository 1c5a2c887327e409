"""`lodestone plan`: how many machines, hours and gigabytes does a collection need?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.options import Output, OutputOption, ProfileOption
from lodestone_cli.session import Session
from lodestone_schemas.collections import Quantization

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.planner.calibrate import Calibration
    from lodestone.planner.capacity import Cluster, Plan
    from lodestone.planner.simulate import Simulated
    from lodestone.planner.workload import Workload

_SECONDS_A_MINUTE = 60
_SECONDS_AN_HOUR = 3600
_SEEDS = 5


def plan(
    images: Annotated[str, typer.Option("--images", help="Pictures: 250000, 40k, 100M.", show_default=False)],
    here: Annotated[
        Path | None,
        typer.Option("--here", help="Measure this machine on pictures of this folder (a minute or two).", show_default=False),
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="t4, l4, a10, l40s, a100, h100, h200.", show_default=False)] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="Cards.")] = 1,
    cores: Annotated[int, typer.Option("--cores", min=0, help="Cores for the models where there is no card.")] = 0,
    decode_cores: Annotated[
        int, typer.Option("--decode-cores", min=0, help="Cores that decode; 0 for as many as the models can use.")
    ] = 0,
    network: Annotated[float, typer.Option("--network-gbit", help="From the pictures to the workers, Gbit/s.")] = 10.0,
    megabytes: Annotated[
        float | None, typer.Option("--mb", help="Mean size of a file, MB; default 3, or measured.", show_default=False)
    ] = None,
    megapixels: Annotated[
        float | None, typer.Option("--megapixels", help="Mean size of a picture; default 12, or measured.", show_default=False)
    ] = None,
    quantization: Annotated[Quantization, typer.Option("--quantization", help="Of vectors in memory.")] = Quantization.INT8,
    replication: Annotated[int, typer.Option("--replication", min=1, help="Copies of each point.")] = 1,
    qdrant_nodes: Annotated[int, typer.Option("--qdrant-nodes", min=1, help="Vector store servers.")] = 1,
    build_cores: Annotated[int, typer.Option("--build-cores", min=1, help="Cores that build graphs.")] = 8,
    qps: Annotated[float, typer.Option("--qps", min=0, help="Queries a second to be answered.")] = 0.0,
    guides: Annotated[
        int | None, typer.Option("--guides", min=0, help="Guides a query; default: the profile's.", show_default=False)
    ] = None,
    failures: Annotated[
        float | None,
        typer.Option("--hours-between-failures", help="Mean time to a worker's death, for the simulation.", show_default=False),
    ] = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Plan machines, hours, memory and disk for a collection. Assumed figures are marked; --here measures this machine."""
    with Session(profile=profile, output=output, purpose="lodestone plan") as session:
        from lodestone.planner.capacity import Cluster
        from lodestone.planner.capacity import plan as make_plan
        from lodestone.planner.rates import DEFAULT_RATES, find_gpu
        from lodestone.planner.workload import of_profile, parse_count

        count = parse_count(images)
        kind = find_gpu(gpu) if gpu else None
        measured = _calibrate(session, here) if here else None
        known = {"megabytes": measured.megabytes, "megapixels": measured.megapixels} if measured else {}
        given = {"megabytes": megabytes, "megapixels": megapixels, "guides": guides}
        workload = of_profile(
            session.runtime.profile,
            count,
            **{**known, **{name: value for name, value in given.items() if value is not None}},
            quantization=quantization,
            replication=replication,
            queries_per_second=qps,
        )
        cluster = Cluster(
            gpus=gpus if kind else 0,
            gpu=kind,
            model_cores=0 if kind else cores or _cores_here(),
            decode_cores=decode_cores,
            network_gbit=network,
            qdrant_nodes=qdrant_nodes,
            build_cores=build_cores,
        )
        made = make_plan(workload, cluster, measured.rates if measured else DEFAULT_RATES)
        simulated = _simulate(made, cluster, failures)
        facts = _facts(workload, cluster, made, measured, simulated)

        def human(console: Console) -> None:
            _print(console, workload, cluster, made, measured, simulated)

        session.emit(facts, human)


def _cores_here() -> int:
    from lodestone.models.hardware import cores

    return cores()


def _calibrate(session: Session, folder: Path) -> Calibration:
    from lodestone.planner.calibrate import calibrate
    from lodestone_jobs.index import run_index

    return calibrate(session.loaded.settings, folder.expanduser(), run=run_index)


def _simulate(made: Plan, cluster: Cluster, hours_between_failures: float | None) -> tuple[Simulated, ...]:
    """The embedding stage with the plan's pace spread over its workers: at most a million pictures, several seeds."""
    from lodestone.planner.simulate import Scenario, simulate

    workers = max(cluster.gpus or cluster.model_cores, 1)
    scenario = Scenario(
        images=min(made.slices * 256, 1_000_000 * max(workers // 64, 1)),
        workers=workers,
        rate=made.images_per_second / workers,
        hours_between_failures=hours_between_failures,
    )
    return tuple(simulate(scenario, seed=seed) for seed in range(_SEEDS))


def _facts(
    workload: Workload, cluster: Cluster, made: Plan, measured: Calibration | None, simulated: tuple[Simulated, ...]
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "workload": asdict(workload),
        "cluster": asdict(cluster),
        "plan": {**asdict(made), "ram_gb": made.ram_gb},
        "simulation": [{**asdict(run), "efficiency": run.efficiency} for run in simulated],
    }
    if measured:
        facts["here"] = {**asdict(measured), "predicted_seconds": measured.seconds(workload.images)}
    return facts


def _print(
    console: Console,
    workload: Workload,
    cluster: Cluster,
    made: Plan,
    measured: Calibration | None,
    simulated: tuple[Simulated, ...],
) -> None:
    from rich.table import Table

    on = f"{cluster.gpus} {cluster.gpu.name}" if cluster.gpu else f"{cluster.model_cores} cores"
    console.print(
        f"[bold]{workload.images:,} pictures[/] of {workload.megabytes:.2f} MB, {workload.megapixels:.1f} megapixels, on {on}"
    )
    if measured:
        console.print(
            f"  this machine: [bold]{_time(measured.seconds(workload.images))}[/]"
            f"  ({measured.fixed_seconds:.1f} s once, {1000 * measured.seconds_an_image:.1f} ms a picture, {measured.executor})"
        )
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for stage in made.stages:
        mark = "  <- sets the pace" if stage.stage == made.bottleneck else ""
        table.add_row(stage.stage, f"{stage.images_per_second:,.0f} images/s{mark}")
    for name, value in _rows(workload, cluster, made, simulated):
        table.add_row(name, value)
    console.print(table)
    for note in workload.notes:
        console.print(f"[yellow]assumed:[/] {note}")
    if cluster.gpu:
        console.print(
            "[yellow]assumed:[/] the share of a card's peak that the models reach (35 %): measure it on one card first"
        )


def _rows(workload: Workload, cluster: Cluster, made: Plan, simulated: tuple[Simulated, ...]) -> list[tuple[str, str]]:
    worst, best = (round(100 * pick(run.efficiency for run in simulated)) for pick in (min, max))
    qps = workload.queries_per_second
    searches = f"{made.searches_per_query:,}" + (f"; {made.search_cores:,.1f} cores for {qps:g} queries/s" if qps else "")
    parts = (
        f"vectors {_size(made.vectors_ram_gb)}, graphs {_size(made.graph_ram_gb)}, ids and fields {_size(made.other_ram_gb)}"
    )
    return [
        ("indexing", f"{_time(made.index_hours * _SECONDS_AN_HOUR)}, {made.slices:,} slices"),
        ("stragglers and failures", f"{worst} to {best} % of that pace is left (simulated, {len(simulated)} seeds)"),
        ("decoding", f"{made.decode_cores:,} cores"),
        ("network", f"{made.network_gbit:.2f} Gbit/s"),
        ("graphs", f"{_time(made.build_hours * _SECONDS_AN_HOUR)} on {cluster.build_cores} cores"),
        ("store's memory", f"{_size(made.ram_gb)}: {parts}"),
        ("store's disk", _size(made.store_disk_gb)),
        ("embeddings, thumbnails", f"{_size(made.embeddings_gb)}, {_size(made.thumbnails_gb)}"),
        ("second copy, in a swap", f"{_size(made.swap_gb)} at most"),
        ("shards", f"{made.shards}"),
        ("searches a query", searches),
    ]


def _time(seconds: float) -> str:
    if seconds < 2 * _SECONDS_A_MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _SECONDS_AN_HOUR:
        return f"{seconds / _SECONDS_A_MINUTE:.0f} min"
    return f"{seconds / _SECONDS_AN_HOUR:,.1f} h"


def _size(gigabytes: float) -> str:
    if gigabytes >= 1000:
        return f"{gigabytes / 1000:,.2f} TB"
    return f"{gigabytes:,.1f} GB" if gigabytes >= 1 else f"{gigabytes * 1000:,.0f} MB"
