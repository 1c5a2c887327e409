"""Commands `lodestone directory …`: add and remove folders, and switch searching and watching of each."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lodestone_cli.background import index_here
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_corpora, complete_roots
from lodestone_cli.naming import confirm, id_among, local_time
from lodestone_cli.option_groups import Commands
from lodestone_cli.progress import shown_wait
from lodestone_cli.remains import print_remains, remains_facts
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from lodestone_schemas.directories import DirectoryInfo, JobInfo

app = Commands(help="Folders that are indexed: add, remove, switch on and off, watch.", no_args_is_help=True)

_RUNS: Final = 3  # last runs of its corpus that describe a directory
NamedArgument = Annotated[
    str,
    typer.Argument(
        help="Its path, its name, or corpus/name; a folder inside one to enable, disable, watch or remove that alone.",
        autocompletion=complete_roots,
    ),
]
CorpusOption = Annotated[
    str | None,
    typer.Option("--corpus", "-c", help="Of this corpus, where several have the name.", autocompletion=complete_corpora),
]


@app.command()
def add(
    at: HomeOptions,
    path: Annotated[str, typer.Argument(help="Folder with pictures; it may be empty still.")],
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            "-c",
            help="Name that its pictures are indexed under; without it, the corpus that has the folder already, or default.",
            autocompletion=complete_corpora,
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Index it again whenever its files change.")] = False,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Index it now.")] = True,
) -> None:
    """Add a folder and index it: in the background while the service runs, else here."""
    with CommandContext(at, purpose="lodestone directory add", away=True) as context:
        from lodestone_schemas.directories import DirectoryRequest

        corpus = corpus or _corpus_meant(context, path)
        request = context.api_request(DirectoryRequest, path=path, corpus=corpus, watch=watch, index=index)
        added = context.api.add_directory(request)
        counts: dict[str, int] = {}
        if index and added.job is None:
            counts = index_here(context, added.directory.directory_id, corpus)
            added = added.model_copy(update={"directory": context.api.directory(added.directory.directory_id)})
        directory = _with_path(added.directory, context.locator.directory_paths()) | _indexed(added.job, counts)

        def human(console: Console) -> None:
            _print(console, directory)
            if added.relocated:
                console.print("its folder has moved here: its pictures keep their ids, tags and captions")
            if added.job is not None:
                console.print("indexing it in the background; what is finished can be found: lodestone directory describe")
            elif not index:
                console.print(printable(f"index it: lodestone directory index {directory['name']}"), markup=False)
            if watch and not context.is_served:
                console.print("it is watched while `lodestone serve` or `lodestone watch` runs")

        context.emit(directory, human)


@app.command("list")
def list_(at: HomeOptions) -> None:
    """List all directories with what can be found of each."""
    with CommandContext(at, away=True) as context:
        directories = _listed(context) if context.has_home else []

        def human(console: Console) -> None:
            from rich.markup import escape
            from rich.table import Table

            if not directories:
                console.print("no directory yet: lodestone directory add ~/Pictures")
                return
            table = Table(box=None, pad_edge=False)
            for title in ("directory", "pictures", "waiting", "failed", "state", "path"):
                right = title in {"pictures", "waiting", "failed"}
                table.add_column(title, justify="right" if right else "left", overflow="fold")
            for directory in directories:
                counts = (f"{directory[key]:,}" for key in ("images", "waiting", "failed"))
                name, path = f"{directory['corpus']}/{directory['name']}", directory.get("path", "")
                table.add_row(escape(printable(name)), *counts, _state(directory), escape(printable(path)))
            print_table(console, table)

        context.emit(directories, human)


@app.command()
def describe(at: HomeOptions, directory: NamedArgument, corpus: CorpusOption = None) -> None:
    """Show one directory: its pictures, what waits, what failed, and the last runs of its corpus."""
    with CommandContext(at, away=True) as context:
        facts = _described(context, context.locator.directory(directory, corpus))
        facts["runs"] = [
            run.model_dump(include={"run_id", "kind", "state", "started_at", "error"})
            for run in context.api.runs(limit=_RUNS, corpus=facts["corpus"]).runs
        ]
        context.emit(facts, lambda console: _print(console, facts))


@app.command()
def enable(at: HomeOptions, directory: NamedArgument, corpus: CorpusOption = None) -> None:
    """Let its pictures be found again, from the next query on."""
    _switch(at, directory, corpus, enabled=True)


@app.command()
def disable(at: HomeOptions, directory: NamedArgument, corpus: CorpusOption = None) -> None:
    """Keep its pictures out of every answer, from the next query on. They stay indexed, and are kept up to date."""
    _switch(at, directory, corpus, enabled=False)


@app.command()
def watch(
    at: HomeOptions,
    directory: NamedArgument,
    off: Annotated[bool, typer.Option("--off", help="Stop watching it.")] = False,
    corpus: CorpusOption = None,
) -> None:
    """Have it indexed again whenever its files change (while `lodestone serve` or `lodestone watch` runs)."""
    _switch(at, directory, corpus, watched=not off)


@app.command()
def exclude(
    at: HomeOptions,
    directory: NamedArgument,
    patterns: Annotated[
        list[str] | None, typer.Argument(help="Patterns as in a .gitignore; none: show those that are set.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove these patterns; without patterns, all of them.")] = False,
    corpus: CorpusOption = None,
) -> None:
    """Leave out of a directory what matches a pattern, or let it be indexed again; the next run follows."""
    with CommandContext(at, purpose="lodestone directory", away=True) as context:
        from lodestone_schemas.directories import DirectoryChange

        directory_id = context.locator.directory(directory, corpus)
        facts = context.api.directory(directory_id)
        given = patterns or []
        if given or remove:
            kept = [pattern for pattern in facts.exclude if given and pattern not in given]
            wanted = kept if remove else [*facts.exclude, *(p for p in given if p not in facts.exclude)]
            facts = context.api.change_directory(directory_id, context.api_request(DirectoryChange, exclude=wanted))

        def human(console: Console) -> None:
            for pattern in facts.exclude:
                console.print(printable(pattern), markup=False)
            if not facts.exclude:
                console.print("no pattern leaves anything out")
            elif given or remove:
                console.print(printable(f"bring it up to date: lodestone directory index {facts.name}"), markup=False)

        context.emit({"directory": facts.name, "corpus": facts.corpus, "exclude": facts.exclude}, human)


@app.command("index")
def index_(at: HomeOptions, directory: NamedArgument, corpus: CorpusOption = None) -> None:
    """Bring it up to date: in the background while the service runs, else here."""
    with CommandContext(at, purpose="lodestone directory index", away=True) as context:
        directory_id = context.locator.directory(directory, corpus)
        job, counts = None, {}
        if context.is_served:
            job = context.api.index_directory(directory_id)
        else:
            counts = index_here(context, directory_id, context.api.directory(directory_id).corpus)
        facts = _described(context, directory_id) | _indexed(job, counts)
        context.emit(facts, lambda console: _print(console, facts))


@app.command()
def jobs(at: HomeOptions) -> None:
    """Show what the service indexes in the background: going on, waiting, and ended last."""
    with CommandContext(at, away=True) as context:
        is_served = context.is_served
        background: list[JobInfo] = context.api.jobs().jobs if is_served else []

        def human(console: Console) -> None:
            if not background:
                console.print("nothing is being indexed in the background" if is_served else "no service is running")
            for job in background:
                done = f" {job.done:,} of {job.total:,}" if job.total else ""
                line = f"{job.job_id[:8]}  {job.state:<9} {job.corpus} ({job.reason}) {job.stage}{done} {job.error}"
                console.print(printable(line), markup=False)

        context.emit([job.model_dump(mode="json") for job in background], human)


@app.command()
def cancel(
    at: HomeOptions, job_id: Annotated[str, typer.Argument(help="Id of a job, or its beginning: directory jobs.")]
) -> None:
    """Take back background indexing that waits, or stop what goes on. What is finished is kept."""
    with CommandContext(at, purpose="lodestone directory", away=True) as context:
        known = [job.job_id for job in context.api.jobs().jobs] if context.is_served else []
        job = context.api.cancel_job(id_among(job_id, known, what="job", hint="lodestone directory jobs"))
        line = f"{job.job_id[:8]} of {job.corpus} is {job.state}"
        context.emit(job.model_dump(mode="json"), lambda console: console.print(printable(line), markup=False))


@app.command()
def relocate(
    at: HomeOptions,
    directory: Annotated[str, typer.Argument(help="The path that it had, its name, or corpus/name.")],
    path: Annotated[str, typer.Argument(help="Folder where its pictures are now.")],
    index: Annotated[bool, typer.Option("--index/--no-index", help="Bring it up to date now.")] = True,
    corpus: CorpusOption = None,
) -> None:
    """Tell where its folder is now, after it was moved, renamed or restored: ids, tags and captions stay, no model runs."""
    purpose = "lodestone directory relocate"
    with CommandContext(at, purpose=purpose, away=True) as context:
        from lodestone_schemas.directories import DirectoryRelocation

        directory_id = context.locator.directory(directory, corpus)
        relocated = context.api.relocate_directory(
            directory_id, context.api_request(DirectoryRelocation, path=path, index=index)
        )
        counts: dict[str, int] = {}
        if index and relocated.job is None:
            counts = index_here(context, relocated.directory.directory_id, relocated.directory.corpus)
        facts = _described(context, relocated.directory.directory_id) | _indexed(relocated.job, counts)
        context.emit(facts, lambda console: _print(console, facts))


@app.command()
def remove(
    at: HomeOptions,
    directory: NamedArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    corpus: CorpusOption = None,
) -> None:
    """Forget a directory: its vectors, thumbnails and catalog rows. The pictures themselves are not touched."""
    with CommandContext(at, purpose="lodestone directory remove", away=True, existing=True) as context:
        directory_id, folder = _found(context, directory, corpus)
        if not yes:  # asked before a folder becomes a directory of its own: who declines has changed nothing
            facts = _described(context, directory_id)
            what = f"{facts['images']:,} pictures of" if folder is None else f"the pictures in {printable(folder)!r} of"
            confirm(f"Forget {what} {printable(facts['name'])!r}? Your files stay where they are.")
        facts = _described(context, _directory_of(context, directory, corpus))
        with shown_wait(context, f"forgetting {printable(facts['name'])}"):
            context.api.remove_directory(facts["directory_id"])
        removed = {"removed": facts["name"], "corpus": facts["corpus"], "path": facts.get("path"), "images": facts["images"]}
        removed |= remains_facts(context)

        def human(console: Console) -> None:
            line = f"forgot {facts['name']} ({facts['images']:,} pictures); the files themselves were not touched"
            console.print(printable(line), markup=False)
            for around in _around(context, facts):
                again = shlex.join(["lodestone", "directory", "exclude", around["name"], "--remove", around["exclude"][-1]])
                line = f"{around['name']} leaves the folder out from now on; to have it found again: {again}"
                console.print(printable(line), markup=False)
            print_remains(console, removed)

        context.emit(removed, human)


def _corpus_meant(context: CommandContext, path: str) -> str:
    """Return the name of the corpus that a folder is meant for whose command names none; a service elsewhere knows no paths."""
    from lodestone_cli.corpus_meant import corpus_meant
    from lodestone_cli.stopping import DEFAULT_CORPUS

    if context.remote is not None or not context.has_home:
        return DEFAULT_CORPUS
    return corpus_meant(context.runtime.catalog, [Path(path).expanduser()])


def _around(context: CommandContext, removed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the directories of the corpus around one that was removed, which have a pattern for it since."""
    place = removed.get("path", "")
    return [
        directory
        for directory in _listed(context)
        if directory["corpus"] == removed["corpus"]
        and directory["exclude"]
        and place.startswith(f"{directory.get('path', place)}/")
    ]


