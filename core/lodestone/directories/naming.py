"""Look-up of a directory by its path, its name, `corpus/name`, or its id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.errors import InvalidRequestError, UnknownNameError

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Root

_CORPORA: Final = 10_000


def find_directory(catalog: Catalog, named: str, *, corpus: str | None = None) -> Root:
    """Return the one directory that `named` means.

    Args:
        catalog: The catalog that holds the directories.
        named: A path or URL as it was added, a name, `corpus/name`, or an id.
        corpus: Search this corpus only; None for all.

    Raises:
        UnknownNameError: no directory has that name; the hint lists the known ones.
        InvalidRequestError: directories of several corpora have that name.
    """
    names = corpus_names(catalog)
    roots = catalog.roots(None if corpus is None else catalog.corpus(corpus).corpus_id)
    path = _as_path(named)
    for matches in (
        [root for root in roots if named in {root.root_id, root.path} or root.path == path],
        [root for root in roots if root.name == named],
        [root for root in roots if f"{names[root.corpus_id]}/{root.name}" == named],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            corpora = sorted(names[root.corpus_id] for root in matches)
            raise InvalidRequestError(
                f"several directories are called {named!r}, in the corpora {', '.join(corpora)}",
                hint=f"add --corpus, or say {corpora[0]}/{matches[0].name}",
                directory=named,
            )
    raise UnknownNameError.among("directory", named, [f"{names[root.corpus_id]}/{root.name}" for root in roots])


def corpus_names(catalog: Catalog) -> dict[str, str]:
    """Return corpus id -> name, for all corpora."""
    names: dict[str, str] = {}
    while page := catalog.corpora(len(names), _CORPORA):
        names |= {corpus.corpus_id: corpus.name for corpus in page}
    return names


def _as_path(named: str) -> str:
    if not named or "://" in named:
        return named
    return os.path.abspath(Path(named).expanduser())  # noqa: PTH100 - not resolve(): a linked directory keeps its name
