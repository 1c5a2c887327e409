"""Command `lodestone forget`: remove single pictures, or those whose files are gone, from everything that the home keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import confirm, counted
from lodestone_cli.progress import shown_wait
from lodestone_cli.remains import print_remains, remains_facts

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.locators import Locator


def forget(
    at: HomeOptions,
    pictures: Annotated[list[str] | None, typer.Argument(help="Files as `lodestone search` shows them, or image ids.")] = None,
    gone: Annotated[bool, typer.Option("--gone", help="Also all pictures whose files are gone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget pictures: vectors, captions, tags, thumbnails, rows, their places in old answers. Files are not touched."""
    with CommandContext(at, purpose="lodestone forget", away=not gone, existing=True) as context:
        from lodestone.errors import InvalidRequestError
        from lodestone.indexing.run.removal import finish_removals

        ids, absent = _meant(context.locator, pictures or [])
        if not ids and not gone:
            raise InvalidRequestError("no picture is named", hint="name files or image ids, or say --gone")
        lost = context.runtime.catalog.count_gone()[0] if gone else 0
        if ids and not yes:
            confirm(f"Forget {counted(len(ids), 'picture')}? Your files stay where they are.")
        if lost and not yes:
            confirm(f"Forget {counted(lost, 'picture')} of which the files are gone?")
        places = context.locator.paths(ids) if context.remote is None else {}
        with shown_wait(context, f"forgetting {counted(len(ids), 'picture')}"):
            for image_id in ids:
                context.api.remove_image(image_id)
            lost = finish_removals(context.runtime, now=True) if gone else 0
        facts: dict[str, Any] = {"removed": ids, "not_indexed": absent, "gone": lost, **remains_facts(context)}

        def human(console: Console) -> None:
            total = counted(len(ids) + lost, "picture")
            console.print(f"forgot {total}; the files themselves were not touched", markup=False)
            for name in absent:
                console.print(printable(f"not indexed, or forgotten before: {name}"), markup=False)
            if any(_is_file(place) for place in places.values()):
                console.print(
                    "their files lie in indexed folders: move them away, or the next index run finds them again", markup=False
                )
            print_remains(console, facts)

        context.emit(facts, human)


def _meant(locator: Locator, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the pictures that the names mean, and the names that mean none.

    If the command was killed, the same one goes on with the pictures that are left.

    Raises:
        NotFoundError: no name means any.
    """
    from lodestone.errors import NotFoundError

    ids: list[str] = []
    missing: dict[str, NotFoundError] = {}
    for name in names:
        try:
            ids += locator.pictures(name)
        except NotFoundError as error:
            missing[name] = error
    if missing and not ids:
        raise next(iter(missing.values()))
    return list(dict.fromkeys(ids)), list(missing)


def _is_file(place: str) -> bool:
    from pathlib import Path

    return Path(printable(place)).is_file()
