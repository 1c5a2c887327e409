"""Removal of a directory: queries leave it out at once; then its points, thumbnails and catalog rows are deleted.

The catalog's row of the directory is deleted last: if the command is killed at any point, running it again finishes the work.
The user's files are never touched. Parquet rows stay until `lodestone embeddings compact`; a directory that is added again
adopts them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lodestone.catalog.catalog import Catalog
from lodestone.directories.naming import corpus_names
from lodestone.embeddings.thumbnail_upkeep import drop_unneeded
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.sync.collections import SyncResources
from lodestone.indexing.sync.thumbnail_cleanup import discard_thumbnails
from lodestone.sources.locators import FOLDER
from lodestone.store.base import Filter, MatchAny


@dataclass(frozen=True, slots=True)
class DirectoryRemoval:
    """Reports what was removed.

    Attributes:
        directory: Name of the directory.
        corpus: Name of its corpus.
        images: Number of its pictures in the catalog, in any state.
        thumbnails: Number of deleted thumbnails that no other picture needs.
    """

    directory: str
    corpus: str
    images: int
    thumbnails: int


def remove_directory(resources: SyncResources, root_id: str) -> DirectoryRemoval:
    """Remove a directory. A sync must follow, which deletes the marked points; queries are correct meanwhile.

    Raises:
        NotFoundError: there is no such directory.
        StoreLockedError: another process owns the store, or an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog), tempfile.TemporaryFile("w+", encoding="ascii") as contents:
        catalog.set_root(root_id, enabled=False)
        of_root = Filter(must=(MatchAny("root", (root_id,)),))
        for collection in resources.store.collections():
            resources.store.delete_matching(collection, of_root)
        slices = _write_hashes(contents, catalog, root_id)
        images = catalog.remove_root(root_id)
        others = [Path(other.path) for other in catalog.roots() if other.kind == FOLDER]
        if root.kind == FOLDER:
            Mounts(resources.home.path / mounts.NAME).forget(Path(root.path), others=others)
        removed = discard_thumbnails(catalog, resources.thumbnails, _read_hashes(contents))
        removed += drop_unneeded(catalog, resources.thumbnails.packs, corpus.corpus_id, only=slices)
    return DirectoryRemoval(directory=root.name, corpus=corpus.name, images=images, thumbnails=removed)


def _write_hashes(file: IO[str], catalog: Catalog, root_id: str) -> set[str]:
    """Write the pictures' content hashes to a file, because there may be millions, and return the ids of their slices."""
    slices: set[str] = set()
    for image in catalog.images_of_root(root_id):
        file.write(f"{image.hash}\n")
        if image.slice_id is not None:
            slices.add(image.slice_id)
    return slices


def _read_hashes(file: IO[str]) -> Iterator[str]:
    file.seek(0)
    for line in file:
        yield line.rstrip("\n")
