"""Commands `lodestone catalog …`: a new catalog or a new `home.json`, where the old one was lost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import counted
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import HomeOption, Output, OutputOption
from lodestone_cli.progress import shown_progress

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.backup.rebuild import RebuildReport

app = Commands(help="The database of everything that is known about pictures.", no_args_is_help=True)


@app.command()
def rebuild(
    at: HomeOptions,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders that were indexed; needed only for homes of older versions.")
    ] = None,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Load the collections of vectors at once.")] = True,
) -> None:
    """Make the catalog of a home again whose catalog.sqlite was lost, emptied or damaged. No model runs.

    If the command is interrupted, the same command goes on with it; until then every other command refuses the home.

    Pictures, captions and hashes come from the Parquet files. Tags, feedback, recorded queries, keys and runs are gone: a
    backup has them (`lodestone backup restore`).
    """
    with CommandContext(at, purpose="lodestone catalog rebuild", writes=True) as context:
        from lodestone.backup.rebuild import finish_rebuild, rebuild_catalog
        from lodestone.errors import ConfigurationError, ServiceUnavailableError

        runtime = context.runtime
        if runtime.settings.catalog_url:
            raise ConfigurationError(
                "the catalog of this home is on a server, and only a file can be rebuilt",
                hint="restore the server's database, or `lodestone backup restore`",
            )
        if context.service() is not None:
            raise ServiceUnavailableError(
                "the service uses this home", hint="stop `lodestone serve` first, then start it again"
            )
        with shown_progress(context) as progress:
            known = [folder.expanduser().absolute() for folder in folders or ()]
            report = rebuild_catalog(runtime.home, runtime.embeddings, folders=known, then_load=load, progress=progress)
            points = None
            if load and report.images:
                from lodestone.indexing.sync.collections import sync

                points = sum(collection.points for collection in sync(runtime, progress=progress).collections)
            finish_rebuild(runtime.home)
        context.emit({**asdict(report), "points": points}, lambda console: _print(console, report, points))


@app.command("repair-home")
def repair_home(
    backup: Annotated[
        str | None, typer.Argument(help="Backup that has the home's id: a folder, or the URL of a bucket.")
    ] = None,
    new_id: Annotated[bool, typer.Option("--new-id", help="Give a copied home an id, and collections, of its own.")] = False,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Write a lost or damaged home.json again, with the home's id from the catalog, or from a backup."""
    with CommandContext(HomeOptions(home=home, output=output), purpose="lodestone catalog repair-home") as context:
        from lodestone.backup.home_marker import mark_home_again
        from lodestone.files.opening import open_area

        report = mark_home_again(context.loaded.settings, backup=open_area(backup) if backup else None, new_id=new_id)

        def human(console: Console) -> None:
            came = {"catalog": "from the catalog", "backup": "from the backup", "home.json": "as it was", "new": "a new one"}
            console.print(printable(f"the home {report.home} has the id {report.home_id}: {came[report.source]}"), markup=False)
            if report.kept is not None:
                console.print(printable(f"the former file is kept: {report.kept}"), markup=False)

        context.emit(asdict(report), human)


def _print(console: Console, report: RebuildReport, points: int | None) -> None:
    if report.resumed:
        console.print("an interrupted rebuild had made the catalog; its vectors were loaded now", markup=False)
    console.print(
        printable(
            f"rebuilt the catalog: {counted(report.images, 'picture')} with {counted(report.captions, 'caption')} "
            f"in {', '.join(report.corpora)}"
        ),
        markup=False,
    )
    if report.kept is not None:
        console.print(printable(f"the former file is kept: {report.kept}"), markup=False)
    if report.unreadable:
        console.print(
            f"{counted(len(report.unreadable), 'file')} could not be read: `lodestone index` makes them again", markup=False
        )
    if report.without_root:
        console.print(
            f"the folder of {counted(report.without_root, 'picture')} is not known: index it, and they are recognised",
            markup=False,
        )
    if points is None:
        console.print("the collections are loaded by the next `lodestone index`", markup=False)
    console.print(f"gone: {', '.join(report.gone)}", markup=False)
    console.print("next: lodestone index on your folders finds what was deleted, moved or changed since", markup=False)
