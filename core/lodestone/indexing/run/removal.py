"""Removal of pictures from everything that a home keeps of them; what cannot be erased at once stays listed.

The order makes a removal safe to kill: pictures are withdrawn from search first, then points, slices, packs, thumbnails and
mentions go, and the catalog's rows last, so the same command finds them again. What the catalog lists for erasure is also
finished by the next index run, by a compaction, and by a service when it starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.removal import Mentions
from lodestone.embeddings.erasure import Eraser, ErasureReport
from lodestone.embeddings.thumbnail_upkeep import drop_unneeded
from lodestone.errors import StoreLockedError
from lodestone.generators.cache_files import remove_edited
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.sync.thumbnail_cleanup import discard_thumbnails
from lodestone.query_log.redact import without_pictures
from lodestone.store.base import Filter, MatchAny

if TYPE_CHECKING:
    from lodestone.catalog.records import Corpus, ImageRecord
    from lodestone.indexing.resources import StoredHome
    from lodestone.indexing.sync.collections import SyncResources
    from lodestone.store.base import VectorStore

_BATCH: Final = 100_000  # pictures whose ids and names are in memory at a time
_POINTS: Final = 1_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PictureRemoval:
    """Reports what was removed.

    Attributes:
        images: Number of pictures that the catalog had, in any state.
        thumbnails: Number of deleted thumbnails that no other picture needs.
        erasure: What was erased from slices.
        catalog_bytes: Bytes of the catalog's file that may still hold deleted rows.
    """

    images: int
    thumbnails: int
    erasure: ErasureReport
    catalog_bytes: int = 0


def remove_pictures(resources: SyncResources, image_ids: Sequence[str]) -> list[PictureRemoval]:
    """Remove pictures from store, slices, thumbnails, recorded queries and catalog. A sync should follow.

    A file that stays in an indexed folder is found again by the next index run, as a new picture.

    Args:
        resources: The opened home.
        image_ids: The pictures; unknown ids are ignored.

    Returns:
        One report for each corpus that had any of them.

    Raises:
        StoreLockedError: another process owns the store, or an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    known = catalog.images(image_ids)
    reports = []
    for corpus in [
        corpus for corpus in every_corpus(resources) if any(i.corpus_id == corpus.corpus_id for i in known.values())
    ]:
        images = [image for image in known.values() if image.corpus_id == corpus.corpus_id]
        with corpus_lock(resources.home, corpus, catalog=catalog):
            _delete_points(resources.store, [image.image_id for image in images])
            reports.append(remove_records(resources, corpus, images))
    return reports


def remove_records(
    resources: StoredHome,
    corpus: Corpus,
    images: Iterable[ImageRecord],
    *,
    also: Mentions = Mentions(frozenset(), frozenset()),  # noqa: B008 - immutable
    own_run: str = "",
) -> PictureRemoval:
    """Remove pictures of a corpus, whose lock the caller holds, from everything but the store.

    Args:
        resources: The opened home.
        corpus: The corpus.
        images: Its pictures; they are read twice batch by batch, and may be millions.
        also: Ids and names that go with them, as those of their directory.
        own_run: Id of the caller's run, if it has one.
    """
    catalog, thumbnails = resources.catalog, resources.thumbnails
    slices: set[str] = set()
    removed = dropped = 0
    ids: list[str] = []
    for batch in chunks(images, _BATCH):
        ids_of_batch = [image.image_id for image in batch]
        mentions = Mentions(also.ids | set(ids_of_batch), also.names | {image.uri for image in batch})
        slices |= {image.slice_id for image in batch if image.slice_id is not None}
        catalog.withdraw_images(ids_of_batch)
        catalog.forget_mentions(mentions, redact=without_pictures)
        dropped += discard_thumbnails(catalog, thumbnails, [image.hash for image in batch])
        ids += ids_of_batch
    dropped += drop_unneeded(catalog, thumbnails.packs, corpus.corpus_id, only=slices) if slices else 0
    if not ids:
        catalog.forget_mentions(also, redact=without_pictures)
    erasure = Eraser(catalog, resources.embeddings, thumbnails.packs, own_run).run(corpus.corpus_id)
    remove_edited(resources.home.guides)
    removed = catalog.remove_images(ids)
    return PictureRemoval(removed, dropped, erasure, catalog.erase_free_space())


def remove_gone(resources: StoredHome, corpus: Corpus, *, own_run: str = "", now: bool = False) -> PictureRemoval | None:
    """Remove the pictures of a corpus whose files are gone for longer than they are kept; finish what removals left.

    Args:
        resources: The opened home.
        corpus: The corpus, whose lock the caller holds.
        own_run: Id of the caller's run, if it has one.
        now: Remove all whose files are gone, however short.

    Returns:
        What was removed; None if there was nothing to do.
    """
    catalog = resources.catalog
    before = None if now else datetime.now(UTC) - timedelta(days=resources.settings.index.keep_gone_days)
    ids = list(catalog.gone_images(before=before, corpus_id=corpus.corpus_id))
    if not ids and not catalog.bytes_to_erase(corpus.corpus_id)[0]:
        return None
    return remove_records(resources, corpus, _images(resources, ids), own_run=own_run)


def finish_removals(resources: StoredHome, *, now: bool = False) -> int:
    """Finish what earlier removals left in any corpus that nobody works on, and return the number of pictures removed.

    Args:
        resources: The opened home; its store is not opened, because points of gone pictures are deleted already.
        now: Remove all pictures whose files are gone, however short.
    """
    removed = 0
    for corpus in every_corpus(resources):
        try:
            with corpus_lock(resources.home, corpus, catalog=resources.catalog):
                report = remove_gone(resources, corpus, now=now)
        except StoreLockedError:
            _log.info("the corpus %r is being indexed; its run finishes what removals left", corpus.name)
            continue
        removed += report.images if report is not None else 0
    return removed


def every_corpus(resources: StoredHome) -> Iterator[Corpus]:
    """Yield all corpora by name."""
    offset = 0
    while page := resources.catalog.corpora(offset):
        offset += len(page)
        yield from page


def _images(resources: StoredHome, ids: Iterable[str]) -> Iterator[ImageRecord]:
    for chunk in chunks(ids, _POINTS):
        yield from resources.catalog.images(chunk).values()


def _delete_points(store: VectorStore, image_ids: Sequence[str]) -> None:
    """Delete the points of pictures and of their captions in every collection, and their bytes."""
    for collection in store.collections():
        for chunk in chunks(image_ids, _POINTS):
            store.delete(collection, chunk)
            store.delete_matching(collection, Filter(must=(MatchAny("image", tuple(chunk)),)))
        store.erase(collection, now=False)
