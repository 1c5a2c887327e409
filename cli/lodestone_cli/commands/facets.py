"""Command `lodestone facets`: the places, times, cameras, … of the pictures, and how many pictures each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.dates import FilterOptions
from lodestone_cli.naming import checked, counted
from lodestone_cli.options import LocalOption
from lodestone_cli.sets import FactOption, with_facts
from lodestone_cli.while_indexing import note_indexing

if TYPE_CHECKING:
    from rich.console import Console


def _kinds() -> list[str]:
    from lodestone.facts.facts import KINDS

    return list(KINDS)


def facets(
    which: FilterOptions,
    at: HomeOptions,
    of: Annotated[str, typer.Argument(help="Kind of facts: place, during, camera, shape or has.", autocompletion=_kinds)],
    where: FactOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="Values to show.")] = 50,
    *,
    local: LocalOption = False,
) -> None:
    """Count pictures by place, time of year, camera, …: `lodestone facets place`, `… during --where place=Norway`."""
    with CommandContext(at, away=True, local=local) as context:
        from lodestone_schemas.searching import FacetsRequest

        which.dates()  # refused before anything is opened
        context.require_home()
        filters = with_facts(which.filters(context), where)
        request = checked(lambda: FacetsRequest(of=of, filters=filters, limit=limit))
        found = context.api.facets(request)
        note_indexing(context)

        def human(console: Console) -> None:
            width = max((len(f"{value.pictures:,}") for value in found.values), default=0)
            for value in found.values:
                console.print(f"{value.pictures:>{width},}  {printable(value.name)}", markup=False, soft_wrap=True)
            more = ", and more: --limit shows them" if found.more else ""
            shown = f"{counted(len(found.values), 'value')} in {counted(found.pictures, 'picture')}{more}"
            console.print(shown, markup=False)

        context.emit(found.model_dump(mode="json"), human)
