"""Command `lodestone verify`: comparison of the collections with the catalog and the Parquet files."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.errors import LodestoneError
    from lodestone.home.running_service.client import ServiceClient
    from lodestone.indexing.sync.verify import CollectionVerification


def verify(
    at: HomeOptions,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="How many vectors of each collection are compared with the Parquet files.")
    ] = 1000,
    everything: Annotated[
        bool, typer.Option("--all", help="Compare every vector, and the checksum of every Parquet file.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Load again what is wrong; no model runs.")] = False,
) -> None:
    """Compare catalog, Parquet files and vector store: by count, slice by slice, and by sampled vectors and filter fields."""
    with CommandContext(at, purpose="lodestone verify", writes=True) as context:
        _require_home(context)
        files = _damaged_files(context, forget=repair) if everything else None
        if not repair and (service := context.service()) is not None:  # it owns the store
            rows = _examined_by(context, service, sample=None if everything else sample)
            _tell(context, rows, files)
            return
        found = _examine(context, sample=None if everything else sample)
        mended, rebuilt = 0, tuple[str, ...]()
        if repair:
            mended, rebuilt = _mend(context, found)
            found = _examine(context, sample=None if everything else sample)
        _tell(context, [_facts(one) for one in found], files, mended=mended, rebuilt=rebuilt, repair=repair)


def _tell(
    context: CommandContext,
    rows: list[dict[str, Any]],
    files: list[dict[str, str]] | None,
    *,
    mended: int = 0,
    rebuilt: tuple[str, ...] = (),
    repair: bool = False,
) -> None:
    """Write what was found, and raise an error where something differs."""
    facts = {"ok": all(row["ok"] for row in rows) and not files, "reloaded": mended, "rebuilt": rebuilt, "collections": rows}
    if files is not None:
        facts["files"] = {"damaged": files}

    def human(console: Console) -> None:
        for sentence in rebuilt:
            console.print(printable(sentence), markup=False)
        _print(console, rows, mended)
        _print_files(console, files)

    context.emit(facts, human)
    if wrong := [row["collection"] for row in rows if not row["ok"]]:
        raise _differ(wrong)
    if files:
        raise _damaged(len(files), forgotten=repair)


def _examined_by(context: CommandContext, service: ServiceClient, *, sample: int | None) -> list[dict[str, Any]]:
    """Return the facts of each collection as the running service finds them."""
    from lodestone_cli.progress import shown_counts
    from lodestone_cli.service_steps import result_of
    from lodestone_schemas.api import VerifyRequest

    with shown_counts(context) as count:
        steps = service.verify(VerifyRequest(sample=sample))
        return result_of(steps, lambda step: count(f"comparing {step.collection}", step.done, step.total))


def _examine(context: CommandContext, *, sample: int | None) -> list[CollectionVerification]:
    from lodestone.indexing.sync.collections import make_targets
    from lodestone.indexing.sync.verify import examine
    from lodestone_cli.progress import shown_progress

    runtime = context.runtime
    with shown_progress(context) as progress, runtime.store.patient():
        return [examine(runtime.store, target, progress=progress, sample=sample) for target in make_targets(runtime)]


def _damaged_files(context: CommandContext, *, forget: bool) -> list[dict[str, str]]:
    """Compare every file with the checksum of its receipt; with `forget`, the next index run makes damaged ones again."""
    from lodestone.embeddings.thumbnail_upkeep import forget_pack
    from lodestone_cli.damaged_files import find_damaged
    from lodestone_cli.naming import corpora_of

    runtime = context.runtime
    found, packs = find_damaged(context, corpora_of(runtime.catalog), deep=True)
    for _, receipt, _ in found if forget else ():
        runtime.catalog.forget_receipts(receipt.slice_id, [receipt.part])
    for pack in packs if forget else ():
        forget_pack(runtime.catalog, runtime.thumbnails.packs, pack)
    rows = [
        {"slice_id": receipt.slice_id, "part": receipt.part, "path": receipt.path, "what": what} for _, receipt, what in found
    ]
    return rows + [{"slice_id": p.slice_id, "part": "thumbnails", "path": p.name.path, "what": p.problem} for p in packs]


def _mend(context: CommandContext, found: list[CollectionVerification]) -> tuple[int, tuple[str, ...]]:
    """Load again what differs; return the number of points loaded, and a sentence for each collection that was rebuilt."""
    from lodestone.indexing.sync.collections import make_targets, rebuild_empty, sync
    from lodestone.indexing.sync.verify import repair_collection
    from lodestone_cli.progress import shown_progress

    runtime = context.runtime
    written = 0
    with runtime.store.patient():
        for target, one in zip(make_targets(runtime), found, strict=True):
            if one.broken:
                rebuild_empty(runtime, target)
            elif one.exists and not one.ok:
                written += repair_collection(runtime.store, target, one)
    with shown_progress(context) as progress:
        report = sync(runtime, progress=progress)
    points = {collection.collection: collection.points for collection in report.collections}
    rebuilt = [
        f"{one.broken}; it was dropped and rebuilt from the Parquet files with {points[one.collection]:,} points"
        for one in found
        if one.broken
    ]
    return written + sum(collection.loaded for collection in report.collections), (*rebuilt, *report.rebuilt)


def _require_home(context: CommandContext) -> None:
    from lodestone.config.home import home_of
    from lodestone.errors import NotFoundError

    home = home_of(context.loaded.settings)
    if not home.exists():
        raise NotFoundError(f"nothing is indexed in {home.path} yet", hint="lodestone index ~/Pictures")


def _facts(found: CollectionVerification) -> dict[str, Any]:
    facts = asdict(found)
    facts["slices"] = len(found.slices)
    return {"ok": found.ok, **facts}


def _damaged(count: int, *, forgotten: bool) -> LodestoneError:
    from lodestone.errors import EmbeddingsDamagedError
    from lodestone_cli.naming import counted

    again = "`lodestone index` makes them again" if forgotten else "`lodestone verify --all --repair`, then `lodestone index`"
    return EmbeddingsDamagedError(
        f"{counted(count, 'embeddings file')} missing, truncated or altered",
        hint=f"{again}: only their slices are embedded anew",
    )


def _differ(collections: list[str]) -> LodestoneError:
    from lodestone.errors import StoreError

    return StoreError(
        f"{len(collections)} collections differ from catalog and Parquet files: {', '.join(collections)}",
        hint="lodestone verify --repair loads what is wrong again; a damaged file is made again by lodestone index",
        collections=collections,
    )


_WRONG = {
    "missing": "points missing",
    "surplus": "points that the catalog does not know",
    "differing": "vectors that are not their Parquet rows'",
    "stale": "points with other filter fields",
}


def _standing(row: dict[str, Any]) -> str:
    if row["standing_by"]:
        return "[dim]of a model swap that is not settled; not searched[/]"
    if row["broken"]:
        return "[red]damaged: it has to be rebuilt[/]"
    if not row["exists"]:
        return "[yellow]there is no such collection[/]"
    return "" if row["promoted"] else "[yellow]searches use another version[/]"


def _compared(row: dict[str, Any]) -> str:
    return f"all {row['compared']:,}" if 0 < row["points"] == row["compared"] else f"{row['compared']:,}"


def _unseen(rows: list[dict[str, Any]]) -> str | None:
    """Return what a sample without a difference cannot exclude, for the collection with the smallest sample."""
    sampled = [row for row in rows if row["compared"] < row["points"]]
    if not sampled or any(row["differing"] or row["stale"] for row in rows):
        return None
    least = min(sampled, key=lambda row: row["compared"])
    if not least["compared"]:
        return f"no vectors of {least['alias']} were compared; --all compares every one"
    # Of n drawn at random, none is wrong in 5 of 100 draws where a share of 3 / n is: (1 - 3 / n) ** n is about 0.05.
    share, whole = (min(3 / least[of], 1.0) for of in ("compared", "looked_into"))
    return (
        f"a sample: with 95% certainty at most {share:.1%} of the vectors are wrong if those are scattered, "
        f"and at most {whole:.1%} of the slices from end to end; --all compares every one"
    )


def _print_files(console: Console, files: list[dict[str, str]] | None) -> None:
    if files is None:
        console.print("checksums of the Parquet files were not compared; --all compares them", style="dim")
        return
    for file in files:
        console.print(printable(f"damaged: {file['path']}: {file['what']}"), markup=False)
    if not files:
        console.print("files: every Parquet file has the checksum of its receipt", style="dim")


def _print_differences(console: Console, row: dict[str, Any]) -> None:
    if row["broken"]:
        console.print(printable(f"  {row['broken']}"), markup=False)
    for key, words in _WRONG.items():
        if row[key]:
            console.print(f"  [yellow]{row[key]:,}[/] {words}")
    if row["unloaded"]:
        console.print(f"  {row['unloaded']:,} pictures wait to be loaded: lodestone index")
    for path in row["damaged"]:
        console.print(printable(f"  damaged: {path}"), markup=False)
    if row["examples"]:
        console.print(f"  e.g. {', '.join(row['examples'])}", style="dim")


def _print(console: Console, rows: list[dict[str, Any]], mended: int) -> None:
    if mended:
        console.print(f"{mended:,} points loaded again", style="dim")
    for row in rows:
        mark = "[green]ok[/]" if row["ok"] else "[red]differs[/]"
        console.print(
            f"{row['alias']}: {mark}  {row['points']:,} of {row['expected']:,} points, {_compared(row)} vectors compared  "
            f"[dim]{row['collection']}[/]"
        )
        if standing := _standing(row):
            console.print(f"  {standing}")
        _print_differences(console, row)
    if unseen := _unseen(rows):
        console.print(unseen, style="dim")
