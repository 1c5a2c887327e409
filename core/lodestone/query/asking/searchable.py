"""Collections that a query can be compared with, and notes about those that are missing or of another version."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lodestone.access.visibility import Visibility
from lodestone.catalog.reading import CatalogReader
from lodestone.errors import UnknownNameError
from lodestone.spaces.names import CAPTIONS

_REFRESH: Final = "run `lodestone index --resume` to refresh, once for each `--corpus NAME`"


@dataclass(frozen=True, slots=True)
class FormerVersion:
    """Version of a space that belongs to the profile of the index, and is searched until the one in force is indexed.

    Attributes:
        in_force: Collection of the version in force.
        text_encoder: Text encoder that reads words for the former version, where it is not the profile's; else None.
    """

    in_force: str
    text_encoder: str | None = None


@dataclass(frozen=True, slots=True)
class IndexVersions:
    """How the versions that an engine searches differ from what the home is configured for.

    Attributes:
        former: Space -> the version of a former profile that is searched; other spaces are left out.
        captions: Returns the collection of captions that the profile's text encoder has made or would make; None for whatever
            the alias names. It is called only where there is such an alias, as it reads the versions of models.
    """

    former: Mapping[str, FormerVersion] = field(default_factory=dict)
    captions: Callable[[], str] | None = None


CURRENT: Final = IndexVersions()


def searchable_spaces(
    wanted: Sequence[str],
    aliases: Mapping[str, str],
    *,
    known: Mapping[str, str],
    former: Mapping[str, FormerVersion],
    present: Callable[[], Collection[str]],
) -> tuple[dict[str, str], list[str]]:
    """Map spaces to collections, always those of the loaded version: a query is compared with what it is projected with.

    While another version is being promoted, the loaded one is searched on in its own collection, until that is dropped. Nothing
    at all is returned where nothing was ever loaded.

    Args:
        wanted: Spaces to search.
        aliases: Alias -> collection.
        known: Space -> collection of the loaded version.
        former: As in `IndexVersions`.
        present: Returns the existing collections.

    Returns:
        Space -> collection of the spaces that can be searched, and notes about the others and about former versions.

    Raises:
        UnknownNameError: no such space.
    """
    spaces: dict[str, str] = {}
    notes = []
    wanted = list(dict.fromkeys(wanted))
    if wanted and not aliases.keys() & set(wanted) and set(wanted) <= known.keys():
        return {}, []
    for space in wanted:
        if space not in known:
            raise UnknownNameError.among("space", space, list(known))
        live = aliases.get(space)
        if live is None:
            notes.append(f"space {space!r} is left out: nothing is indexed in it; {_REFRESH}")
        elif live != known[space] and known[space] not in present():
            notes.append(
                f"space {space!r} is left out: its index {live!r} is of another version than {known[space]!r}; {_REFRESH}"
            )
        else:
            spaces[space] = known[space]
            if space in former:
                notes.append(_searched_formerly(space, known[space], former[space]))
    return spaces, notes


def _searched_formerly(space: str, collection: str, version: FormerVersion) -> str:
    reader = "" if version.text_encoder is None else f", whose text encoder is {version.text_encoder!r}"
    return (
        f"space {space!r} is searched in its former version {collection!r}{reader}: "
        f"nothing is indexed in {version.in_force!r} yet; {_REFRESH}"
    )


def searchable_captions(
    aliases: Mapping[str, str], versions: IndexVersions, catalog: CatalogReader, present: Callable[[], Collection[str]]
) -> tuple[str | None, list[str]]:
    """Return the collection of captions that words can be compared with, if there is one, and notes about another one.

    Vectors of another text encoder may have the same length, and their cosines with the words' vectors mean nothing.
    """
    live = aliases.get(CAPTIONS)
    if live is None or versions.captions is None:
        return live, []
    made = versions.captions()
    if live == made or made in present():
        return made, []
    if not catalog.has_captions():
        return None, []
    return None, [f"captions are left out: their index {live!r} is of another text encoder than {made!r}; {_REFRESH}"]


def nothing_indexed(catalog: CatalogReader, visibility: Visibility) -> str:
    """Return what to do where no collection exists yet: wait for the first run, or go on with it where it has ended."""
    corpora = [corpus.name for corpus in catalog.corpora()]
    names = [name for name in corpora if visibility.corpora is None or name in visibility.corpora]
    if not names:
        return "nothing is indexed yet; run `lodestone index PATH`"
    ids = None if visibility.corpora is None else set(catalog.corpus_ids(names).values())
    if (run := catalog.indexing_now(corpus_ids=ids)) is not None:
        return f"{run}: the first pictures can be found as soon as they are loaded; ask again in a moment"
    of_corpus = f" --corpus {shlex.quote(names[0])}" if len(names) == 1 and names[0] != "default" else ""
    return f"no index run has finished yet; `lodestone index --resume{of_corpus}` goes on with one that was interrupted"
