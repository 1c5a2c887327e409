"""Command `lodestone refine`: changes a query that was answered, by words and by pictures of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.answer_output import emit_answer
from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.completion import complete_pictures, complete_queries
from lodestone_cli.composed import (
    NamedPictures,
    PartOptions,
    answer_of,
    given,
    pictures_of,
)
from lodestone_cli.naming import checked
from lodestone_cli.options import (
    ExplainOption,
    LimitOption,
    LocalOption,
    OffsetOption,
)
from lodestone_cli.recorded import load_recorded, picture_of
from lodestone_cli.result_files import ResultFiles

if TYPE_CHECKING:
    from lodestone_cli.recorded import RecordedAnswer

_LAST = "last"
_NAMED = "its rank in the answer, its file or its id"


def refine(
    options: PartOptions,
    at: HomeOptions,
    files: ResultFiles,
    query_id: Annotated[
        str | None,
        typer.Argument(
            help="Query id, or its beginning; the newest query by default, or for `last`.", autocompletion=complete_queries
        ),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option("--with", help="What it should show as well, in words; may be given several times.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help=f"A result to go on from, in place of earlier pictures: {_NAMED}.")
    ] = None,
    like: Annotated[
        list[str] | None,
        typer.Option("--like", help=f"More like this picture: {_NAMED}, or any file.", autocompletion=complete_pictures),
    ] = None,
    unlike: Annotated[
        list[str] | None, typer.Option("--unlike", help=f"Less like this picture: {_NAMED}.", autocompletion=complete_pictures)
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="A part to leave out: words, picture, picture2 (see explain).")
    ] = None,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    explain: ExplainOption = False,
    local: LocalOption = False,
) -> None:
    """Change a query and ask again: `lodestone refine --like 3 --with "at night" --without people`."""
    from lodestone_schemas.searching import SearchRequest

    with CommandContext(at, away=True, local=local) as context:
        files = files.checked(at.output)
        changes = options.members() | given(drop=drop)
        if not (changes or words or reference or like or unlike):
            raise InvalidRequestError(
                "nothing is to be changed", hint='lodestone refine --like 3 --with "at night" --without people --weight words=2'
            )
        context.require_home()
        context.require_store()
        recorded = load_recorded(context, None if query_id == _LAST else query_id)
        named = _pictures(context, recorded, like or [])
        members = given(
            query=", ".join(words or []) or None,
            reference=None if reference is None else picture_of(context, recorded, reference),
            like=named.ids,
            unlike=[picture_of(context, recorded, name) for name in unlike or []],
            offset=offset or None,
            explain=explain or None,
        )
        request = checked(lambda: SearchRequest(refine_of=recorded.query_id, limit=limit, **changes, **members))
        response = answer_of(context, request, named.files)
        emit_answer(context, response, files, corpora=[], asked=request.query, explained=explain)


def _pictures(context: CommandContext, recorded: RecordedAnswer, names: Sequence[str]) -> NamedPictures:
    """Return results of the answer, by rank, file or id, and the content of files that are not among the indexed ones."""
    ids, others = [], []
    for name in names:
        try:
            ids.append(picture_of(context, recorded, name))
        except NotFoundError:
            if not Path(name).expanduser().is_file():
                raise
            others.append(name)
    return NamedPictures(ids, pictures_of(context, others).files)