def _directory_of(context: CommandContext, named: str, corpus: str | None) -> str:
    """Return the id of the directory that is named; a folder inside one becomes a directory of its own.

    Raises:
        UnknownNameError, NotFoundError: there is no such directory, and no such folder with pictures in one.
        InvalidRequestError: there are several.
    """
    from lodestone_schemas.directories import DirectorySplit

    directory_id, folder = _found(context, named, corpus)
    if folder is None:
        return directory_id
    return context.api.split_directory(directory_id, context.api_request(DirectorySplit, folder=folder)).directory_id


def _found(context: CommandContext, named: str, corpus: str | None) -> tuple[str, str | None]:
    """Return the id of the directory that is named, and None; or of the one around the folder that is named, and that folder.

    Raises:
        UnknownNameError, InvalidRequestError: as `_directory_of`.
    """
    from lodestone.errors import UnknownNameError

    try:
        return context.locator.directory(named, corpus), None
    except UnknownNameError:
        inside = context.locator.folder_of_directory(named, corpus)
        if inside is None:
            raise
    return inside


def _switch(at: HomeOptions, directory: str, corpus: str | None, **change: bool) -> None:
    with CommandContext(at, purpose="lodestone directory", away=True) as context:
        from lodestone_schemas.directories import DirectoryChange

        directory_id = _directory_of(context, directory, corpus)
        changed = context.api.change_directory(directory_id, DirectoryChange(**change))
        facts = _with_path(changed, context.locator.directory_paths())
        context.emit(facts, lambda console: _print(console, facts))


