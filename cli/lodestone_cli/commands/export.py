"""Command `lodestone export DIRECTORY`: vectors, facts, captions and pictures in files that other programs read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.commands.index import actor_bounds
from lodestone_cli.dates import FilterOptions
from lodestone_cli.naming import checked, counted, names_in
from lodestone_cli.progress import shown_counts
from lodestone_cli.sets import NotOption, WhereOption, knowing_restrictions, match_of

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.export.request import ExportRequest, FileSize
    from lodestone.export.run import ExportReport
    from lodestone.indexing.bulk_work import BulkHost

_FILES = "What the files hold"
_CLUSTER = "On a Ray cluster"
_AGAIN = "what is finished is kept; the same command goes on"
_NAMED = 3
_SIZE = re.compile(r"(?P<number>[0-9]{1,12})\s*(?P<unit>MB|GB)?", re.IGNORECASE)
_UNITS = {"MB": 1 << 20, "GB": 1 << 30}
_Choice = TypeVar("_Choice", bound=StrEnum)


def export(
    which: FilterOptions,
    at: HomeOptions,
    directory: Annotated[str, typer.Argument(help="New directory, or one of an export to go on with; or a URL (s3://…).")],
    where: WhereOption = None,
    refused: NotOption = None,
    form: Annotated[str, typer.Option("--format", help="parquet or webdataset.", rich_help_panel=_FILES)] = "parquet",
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Facts, by name, separated by commas; default: all.", rich_help_panel=_FILES),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space", help="Only vectors of this space; may be given several times; default: all.", rich_help_panel=_FILES
        ),
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors/--no-vectors", help="Export vectors, or none.", rich_help_panel=_FILES)
    ] = True,
    dtype: Annotated[str, typer.Option("--dtype", help="float32 or float16.", rich_help_panel=_FILES)] = "float32",
    pictures: Annotated[
        str | None,
        typer.Option(
            "--pictures",
            help="What WebDataset archives hold of a picture: originals, thumbnails or none; default: originals.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            help="Most pictures of a file (10000), or its size before compression (500MB, 2GB).",
            rich_help_panel=_FILES,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Files that are written at once; default: one a core.")
    ] = None,
    executor: Annotated[
        str, typer.Option("--executor", help="auto, inline or ray; auto: ray where there is a cluster.")
    ] = "auto",
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="Ray cluster that writes the files: HOST:PORT on one of its nodes, or auto inside a Ray job.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    actors: Annotated[
        str | None,
        typer.Option("--actors", metavar="NUMBER|MIN:MAX", help="Actors that write.", rich_help_panel=_CLUSTER),
    ] = None,
) -> None:
    """Write vectors, facts and captions to Parquet files, or pictures to WebDataset archives. Run it again to go on."""
    cluster = {"address": address, "actors": None if actors is None else actor_bounds(actors)}
    with CommandContext(at, purpose="lodestone export", flags={"cluster": cluster}, existing=True) as context:
        from lodestone.export.request import ExportFormat, ExportRequest, PictureBytes, VectorType
        from lodestone.export.run import area_of, run_export
        from lodestone_cli.stopping import stopped_by_signals
        from lodestone_schemas.searching import QuerySet

        _, match = match_of(context, "", others=None, holding=where, refused=refused)
        request = ExportRequest(
            format=_chosen(ExportFormat, "--format", form),
            filters=checked(lambda: which.filters(context)),
            match=None if match is None else checked(lambda: QuerySet(**match)),
            columns=None if columns is None else _names(columns),
            spaces=_spaces(space, vectors=vectors),
            dtype=_chosen(VectorType, "--dtype", dtype),
            pictures=None if pictures is None else _chosen(PictureBytes, "--pictures", pictures),
            size=None if size is None else _file_size(size),
        )
        area = area_of(context.runtime, directory)
        with (
            stopped_by_signals(lambda: _AGAIN),
            knowing_restrictions(),
            _host(context, request, area.folder, workers=workers, executor=executor) as host,
            shown_counts(context) as count,
        ):
            report = run_export(
                context.runtime,
                request,
                area,
                host=host,
                progress=lambda done, total: count("exporting pictures", done, total),
            )
        context.emit(report.as_dict(), lambda console: _print(console, report))


def _names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return names that are given one by one or separated by commas, each once."""
    return tuple(dict.fromkeys(names_in(",".join(texts))))


