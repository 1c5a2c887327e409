"""Commands `lodestone backup …`: copy a whole home or cluster, check the copy and restore it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import Output, OutputOption
from lodestone_cli.progress import shown_progress

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.backup.snapshots import Manifest

app = Commands(help="Copies of everything that cannot be made again.", no_args_is_help=True)

_Where = Annotated[str, typer.Argument(help="Folder, or URL of a bucket (s3://bucket/backups).")]
_SnapshotOption = Annotated[str | None, typer.Option("--snapshot", help="Its name; default: the last.")]


@app.command()
def create(
    at: HomeOptions,
    to: _Where,
    thumbnails: Annotated[bool, typer.Option("--thumbnails", help="Take thumbnails too; else they are made again.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="Take lodestone.toml too; it may hold secrets.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Read what earlier snapshots copied, and copy damaged files again.")
    ] = False,
) -> None:
    """Add a snapshot: catalog, embeddings, what was learnt. Only new files are copied. Indexing and searching may go on."""
    with CommandContext(at, purpose="lodestone backup create", writes=True) as context:
        from lodestone.backup.create import create_backup
        from lodestone.files.opening import open_area

        with shown_progress(context) as progress:
            report = create_backup(
                context.runtime, open_area(to), thumbnails=thumbnails, settings=settings, check=check, progress=progress
            )
        manifest = report.manifest

        def human(console: Console) -> None:
            console.print(
                printable(
                    f"snapshot {manifest.name} in {report.location}: {manifest.images:,} pictures, "
                    f"{report.copied:,} new files ({report.copied_bytes / (1 << 20):,.1f} MB) of "
                    f"{manifest.embedding_files + len(manifest.others):,}"
                ),
                markup=False,
            )
            if manifest.lacking:
                console.print(
                    f"{len(manifest.lacking):,} damaged files were left out: run `lodestone index`, then back up again",
                    markup=False,
                )

        context.emit({**_facts(manifest), "copied": report.copied, "copied_bytes": report.copied_bytes}, human)


@app.command("list")
def list_(where: _Where, output: OutputOption = Output.HUMAN) -> None:
    """List the snapshots of a backup, oldest first."""
    with CommandContext(HomeOptions(output=output)) as context:
        from lodestone.backup.snapshots import UnreadableSnapshot, all_snapshots
        from lodestone.files.opening import open_area

        found = all_snapshots(open_area(where))

        def human(console: Console) -> None:
            if not found:
                console.print("no snapshot yet: lodestone backup create")
            for manifest in found:
                if isinstance(manifest, UnreadableSnapshot):
                    console.print(printable(f"{manifest.name}  cannot be used: {manifest.problem}"), markup=False)
                    continue
                size = manifest.embedding_bytes / (1 << 20)
                console.print(
                    f"{manifest.name}  {manifest.images:,} pictures, {size:,.1f} MB of embeddings, profile {manifest.profile}",
                    markup=False,
                )

        context.emit([asdict(one) if isinstance(one, UnreadableSnapshot) else _facts(one) for one in found], human)


@app.command()
def verify(
    where: _Where,
    snapshot: _SnapshotOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compare only sizes of embeddings.")] = False,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Read every file of a snapshot and compare it with its checksum."""
    with CommandContext(HomeOptions(output=output)) as context:
        from lodestone.backup.verify import verify_backup
        from lodestone.errors import EmbeddingsDamagedError
        from lodestone.files.opening import open_area

        with shown_progress(context) as progress:
            found = verify_backup(open_area(where), name=snapshot, quick=quick, progress=progress)
        if found.damaged:
            raise EmbeddingsDamagedError(
                f"snapshot {found.manifest.name}: {found.damaged:,} of {found.files:,} files are damaged: {found.problems[0]}",
                hint="`lodestone backup create --check` copies them again while the home is there; "
                "a restore embeds again what it lacks",
                problems=list(found.problems),
            )

        def human(console: Console) -> None:
            size = found.bytes / (1 << 20)
            console.print(f"snapshot {found.manifest.name} is whole: {found.files:,} files, {size:,.1f} MB", markup=False)

        context.emit({**_facts(found.manifest), "files": found.files, "bytes": found.bytes, "damaged": 0}, human)


@app.command()
def restore(
    at: HomeOptions,
    where: _Where,
    snapshot: _SnapshotOption = None,
    new_id: Annotated[
        bool, typer.Option("--new-id", help="The restored home is a copy beside the living one: it gets its own collections.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Put the backup's lodestone.toml into force; read it before.")
    ] = False,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Make the collections of vectors at once.")] = True,
) -> None:
    """Fill an empty home from a snapshot, and load its vectors. No picture is read and no model runs.

    If the command is interrupted, the same command goes on with it; until then every other command refuses the home.
    """
    with CommandContext(at, purpose="lodestone backup restore", writes=True) as context:
        from lodestone.backup.restore import SETTINGS_ASIDE, finish_restore, restore_backup
        from lodestone.files.opening import open_area

        runtime = context.runtime
        with shown_progress(context) as progress:
            report = restore_backup(
                runtime,
                open_area(where),
                name=snapshot,
                new_id=new_id,
                settings=settings,
                then_load=load,
                progress=progress,
            )
            points = None
            if load and report.images:
                from lodestone.indexing.sync.collections import sync

                points = sum(one.points for one in sync(runtime, progress=progress).collections)
            finish_restore(runtime)

        def human(console: Console) -> None:
            console.print(
                printable(
                    f"restored {report.images:,} pictures and {report.embedding_files:,} embeddings files of snapshot "
                    f"{report.manifest.name} into {runtime.home.path}"
                ),
                markup=False,
            )
            if report.resumed:
                console.print("an interrupted restore had filled the catalog; its vectors were loaded now", markup=False)
            if report.settings_aside:
                text = f"the backup's settings are not in force: read {SETTINGS_ASIDE}, and rename it to lodestone.toml"
                console.print(text, markup=False)
            if report.lacking:
                console.print(
                    f"{report.lacking:,} embeddings files were lost: `lodestone index` makes them again", markup=False
                )
            if points is None:
                console.print("the collections are made by the next `lodestone index`", markup=False)

        value: dict[str, Any] = {"snapshot": report.manifest.name, "home": str(runtime.home.path), "home_id": report.home_id}
        value |= {
            "images": report.images,
            "embedding_files": report.embedding_files,
            "lacking": report.lacking,
            "resumed": report.resumed,
            "settings_aside": SETTINGS_ASIDE if report.settings_aside else None,
            "points": points,
        }
        context.emit(value, human)


@app.command()
def prune(
    where: _Where,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Snapshots to keep, the last ones.")],
    output: OutputOption = Output.HUMAN,
) -> None:
    """Delete old snapshots and the files that only they need. Not while a backup is being made."""
    with CommandContext(HomeOptions(output=output)) as context:
        from lodestone.backup.verify import prune_backup
        from lodestone.files.opening import open_area

        snapshots, files = prune_backup(open_area(where), keep=keep)

        def human(console: Console) -> None:
            console.print(f"deleted {snapshots:,} snapshots and {files:,} files", markup=False)

        context.emit({"snapshots": snapshots, "files": files}, human)


def _facts(manifest: Manifest) -> dict[str, Any]:
    """Return what the JSON output shows of a snapshot: everything but its tables and files."""
    facts = {name: value for name, value in asdict(manifest).items() if name not in {"tables", "others"}}
    return {**facts, "created_at": manifest.created_at.isoformat()}
