"""Changes of a directory: a folder inside it becomes one of its own, it is removed, or its folder lies elsewhere now.

Removal of a directory: queries leave it out at once; then all that is kept of its pictures goes, and its own row last. The
catalog's row of the directory is deleted last: if the command is killed at any point, running it again finishes the work. The
user's files are never touched. A directory that is added again is embedded again.

Relocation of a directory: its folder lies elsewhere now, and its pictures stay themselves. Usually the directory gets another
path and that is all. Where the folder was indexed as another directory meanwhile, or lies in one, the pictures take the places
of those that were indexed anew, with their ids, vectors, captions and tags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.catalog.pictures.removal import Mentions
from lodestone.catalog.records import Root
from lodestone.directories.naming import corpus_names
from lodestone.directories.service import FOLDER, DirectoryService
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.embeddings.erasure import ErasureReport
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.files.beneath import Boundaries
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.removal import remove_records
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.scan.moved_roots import holds_any, merge_root, put_root
from lodestone.indexing.scan.scan_scopes import Candidate
from lodestone.indexing.sync.collections import SyncResources
from lodestone.sources.exclusion import Exclusion
from lodestone.sources.uris import relative_path_of, spellings, uri_of
from lodestone.store.base import Filter, MatchAny

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import ImageRecord

_BATCH: Final = 1000
_SPECIAL: Final = re.compile(r"([\\*?\[\]!# ])")


def split_directory(resources: SyncResources, root_id: str, folder: str) -> tuple[Root, int]:
    """Make a folder inside a directory a directory of its own, and return it with the number of pictures that went over.

    The pictures keep ids, vectors, captions and tags. The new directory is as enabled and watched as the one around it, and
    what was left out there stays left out. A sync must follow if any picture went over. A folder that is a directory already
    stays as it is.

    Args:
        resources: The opened home.
        root_id: The directory.
        folder: The folder's path inside it.

    Raises:
        NotFoundError: there is no such directory, or it knows no picture in such a folder.
        InvalidRequestError: the directory is no folder, or the path leaves it.
        StoreLockedError: an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    if root.kind != FOLDER:
        raise InvalidRequestError(
            f"the directory {root.name!r} ({root.kind}) has no folders of its own", hint="index the prefix as a directory"
        )
    wanted = _checked(folder)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog):
        inside = next((way for way in spellings(wanted) if _first(catalog, root_id, way)), None)
        known = {other.path: other for other in catalog.roots(root.corpus_id)}
        paths = (os.path.join(root.path, way) for way in spellings(inside or wanted))  # noqa: PTH118
        part = next((known[path] for path in paths if path in known), None)
        if part is not None:  # pictures are left over where an earlier call was killed
            return part, 0 if inside is None else _hand_over(catalog, root_id, part, inside)
        if inside is None:
            raise NotFoundError(
                f"the directory {root.name!r} has no pictures in {folder!r}",
                hint="name a folder inside it, such as 2018/summer",
            )
        patterns = Exclusion(root.path, patterns=root.patterns).inherited(inside)
        part = catalog.ensure_root(root.corpus_id, os.path.join(root.path, inside))  # noqa: PTH118
        part = catalog.set_root(part.root_id, enabled=root.enabled, watched=root.watched, exclude=patterns)
        return part, _hand_over(catalog, root_id, part, inside)


def leave_out_around(catalog: Catalog, removed: Root) -> list[Root]:
    """Leave the folder of a removed directory out of the directories around it, and return these.

    Otherwise their next run would index its pictures again.
    """
    if removed.kind != FOLDER:
        return []
    around = [
        root
        for root in catalog.roots(removed.corpus_id)
        if root.kind == FOLDER and Path(root.path) in Path(removed.path).parents
    ]
    return [catalog.set_root(root.root_id, exclude=(*root.patterns, _pattern(removed.path, root.path))) for root in around]


def _pattern(path: str, around: str) -> str:
    """Return the pattern that matches one folder, whatever characters its name has."""
    escaped = _SPECIAL.sub(r"\\\1", Path(path).relative_to(around).as_posix())
    return f"/{escaped}/".replace("\n", "?").replace("\r", "?")


