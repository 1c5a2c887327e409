"""Removal of a corpus: its points, Parquet files and thumbnails, and the catalog's rows last.

The rest is found through the catalog, so the catalog goes last: after a crash at any point, the same command finishes the work.
The pictures themselves are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.removal import Mentions
from lodestone.embeddings.slices import remove_corpus_files
from lodestone.generators.cache_files import remove_edited
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.sync.collections import SyncResources
from lodestone.indexing.sync.thumbnail_cleanup import sweep_thumbnails
from lodestone.query_log.redact import without_pictures
from lodestone.store.base import Filter, MatchAny

_BATCH = 100_000  # pictures whose ids and names are in memory at a time


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
            resources.store.erase(collection, now=False)
        for root in catalog.roots(corpus.corpus_id):
            also = Mentions(frozenset({root.root_id}), frozenset({root.path}))
            for batch in chunks(catalog.images_of_root(root.root_id), _BATCH):
                mentions = Mentions(also.ids | {image.image_id for image in batch}, also.names | {image.uri for image in batch})
                catalog.forget_mentions(mentions, redact=without_pictures)
            catalog.forget_mentions(also, redact=without_pictures)
        # All stored ones are checked, because the catalog forgets which contents its pictures had before they changed.
        removed = sweep_thumbnails(catalog, resources.thumbnails, except_corpus=corpus.corpus_id)
        resources.thumbnails.packs.remove_corpus(corpus.corpus_id)
        remove_edited(home.guides)
        remove_corpus_files(resources.embeddings, corpus.corpus_id)
        catalog.remove_corpus(corpus.corpus_id)
        catalog.erase_free_space()
    return RemovalReport(corpus=name, images=images, thumbnails=removed)
