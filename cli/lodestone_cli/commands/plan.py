"""Command `lodestone plan`: machines, hours and gigabytes that a collection needs."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.options import Output, OutputOption, ProfileOption
from lodestone_schemas.collections import Quantization

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.capacity.formulas import CatalogKind, Cluster, Plan
    from lodestone.capacity.rates import Gpu, Rates
    from lodestone.capacity.remembered import RateRecord
    from lodestone.capacity.simulate import Simulated
    from lodestone.capacity.workload import Workload
    from lodestone.config.settings import Settings

_SEEDS = 5
_SIMULATED = 1_000_000  # pictures: what is lost is lost at the end
_MORE = "Machines"
_STORE = "Vector store"
_USE = "Queries and failures"


class PlanSource(StrEnum):
    """Kind of storage that holds the pictures."""

    FILES = "files"
    OBJECTS = "objects"
    SHARDS = "shards"


def plan(
    images: Annotated[str, typer.Option("--images", help="How many: 250000, 40k, 100M.")],
    megapixels: Annotated[float | None, typer.Option("--megapixels", help="Mean size; default 12, or measured.")] = None,
    megabytes: Annotated[float | None, typer.Option("--mb", help="Mean size of a file; default .25 a megapixel.")] = None,
    source: Annotated[
        PlanSource, typer.Option("--source", help="files: disks and mounts; objects: S3 and the like; shards: tars there.")
    ] = PlanSource.FILES,
    here: Annotated[
        Path | None, typer.Option("--here", help="Measure this machine on pictures of this folder: a minute or two.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", help="t4, l4, a10, l40s, rtx4090, a100, h100, h200; any with --card-rate.", rich_help_panel=_MORE
        ),
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="Cards; default 1.", rich_help_panel=_MORE)] = None,
    card_rate: Annotated[
        float | None, typer.Option("--card-rate", help="Images/s measured on one card, all models.", rich_help_panel=_MORE)
    ] = None,
    gpus_per_node: Annotated[
        int, typer.Option("--gpus-per-node", min=1, help="Cards in one machine.", rich_help_panel=_MORE)
    ] = 8,
    within: Annotated[
        float | None, typer.Option("--within-hours", help="As many cards as embed in this time.", rich_help_panel=_MORE)
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Cores, without cards; default: this machine's.", rich_help_panel=_MORE)
    ] = None,
    decode_cores: Annotated[
        int,
        typer.Option("--decode-cores", min=0, help="Cores that decode only; 0: as many as are needed.", rich_help_panel=_MORE),
    ] = 0,
    network: Annotated[
        float, typer.Option("--network-gbit", help="Network or disks, pictures to workers, Gbit/s.", rich_help_panel=_MORE)
    ] = 10.0,
    object_requests: Annotated[
        int,
        typer.Option(
            "--object-requests", min=0, help="Requests that the store takes at once; 0: no limit.", rich_help_panel=_MORE
        ),
    ] = 0,
    quantization: Annotated[
        Quantization, typer.Option("--quantization", help="Of vectors in memory.", rich_help_panel=_STORE)
    ] = Quantization.INT8,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replication", min=1, help="Copies of each point; default 2 with several servers.", rich_help_panel=_STORE
        ),
    ] = None,
    qdrant_nodes: Annotated[
        int, typer.Option("--qdrant-nodes", min=0, help="Servers; 0: as many as hold it.", rich_help_panel=_STORE)
    ] = 0,
    node_ram: Annotated[float, typer.Option("--node-ram-gb", help="Memory of one server, GB.", rich_help_panel=_STORE)] = 128.0,
    build_cores: Annotated[
        int,
        typer.Option(
            "--build-cores", min=0, help="For graphs, all servers; 0: 8 each, or this machine's.", rich_help_panel=_STORE
        ),
    ] = 0,
    qps: Annotated[float, typer.Option("--qps", min=0, help="Queries a second.", rich_help_panel=_USE)] = 0.0,
    guides: Annotated[
        int | None, typer.Option("--guides", min=0, help="Guides a query; default: the profile's.", rich_help_panel=_USE)
    ] = None,
    failures: Annotated[
        float | None, typer.Option("--worker-mtbf", help="Hours between failures of a worker.", rich_help_panel=_USE)
    ] = None,
    node_failures: Annotated[
        float | None, typer.Option("--node-mtbf", help="The same of a machine.", rich_help_panel=_USE)
    ] = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Plan machines, hours, memory and disk for a collection. Figures that are guesses are listed as such."""
    with CommandContext(HomeOptions(profile=profile, output=output), purpose="lodestone plan") as context:
        from lodestone.capacity.advice import assumptions, cards_within
        from lodestone.capacity.formulas import Cluster
        from lodestone.capacity.formulas import plan as plan_capacity
        from lodestone.capacity.rates import DEFAULT_RATES
        from lodestone.capacity.workload import of_profile, parse_count, picture_size
        from lodestone.config.compositions import all_compositions
        from lodestone.config.own_profiles import choose_profile
        from lodestone.config.store import CLUSTER_REPLICATION
        from lodestone_cli.planned import Planned, print_plan

        settings, now = context.loaded.settings, datetime.now(UTC)
        count, kind = parse_count(images), _card(gpu, gpus=gpus, card_rate=card_rate, within=within, cores=cores)
        chosen = choose_profile(settings.profile, settings.profiles)
        measured = _measured(settings, here, now)
        sizes = (megabytes, megapixels)
        if sizes == (None, None) and measured:
            sizes = (measured.megabytes, measured.megapixels)
        mean_mb, mean_megapixels, notes = picture_size(*sizes)
        workload = of_profile(
            chosen,
            count,
            compositions=all_compositions(settings.compositions, chosen).values(),
            megabytes=mean_mb,
            megapixels=mean_megapixels,
            quantization=quantization,
            replication=replication or settings.store.replication or 1,
            queries_per_second=qps,
            objects=source is not PlanSource.FILES,
            shards=source is PlanSource.SHARDS,
            thumbnail_px=settings.index.thumbnail_px,
            **({} if guides is None else {"guides": guides}),
        )
        rates = measured.rates(now) if measured else DEFAULT_RATES
        with_cards = kind is not None or card_rate is not None
        needed = cards_within(workload, kind, rates, hours=within, card_rate=card_rate or 0.0) if within is not None else 1
        cards = (gpus or needed) if with_cards else 0
        cluster = Cluster(
            gpus=cards,
            gpu=kind,
            card_rate=card_rate or 0.0,
            gpus_per_node=gpus_per_node,
            model_cores=0 if with_cards else cores or _cores_here(),
            decode_cores=decode_cores,
            network_gbit=network,
            qdrant_nodes=qdrant_nodes,
            node_ram_gb=node_ram,
            build_cores=build_cores or (0 if with_cards or qdrant_nodes or cores else _cores_here()),
            writers=settings.store.writers,
            object_requests=object_requests,
            catalog=_catalog(settings, machines=math.ceil(cards / gpus_per_node)),
        )
        made = plan_capacity(workload, cluster, rates)
        if replication is None and settings.store.replication is None and made.qdrant_nodes > 1:
            workload = replace(workload, replication=CLUSTER_REPLICATION)  # what the store makes of several servers
            made = plan_capacity(workload, cluster, rates)
        simulated = _simulate(settings, made, cluster, hours=(failures, node_failures), stragglers=measured is None)
        said = (*notes, *assumptions(workload, cluster, rates))
        on_this = None if measured is None else _seconds_here(settings, measured, workload, rates)
        facts = _facts(workload, cluster, made, rates, measured, simulated)
        facts["assumptions"] = list(said)
        if on_this is not None:
            facts["here"]["predicted_seconds"] = on_this

        def human(console: Console) -> None:
            age = measured.age(now) if measured else ""
            print_plan(console, Planned(workload, cluster, made, simulated, said, on_this, age))

        context.emit(facts, human)


