"""Indexing of a directory in the process of a command, where no service does it in the background."""

from __future__ import annotations

from lodestone_cli.command_context import CommandContext, printable


def index_here(context: CommandContext, directory_id: str, corpus: str) -> dict[str, int]:
    """Index one directory with progress, and return the counts of what was done.

    A folder without pictures is no error here, because pictures may be added later.
    """
    from lodestone.errors import InvalidRequestError
    from lodestone_cli.progress import shown_progress
    from lodestone_jobs.index import run_index

    root = context.runtime.catalog.root(directory_id)
    with shown_progress(context) as progress:
        try:
            report = run_index(context.runtime, [root.path], corpus=corpus, progress=progress)
        except InvalidRequestError as error:
            context.messages.print(printable(f"note: {error.message}"), markup=False)
            return {}
    return {name: int(count) for name, count in report.counts.items()}
