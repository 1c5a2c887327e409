"""Commands `lodestone duplicates …`: find and list pictures that are copies of each other."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import corpora_of
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import OneCorpusOption

if TYPE_CHECKING:
    from rich.console import Console

app = Commands(help="Pictures that are copies of each other.", no_args_is_help=True)


class _Kind(StrEnum):
    EXACT = "exact"
    NEAR = "near"


@app.command()
def find(
    at: HomeOptions,
    corpus: OneCorpusOption = None,
    space: Annotated[
        str | None, typer.Option("--space", help="Where pictures are compared; default: the profile's first.")
    ] = None,
    distance: Annotated[
        float, typer.Option("--distance", min=0.0, max=1.0, help="Which pictures are compared: 1 - cosine of vectors.")
    ] = 0.4,
    exact: Annotated[bool, typer.Option("--exact", help="Only files of equal content; reads no vectors.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, even where a stopped search could go on.")] = False,
) -> None:
    """Find files of equal content, and pictures that look alike; `lodestone search --collapse` then shows one of each."""
    with CommandContext(at, purpose="lodestone duplicates find", writes=True, existing=True) as context:
        from lodestone.duplicates.find import DuplicateReport, find_duplicates, find_exact
        from lodestone_cli.naming import checked
        from lodestone_cli.progress import shown_counts
        from lodestone_cli.service_steps import result_of
        from lodestone_schemas.api import DuplicatesRequest

        runtime = context.runtime
        catalog = runtime.catalog
        corpora = corpora_of(catalog, corpus)
        service = None if exact else context.service()
        with shown_counts(context) as count:
            if service is not None:  # it owns the store
                request = checked(lambda: DuplicatesRequest(corpus=corpus, space=space, distance=distance, restart=restart))
                found = result_of(
                    service.find_duplicates(request), lambda step: count(_title(step.collection), step.done, step.total)
                )
                reports = [DuplicateReport(**one) for one in found]
            else:
                reports = [
                    find_exact(catalog, one)
                    if exact
                    else find_duplicates(
                        catalog,
                        runtime.store,
                        runtime.home,
                        one,
                        space=space or runtime.profile.spaces[0],
                        thumbnails=runtime.thumbnails,
                        distance=distance,
                        restart=restart,
                        report_progress=partial(count, _title(one.name)),
                    )
                    for one in corpora
                ]

        def human(console: Console) -> None:
            if not reports:
                console.print("no corpus yet: lodestone index ~/Pictures")
            for one in reports:
                line = f"{one.corpus}: {one.exact:,} equal files in {one.exact_groups:,} groups"
                if one.near is not None:
                    line += f"; {one.near:,} pictures that look alike in {one.near_groups:,} groups"
                console.print(printable(line), markup=False)

        context.emit([asdict(one) for one in reports], human)


def _title(corpus: str) -> str:
    return f"comparing pictures of {printable(corpus)}"


@app.command(name="list")
def list_command(
    at: HomeOptions,
    corpus: OneCorpusOption = None,
    kind: Annotated[_Kind | None, typer.Option("--kind", help="Only groups of this kind.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Groups.")] = 20,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Groups to skip.")] = 0,
) -> None:
    """List the groups that were found last."""
    with CommandContext(at, existing=True) as context:
        from lodestone.duplicates.find import list_groups

        catalog = context.runtime.catalog
        one = catalog.corpus(corpus) if corpus else None
        found = list(islice(list_groups(catalog, kind=kind.value if kind else None, corpus=one), offset, offset + limit))

        def human(console: Console) -> None:
            if not found:
                console.print("no copies are known: lodestone duplicates find")
            for group in found:
                console.print(printable(f"{group.corpus}, {group.kind}, {len(group.members):,} pictures"), markup=False)
                for member in group.members:
                    console.print(printable(f"  {member.distance:.4f}  {member.file}  {member.image_id}"), markup=False)

        context.emit([asdict(group) for group in found], human)
