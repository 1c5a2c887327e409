"""Parts that the commands of `lodestone eval` share: home, index run, progress, the report's folder, lists in options."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.naming import names_in

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.progress import Progress
    from lodestone.indexing.run.report import IndexReport
    from lodestone_eval.ask import QueryProgressCallback

EvaluationHomeOption = Annotated[
    Path | None, typer.Option("--home", help="Home of this evaluation, kept and used again; default: a temporary one.")
]


def index_here(runtime: Runtime, folder: Path, corpus: str, progress: Progress) -> IndexReport:
    """Index a folder as a corpus, as `lodestone index` does."""
    from lodestone_jobs.index import run_index

    return run_index(runtime, [folder], corpus=corpus, progress=progress)


@contextmanager
def evaluation_home(home: Path | None) -> Iterator[Path]:
    """Yield the home that was given, or a temporary one that is deleted afterwards."""
    if home is not None:
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="lodestone-eval-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def shown_answers(context: CommandContext) -> Iterator[QueryProgressCallback]:
    """Show progress while queries are asked: one bar for each configuration."""
    from lodestone_cli.progress import shown_counts

    with shown_counts(context) as count:
        yield lambda stage, done, total: count(f"asking {stage}", done, total)


def report_folder(folder: Path | None, *, plots: bool = False) -> Path | None:
    """Return the folder of a report, made before a long run; None for None.

    Raises:
        InvalidRequestError: it cannot be made, or `plots` have no folder.
        ConfigurationError: matplotlib, which draws plots, is not installed.
    """
    from lodestone.errors import InvalidRequestError

    if folder is None:
        if plots:
            raise InvalidRequestError("--plots says what to draw, not where", hint="add --report FOLDER")
        return None
    if plots:
        from lodestone_eval.plots import require_matplotlib

        require_matplotlib()
    folder = folder.expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequestError(
            f"cannot write into {str(folder)!r}: {error.strerror}", hint="give another folder to --report"
        ) from error
    return folder


def note_skipped(context: CommandContext, skipped: Mapping[str, int]) -> None:
    """Print what a benchmark's reader left out, and how often."""
    for what, count in skipped.items():
        context.messages.print(printable(f"note: left out: {count:,} {what}"), markup=False)


def numbers_in(text: str | None, option: str) -> tuple[float, ...] | None:
    """Return the numbers of a comma-separated list; None for None.

    Raises:
        InvalidRequestError: one is no number.
    """
    from lodestone.errors import InvalidRequestError

    if text is None:
        return None
    try:
        return tuple(float(name) for name in names_in(text))
    except ValueError as error:
        raise InvalidRequestError(f"{option} {text!r} is no list of numbers", hint=f"for example {option} .2,.8") from error


def integers_in(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers of a comma-separated list.

    Raises:
        InvalidRequestError: one is no whole number.
    """
    from lodestone.errors import InvalidRequestError

    try:
        return tuple(int(name) for name in names_in(text))
    except ValueError as error:
        raise InvalidRequestError(
            f"{option} {text!r} is no list of whole numbers", hint=f"for example {option} 10,100"
        ) from error
