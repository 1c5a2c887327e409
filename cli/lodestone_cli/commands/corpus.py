"""Commands `lodestone corpus …`: list the corpora, rename one, and remove one with everything kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_corpora
from lodestone_cli.naming import confirm
from lodestone_cli.option_groups import Commands
from lodestone_cli.progress import shown_wait
from lodestone_cli.remains import print_remains, remains_facts

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_client.sync_api import LodestoneApi

app = Commands(help="Collections of pictures that were indexed under one name.", no_args_is_help=True)


@app.command("list")
def list_(at: HomeOptions) -> None:
    """List corpora with their folders and counts."""
    with CommandContext(at, away=True) as context:
        corpora = list(context.api.iter_corpora()) if context.has_home else []

        def human(console: Console) -> None:
            from rich.markup import escape

            if not corpora:
                console.print("no corpus yet: lodestone index ~/Pictures")
            for corpus in corpora:
                failures = f", {corpus.failures:,} failures" if corpus.failures else ""
                failures += f", {corpus.incomplete:,} incomplete" if corpus.incomplete else ""
                console.print(f"[bold]{escape(printable(corpus.name))}[/]  {corpus.images:,} pictures{failures}")
                for root in corpus.roots:
                    console.print(printable(f"  {root.name}: {root.images:,}"), markup=False)

        context.emit([corpus.model_dump(mode="json") for corpus in corpora], human)


@app.command()
def rename(
    at: HomeOptions,
    name: Annotated[str, typer.Argument(help="Name of the corpus.", autocompletion=complete_corpora)],
    new: Annotated[str, typer.Argument(help="Its new name.")],
) -> None:
    """Call a corpus by another name. Nothing is indexed again, and API keys that name it see it as before."""
    with CommandContext(at, away=True, existing=True) as context:
        renamed = context.api.rename_corpus(name, new)

        def human(console: Console) -> None:
            console.print(f"{printable(name)} is called {printable(renamed.corpus.name)} now", markup=False)
            if renamed.keys:
                console.print(f"keys that name it so now: {', '.join(renamed.keys)}", markup=False)
            for note in renamed.notes:
                console.print(f"note: {note}", markup=False)

        context.emit({"renamed": name, **renamed.model_dump(mode="json")}, human)


@app.command()
def remove(
    at: HomeOptions,
    name: Annotated[str, typer.Argument(help="Name of the corpus.", autocompletion=complete_corpora)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget a corpus: catalog, embeddings, vectors and thumbnails. The pictures themselves are not touched."""
    with CommandContext(at, away=True, existing=True) as context:
        images = _images(context.api, name)
        if not yes:
            confirm(f"Forget {images:,} pictures of {name!r}? Your files stay where they are.")
        with shown_wait(context, f"forgetting {printable(name)}"):
            context.api.remove_corpus(name)

        facts = {"removed": name, "images": images, **remains_facts(context)}

        def human(console: Console) -> None:
            console.print(f"forgot {name} ({images:,} pictures); the files themselves were not touched", markup=False)
            print_remains(console, facts)

        context.emit(facts, human)


def _images(api: LodestoneApi, name: str) -> int:
    """Return how many pictures the corpus has."""
    counts = {corpus.name: corpus.images for corpus in api.iter_corpora()}
    if name not in counts:
        from lodestone.errors import UnknownNameError

        raise UnknownNameError.among("corpus", name, list(counts))
    return counts[name]
