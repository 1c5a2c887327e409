"""How is one directory forgotten? Queries leave it out at once; points, thumbnails and the catalog's rows follow.

The catalog's row of the directory goes last: killed at any point, the same command finishes the work. The pictures themselves
are never touched. Parquet rows stay until `lodestone embeddings compact`; a directory that is added again adopts them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lodestone.catalog.catalog import Catalog
from lodestone.directories.naming import corpus_names
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.sync.collections import SyncResources
from lodestone.indexing.sync.thumbnail_cleanup import discard_thumbnails
from lodestone.sources.locators import FOLDER
from lodestone.store.base import Filter, MatchAny


@dataclass(frozen=True, slots=True)
class DirectoryRemoval:
    """What was removed: `images` the catalog knew, in whatever state, and the `thumbnails` that nothing else needs."""

    directory: str
    corpus: str
    images: int
    thumbnails: int


def remove_directory(resources: SyncResources, root_id: str) -> DirectoryRemoval:
    """Forget a directory. A sync has to follow, which carries out the tombstones; until then nothing wrong is found.

    Raises:
        NotFoundError: there is no such directory.
        StoreLockedError: another process owns the store, or an index run of the corpus is going on.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog), tempfile.TemporaryFile("w+", encoding="ascii") as contents:
        catalog.set_root(root_id, enabled=False)
        of_root = Filter(must=(MatchAny("root", (root_id,)),))
        for collection in resources.store.collections():
            resources.store.delete_matching(collection, of_root)
        _note(contents, catalog, root_id)
        images = catalog.remove_root(root_id)
        others = [Path(other.path) for other in catalog.roots() if other.kind == FOLDER]
        if root.kind == FOLDER:
            Mounts(resources.home.path / mounts.NAME).forget(Path(root.path), others=others)
        removed = discard_thumbnails(catalog, resources.thumbnails, _noted(contents))
    return DirectoryRemoval(directory=root.name, corpus=corpus.name, images=images, thumbnails=removed)


def _note(file: IO[str], catalog: Catalog, root_id: str) -> None:
    """Keep the pictures' content hashes outside the memory: there may be millions."""
    for image in catalog.images_of_root(root_id):
        file.write(f"{image.hash}\n")


def _noted(file: IO[str]) -> Iterator[str]:
    file.seek(0)
    for line in file:
        yield line.rstrip("\n")
