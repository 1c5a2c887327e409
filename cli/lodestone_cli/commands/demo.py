"""Command `lodestone demo`: a demonstration on pictures from packages, or on a folder of the user's."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.naming import corpora_of
from lodestone_cli.options import HomeOption, Output, OutputOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.demo.run import DemoReport


def demo(
    folder: Annotated[Path | None, typer.Option("--dir", help="Index this folder instead and say what to type.")] = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Index pictures, ask thirty fixed questions, train on names, ask again; write a contact sheet.

    It has a home of its own, and never touches the one that LODESTONE_HOME names.
    """
    if folder is None and home is None:
        import platformdirs

        home = platformdirs.user_cache_path("lodestone", appauthor=False) / "demo-home"
    with CommandContext(HomeOptions(home=home, output=output), purpose="lodestone demo") as context:
        from lodestone_cli.progress import shown_progress

        if folder is not None:
            _own_folder(context, folder.expanduser())
            return
        from lodestone_cli.demo.run import run_demo

        _require_demo_home(context)
        with shown_progress(context) as progress:
            report = run_demo(context.runtime, say=context.messages.print, progress=progress)

        def human(console: Console) -> None:
            _print(console, report, home=context.loaded.settings.home)

        context.emit(report.as_dict(), human)


def _require_demo_home(context: CommandContext) -> None:
    """Refuse a home that holds other pictures, because the demonstration replaces the bridge and adds corpora."""
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.errors import InvalidRequestError
    from lodestone_cli.demo.run import CORPORA

    settings = context.loaded.settings
    if settings.catalog_url:  # looked at alone: opened with the home, it would share its home's id with the demonstration's
        with Catalog.open(settings.catalog_url) as catalog:
            place, corpora = f"the catalog {catalog.url!r}", corpora_of(catalog)
        remedy = "unset LODESTONE_CATALOG_URL, or `catalog_url` in lodestone.toml"
    elif Home(settings.home).exists():
        place, corpora = repr(str(settings.home)), corpora_of(context.runtime.catalog)
        remedy = "leave out --home, or name a new folder"
    else:
        return
    if others := [corpus.name for corpus in corpora if corpus.name not in CORPORA]:
        raise InvalidRequestError(
            f"{place} holds other pictures: {', '.join(others)}", hint=f"the demonstration needs a home of its own: {remedy}"
        )


def _own_folder(context: CommandContext, folder: Path) -> None:
    from lodestone_cli.progress import shown_progress
    from lodestone_cli.stopping import DEFAULT_CORPUS, outcome_of, stopped_by_signals
    from lodestone_jobs.index import run_index

    home = context.loaded.settings.home if context.loaded.sources.get("home") == "flag" else None
    with (
        stopped_by_signals(lambda: outcome_of(lambda: context.runtime.catalog, DEFAULT_CORPUS, home)) as stop,
        shown_progress(context) as progress,
    ):
        report = run_index(context.runtime, [folder], service=context.service(), progress=progress, stop=stop)

    def human(console: Console) -> None:
        console.print(f"[bold]{report.images:,} pictures[/] can be found, {report.counts.get('failed', 0):,} could not be used")
        console.print("\nNow ask:\n  " + _how_to_ask(context))

    context.emit(report.as_dict(), human)


def _how_to_ask(context: CommandContext) -> str:
    """Return the command to type next, with the home where it is not the default one."""
    sources = context.loaded.sources
    home = f"--home {context.loaded.settings.home} " if sources.get("home") != "default" else ""
    return f'.venv/bin/lodestone search {home}"two people on a beach"'


def _print(console: Console, report: DemoReport, *, home: Path) -> None:
    from rich.table import Table

    console.print(f"All pictures that were found, on one sheet: [bold]{report.sheet}[/]", soft_wrap=True)
    photos = [answer for answer in report.answers if answer.about == "photo"]
    drawings = [answer for answer in report.answers if answer.about == "drawing"]
    for title, group in ((f"{report.photos} photos", photos), (f"{report.drawings} drawings", drawings)):
        table = Table(box=None, pad_edge=False, show_edge=False, title=f"\n{title}", title_justify="left", title_style="bold")
        for column in ("question", "right picture", "place", "at first"):
            table.add_column(column, overflow="ellipsis", no_wrap=column != "question")
        for answer in sorted((each for each in group if each.solved), key=lambda each: each.places[1] or 0):
            table.add_row(answer.words, answer.shows or answer.right, _place(answer.places[1]), _place(answer.places[0]))
        console.print(table)
        if others := ", ".join(answer.words for answer in group if not answer.solved):
            console.print(f"not among the first five: {others}", style="dim")
    console.print("\nQuestions with a right picture among the first five, at first -> after training:")
    for title, group in (
        (f"{report.photos} photos, nothing learnt from them", photos),
        (f"{report.drawings} drawings, never seen by the models", drawings),
    ):
        before, after = (sum(a.places[time] is not None for a in group) for time in (0, 1))
        console.print(f"  {title:<42} {before:>2} -> [bold]{after:>2}[/] of {len(group)}")
    together = sum(answer.together is not None for answer in report.answers)
    console.print(f"  {'both collections searched together':<42}       {together:>2} of {len(report.answers)}")
    console.print(
        f"\nBetween the two, the bridge was trained for {report.training_seconds:.0f} s on the names of {report.named:,} other "
        "drawings; the pictures that are searched were not read again."
    )
    console.print(f"Done in {report.seconds:.0f} s.\n\nFor the demonstration's pictures, which have a home of their own:")
    console.print(f'  .venv/bin/lodestone search --home {shlex.quote(str(home))} "a castle"', highlight=False, soft_wrap=True)
    console.print("\nFor your own pictures:")
    console.print('  .venv/bin/lodestone index ~/Pictures\n  .venv/bin/lodestone search "two people on a beach"')
    console.print("  .venv/bin/lodestone serve --open     # a search page in your browser")


def _place(place: int | None) -> str:
    return "" if place is None else f"{place}."
