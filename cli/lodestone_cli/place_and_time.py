"""Filters of the commands that show pictures: collections, roots, a folder and dates, from their options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.dates import Dates

if TYPE_CHECKING:
    from lodestone_schemas.api import SearchFilters


def filters_of(
    context: CommandContext,
    corpus: list[str] | None,
    root: list[str] | None,
    path: str | None,
    dates: Dates,
) -> SearchFilters:
    """Return the filters that a command's options name, and say which folders below a folder are roots of their own."""
    from lodestone_cli.folders import FolderFilters
    from lodestone_schemas.searching import SearchFilters

    place = FolderFilters(corpus or [], root or [], path)
    if path is not None:
        place = context.locator.folder(path, corpora=place.corpora, roots=place.roots)
    if place.beside:
        left_out = ", ".join(f"--root {name}" for name in place.beside)
        context.messages.print(printable(f"note: folders below it that are roots of their own: {left_out}"), markup=False)
    return SearchFilters(
        corpora=place.corpora,
        roots=place.roots,
        path_prefix=place.prefix,
        taken_from=dates.start,
        taken_to=dates.end,
    )
