"""What commands that search say while an index run goes on: how far it is, and that not all pictures can be found yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lodestone.errors import LodestoneError, StoreLockedError

if TYPE_CHECKING:
    from lodestone_cli.command_context import CommandContext


def indexing_here(context: CommandContext) -> str:
    """Return how far the index run is that goes on in the home or at the service; "" where none goes on.

    A home whose catalog says at a glance that no run goes on is not opened for that.
    """
    try:
        if context.remote is not None:
            from lodestone.catalog.work.going_on import indexing_words

            runs = [run for run in context.remote.runs(limit=1, state="running").runs if run.kind == "index"]
            told = None if not runs or runs[0].progress is None else runs[0].progress.model_dump()
            return "" if not runs else indexing_words({"stage": runs[0].stage, **(told or {})})
        if context.runs_at_a_glance() == 0:
            return ""
        going_on = context.runtime.catalog.indexing_now()
    except LodestoneError:  # it is a remark: whatever is wrong with the catalog, the answer is there
        return ""
    return "" if going_on is None else str(going_on)


def note_indexing(context: CommandContext) -> None:
    """Say on standard error that an index run goes on, beside an answer that cannot have all pictures yet."""
    if words := indexing_here(context):
        context.messages.print(f"note: {words}: not all pictures can be found yet", markup=False)


@contextmanager
def saying_how_far(context: CommandContext) -> Iterator[None]:
    """Add how far an index run is to the error that its process owns the store.

    Raises:
        StoreLockedError: as in the block.
    """
    try:
        yield
    except StoreLockedError as error:
        words = indexing_here(context)
        if not words:
            raise
        raise StoreLockedError(
            f"{words}: {error.message}",
            hint="search when it has ended; with `lodestone serve` running, searches are answered while pictures are indexed",
            **error.details,
        ) from error
