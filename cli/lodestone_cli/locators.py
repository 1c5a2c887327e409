"""Locators: they resolve the files, directories and runs that a user names, and say where pictures lie on this machine.

The API knows ids alone, and never reveals paths. A home on this machine knows more (`home_locator.HomeLocator`); of a remote
service only ids and names are known (`RemoteLocator`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lodestone.errors import InvalidRequestError, LodestoneError, NotFoundError, UnknownNameError
from lodestone_cli.naming import id_among, is_id

if TYPE_CHECKING:
    from lodestone_cli.folders import FolderFilters
    from lodestone_client import Lodestone
    from lodestone_schemas.api import QueryExplanation


def innermost(named: str, places: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what the longest of some places stands for that a path lies in, with the rest of the path; None for none."""
    around = [place for place in places if named.startswith(f"{place.rstrip('/')}/") and named.rstrip("/") != place.rstrip("/")]
    if not around:
        return None
    place = max(around, key=len)
    return places[place], named[len(place.rstrip("/")) + 1 :].strip("/")


class Locator(Protocol):
    """Resolution of what a user names. Every method blocks."""

    def paths(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Return the path on this machine, or the URL, of each picture by its image id, where that is known."""

    def several_corpora(self) -> bool:
        """Return whether there is more than one corpus."""

    def pictures(self, name: str) -> list[str]:
        """Return the ids of the picture that `name` means: an id, or a file, which may be indexed in several corpora.

        Raises:
            NotFoundError: `name` is neither.
        """

    def unchanged(self, file: Path) -> str | None:
        """Return the id of the picture that was indexed from this file, if the file is still as it was; else None."""

    def answer(self, explanation: QueryExplanation) -> list[str]:
        """Return the image ids of a recorded answer, best first."""

    def folder(self, path: str, *, corpora: Sequence[str], roots: Sequence[str]) -> FolderFilters:
        """Return the filters that `--path` means; see `folders.place_of`."""

    def folders_named(self, name: str) -> list[str]:
        """Return the folders inside the roots whose own names hold `name`, where they are known."""

    def directory(self, named: str, corpus: str | None) -> str:
        """Return the id of the directory with this path, name, corpus/name or id.

        Raises:
            UnknownNameError: there is none.
            InvalidRequestError: there are several.
        """

    def folder_of_directory(self, named: str, corpus: str | None) -> tuple[str, str] | None:
        """Return the id of the directory that `named` is a folder in, with the folder's path inside it; None for none."""

    def directory_paths(self) -> dict[str, str]:
        """Return the path of each directory by its id, where that is known."""

    def run(self, named: str | None, *, running: bool = False) -> str:
        """Return the id of a run by its id or the beginning of it.

        Args:
            named: As the user gave it; None for the last run.
            running: Whether None means a run that has not ended.

        Raises:
            NotFoundError, InvalidRequestError: there is no such run, or several fit.
        """


class RemoteLocator:
    """Implements `Locator` for a remote service, whose files are not on this machine.

    Args:
        remote: Client of the service.
    """

    def __init__(self, remote: Lodestone) -> None:
        self._remote = remote

    def paths(self, image_ids: Iterable[str]) -> dict[str, str]:  # noqa: ARG002 - of no picture
        """Return nothing, because the service never reveals paths."""
        return {}

    def several_corpora(self) -> bool:
        """Return whether the caller sees more than one corpus."""
        try:
            return len(self._remote.corpora(limit=2).corpora) > 1
        except LodestoneError:  # the key may search and not list; then the answer alone tells
            return False

    def pictures(self, name: str) -> list[str]:
        """Return the id that `name` is; see `Locator.pictures`."""
        if is_id(name):
            return [name.lower()]
        raise NotFoundError(f"{name!r} is no image id", hint="a service elsewhere knows pictures by their ids: -o json")

    def unchanged(self, file: Path) -> str | None:  # noqa: ARG002 - no file of this machine
        """Return None, because the service never reveals which files it knows."""
        return None

    def answer(self, explanation: QueryExplanation) -> list[str]:
        """Return the image ids of the recorded page, best first."""
        return [hit.image_id for hit in explanation.hits]

    def folder(self, path: str, *, corpora: Sequence[str], roots: Sequence[str]) -> FolderFilters:
        """Return the folder as it was given: a folder inside the service's roots."""
        from lodestone_cli.folders import FolderFilters

        return FolderFilters(list(corpora), list(roots), path)

    def folders_named(self, name: str) -> list[str]:  # noqa: ARG002 - of no folder
        """Return nothing, because the service lists no folders."""
        return []

    def directory(self, named: str, corpus: str | None) -> str:
        """Return the id of the directory with this name, corpus/name or id; see `Locator.directory`."""
        directories = [entry for entry in self._remote.iter_directories() if corpus is None or entry.corpus == corpus]
        for matches in (
            [entry for entry in directories if named == entry.directory_id],
            [entry for entry in directories if named == entry.name],
            [entry for entry in directories if named == f"{entry.corpus}/{entry.name}"],
        ):
            if len(matches) == 1:
                return matches[0].directory_id
            if matches:
                corpora = sorted(entry.corpus for entry in matches)
                raise InvalidRequestError(
                    f"several directories are called {named!r}, in the corpora {', '.join(corpora)}",
                    hint=f"add --corpus, or say {corpora[0]}/{matches[0].name}",
                )
        raise UnknownNameError.among("directory", named, [f"{entry.corpus}/{entry.name}" for entry in directories])

    def folder_of_directory(self, named: str, corpus: str | None) -> tuple[str, str] | None:
        """Return a directory's id and a folder inside it, of a text like `Pictures/2018`; see `Locator.folder_of_directory`."""
        directories = [entry for entry in self._remote.iter_directories() if corpus is None or entry.corpus == corpus]
        names = {name: entry.directory_id for entry in directories for name in (entry.name, f"{entry.corpus}/{entry.name}")}
        return innermost(named, names)

    def directory_paths(self) -> dict[str, str]:
        """Return nothing, because the service never reveals paths."""
        return {}

    def run(self, named: str | None, *, running: bool = False) -> str:
        """Return the id of a run; see `Locator.run`."""
        if named is not None and is_id(named):
            return named.lower()
        if named is not None:
            known = [run.run_id for run in self._remote.iter_runs()]
            return id_among(named, known, what="run", hint="lodestone runs list")
        newest = next(self._remote.iter_runs(state="running" if running else None), None)
        if newest is None:
            raise NotFoundError("no run is going on" if running else "no run was made yet", hint="lodestone runs list")
        return newest.run_id
