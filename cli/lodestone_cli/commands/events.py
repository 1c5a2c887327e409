"""Command `lodestone events`: what was photographed together, and journeys."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.dates import FilterOptions
from lodestone_cli.naming import counted
from lodestone_cli.options import LocalOption
from lodestone_cli.while_indexing import note_indexing

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.timeline import EventInfo

_PAGE: Final = 200  # events asked for at once


def events(
    which: FilterOptions,
    at: HomeOptions,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Events to show.")] = 50,
    *,
    trips: Annotated[bool, typer.Option("--trips", help="Show trips: events that follow each other far from home.")] = False,
    local: LocalOption = False,
) -> None:
    """List what was photographed together, the newest first: `lodestone events --year 2024`, `lodestone events --trips`."""
    with CommandContext(at, away=True, local=local) as context:
        from lodestone_schemas.timeline import EventsRequest

        which.dates()  # refused before anything is opened
        context.require_home()
        filters = which.filters(context)
        kind: Literal["trip", "event"] = "trip" if trips else "event"
        found: list[EventInfo] = []
        cursor: str | None = None
        while len(found) < limit:
            wanted = min(_PAGE, limit - len(found))
            page = context.api.events(EventsRequest(kind=kind, filters=filters, limit=wanted, cursor=cursor))
            found += page.events
            cursor = page.next_cursor
            if cursor is None:
                break
        note_indexing(context)

        def human(console: Console) -> None:
            for event in found:
                pictures = counted(event.pictures, "picture")
                console.print(f"{event.first_local[:10]}  {printable(event.title)}  ({pictures})", markup=False, soft_wrap=True)
            more = ", and more: --limit shows them" if cursor is not None else ""
            console.print(f"{counted(len(found), kind)}{more}", markup=False)
            if found:
                given = [*(("--corpus", name) for name in which.corpus or ()), *(("--root", name) for name in which.root or ())]
                given += [("--path", which.path)] if which.path else []
                bounds = (("--from", found[0].taken_from), ("--to", found[0].taken_to))
                given += [(option, f"{moment:%Y-%m-%dT%H:%M:%SZ}") for option, moment in bounds]
                command = shlex.join(["lodestone", "browse", *(word for pair in given for word in pair)])
                console.print(f"the pictures of the first one: {printable(command)}", markup=False, soft_wrap=True)

        context.emit({"events": [event.model_dump(mode="json") for event in found], "more": cursor is not None}, human)
