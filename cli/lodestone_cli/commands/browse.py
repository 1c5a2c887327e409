"""Command `lodestone browse`: pictures by folder and date, without words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.dates import FilterOptions
from lodestone_cli.file_names import path_fields, shown_name
from lodestone_cli.naming import counted
from lodestone_cli.options import (
    LocalOption,
)
from lodestone_cli.sets import FactOption, with_facts
from lodestone_cli.while_indexing import note_indexing

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.api import ImageInfo

_PAGE: Final = 200  # pictures asked for at once
_DAY: Final = 10  # characters of a date: 2024-07-31


def browse(
    which: FilterOptions,
    at: HomeOptions,
    where: FactOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Pictures to show.")] = 50,
    *,
    local: LocalOption = False,
) -> None:
    """List pictures without words, newest first: `lodestone browse --month 2024-07`, `… --where place=Norway`."""
    with CommandContext(at, away=True, local=local) as context:
        from lodestone_schemas.searching import BrowseRequest

        which.dates()  # refused before anything is opened
        context.require_home()
        filters = with_facts(which.filters(context), where)
        images: list[ImageInfo] = []
        cursor: str | None = None
        while len(images) < limit:
            page = context.api.browse(BrowseRequest(filters=filters, limit=min(_PAGE, limit - len(images)), cursor=cursor))
            images += page.images
            cursor = page.next_cursor
            if cursor is None:
                break
        note_indexing(context)
        paths = context.locator.paths(image.image_id for image in images)
        value: dict[str, Any] = {
            "images": [
                image.model_dump(mode="json", exclude_none=True) | path_fields(paths.get(image.image_id)) for image in images
            ],
            "more": cursor is not None,
        }

        def human(console: Console) -> None:
            for image in images:
                name = paths.get(image.image_id) or f"{image.root}/{image.uri}"
                console.print(f"{_day_of(image):<{_DAY}}  {shown_name(name)}", markup=False, soft_wrap=True)
            more = ", and more: --limit shows them" if cursor is not None else ""
            console.print(printable(f"{counted(len(images), 'picture')}{more}"), markup=False)

        context.emit(value, human)


def _day_of(image: ImageInfo) -> str:
    """Return the day of a picture where it was taken, as far as it is known; "" without a date."""
    return (image.taken_local or "")[:_DAY]
