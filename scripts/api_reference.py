"""Reference pages of the documentation, made of the code: its docstrings, commands, routes, settings and metrics.

    python -m scripts.api_reference            # write docs/reference/*.md
    python -m scripts.api_reference --check    # fail if they are out of date

`PAGES` says which Python is documented; nothing is imported for it. A name that leads to no definition is an error: adapt the
table when modules move. `PROGRAM` are the pages of what people type, send, set and measure. Exit codes: 0 written, or current;
1 out of date; 2 a name does not resolve.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.reference.commands import commands_page
from scripts.reference.definitions import Sources, UnresolvedNameError
from scripts.reference.pages import page
from scripts.reference.program import metrics_page, settings_page
from scripts.reference.routes import routes_page

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "reference"
SOURCES: Final = ("client", "core", "evaluation", "jobs", "serve", "cli")

# File -> (title, dotted names). A module stands for all that it exports.
PAGES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "client.md": (
        "Client",
        ("lodestone_client.Lodestone", "lodestone_client.AsyncLodestone", "lodestone_client.RetryPolicy"),
    ),
    "langchain.md": ("LangChain retriever", ("lodestone_client.langchain.LodestoneRetriever",)),
    "haystack.md": ("Haystack component", ("lodestone_client.haystack.LodestoneRetriever",)),
    "library.md": ("Library", ("lodestone",)),
    "queries.md": (
        "Queries",
        (
            "lodestone.query.asking.tree",
            "lodestone.query.engine.QueryEngine",
            "lodestone_client.sync_api.LodestoneApi",
        ),
    ),
    "contracts.md": (
        "Contracts",
        (
            "lodestone.store.base.VectorStore",
            "lodestone.backbones.base.Backbone",
            "lodestone.spaces.base.Projection",
            "lodestone.generators.base.Generator",
            "lodestone.generators.base.GuideRequest",
            "lodestone.generators.base.Guide",
            "lodestone.catalog.catalog.Catalog",
            "lodestone.directories.queue.RunQueue",
            "lodestone.indexing.embed.executors.EmbedExecutor",
        ),
    ),
}

# File -> what makes it of the program itself.
PROGRAM: Final[Mapping[str, Callable[[], str]]] = {
    "cli.md": commands_page,
    "http.md": lambda: routes_page(ROOT / "schemas" / "openapi.json"),
    "metrics.md": metrics_page,
    "settings.md": settings_page,
}


def made(pages: Mapping[str, tuple[str, tuple[str, ...]]] = PAGES, folders: Sequence[Path] | None = None) -> dict[str, str]:
    """Return file name -> content of every page of Python.

    Args:
        pages: File -> (title, dotted names).
        folders: Folders that hold packages; None: those of this repository.

    Raises:
        UnresolvedNameError: a name leads to no definition.
    """
    sources = Sources(folders or [ROOT / name for name in SOURCES])
    return {file: page(title, names, sources) for file, (title, names) in pages.items()}


def all_pages() -> dict[str, str]:
    """Return file name -> content of every page.

    Raises:
        UnresolvedNameError: a name leads to no definition.
    """
    return made() | {file: make() for file, make in PROGRAM.items()}


def stale(pages: Mapping[str, str], folder: Path) -> list[str]:
    """Return the names of files in a folder that are missing, differ from the pages, or belong to no page."""
    present = {path.name for path in folder.glob("*.md")}
    differ = {name for name, text in pages.items() if name in present and (folder / name).read_text(encoding="utf-8") != text}
    return sorted(differ | (present ^ pages.keys()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the pages, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the files are out of date")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    try:
        pages = all_pages()
    except UnresolvedNameError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.check:
        names = stale(pages, options.folder)
        for name in names:
            print(f"{options.folder / name} is not current: run python -m scripts.api_reference", file=sys.stderr)
        return 1 if names else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in stale(pages, options.folder):
        if name not in pages:
            (options.folder / name).unlink()
    for name, text in pages.items():
        (options.folder / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(pages)} pages to {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
