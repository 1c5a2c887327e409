"""Removal of a corpus: its points, Parquet files and thumbnails, and the catalog's rows last.

The rest is found through the catalog, so the catalog goes last: after a crash at any point, the same command finishes the work.
The pictures themselves are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.embeddings.slices import remove_corpus_files
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.sync.collections import SyncResources
from lodestone.indexing.sync.thumbnail_cleanup import sweep_thumbnails
from lodestone.store.base import Filter, MatchAny


@dataclass(frozen=True, slots=True)
class RemovalReport:
    """Counts of what was removed.

    Attributes:
        corpus: Name of the corpus.
        images: Pictures that the catalog knew, in whatever state.
        thumbnails: Single thumbnails, also those of earlier contents; packs are deleted besides.
    """

    corpus: str
    images: int
    thumbnails: int


def remove_corpus(resources: SyncResources, name: str) -> RemovalReport:
    """Remove the corpus `name` from store, embeddings, thumbnails and catalog. Idempotent until it is gone.

    Raises:
        UnknownNameError: there is no such corpus.
        StoreLockedError: another process owns the store, or an index run of the corpus is going on.
    """
    catalog, home = resources.catalog, resources.home
    corpus = catalog.corpus(name)
    with corpus_lock(home, corpus, catalog=catalog):
        images = catalog.count_images(corpus.corpus_id)
        of_corpus = Filter(must=(MatchAny("corpus", (corpus.corpus_id,)),))
        for collection in resources.store.collections():
            resources.store.delete_matching(collection, of_corpus)
        # All stored ones are checked, because the catalog forgets which contents its pictures had before they changed.
        removed = sweep_thumbnails(catalog, resources.thumbnails, except_corpus=corpus.corpus_id)
        resources.thumbnails.packs.remove_corpus(corpus.corpus_id)
        remove_corpus_files(resources.embeddings, corpus.corpus_id)
        catalog.remove_corpus(corpus.corpus_id)
    return RemovalReport(corpus=name, images=images, thumbnails=removed)
