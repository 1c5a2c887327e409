"""Indexing of a directory for a command: by the running service in the background, or else in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone_cli.command_context import CommandContext, printable

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone_schemas.directories import JobInfo


def index_now(context: CommandContext, root: Root, corpus: str) -> tuple[JobInfo | None, dict[str, int]]:
    """Index one directory and return (the service's job, {}), or (None, counts of what this process did).

    A folder without pictures is no error here, because pictures may be added later.
    """
    client = context.service()
    if client is not None:
        return client.index_directory(root.root_id), {}
    from lodestone.errors import InvalidRequestError
    from lodestone_cli.progress import shown_progress
    from lodestone_jobs.index import run_index

    with shown_progress(context) as progress:
        try:
            report = run_index(context.runtime, [root.path], corpus=corpus, progress=progress)
        except InvalidRequestError as error:
            context.messages.print(printable(f"note: {error.message}"), markup=False)
            return None, {}
    return None, {name: int(count) for name, count in report.counts.items()}
