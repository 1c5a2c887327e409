"""Assignment of paths that are to be indexed to roots.

A folder becomes a root, unless it lies inside a root of the corpus already: then only that part of the root is scanned. A
single file belongs to the root that contains it, else to its folder. Roots of the corpus that lie inside the folder keep their
pictures: they are scanned in the same run, each as a scope of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, Root
from lodestone.errors import ImageError, InvalidRequestError, LodestoneError, NotFoundError
from lodestone.files.beneath import Boundaries, Enclosure, open_file
from lodestone.files.filesystems import FileSystems
from lodestone.imaging.failures import unreadable
from lodestone.imaging.sniff import HEAD_BYTES
from lodestone.indexing.scan.scope import ScanScope
from lodestone.indexing.scan.source_scopes import SourceCandidate, require_pictures
from lodestone.sources.exclusion import Exclusion, counted
from lodestone.sources.file_kinds import is_picture_name
from lodestone.sources.folders import discover
from lodestone.sources.locate import Named, locate, together
from lodestone.sources.locators import FOLDER


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path with at least one picture file below it. Its root is created only when it is really indexed."""

    path: Path
    is_file: bool

    @property
    def folder(self) -> Path:
        """Return the folder that would become the root."""
        return self.path.parent if self.is_file else self.path

    def place(self, catalog: Catalog, corpus: Corpus) -> tuple[Root, str] | None:
        """Return the root that the candidate is a part of, and its path in it; None if it would become a root of its own."""
        folders = [root for root in catalog.roots(corpus.corpus_id) if root.kind == FOLDER]
        path = self._known_path(folders)
        root = _holder(folders, path)
        return None if root is None else (root, _below(path, root))

    def scope(self, catalog: Catalog, corpus: Corpus) -> ScanScope:
        """Return the candidate as a part of a root; creates the root if there is none."""
        folders = [root for root in catalog.roots(corpus.corpus_id) if root.kind == FOLDER]
        path = self._known_path(folders)
        root = _holder(folders, path) or catalog.ensure_root(corpus.corpus_id, str(self.folder))
        return ScanScope(
            root,
            path,
            prefix=_below(path, root),
            is_file=self.is_file,
            others=() if self.is_file else tuple(Path(r.path) for r in _roots_inside(catalog, corpus.corpus_id, path)),
        )

    def _known_path(self, roots: Sequence[Root]) -> Path:
        """Return the path that leads there from an existing root, if a link was given: no picture is indexed twice."""
        if _holder(roots, self.path) is not None:
            return self.path
        real = Path(os.path.realpath(self.folder))
        for root in sorted(roots, key=lambda root: -len(root.path)):
            real_root = Path(os.path.realpath(root.path))
            if real_root == real or real_root in real.parents:
                inside = Path(root.path) / real.relative_to(real_root)
                return inside / self.path.name if self.is_file else inside
        return self.path


def examine(
    paths: Sequence[Path | str], *, boundaries: Boundaries
) -> tuple[list[Candidate | SourceCandidate], list[LodestoneError]]:
    """Split paths, URLs and patterns into those that hold pictures, outer folders first, and the errors of the others.

    Changes nothing: a folder that is empty today (an unmounted disk, say) keeps what was indexed from it.
    """
    folders: list[Path] = []
    named: list[Named] = []
    problems: list[LodestoneError] = []
    filesystems = FileSystems()
    for path in paths:
        try:
            located = locate(path, filesystems=filesystems)
        except LodestoneError as error:
            problems.append(error)
            continue
        if located.kind == FOLDER:
            folders.append(Path(located.base))
        else:
            named.append(located)
    candidates, wrong = _examine_folders(folders, boundaries)
    others: list[SourceCandidate] = []
    for located_group in together(named):
        try:
            require_pictures(located_group, filesystems, boundaries)
        except LodestoneError as error:
            problems.append(error)
        else:
            others.append(SourceCandidate(located_group, filesystems, boundaries))
    return [*candidates, *others], [*problems, *wrong]


def scopes_of(
    candidate: Candidate | SourceCandidate, catalog: Catalog, corpus: Corpus, *, boundaries: Boundaries
) -> tuple[list[ScanScope], list[LodestoneError]]:
    """Return a candidate's scopes, with those of roots inside it, and the errors of inner roots that are left alone."""
    if isinstance(candidate, SourceCandidate):
        return candidate.scopes(catalog, corpus), []
    scope = candidate.scope(catalog, corpus)
    inner, wrong = inner_scopes(catalog, scope, boundaries=boundaries)
    return [scope, *inner], wrong