def _spaces(names: Sequence[str] | None, *, vectors: bool) -> tuple[str, ...] | None:
    """Return the spaces whose vectors are wanted; None for all.

    Raises:
        InvalidRequestError: spaces are named, and no vectors are wanted.
    """
    if vectors:
        return None if names is None else _names(names)
    if names:
        raise InvalidRequestError("--space names vectors, and --no-vectors leaves them out", hint="give one of the two")
    return ()


def _chosen(kind: type[_Choice], option: str, text: str) -> _Choice:
    """Return the member of an enumeration that a word names.

    Raises:
        InvalidRequestError: there is no such member.
    """
    try:
        return kind(text)
    except ValueError:
        raise InvalidRequestError(f"{option} {text!r} is unknown", hint=f"one of {', '.join(kind)}") from None


def _file_size(text: str) -> FileSize:
    """Return the bound that a text names: a number of pictures (`10000`), or a size (`500MB`, `2GB`).

    Raises:
        InvalidRequestError: it is neither, or 0.
    """
    from lodestone.export.request import FileSize

    match = _SIZE.fullmatch(text.strip())
    number = int(match["number"]) if match else 0
    if match is None or not number:
        raise InvalidRequestError(
            f"--size {text!r} is no size of a file", hint="a number of pictures, e.g. 10000, or a size, e.g. 500MB or 2GB"
        )
    unit = match["unit"]
    return FileSize(bytes=number * _UNITS[unit.upper()]) if unit else FileSize(pictures=number)


@contextmanager
def _host(
    context: CommandContext, request: ExportRequest, folder: Path | None, *, workers: int | None, executor: str
) -> Iterator[BulkHost]:
    """Return a context with what does the work: threads of this process, or Ray."""
    from lodestone.indexing.bulk_work import in_threads
    from lodestone.models.hardware import cores

    if executor not in {"auto", "inline", "ray"}:
        raise InvalidRequestError(f"--executor {executor!r} is unknown", hint="one of auto, inline, ray")
    runtime = context.runtime
    at_once = workers or cores()
    if executor == "inline" or (executor == "auto" and runtime.settings.cluster.address is None):
        yield in_threads(at_once)
        return
    from lodestone.export.request import PictureBytes
    from lodestone.export.run import exported_roots
    from lodestone_jobs.bulk import on_ray
    from lodestone_jobs.slice_stream import RunWords

    paths = [str(folder)] if folder is not None else []
    if request.picture_bytes is PictureBytes.ORIGINALS:
        paths += [root.path for root in exported_roots(runtime, request)]
    words = RunWords("export worker", "the same command goes on")
    with on_ray(runtime, workers=at_once, words=words, paths=paths) as host:
        yield host


def _print(console: Console, report: ExportReport) -> None:
    """Print what an export did, for people."""
    size = report.bytes / (1 << 20)
    kept = report.files - report.written
    was = f"; {counted(kept, 'file')} had not changed" if kept else ""
    files = f"{counted(report.files, 'file')} ({size:,.1f} MB) in {report.location}"
    console.print(printable(f"{counted(report.pictures, 'picture')} in {files}{was}"), markup=False)
    notes = list(report.notes)
    for space, number in report.without_vector.items():
        notes.append(f"{counted(number, 'picture')} without a vector in {space}: lodestone index, then the same command again")
    if report.left_out:
        first = "; ".join(f"{one.uri}: {one.message}" for one in report.left_out[:_NAMED])
        more = "; …" if len(report.left_out) > _NAMED else ""
        notes.append(
            f"{counted(len(report.left_out), 'picture')} left out, all named in _manifest.json; the same command tries again "
            f"({first}{more})"
        )
    if report.is_changing:
        notes.append("the pictures change while they are exported: run the same command again later")
    for note in notes:
        console.print(printable(f"note: {note}"), markup=False)
