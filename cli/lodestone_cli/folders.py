"""Resolution of `--path`: a folder on this machine becomes filters for its root and the folder inside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.errors import InvalidRequestError
from lodestone.sources.uris import uri_of
from lodestone_cli.naming import corpora_of

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Root

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FolderFilters:
    """Filters that restrict a search to a folder.

    Attributes:
        corpora: Names of corpora; empty for all.
        roots: Names of roots; empty for all.
        prefix: Folder inside the roots; None for all of each root.
        beside: Names of roots that lie below the folder and cannot be searched in the same query.
    """

    corpora: list[str]
    roots: list[str]
    prefix: str | None
    beside: tuple[str, ...] = ()


def place_of(text: str, catalog: Catalog, *, corpora: Sequence[str], roots: Sequence[str]) -> FolderFilters:
    """Return the filters that `--path TEXT` means.

    An absolute path, or one that begins with ~, is a folder on this machine: inside a root, or around some. So is a relative
    path that exists in the current folder and lies inside a root; any other is a folder inside the roots.

    Args:
        text: Value of the option, as given.
        catalog: Catalog with the roots.
        corpora: Names given by --corpus; empty for all.
        roots: Names given by --root; empty for all.

    Raises:
        InvalidRequestError: the folder has nothing to do with any root, or with roots that no one filter can name.
    """
    as_given = FolderFilters(list(corpora), list(roots), text)
    on_disk = text.startswith("~") or Path(text).is_absolute()
    if not text or not (on_disk or Path(text).is_dir()):
        return as_given
    folder = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - not resolve(): a linked root keeps its name
    names = {corpus.corpus_id: corpus.name for corpus in corpora_of(catalog)}
    asked = [
        root
        for root in catalog.roots(None)
        if (not corpora or names[root.corpus_id] in corpora) and (not roots or root.name in roots)
    ]
    around = _innermost([root for root in asked if _inside(folder, Path(root.path)) is not None])
    below = [root for root in asked if root not in around and _inside(Path(root.path), folder) is not None]
    if not around and not (below and on_disk):
        if on_disk:
            raise _outside(folder, asked)
        return as_given
    chosen = around or below
    found = {names[root.corpus_id] for root in chosen}, {root.name for root in chosen}
    if any(r not in chosen and names[r.corpus_id] in found[0] and r.name in found[1] for r in catalog.roots(None)):
        raise InvalidRequestError(
            f"pictures below {str(folder)!r} are in several corpora, under names that other roots have too",
            hint=f"add --corpus with one of: {', '.join(sorted(found[0]))}",
        )
    prefix = _inside(folder, Path(around[0].path)) if around else ""
    return FolderFilters(
        corpora=sorted(found[0]),
        roots=sorted(found[1]),
        prefix=uri_of(prefix) if prefix else None,
        beside=tuple(root.name for root in below) if around else (),
    )


def _innermost(roots: Sequence[Root]) -> list[Root]:
    """Return the roots with the longest path: one, or one for each corpus that has this folder."""
    longest = max((len(Path(root.path).parts) for root in roots), default=0)
    return [root for root in roots if len(Path(root.path).parts) == longest]


def _inside(path: Path, folder: Path) -> str | None:
    """Return `path` relative to `folder`, "" for the folder itself; None when it lies elsewhere."""
    for inner, outer in ((path, folder), (path.resolve(), folder.resolve())):
        if inner == outer:
            return ""
        if outer in inner.parents:
            return str(inner.relative_to(outer))
    return None


def _outside(folder: Path, asked: Sequence[Root]) -> InvalidRequestError:
    listed = ", ".join(repr(root.path) for root in asked[:_SHOWN]) or "none"
    more = f" and {len(asked) - _SHOWN} more" if len(asked) > _SHOWN else ""
    return InvalidRequestError(
        f"{str(folder)!r} lies outside every indexed folder: {listed}{more}",
        hint="index it first, or give a folder inside one of them",
        path=str(folder),
    )