def _card(gpu: str | None, *, gpus: int | None, card_rate: float | None, within: float | None, cores: int | None) -> Gpu | None:
    """Return the kind of card; None without cards, or where only a card's rate is known. Refuse options that contradict."""
    from math import inf

    from lodestone.capacity.rates import find_gpu
    from lodestone.errors import InvalidRequestError, UnknownNameError

    if card_rate is not None and not 0 < card_rate < inf:
        raise InvalidRequestError(f"a card that does {card_rate:g} images/s is no card", hint="give what you measured")
    if gpu is None and card_rate is None:
        for option, value in (("--gpus", gpus), ("--within-hours", within)):
            if value is not None:
                raise InvalidRequestError(f"{option} {value:g} says nothing without a kind of card", hint="e.g. --gpu h100")
        return None
    if cores is not None:
        raise InvalidRequestError(
            f"--cores {cores} is for models without cards, and cards are named", hint="leave one out; or --decode-cores"
        )
    if gpus is not None and within is not None:
        raise InvalidRequestError(
            f"--gpus {gpus} and --within-hours {within:g} both say how many cards", hint="leave one of them out"
        )
    try:
        return None if gpu is None else find_gpu(gpu)
    except UnknownNameError as error:
        if card_rate is not None:
            return None
        raise UnknownNameError(
            error.message,
            hint=f"{error.hint}; any other with --card-rate, the images/s that one was measured to do",
            **error.details,
        ) from error