def distinct(scopes: Sequence[ScanScope]) -> list[ScanScope]:
    """Return the scopes without those that others contain: several paths (links, say) may lead to one part of a root.

    The decisions of a run rely on each file being scanned once.
    """
    kept: list[ScanScope] = []
    for scope in scopes:
        if not any(_holds(other, scope) for other in kept):
            kept = [*(other for other in kept if not _holds(scope, other)), scope]
    return kept


def _examine_folders(paths: Sequence[Path], boundaries: Boundaries) -> tuple[list[Candidate], list[LodestoneError]]:
    candidates: list[Candidate] = []
    problems: list[LodestoneError] = []
    absolute = {Path(os.path.abspath(path)) for path in paths}  # noqa: PTH100 - not resolve(): a linked root keeps its name
    for path in sorted(absolute, key=lambda path: (len(path.parts), str(path))):
        try:
            _require_pictures(path, boundaries)
        except LodestoneError as error:
            problems.append(error)
            continue
        if any(_is_inside(path, outer.path) for outer in candidates if not outer.is_file):
            continue  # the outer folder covers it
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


def inner_scopes(catalog: Catalog, scope: ScanScope, *, boundaries: Boundaries) -> tuple[list[ScanScope], list[LodestoneError]]:
    """Return scopes for the roots of the same corpus inside a scope, and the errors of those that are left alone."""
    scopes: list[ScanScope] = []
    problems: list[LodestoneError] = []
    roots = {Path(root.path): root for root in catalog.roots(scope.root.corpus_id)}
    for path in scope.others:
        root = roots[path]
        others = tuple(other for other in scope.others if path in other.parents)
        try:
            _require_pictures(path, boundaries)
        except NotFoundError:
            scopes.append(
                ScanScope(root, path, others=others, vanished=True)
            )  # the folder around it exists, so this one was deleted
        except LodestoneError as error:
            problems.append(error)
        else:
            scopes.append(ScanScope(root, path, others=others))
    return scopes, problems


def _require_pictures(path: Path, boundaries: Boundaries) -> None:
    within = boundaries.around(str(path))
    exclusion = Exclusion(str(path if path.is_dir() else path.parent), boundaries, within=within)
    found = discover(path, follow_symlinks=boundaries.follow_symlinks, within=within, exclusion=exclusion)
    first = next(iter(found), None)
    if first is None:
        left_out = counted(exclusion.counts)
        raise InvalidRequestError(
            f"nothing to index: there are no pictures below {str(path)!r}" + (f" (left out: {left_out})" if left_out else ""),
            hint="give a folder with pictures; what was indexed from there before is kept",
            path=str(path),
        )
    if first.path == path and not is_picture_name(path.name):  # a file that was given by name may have any extension
        _require_picture(path, within)


def _require_picture(path: Path, within: Enclosure | None) -> None:
    from lodestone.imaging.decode import supported_format

    try:
        with open_file(path, within) as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise unreadable(error) from error
    try:
        supported_format(head)
    except ImageError as error:
        hint = "give a picture file, or a folder with pictures"
        raise ImageError(f"cannot index {str(path)!r}: {error.message}", hint=hint, **error.details) from error


def _roots_inside(catalog: Catalog, corpus_id: str, path: Path) -> list[Root]:
    return [root for root in catalog.roots(corpus_id) if root.kind == FOLDER and _is_inside(Path(root.path), path)]


def _holds(outer: ScanScope, inner: ScanScope) -> bool:
    """Return whether one scope of a folder on disk equals another one or contains it."""
    if outer.root.root_id != inner.root.root_id or outer.source is not None or inner.source is not None:
        return False
    if outer.is_file or outer.prefix == inner.prefix:
        return (outer.is_file, outer.prefix) == (inner.is_file, inner.prefix)
    return not outer.prefix or inner.prefix.startswith(outer.prefix + os.sep)


def _holder(roots: Sequence[Root], path: Path) -> Root | None:
    holders = [root for root in roots if path == Path(root.path) or _is_inside(path, Path(root.path))]
    return max(holders, key=lambda root: len(root.path), default=None)


def _below(path: Path, root: Root) -> str:
    prefix = os.path.relpath(path, root.path)
    return "" if prefix == os.curdir else prefix


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # surrogates: bytes that are not UTF-8, and the catalog holds text
        return False
    return True


def _is_inside(path: Path, folder: Path) -> bool:
    return folder in path.parents


def uris_of(catalog: Catalog, scopes: Sequence[ScanScope]) -> Iterator[str]:
    """Yield the uris of all pictures of the scopes' roots."""
    for root_id in dict.fromkeys(scope.root.root_id for scope in scopes):
        for image in catalog.images_of_root(root_id):
            yield image.uri
