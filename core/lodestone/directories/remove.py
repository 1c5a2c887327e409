"""Removal of a directory: queries leave it out at once; then all that is kept of its pictures goes, and its own row last.

The catalog's row of the directory is deleted last: if the command is killed at any point, running it again finishes the work.
The user's files are never touched. A directory that is added again is embedded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.pictures.removal import Mentions
from lodestone.directories.naming import corpus_names
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.embeddings.erasure import ErasureReport
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.removal import remove_records
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.sync.collections import SyncResources
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
