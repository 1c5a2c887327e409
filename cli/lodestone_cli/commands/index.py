"""Command `lodestone index PATH…`: make pictures searchable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_corpora
from lodestone_cli.naming import counted
from lodestone_cli.options import LocalOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.indexing.run.report import IndexReport

_CLUSTER = "On a Ray cluster"


def index(
    at: HomeOptions,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders, files, URLs (s3://…, gs://…), tables (.parquet, .lance), archives (.tar); with --resume a run."
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            "-c",
            help="Name that these pictures are indexed under; the name of the corpus that has these folders, else default.",
            autocompletion=complete_corpora,
        ),
    ] = None,
    captions: Annotated[Path | None, typer.Option("--captions", help="Table with the columns file and caption.")] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="PATTERN",
            help="Leave out what matches, as in a .gitignore, from now on; repeat it for several patterns.",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Embedding workers; default: one a core.")] = None,
    executor: Annotated[str | None, typer.Option("--executor", help="auto, inline, processes or ray.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try files again that failed before; without folders, all of the corpus.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish what the corpus's last run, or the run named, left; find no files again.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="Ray cluster that embeds: HOST:PORT on one of its nodes, or auto inside a Ray job.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    actors: Annotated[
        str | None,
        typer.Option(
            "--actors",
            metavar="NUMBER|MIN:MAX",
            help="Actors with models, or bounds of their number; default: as many as fit.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    gpus_per_actor: Annotated[
        float | None, typer.Option("--gpus-per-actor", min=0, help="E.g. 0.5.", rich_help_panel=_CLUSTER)
    ] = None,
    cpus_per_actor: Annotated[
        float | None, typer.Option("--cpus-per-actor", min=0.01, help="E.g. 2.", rich_help_panel=_CLUSTER)
    ] = None,
    local: LocalOption = False,
) -> None:
    """Index pictures. Run it again at any time: only what is new or changed is read, and what was cut short goes on."""
    cluster = {
        "address": address,
        "actors": None if actors is None else actor_bounds(actors),
        "gpus_per_actor": gpus_per_actor,
        "cpus_per_actor": cpus_per_actor,
    }
    flags = {"index": {"workers": workers, "executor": executor}, "cluster": cluster}
    with CommandContext(at, purpose="lodestone index", flags=flags, local=local, writes=True) as context:
        from lodestone_cli.progress import shown_progress
        from lodestone_cli.stopping import outcome_of, stopped_by_signals
        from lodestone_jobs.index import run_index

        context.require_store()
        meant = _corpus_meant(context, [] if resume or not paths else _named(paths)) if corpus is None else corpus
        if retry_failed and not paths and not resume:
            paths = _folders_of_failures(context, meant)
        with (
            stopped_by_signals(lambda: outcome_of(lambda: context.runtime.catalog, meant, at.home)) as stop,
            shown_progress(context) as progress,
        ):
            if resume:
                meant = _corpus_resumed(context, _run_named(paths or []), meant)
            report = run_index(
                context.runtime,
                () if resume else _named(paths or []),
                corpus=meant,
                captions=captions.expanduser() if captions else None,
                retry_failed=retry_failed,
                exclude=exclude or (),
                resume=_run_named(paths or []) if resume else None,
                service=context.service(),
                progress=progress,
                stop=stop,
            )

        def human(console: Console) -> None:
            print_report(console, report)
            if not failures_of(report) and (known := _known_failures(context, report.corpus)):
                console.print(f"{counted(known, 'file')} could not be used before: lodestone status --failures", style="dim")

        context.emit(report.as_dict(), human)
        if not resume:
            _require_some_usable(context, _named(paths or []), meant)


def actor_bounds(actors: str) -> int | tuple[int, int]:
    """Return a number of actors, or the least and the most of them.

    Raises:
        InvalidRequestError: the text is neither.
    """
    numbers = actors.split(":")
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise InvalidRequestError(
            f"--actors {actors!r} is neither a number nor two numbers MIN:MAX", hint="e.g. --actors 4, or --actors 2:16"
        )
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))


def _corpus_meant(context: CommandContext, named: list[Path | str]) -> str:
    """Return the name of the corpus that a run is meant for whose command names none, of a home that may not exist yet."""
    from lodestone_cli.corpus_meant import corpus_meant
    from lodestone_cli.stopping import DEFAULT_CORPUS

    return corpus_meant(context.runtime.catalog, named) if context.has_home else DEFAULT_CORPUS


def _folders_of_failures(context: CommandContext, corpus: str) -> list[str]:
    """Return the folders, buckets and tables of a corpus that have files which could not be used.

    Raises:
        UnknownNameError: there is no such corpus.
        InvalidRequestError: every file could be used.
    """
    context.require_home()
    catalog = context.runtime.catalog
    corpus_id = catalog.corpus(corpus).corpus_id
    failed = {failure.root_id for failure in catalog.failures(corpus_id=corpus_id)}
    if not failed:
        raise InvalidRequestError(f"no file of {corpus!r} is to be tried again", hint="lodestone status lists all corpora")
    return [root.path for root in catalog.roots(corpus_id) if root.root_id in failed]


def _known_failures(context: CommandContext, corpus: str) -> int:
    """Return how many files of a corpus could not be used, in this run or before."""
    catalog = context.runtime.catalog
    return sum(1 for _ in catalog.failures(corpus_id=catalog.corpus(corpus).corpus_id))


def _run_named(arguments: list[str]) -> str:
    if len(arguments) > 1:
        raise InvalidRequestError(
            f"--resume takes one run, not {len(arguments)}",
            hint="lodestone index --resume, or --resume RUN (`lodestone runs list`)",
        )
    return arguments[0] if arguments else ""


def _corpus_resumed(context: CommandContext, run_id: str, corpus: str) -> str:
    """Return the name of the corpus whose run is resumed: that of the run, where one is named."""
    from lodestone.indexing.run.history import recall

    return recall(context.runtime.catalog, run_id, corpus=corpus).request.corpus


def _require_some_usable(context: CommandContext, named: list[Path | str], corpus: str) -> None:
    """Refuse to end well where single files were named and none of them could be used.

    Raises:
        ImageError: every path is a file that could not be used.
    """
    from lodestone.catalog.records import ImageState
    from lodestone.errors import ImageError
    from lodestone.sources.uris import uri_of

    files = [Path(os.path.abspath(path)) for path in named if isinstance(path, Path) and path.is_file()]  # noqa: PTH100 - links stay
    if not files or len(files) < len(named):
        return
    catalog = context.runtime.catalog
    roots = catalog.roots(catalog.corpus(corpus).corpus_id)
    states = [
        image.state
        for file in files
        for root in roots
        if file.is_relative_to(root.path) and file != Path(root.path)
        for image in catalog.images_by_uri(root.root_id, [uri_of(file.relative_to(root.path))]).values()
    ]
    if states and all(state == ImageState.FAILED for state in states):
        raise ImageError(
            "the file could not be used" if len(files) == 1 else f"none of the {len(files)} files could be used",
            hint="lodestone status --failures says why",
        )


def _named(paths: list[str]) -> list[Path | str]:
    if not paths:
        raise InvalidRequestError("nothing to index", hint="name a folder with pictures, or --resume the last run")
    if "" in paths:  # an unset variable in a script; `Path("")` would be the current folder
        raise InvalidRequestError("one of the paths is empty", hint="name a folder with pictures; `.` is the current one")
    return [path if "://" in path else Path(path).expanduser() for path in paths]


_SLOW = 10  # pictures a second below which a tenth is told
_CHANGES = {
    "new": "new",
    "changed": "changed",
    "moved": "moved",
    "back": "back again",
    "gone": "gone",
    "recaptioned": "with new captions",
    "metadata_read": "with metadata read again",
    "added": "with a further part",
    "unchanged": "unchanged",
}


def failures_of(report: IndexReport) -> int:
    """Return how many files a run could not use, while looking for files and while embedding."""
    return report.counts.get("failed", 0) + report.counts.get("failures", 0)


def print_report(console: Console, report: IndexReport) -> None:
    """Print what a run did, for people."""
    from rich.markup import escape

    if report.nothing_left:
        console.print(f"nothing to resume: the last run of {escape(report.corpus)} is complete")
        console.print(
            f"[bold]{counted(report.images, 'picture')}[/] can be found; lodestone index PATH looks for new and changed ones"
        )
        return
    failed = failures_of(report)
    changes = ", ".join(f"{report.counts[key]:,} {words}" for key, words in _CHANGES.items() if report.counts.get(key))
    changes += f"; {failed:,} could not be used" if changes and failed else ""
    if not changes and report.resumed:  # it looked for no files
        changes = f"{report.completed:,} of them since" if report.completed else "no picture was left to embed"
    console.print(
        f"[bold]{counted(report.images, 'picture')}[/] can be found in {escape(report.corpus)}  ({changes or 'nothing found'})"
    )
    if embedded := report.counts.get("embedded", 0):
        rate = f"{report.rate:.0f}" if report.rate >= _SLOW else f"{report.rate:.1f}"
        console.print(
            f"embedded {embedded:,} in {report.seconds:.1f} s: {rate} images/s ({report.executor}{_limit(report)})", style="dim"
        )
    if report.resumed:
        console.print(f"finished what run {report.resumed[:8]} left", style="dim")
    if report.deaths:
        console.print(
            f"[yellow]{counted(report.deaths, 'worker')} died[/]; {counted(report.retries, 'slice')} tried again", style="dim"
        )
    _print_unused(console, report, failed)
    for warning in report.warnings:
        console.print(f"[yellow]note:[/] {escape(printable(warning))}")
    for problem in report.problems:
        console.print(f"[red]left out \\[{problem.code}]:[/] {escape(printable(problem.message))}")


def _print_unused(console: Console, report: IndexReport, failed: int) -> None:
    """Print what was found and is not searchable, or not whole."""
    if failed:
        console.print(f"[yellow]{counted(failed, 'file')} could not be used[/]: lodestone status --failures")
    if report.left_out:
        from lodestone.sources.exclusion import counted as in_words

        console.print(f"left out: {in_words(report.left_out)}", style="dim")
    if incomplete := report.counts.get("incomplete", 0):
        console.print(f"[yellow]{incomplete:,} incomplete[/]: their files end early; copy them again where a whole one is left")


def _limit(report: IndexReport) -> str:
    """Return what the run was limited by, and how busy that was; "" where nothing was clearly the busiest."""
    from lodestone_cli.progress import LIMITS

    limit = next((share for share in report.stages if share.stage.value == report.limited_by), None)
    return "" if limit is None else f", limited by {LIMITS[limit.stage.value]}, {limit.busy:.0%} busy"
