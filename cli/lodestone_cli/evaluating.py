"""Parts that the commands of `lodestone eval` share: the evaluation's home, its index run, progress, the report's folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone_cli.command_context import CommandContext
from lodestone_cli.options import Output

if TYPE_CHECKING:
    from lodestone.evaluation.ask import QueryProgressCallback
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.progress import Progress
    from lodestone.indexing.run.report import IndexReport

_LINE_SECONDS: Final = 5.0  # between lines of progress where there is no terminal


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
    """Show progress while queries are asked: one bar for each configuration on a terminal, lines elsewhere."""
    console = context.messages
    if not console.is_terminal:
        due = 0.0

        def line(stage: str, done: int, total: int) -> None:
            nonlocal due
            if context.output is Output.HUMAN and (done == total or time.monotonic() >= due):
                due = time.monotonic() + _LINE_SECONDS
                console.print(f"asking {stage} {done:,}/{total:,}", markup=False)

        yield line
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("asking {task.description:<22}", markup=False), BarColumn(), MofNCompleteColumn())
    bars = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
    tasks: dict[str, TaskID] = {}

    def bar(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(tasks[stage], completed=done)

    with bars:
        yield bar


def check_report(folder: Path | None, *, plots: bool) -> None:
    """Check before a long run that its report can be written and drawn."""
    from lodestone.errors import InvalidRequestError

    if folder is None:
        if plots:
            raise InvalidRequestError("--plots says what to draw, not where", hint="add --report FOLDER")
        return
    if plots:
        from lodestone.evaluation.plots import require_matplotlib

        require_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequestError(
            f"cannot write into {str(folder)!r}: {error.strerror}", hint="give another folder to --report"
        ) from error
