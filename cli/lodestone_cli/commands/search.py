"""Commands `lodestone search` and `lodestone similar`: find pictures by words, or by a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.answer_output import emit_answer, note_filters_without_pictures, page_query
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_pictures
from lodestone_cli.composed import (
    LikeOption,
    PartOptions,
    UnlikeOption,
    answer_of,
    given,
    indexed,
    pictures_of,
    switch_of,
)
from lodestone_cli.dates import Dates, FilterOptions
from lodestone_cli.naming import checked
from lodestone_cli.options import (
    CollapseOption,
    ExplainOption,
    FusionOption,
    LimitOption,
    LocalOption,
    OffsetOption,
)
from lodestone_cli.picture_files import picture_file, picture_id, read_picture
from lodestone_cli.progress import shown_wait
from lodestone_cli.result_files import ResultFiles
from lodestone_cli.sets import AnyOption, FactOption, NotOption, WhereOption, knowing_restrictions, match_of, with_facts
from lodestone_cli.while_indexing import saying_how_far

if TYPE_CHECKING:
    from lodestone.config.settings import LoadedSettings
    from lodestone_schemas.api import SearchOptions, SearchResponse


def search(
    changes: PartOptions,
    which: FilterOptions,
    at: HomeOptions,
    files: ResultFiles,
    ctx: typer.Context,
    query: Annotated[list[str] | None, typer.Argument(help="What the picture shows, in words.")] = None,
    any_of: AnyOption = None,
    where: WhereOption = None,
    refused: NotOption = None,
    like: LikeOption = None,
    unlike: UnlikeOption = None,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    guides: Annotated[
        int | None, typer.Option("--guides", min=0, max=64, help="Most guides to use; 0: the words alone.")
    ] = None,
    generator: Annotated[
        list[str] | None, typer.Option("--generator", "-g", help="Only this guide engine; may be given several times.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Other seed, other guides.")] = 0,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="Answer simple queries without guides, or never.")
    ] = None,
    outliers: Annotated[
        bool | None, typer.Option("--outliers/--no-outliers", help="Leave out guides unlike the others, or not.")
    ] = None,
    adaptive: Annotated[
        bool | None, typer.Option("--adaptive/--all-guides", help="Draw guides until the results are stable, or all.")
    ] = None,
    spelling: Annotated[
        bool | None, typer.Option("--spelling/--no-spelling", help="Correct misspelt words, or search as written.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Use the trust of this topic.")] = None,
    budget: Annotated[float | None, typer.Option("--budget", min=0, help="Most that paid guides may cost.")] = None,
    fusion: FusionOption = None,
    deadline: Annotated[int | None, typer.Option("--deadline", min=1, help="Milliseconds allowed for the answer.")] = None,
    explain: ExplainOption = False,
    collapse: CollapseOption = False,
    local: LocalOption = False,
) -> None:
    """Find pictures by what they show: `lodestone search "two dogs on a beach"`, `lodestone search "at night" --like a.jpg`."""
    from lodestone.text_encoders.text import normalise_query
    from lodestone_schemas.searching import SearchRequest

    if not query and not like and not any_of:
        raise typer.BadParameter(
            "say what to look for, in words or by a picture: two dogs on a beach, or --like photo.jpg; "
            "without either: lodestone browse",
            ctx,
        )
    with CommandContext(at, away=True, local=local) as context:
        files = files.checked(at.output)
        dates = which.dates()
        words = normalise_query(" ".join(query)) if query else ""
        _check_profile(context)
        context.require_home()
        context.require_store()
        named = pictures_of(context, like)
        asked, match = match_of(context, words, others=any_of, holding=where, refused=refused)
        parts = given(
            match=match,
            like=named.ids,
            unlike=indexed(context, unlike),
        )
        request = checked(
            lambda: SearchRequest(
                **parts,
                **changes.members(),
                query=asked,
                limit=limit,
                offset=offset,
                filters=which.filters(context),
                guides=guides,
                generators=generator,
                seed=seed,
                gate=gate,
                outliers=outliers,
                adaptive=adaptive,
                spelling=switch_of(spelling),
                topic=topic,
                budget=budget,
                fusion=fusion,
                deadline_ms=deadline,
                explain=explain,
                collapse=collapse,
            )
        )
        _note_ignored_settings(context)
        with knowing_restrictions():
            response = answer_of(context, request, named.files)
        note_filters_without_pictures(context, response, path=which.path, dated=dates != Dates())
        emit_answer(
            context,
            response,
            files,
            corpora=request.filters.corpora,
            asked=words,
            page=None if named.files else page_query(request),
            explained=explain,
        )


def similar(
    which: FilterOptions,
    at: HomeOptions,
    files: ResultFiles,
    image: Annotated[
        str, typer.Argument(help="A picture file, or the name or id of an indexed one.", autocompletion=complete_pictures)
    ],
    where: FactOption = None,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    fusion: FusionOption = None,
    explain: ExplainOption = False,
    collapse: CollapseOption = False,
    local: LocalOption = False,
) -> None:
    """Find pictures like a given one: `lodestone similar photo.jpg`."""
    from lodestone_schemas.searching import SearchOptions

    with CommandContext(at, away=True, local=local) as context:
        files = files.checked(at.output)
        dates = which.dates()
        _check_profile(context)
        context.require_home()
        context.require_store()
        options = checked(
            lambda: SearchOptions(
                limit=limit,
                offset=offset,
                filters=with_facts(which.filters(context), where),
                fusion=fusion,
                explain=explain,
                collapse=collapse,
            )
        )
        _note_ignored_settings(context)
        image_id = picture_id(context.locator, image)
        page = None if image_id is None else page_query(options, like=image_id)
        with shown_wait(context, "searching"), saying_how_far(context):
            if image_id is not None:
                response = context.searcher.similar(image_id, options)
            elif context.is_served:
                picture = read_picture(picture_file(image), most_mb=context.loaded.settings.serve.max_upload_mb)
                response = context.searcher.by_picture(picture, options)
            else:
                import asyncio

                response = asyncio.run(_by_file(context, picture_file(image), options))
        note_filters_without_pictures(context, response, path=which.path, dated=dates != Dates())
        emit_answer(context, response, files, corpora=options.filters.corpora, page=page, explained=explain)


async def _by_file(context: CommandContext, picture: Path, options: SearchOptions) -> SearchResponse:
    """Return pictures like the one in a file of any size, which is read only as far as its picture goes."""
    image = context.runtime.decode(picture)
    engine = context.runtime.engine()
    await engine.warm_up()
    return await engine.by_picture(image, options)


def _check_profile(context: CommandContext) -> None:
    from lodestone.config.own_profiles import choose_profile

    if context.remote is not None:
        return
    wanted = context.loaded.settings
    choose_profile(wanted.profile, wanted.profiles)  # here too, where a service answers with its own


def _note_ignored_settings(context: CommandContext) -> None:
    """Print a note on settings of this command that do not apply because a service answers."""
    ignored = _own_settings(context.loaded) if context.is_served else []
    if ignored:
        context.messages.print(
            printable(f"note: a service answers, and its own settings apply, not {', '.join(ignored)}"),
            markup=False,
        )


def _own_settings(loaded: LoadedSettings) -> list[str]:
    """Return the sources (flags, variables) of search settings that only this command has and that are not the default."""
    from lodestone.config.settings import QuerySettings, Settings, flatten

    usual = {"profile": Settings.model_fields["profile"].default, **flatten({"query": QuerySettings().model_dump()})}
    given = flatten({"profile": loaded.settings.profile, "query": loaded.settings.query.model_dump()})
    sources = {name: source for name, source in loaded.sources.items() if given.get(name) != usual.get(name)}
    return [
        "--profile" if source == "flag" else source
        for source in dict.fromkeys(sources.values())
        if source == "flag" or source.upper().startswith("LODESTONE_")
    ]
