"""Locator over the catalog of a home on this machine: files, directories by path, and runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.naming import is_id

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import ImageRecord, Run
    from lodestone_cli.folders import FolderFilters
    from lodestone_schemas.api import QueryExplanation

_CANDIDATES = 5  # pictures of one name in an error
_RUNS = 1_000  # looked through for the last index run


class HomeLocator:
    """Implements `Locator` for a home on this machine.

    Args:
        open_catalog: Returns the catalog of the home, opened at its first use.
        file: SQLite file of the catalog, from which places are read quickly; None for a catalog on a server.
    """

    def __init__(self, open_catalog: Callable[[], Catalog], *, file: Path | None = None) -> None:
        self._open_catalog = open_catalog
        self._file = file

    @property
    def _catalog(self) -> Catalog:
        return self._open_catalog()

    def paths(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Return the path on this machine, or the URL, of each picture by its image id."""
        from lodestone.catalog.file_places import read_places
        from lodestone.sources.locators import shown_place

        places = None if self._file is None else read_places(self._file, image_ids := list(image_ids))
        if places is not None:
            return {image_id: shown_place(place, place) for image_id, place in places.items()}
        images = self._catalog.images(dict.fromkeys(image_ids))
        roots = {root.root_id: root for root in self._catalog.roots(None)} if images else {}
        return {
            image_id: shown_place(roots[image.root_id], image) for image_id, image in images.items() if image.root_id in roots
        }

    def several_corpora(self) -> bool:
        """Return whether there is more than one corpus in the catalog."""
        from lodestone.catalog.file_places import count_corpora

        number = None if self._file is None else count_corpora(self._file)
        return (len(self._catalog.corpora(limit=2)) if number is None else number) > 1

    def pictures(self, name: str) -> list[str]:
        """Return the ids of the picture that `name` means; see `Locator.pictures`."""
        if is_id(name) and name.lower() in self._catalog.images([name.lower()]):
            return [name.lower()]
        image_ids = [image.image_id for image in self._records(Path(name)) if image.state != "gone"]
        if not image_ids:
            image_ids = [self._called(name)]
        return image_ids

    def _called(self, name: str) -> str:
        """Return the id of the only picture whose file has this name, or whose path ends like this.

        Raises:
            NotFoundError: there is none.
            InvalidRequestError: there are several.
        """
        from lodestone.sources.locators import shown_place
        from lodestone.sources.uris import spellings

        end = name.strip("/")
        images = self._catalog.pictures_called(spellings(end), most=_CANDIDATES + 1) if end else []
        if not images:
            raise NotFoundError(f"no picture {name!r} is indexed", hint="give its file as lodestone search shows it, or its id")
        if len(images) > 1:
            roots = {root.root_id: root for root in self._catalog.roots(None)}
            shown = ", ".join(repr(shown_place(roots[image.root_id], image)) for image in images[:_CANDIDATES])
            more = " and more" if len(images) > _CANDIDATES else ""
            raise InvalidRequestError(
                f"several pictures are called {name!r}: {shown}{more}", hint="give the path of the one that is meant, or its id"
            )
        return images[0].image_id

    def unchanged(self, file: Path) -> str | None:
        """Return the id of the picture that was indexed from this file, if it can be found and the file is as it was."""
        facts = file.expanduser().stat()
        as_it_was = (
            image.image_id
            for image in self._records(file)
            if image.state == "active" and (image.size, image.mtime_ns) == (facts.st_size, facts.st_mtime_ns)
        )
        return next(as_it_was, None)

    def _records(self, name: Path) -> list[ImageRecord]:
        """Return the catalog's records of a file: one for each directory that it was indexed in."""
        from lodestone.sources.uris import uri_of

        file = Path(os.path.abspath(name.expanduser()))  # noqa: PTH100 - not resolve(): a linked root keeps its name
        return [
            image
            for root in self._catalog.roots(None)
            if file.is_relative_to(root.path) and file != Path(root.path)
            for image in self._catalog.images_by_uri(root.root_id, [uri_of(file.relative_to(root.path))]).values()
        ]

    def answer(self, explanation: QueryExplanation) -> list[str]:
        """Return the image ids of the whole ranking, of which the recorded page may show a part."""
        from lodestone.query_log.trace import load_trace

        return list(load_trace(self._catalog, explanation.query_id).ranking.ids)

    def folder(self, path: str, *, corpora: Sequence[str], roots: Sequence[str]) -> FolderFilters:
        """Return the filters that `--path` means; see `folders.place_of`."""
        from lodestone_cli.folders import place_of

        return place_of(path, self._catalog, corpora=corpora, roots=roots)

    def folders_named(self, name: str) -> list[str]:
        """Return the folders inside the roots whose own names hold `name`; none of a catalog on a server."""
        from lodestone.catalog.file_places import folders_named

        return [] if self._file is None else folders_named(self._file, name)

    def directory(self, named: str, corpus: str | None) -> str:
        """Return the id of the directory with this path, name, corpus/name or id; see `Locator.directory`."""
        from lodestone.directories.naming import find_directory

        return find_directory(self._catalog, named, corpus=corpus).root_id

    def folder_of_directory(self, named: str, corpus: str | None) -> tuple[str, str] | None:
        """Return the directory that a path, or a text like `Pictures/2018`, lies in; see `Locator.folder_of_directory`."""
        from lodestone_cli.locators import innermost

        names = {entry.corpus_id: entry.name for entry in self._catalog.corpora(limit=_RUNS)}
        roots = [root for root in self._catalog.roots(None) if corpus is None or names.get(root.corpus_id) == corpus]
        path = os.path.abspath(Path(named).expanduser())  # noqa: PTH100 - not resolve(): a linked directory keeps its name
        inside = innermost(path, {root.path: root.root_id for root in roots})
        by_name = {name: root.root_id for root in roots for name in (root.name, f"{names.get(root.corpus_id)}/{root.name}")}
        return inside or innermost(named, by_name)

    def directory_paths(self) -> dict[str, str]:
        """Return the path of each directory by its id."""
        return {root.root_id: root.path for root in self._catalog.roots(None)}

    def run(self, named: str | None, *, running: bool = False) -> str:
        """Return the id of a run; see `Locator.run`. None without `running` is the last index run."""
        from lodestone.indexing.run.history import find_run
        from lodestone.indexing.scan.interrupted_runs import KIND

        if named is not None:
            return find_run(self._catalog, named).run_id
        if running:
            return self._running().run_id
        newest = next((run for run in self._catalog.runs(_RUNS) if run.kind == KIND), None)
        if newest is None:
            raise InvalidRequestError("no run was made yet", hint="lodestone index FOLDER")
        return newest.run_id

    def _running(self) -> Run:
        from lodestone.catalog.records import RunState

        running = self._catalog.runs(20, state=RunState.RUNNING)
        if not running:
            raise NotFoundError("no run is going on", hint="lodestone runs list")
        if len(running) > 1:
            shown = ", ".join(run.run_id[:8] for run in running)
            raise InvalidRequestError(f"which run is meant? Running: {shown}", hint="lodestone runs cancel RUN")
        return running[0]