def _checked(folder: str) -> str:
    parts = [part for part in folder.replace(os.sep, "/").split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "\0" in folder:
        raise InvalidRequestError(f"{folder!r} is no folder inside a directory", hint="name one, e.g. 2018/summer")
    return "/".join(parts)


def _first(catalog: Catalog, root_id: str, folder: str) -> bool:
    """Return whether a directory knows a picture in a folder of exactly this spelling."""
    return catalog.folders_called([uri_of(folder)], [root_id], most=1) == [uri_of(folder)]


def _hand_over(catalog: Catalog, root_id: str, part: Root, folder: str) -> int:
    """Give a directory the pictures of a folder of another one, batch by batch; a killed call is finished by the next."""
    count = 0
    images = _of_folder(catalog, root_id, folder)
    while batch := list(islice(images, _BATCH)):
        moved = [replace(image, root_id=part.root_id, uri=_below(image.uri, folder)) for image in batch]
        catalog.update_images(moved, columns=("root_id", "uri"))
        count += len(batch)
    failed = [
        failure
        for failure in catalog.failures(corpus_id=part.corpus_id)
        if failure.root_id == root_id and _is_below(failure.uri, folder)
    ]
    catalog.add_failures([replace(f, root_id=part.root_id, uri=_below(f.uri, folder)) for f in failed])
    catalog.clear_failures(root_id, [failure.uri for failure in failed])
    return count


def _of_folder(catalog: Catalog, root_id: str, folder: str) -> Iterator[ImageRecord]:
    return (image for image in catalog.images_of_root(root_id) if _is_below(image.uri, folder))


def _is_below(uri: str, folder: str) -> bool:
    return relative_path_of(uri).startswith(folder + os.sep)


def _below(uri: str, folder: str) -> str:
    return uri_of(relative_path_of(uri)[len(folder) + 1 :])


@dataclass(frozen=True, slots=True)
class DirectoryRemoval:
    """Reports what was removed.

    Attributes:
        directory: Name of the directory.
        corpus: Name of its corpus.
        images: Number of its pictures in the catalog, in any state.
        thumbnails: Number of deleted thumbnails that no other picture needs.
        erasure: What was erased from slices.
    """

    directory: str
    corpus: str
    images: int
    thumbnails: int
    erasure: ErasureReport


def remove_directory(resources: SyncResources, root_id: str) -> DirectoryRemoval:
    """Remove a directory. A sync must follow, which deletes points that other processes have just written.

    Raises:
        NotFoundError: there is no such directory.
        StoreLockedError: another process owns the store, or an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog):
        catalog.set_root(root_id, enabled=False)
        of_root = Filter(must=(MatchAny("root", (root_id,)),))
        for collection in resources.store.collections():
            resources.store.delete_matching(collection, of_root)
            resources.store.erase(collection, now=False)
        also = Mentions(frozenset({root_id}), frozenset({root.path}))
        removed = remove_records(resources, corpus, catalog.images_of_root(root_id), also=also)
        others = [Path(other.path) for other in catalog.roots() if other.kind == FOLDER and other.root_id != root_id]
        if root.kind == FOLDER:
            Mounts(resources.home.path / mounts.NAME).forget(Path(root.path), others=others)
        kept = [other for other in catalog.roots(corpus.corpus_id) if other.root_id != root_id]
        write_corpus_record(resources.embeddings, corpus, kept)
        catalog.remove_root(root_id)
        catalog.erase_free_space()
    return DirectoryRemoval(root.name, corpus.name, removed.images, removed.thumbnails, removed.erasure)


@dataclass(frozen=True, slots=True)
class Relocation:
    """Reports what became of a directory.

    Attributes:
        root: The directory that holds its pictures now.
        merged: Number of its pictures that took the places of others in another directory; None where it only got a new path.
    """

    root: Root
    merged: int | None = None


def relocate_directory(resources: SyncResources, root_id: str, path: str, *, boundaries: Boundaries) -> Relocation:
    """Give a directory the folder where its pictures are now. After a merge a sync must follow; queries are correct meanwhile.

    Args:
        resources: The opened home.
        root_id: Id of the directory.
        path: The folder where it is now.
        boundaries: What may be opened.

    Raises:
        NotFoundError: there is no such directory, or no such folder.
        InvalidRequestError: the directory is no folder, or none of its pictures is in the new one.
        StoreLockedError: an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    if root.kind != FOLDER:
        raise InvalidRequestError(
            f"the directory {root.name!r} ({root.kind}) cannot be relocated: only folders can",
            hint="index it where it is now, and remove the directory",
            directory=root.name,
        )
    folder = DirectoryService(catalog, resources.home).checked(path)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog):
        if root.path == str(folder):
            return Relocation(root)
        if not holds_any(catalog, root, folder, boundaries):
            raise InvalidRequestError(
                f"none of the pictures of the directory {root.name!r} is in {str(folder)!r}",
                hint="name the folder that it has become: pictures are looked for under the names that they had inside it",
                directory=root.name,
            )
        place = Candidate(folder, is_file=False).place(catalog, corpus)
        if place is not None and place[0].root_id != root_id:
            target, prefix = place
            relocation = Relocation(target, merge_root(catalog, root, target, prefix))
        else:
            relocation = Relocation(put_root(catalog, root, folder))
        others = [Path(other.path) for other in catalog.roots() if other.kind == FOLDER]
        Mounts(resources.home.path / mounts.NAME).forget(Path(root.path), others=others)
    return relocation
