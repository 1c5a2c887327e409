"""Output of an answer: on a terminal with its pictures, as paths, or for programs; and what is done with its files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from lodestone_cli.answer import print_answer
from lodestone_cli.command_context import printable
from lodestone_cli.file_names import path_fields
from lodestone_cli.options import Output, Pictures, ResultFormat
from lodestone_cli.result_files import ResultFiles, print_paths
from lodestone_cli.while_indexing import note_indexing

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.command_context import CommandContext
    from lodestone_cli.terminal.grid import PictureGrid
    from lodestone_schemas.api import SearchResponse
    from lodestone_schemas.searching import SearchOptions

_FOLDERS: Final = 3  # that a note names


def emit_answer(
    context: CommandContext,
    response: SearchResponse,
    files: ResultFiles,
    *,
    corpora: Sequence[str],
    asked: str = "",
    page: str | None = None,
    explained: bool = False,
) -> None:
    """Print an answer, and do with its pictures what the user asked for.

    Args:
        context: The command.
        response: One page of the answer.
        files: What is done with the pictures.
        corpora: Names of the corpora that were searched; empty for all.
        asked: Words as they were asked.
        page: The query as the search page's address has it; None for one that has no address.
        explained: Whether people get the technical lines too, about rules, weights, guides and times.
    """
    response = files.kept(response)
    note_indexing(context)
    named = (part.image_id for part in response.parts if part.image_id is not None)
    paths = context.locator.paths([*(hit.image_id for hit in response.hits), *named])
    grid = _grid(context, files)
    if files.form is ResultFormat.PATHS:
        print_paths(context, response, paths, nul=files.nul)
    else:
        value = response.model_dump(mode="json", exclude_none=True)
        for hit in value["hits"]:
            hit.update(path_fields(paths.get(hit["image_id"])))

        def human(console: Console) -> None:
            found = len({hit.corpus for hit in response.hits})
            several = len(corpora) != 1 and (found > 1 or (found == 1 and context.locator.several_corpora()))
            print_answer(console, response, paths, corpora=several, asked=asked, grid=grid, explained=explained)

        context.emit(value, human)
    url = context.service_url if files.opened and page is not None else None
    files.apply(context, response, paths, page=None if url is None else f"{url.rstrip('/')}/?{page}")


def note_filters_without_pictures(context: CommandContext, response: SearchResponse, *, path: str | None, dated: bool) -> None:
    """Print a note where filters left no picture: folders that may be meant with `--path`, and what dates ask for.

    Args:
        context: Of the command.
        response: The answer.
        path: The folder that was given.
        dated: Whether dates were given.
    """
    if response.hits:
        return
    if dated:
        context.messages.print("note: pictures without a date match no dates")
    if path is None:
        return
    alike = context.locator.folders_named(name) if (name := PurePath(path).name) else []
    meant = f"; --path takes whole folders, such as {' or '.join(map(shlex.quote, alike[:_FOLDERS]))}" if alike else ""
    context.messages.print(printable(f"note: no picture that fits lies in the folder {path!r}{meant}"), markup=False)


def _grid(context: CommandContext, files: ResultFiles) -> PictureGrid | None:
    """Return what draws the pictures; None where the output is no list for a terminal that shows them.

    Where the user asked for pictures and there can be none, a note says so.
    """
    from lodestone_cli.terminal.capabilities import screen_of

    wanted = files.pictures or Pictures(context.loaded.settings.pictures)
    is_list = context.output is Output.HUMAN and files.form is ResultFormat.LIST
    screen = screen_of(context.console, wanted) if is_list else None
    if screen is None:
        if files.pictures not in {None, Pictures.NONE, Pictures.AUTO}:
            context.messages.print("note: pictures are shown in a list for a terminal, and not with NO_COLOR")
        return None
    from lodestone_cli.terminal.grid import PictureGrid

    return PictureGrid(screen, context.searcher.thumbnail, files.columns)


def page_query(asked: SearchOptions, *, like: str | None = None) -> str | None:
    """Return a query as the search page's address has it; None for a query with parts that the page has no place for.

    Args:
        asked: The request.
        like: Id of the picture of a search by picture.
    """
    given = asked.model_dump(exclude_defaults=True)
    from lodestone_schemas.searching import SearchRequest

    filters = given.pop("filters", {})
    match = asked.match if isinstance(asked, SearchRequest) else None
    given.pop("match", None)
    sets = "" if match is None else match.model_dump_json(exclude_none=True, exclude_defaults=True)
    parts = [("q", given.pop("query", "")), ("sets", sets), ("like", like)]
    for kind in ("like", "unlike", "without"):
        parts += [(kind, value) for value in given.pop(kind, [])]
    parts.append(("words", "1" if given.pop("guides", None) == 0 else ""))
    parts += [("corpus", name) for name in filters.pop("corpora", [])]
    for name in ("limit", "offset", "explain", "deadline_ms"):  # how much is shown and when, not what is looked for
        given.pop(name, None)
    return None if given or filters else urlencode([(name, value) for name, value in parts if value])
