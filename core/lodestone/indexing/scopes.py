"""Which root does a path that is to be indexed belong to?

A folder becomes a root, unless it lies inside a root of the corpus already: then only that part of the root is looked at. A
single file belongs to the root that holds it, else to its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, Root
from lodestone.errors import InvalidRequestError, LodestoneError
from lodestone.indexing.changes import Scope
from lodestone.indexing.discover import discover


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path with at least one picture file below it. The root is made only when it is really indexed."""

    path: Path
    is_file: bool

    @property
    def folder(self) -> Path:
        """The root that it would be."""
        return self.path.parent if self.is_file else self.path

    def scope(self, catalog: Catalog, corpus: Corpus) -> Scope:
        """The part of a root that this is; makes the root where there is none."""
        root = _holder(catalog.roots(corpus.corpus_id), self.path) or catalog.ensure_root(corpus.corpus_id, str(self.folder))
        prefix = os.path.relpath(self.path, root.path)
        return Scope(root, self.path, prefix="" if prefix == os.curdir else prefix, is_file=self.is_file)


def examine(paths: Sequence[Path], *, follow_symlinks: bool) -> tuple[list[Candidate], list[LodestoneError]]:
    """Split paths into those that hold pictures, outer folders first, and what is wrong with the others.

    Nothing is changed: a folder that is empty today (an unmounted disk, say) does not cost what was indexed from it.
    """
    candidates: list[Candidate] = []
    problems: list[LodestoneError] = []
    absolute = {Path(os.path.abspath(path)) for path in paths}  # noqa: PTH100 - not resolve(): a linked root keeps its name
    for path in sorted(absolute, key=lambda path: (len(path.parts), str(path))):
        try:
            first = next(iter(discover(path, follow_symlinks=follow_symlinks)), None)
        except LodestoneError as error:
            problems.append(error)
            continue
        if first is None:
            problems.append(
                InvalidRequestError(
                    f"nothing to index: there are no pictures below {str(path)!r}",
                    hint="give a folder with pictures; what was indexed from there before is kept",
                    path=str(path),
                )
            )
            continue
        if any(_is_inside(path, outer.path) for outer in candidates if not outer.is_file):
            continue  # covered already
        candidate = Candidate(path, is_file=path.is_file())
        if not _is_text(str(candidate.folder)):
            problems.append(
                InvalidRequestError(
                    f"the name of the folder {str(candidate.folder)!r} is not valid UTF-8",
                    hint="index the folder around it: names inside a root may be anything",
                )
            )
            continue
        candidates.append(candidate)
    return candidates, problems


def _holder(roots: Sequence[Root], path: Path) -> Root | None:
    holders = [root for root in roots if path == Path(root.path) or _is_inside(path, Path(root.path))]
    return max(holders, key=lambda root: len(root.path), default=None)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # surrogates: bytes that are not UTF-8, and the catalog holds text
        return False
    return True


def _is_inside(path: Path, folder: Path) -> bool:
    return folder in path.parents


def uris_of(catalog: Catalog, scopes: Sequence[Scope]) -> Iterator[str]:
    """Uris of all pictures of the scopes' roots."""
    for root_id in dict.fromkeys(scope.root.root_id for scope in scopes):
        for image in catalog.images_of_root(root_id):
            yield image.uri
