"""Commands `lodestone directory …`: add and remove folders, and switch searching and watching of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.directory_backend import directories_of
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.directories import JobInfo

app = typer.Typer(help="Folders that are indexed: add, remove, switch on and off, watch.", no_args_is_help=True)

NamedArgument = Annotated[str, typer.Argument(help="Its path, its name, or corpus/name.", show_default=False)]
CorpusOption = Annotated[
    str | None, typer.Option("--corpus", "-c", help="Of this corpus, where several have the name.", show_default=False)
]


@app.command()
def add(
    path: Annotated[str, typer.Argument(help="Folder with pictures; it may be empty still.", show_default=False)],
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="Name that its pictures are indexed under.")] = "default",
    watch: Annotated[bool, typer.Option("--watch", help="Index it again whenever its files change.")] = False,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Index it now.")] = True,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Add a folder and index it: in the background while the service runs, else here."""
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone directory add", away=True) as context:
        told = directories_of(context).add(path, corpus=corpus, watch=watch, index=index)

        def human(console: Console) -> None:
            _print(console, told)
            if told["job"] is not None:
                console.print("indexing it in the background; what is finished can be found: lodestone directory describe")
            elif not index:
                console.print(printable(f"index it: lodestone directory index {told['name']}"), markup=False)
            if watch and context.remote is None and context.service() is None:
                console.print("it is watched while `lodestone serve` or `lodestone watch` runs")

        context.emit(told, human)


@app.command("list")
def list_(home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """List all directories with what can be found of each."""
    with CommandContext(home=home, profile=profile, output=output, away=True) as context:
        told = directories_of(context).every()

        def human(console: Console) -> None:
            from rich.markup import escape
            from rich.table import Table

            if not told:
                console.print("no directory yet: lodestone directory add ~/Pictures")
                return
            table = Table(box=None, pad_edge=False)
            for title in ("directory", "pictures", "waiting", "failed", "state", "path"):
                right = title in {"pictures", "waiting", "failed"}
                table.add_column(title, justify="right" if right else "left", overflow="fold")
            for one in told:
                counts = (f"{one[key]:,}" for key in ("images", "waiting", "failed"))
                name, path = f"{one['corpus']}/{one['name']}", one.get("path", "")
                table.add_row(escape(printable(name)), *counts, _state(one), escape(printable(path)))
            console.print(table)

        context.emit(told, human)


@app.command()
def describe(
    directory: NamedArgument,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Show one directory: its pictures, what waits, what failed, and the last runs of its corpus."""
    with CommandContext(home=home, profile=profile, output=output, away=True) as context:
        directories = directories_of(context)
        told = directories.find(directory, corpus)
        told["runs"] = directories.runs(told)
        context.emit(told, lambda console: _print(console, told))


@app.command()
def enable(
    directory: NamedArgument,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Let its pictures be found again, from the next query on."""
    _switch(directory, corpus, home=home, profile=profile, output=output, enabled=True)


@app.command()
def disable(
    directory: NamedArgument,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Keep its pictures out of every answer, from the next query on. They stay indexed, and are kept up to date."""
    _switch(directory, corpus, home=home, profile=profile, output=output, enabled=False)


@app.command()
def watch(
    directory: NamedArgument,
    off: Annotated[bool, typer.Option("--off", help="Stop watching it.")] = False,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Have it indexed again whenever its files change (while `lodestone serve` or `lodestone watch` runs)."""
    _switch(directory, corpus, home=home, profile=profile, output=output, watched=not off)


@app.command("index")
def index_(
    directory: NamedArgument,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Bring it up to date: in the background while the service runs, else here."""
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone directory index", away=True) as context:
        directories = directories_of(context)
        told = directories.index(directories.find(directory, corpus))
        context.emit(told, lambda console: _print(console, told))


@app.command()
def jobs(home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Show what the service indexes in the background: going on, waiting, and ended last."""
    with CommandContext(home=home, profile=profile, output=output, away=True) as context:
        client = context.remote or context.service()
        found: list[JobInfo] = client.jobs().jobs if client else []

        def human(console: Console) -> None:
            if not found:
                console.print("nothing is being indexed in the background" if client else "no service is running")
            for job in found:
                done = f" {job.done:,} of {job.total:,}" if job.total else ""
                line = f"{job.job_id[:8]}  {job.state:<9} {job.corpus} ({job.reason}) {job.stage}{done} {job.error}"
                console.print(printable(line), markup=False)

        context.emit([job.model_dump(mode="json") for job in found], human)


@app.command()
def remove(
    directory: NamedArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    corpus: CorpusOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Forget a directory: its vectors, thumbnails and catalog rows. The pictures themselves are not touched."""
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone directory remove", away=True) as context:
        directories = directories_of(context)
        told = directories.find(directory, corpus)
        if not yes:
            question = f"Forget {told['images']:,} pictures of {printable(told['name'])!r}? Your files stay where they are."
            typer.confirm(question, abort=True, err=True)
        directories.remove(told)
        removed = {"removed": told["name"], "corpus": told["corpus"], "path": told.get("path"), "images": told["images"]}

        def human(console: Console) -> None:
            line = f"forgot {told['name']} ({told['images']:,} pictures); the files themselves were not touched"
            console.print(printable(line), markup=False)

        context.emit(removed, human)


def _switch(directory: str, corpus: str | None, *, home: Any, profile: Any, output: Output, **change: bool) -> None:  # noqa: ANN401 - Typer's
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone directory", away=True) as context:
        directories = directories_of(context)
        told = directories.change(directories.find(directory, corpus), **change)
        context.emit(told, lambda console: _print(console, told))


def _state(told: dict[str, Any]) -> str:
    words = ["enabled" if told["enabled"] else "disabled"]
    words += ["watched"] if told["watched"] else []
    words += ["indexing"] if told["indexing"] else []
    return ", ".join(words)


def _print(console: Console, told: dict[str, Any]) -> None:
    lines = [
        f"{told['corpus']}/{told['name']}  ({_state(told)})",
        *([f"  {told['path']}"] if "path" in told else []),
        f"  {told['images']:,} pictures, {told['waiting']:,} waiting, {told['failed']:,} failed",
    ]
    if told["scanned_at"]:
        lines.append(f"  last looked through {told['scanned_at']}")
    lines += [
        f"  run {run['run_id'][:8]} {run['kind']}: {run['state']} {' '.join(run['error'].split())}"
        for run in told.get("runs", ())
    ]
    for line in lines:
        console.print(printable(line), markup=False)