def _listed(context: CommandContext) -> list[dict[str, Any]]:
    """Return all directories as the output shows them, each with its path where that is known."""
    paths = context.locator.directory_paths()
    return [_with_path(directory, paths) for directory in context.api.iter_directories()]


def _described(context: CommandContext, directory_id: str) -> dict[str, Any]:
    """Return one directory as the output shows it, with its path where that is known."""
    return _with_path(context.api.directory(directory_id), context.locator.directory_paths())


def _with_path(directory: DirectoryInfo, paths: Mapping[str, str]) -> dict[str, Any]:
    path = paths.get(directory.directory_id)
    return directory.model_dump(mode="json") | ({} if path is None else {"path": path})


def _indexed(job: JobInfo | None, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the job of the service, or the counts of what this process did."""
    return {"job": None if job is None else job.model_dump(mode="json"), "counts": counts}


def _state(directory: dict[str, Any]) -> str:
    words = ["enabled" if directory["enabled"] else "disabled"]
    words += ["watched"] if directory["watched"] else []
    words += ["indexing"] if directory["indexing"] else []
    return ", ".join(words)


def _print(console: Console, directory: dict[str, Any]) -> None:
    lines = [
        f"{directory['corpus']}/{directory['name']}  ({_state(directory)})",
        *([f"  {directory['path']}"] if "path" in directory else []),
        f"  {directory['images']:,} pictures, {directory['waiting']:,} waiting, {directory['failed']:,} failed",
    ]
    if directory["scanned_at"]:
        lines.append(f"  last looked through {local_time(datetime.fromisoformat(directory['scanned_at']))}")
    lines += [
        f"  run {run['run_id'][:8]} {run['kind']}: {run['state']} {' '.join(run['error'].split())}"
        for run in directory.get("runs", ())
    ]
    for line in lines:
        console.print(printable(line), markup=False)
