"""Relocation of a directory: its folder lies elsewhere now, and its pictures stay themselves.

Usually the directory gets another path and that is all. Where the folder was indexed as another directory meanwhile, or lies in
one, the pictures take the places of those that were indexed anew, with their ids, vectors, captions and tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.records import Root
from lodestone.directories.naming import corpus_names
from lodestone.directories.service import FOLDER, DirectoryService
from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Boundaries
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.scan.moved_roots import holds_any, merge_root, put_root
from lodestone.indexing.scan.scan_scopes import Candidate
from lodestone.indexing.sync.collections import SyncResources


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
