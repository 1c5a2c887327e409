"""Commands `lodestone corpus …`: list the corpora, and remove one with everything kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.naming import corpora_of
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.api import CorpusInfo

app = typer.Typer(help="Collections of pictures that were indexed under one name.", no_args_is_help=True)


@app.command("list")
def list_(home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """List corpora with their folders and counts."""
    with CommandContext(home=home, profile=profile, output=output, away=True) as context:
        infos = _corpora(context)

        def human(console: Console) -> None:
            from rich.markup import escape

            if not infos:
                console.print("no corpus yet: lodestone index ~/Pictures")
            for info in infos:
                failures = f", {info.failures:,} failures" if info.failures else ""
                console.print(f"[bold]{escape(info.name)}[/]  {info.images:,} pictures{failures}")
                for root in info.roots:
                    console.print(printable(f"  {root.name}: {root.images:,}"), markup=False)

        context.emit([info.model_dump(mode="json") for info in infos], human)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the corpus.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Forget a corpus: catalog, embeddings, vectors and thumbnails. The pictures themselves are not touched."""
    with CommandContext(home=home, profile=profile, output=output, away=True) as context:
        images = _images(context, name)
        if not yes:
            typer.confirm(f"Forget {images:,} pictures of {name!r}? Your files stay where they are.", abort=True, err=True)
        client = context.remote or context.service()
        if client:
            client.remove_corpus(name)
        else:
            from lodestone.indexing.run.remove import remove_corpus

            remove_corpus(context.runtime, name)

        def human(console: Console) -> None:
            console.print(f"forgot {name} ({images:,} pictures); the files themselves were not touched", markup=False)

        context.emit({"removed": name, "images": images}, human)


def _corpora(context: CommandContext) -> list[CorpusInfo]:
    from lodestone.catalog.pictures.overview import corpus_overview

    if context.remote is not None:
        return list(context.remote.iter_corpora())
    catalog = context.runtime.catalog
    return [corpus_overview(catalog, corpus) for corpus in corpora_of(catalog)]


def _images(context: CommandContext, name: str) -> int:
    """Return how many pictures the corpus has."""
    from lodestone.catalog.pictures.overview import corpus_overview
    from lodestone.errors import UnknownNameError

    if context.remote is None:
        catalog = context.runtime.catalog
        return corpus_overview(catalog, catalog.corpus(name)).images
    counts = {corpus.name: corpus.images for corpus in context.remote.iter_corpora()}
    if name not in counts:
        raise UnknownNameError.among("corpus", name, list(counts))
    return counts[name]
