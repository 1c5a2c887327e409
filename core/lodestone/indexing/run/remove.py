"""How is a corpus removed everywhere? Points, Parquet files, thumbnails, and the catalog's rows last.

The catalog is what the rest is found by, so it goes last: killed at any point, the same command finishes the work. The pictures
themselves are never touched.
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
    """What was removed: `images` were known to the catalog, in whatever state; `thumbnails` also of earlier contents."""

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
        # all that are there, because the catalog forgets which contents its pictures had before they were changed
        removed = sweep_thumbnails(catalog, resources.thumbnails, except_corpus=corpus.corpus_id)
        remove_corpus_files(resources.embeddings, corpus.corpus_id)
        catalog.remove_corpus(corpus.corpus_id)
    return RemovalReport(corpus=name, images=images, thumbnails=removed)