def _catalog(settings: Settings, *, machines: int) -> CatalogKind:
    """Return the database of the catalog: that of the settings, but no SQLite where several machines embed, which refuse it."""
    is_file = settings.catalog_url is None or settings.catalog_url.startswith("sqlite")
    return "sqlite" if is_file and machines <= 1 else "postgresql"


def _cores_here() -> int:
    from lodestone.models.hardware import cores

    return cores()


def _measured(settings: Settings, here: Path | None, now: datetime) -> RateRecord | None:
    """Return the rates of this machine with the profile's models, measured now or in an earlier call."""
    from lodestone.capacity.remembered import recall, remember

    if here is None:
        return recall(settings.home, profile=settings.profile)
    from lodestone.capacity.calibrate import calibrate
    from lodestone.config.home import Home
    from lodestone_jobs.index import run_index

    found = calibrate(settings, here.expanduser(), run=run_index)
    Home(settings.home).prepare()
    return remember(settings.home, found, profile=settings.profile, now=now)


def _seconds_here(settings: Settings, measured: RateRecord, workload: Workload, rates: Rates) -> float | None:
    """Return the seconds of a first run on this machine; None where the pictures' size is not the measured one."""
    from lodestone.capacity.formulas import build_core_seconds

    if workload.megapixels != measured.megapixels:
        return None
    graphs = build_core_seconds(workload, rates) / _cores_here() if workload.images >= settings.store.build_threshold else 0
    return measured.fixed_seconds + workload.images * measured.seconds_an_image + graphs


def _simulate(
    settings: Settings, made: Plan, cluster: Cluster, *, hours: tuple[float | None, float | None], stragglers: bool
) -> tuple[Simulated, ...]:
    """Simulate the embedding stage at the plan's rate with several seeds.

    Without `stragglers` no slow workers are simulated: measured rates contain them already.
    """
    from lodestone.capacity.formulas import SLICE
    from lodestone.capacity.simulate import Scenario, simulate

    workers = max(cluster.gpus or cluster.model_cores, 1)
    shared = {"read", "requests", "record", "load"}  # one network, one driver, one store: slices pass them one after the other
    theirs = min(stage.images_per_second for stage in made.stages if stage.stage in shared)
    planned = set() if cluster.decode_cores else {"decode"}  # as many as the others need, so they never limit
    own = min(stage.images_per_second for stage in made.stages if stage.stage not in shared | planned)
    limits, rows = settings.index, settings.index.slice_size or SLICE
    scenario = Scenario(
        images=min(made.slices * rows, max(_SIMULATED, 20 * workers * rows)),
        workers=workers,
        rate=own / workers,
        slice_size=rows,
        workers_per_node=cluster.gpus_per_node,
        hours_between_failures=hours[0],
        hours_between_node_failures=hours[1],
        attempts=limits.attempts,
        batch_slices=made.slices,  # workers do not wait at the end of a batch of slices
        batch_seconds=math.inf,
        driver_seconds=rows / theirs,
    )
    if not stragglers:
        scenario = replace(scenario, straggler_share=0.0)
    ideal = scenario.images / made.images_per_second
    return tuple(replace(simulate(scenario, seed=seed), ideal_seconds=ideal) for seed in range(_SEEDS))


def _facts(
    workload: Workload,
    cluster: Cluster,
    made: Plan,
    rates: Rates,
    measured: RateRecord | None,
    simulated: tuple[Simulated, ...],
) -> dict[str, Any]:
    from lodestone.capacity.rates import MODELS, TIMM

    known = {name: {**asdict(MODELS[name]), "source": TIMM} for name in workload.models if name in MODELS}
    sizes = {name: getattr(made.store, name) for name in ("ram_gb", "disk_gb", "ram_to_buy_gb", "disk_to_buy_gb")}
    facts: dict[str, Any] = {
        "workload": asdict(workload),
        "cluster": asdict(cluster),
        "rates": asdict(rates),
        "models": known,
        "plan": {**asdict(made), "hours": made.hours, "store": {**asdict(made.store), **sizes}},
        "simulation": [{**asdict(run), "efficiency": run.efficiency} for run in simulated],
    }
    if measured:
        facts["here"] = asdict(measured)
    return facts
