"""`lodestone index PATH…`: make pictures searchable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.options import HomeOption, LocalOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session

if TYPE_CHECKING:
    from lodestone.indexing.run import IndexReport
    from rich.console import Console


def index(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders or files; folders are searched for pictures.", show_default=False)
    ],
    corpus: Annotated[str, typer.Option("--corpus", "-c", help="Name that these pictures are indexed under.")] = "default",
    captions: Annotated[
        Path | None, typer.Option("--captions", help="Table with the columns file and caption.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Embedding workers; default: one a core.", show_default=False)
    ] = None,
    executor: Annotated[str | None, typer.Option("--executor", help="auto, inline or ray.", show_default=False)] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try files again that failed before.")] = False,
    local: LocalOption = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Index pictures. Run it again at any time: only what is new or changed is read, and what was cut short goes on."""
    flags = {"index": {"workers": workers, "executor": executor}}
    with Session(home=home, profile=profile, output=output, purpose="lodestone index", flags=flags) as session:
        from lodestone_jobs.index import run_index

        from lodestone_cli.progress import shown_progress

        with shown_progress(session) as progress:
            report = run_index(
                session.runtime,
                paths,
                corpus=corpus,
                captions=captions,
                retry_failed=retry_failed,
                service=None if local else session.service(),
                progress=progress,
            )

        def human(console: Console) -> None:
            _print(console, report)

        session.emit(report.as_dict(), human)


def _print(console: Console, report: IndexReport) -> None:
    raise NotImplementedError
