"""Who indexes a directory that a command names? The running service, in the background; without one, the command itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone_cli.command_context import CommandContext, printable

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone_schemas.directories import JobInfo


def index_now(session: CommandContext, root: Root, corpus: str) -> tuple[JobInfo | None, dict[str, int]]:
    """Index one directory: (the service's job, {}) or (None, counts of what was done here).

    A folder without pictures is no error here: pictures may come.
    """
    client = session.service()
    if client is not None:
        return client.index_directory(root.root_id), {}
    from lodestone.errors import InvalidRequestError
    from lodestone_cli.progress import shown_progress
    from lodestone_jobs.index import run_index

    with shown_progress(session) as progress:
        try:
            report = run_index(session.runtime, [root.path], corpus=corpus, progress=progress)
        except InvalidRequestError as error:
            session.messages.print(printable(f"note: {error.message}"), markup=False)
            return None, {}
    return None, {name: int(count) for name, count in report.counts.items()}
