"""How do tags reach searches? From the catalog's outbox into the sparse collection behind the alias `tags`.

The catalog is the truth; the collection can be dropped at any time and is filled again from it. Image collections are never
touched. A picture's point holds all its tags' words, so writing it twice changes nothing: a crash between any two steps is
made good by the next delivery. After writing, the tags are read once more, and what changed meanwhile is written again, so that
of two processes delivering at once neither leaves an older state behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import ImageState
from lodestone.sources.uris import folders_of
from lodestone.store.base import SparseBatch, SparseVector, VectorStore
from lodestone.tags.terms import VERSION, picture_vector
from lodestone_schemas.collections import PAYLOAD_FIELDS, CollectionSpec

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import ImageRecord, TagRecord

TAGS_ALIAS: Final = "tags"
COLLECTION: Final = f"tags-{VERSION}"
_BATCH: Final = 256  # pictures written at once
_UNSHOWN: Final = frozenset({ImageState.GONE, ImageState.FAILED})  # the other collections have no points of theirs either
_Tags = Mapping[str, "Sequence[TagRecord]"]


def deliver(catalog: Catalog, store: VectorStore) -> int:
    """Bring the collection up to date with the catalog. Blocking; call it from the store's owner.

    Returns:
        How many pictures were written or removed. 0: there was nothing to do.

    Raises:
        StoreError, CatalogError: what was not delivered stays in the outbox.
    """
    fresh = store.aliases().get(TAGS_ALIAS) != COLLECTION or COLLECTION not in store.collections()
    if fresh:
        catalog.reset_tag_outbox()
    changes = catalog.tag_outbox(_BATCH)
    if not changes and fresh and not _has_tags(catalog):
        return 0  # no tag was ever given: no collection is needed
    if fresh:
        store.create(CollectionSpec(COLLECTION, sparse=True, fields=PAYLOAD_FIELDS))
    done = 0
    while changes:
        _write(catalog, store, [change.image_id for change in changes])
        catalog.tags_delivered(changes)
        done += len(changes)
        changes = catalog.tag_outbox(_BATCH)
    if fresh:
        store.set_alias(TAGS_ALIAS, COLLECTION)  # last: until now searches had no tags or the former version's
    return done


def payload_of(image: ImageRecord) -> dict[str, Any]:
    """Filter fields of a picture, as in every collection of pictures."""
    payload: dict[str, Any] = {"corpus": image.corpus_id, "root": image.root_id, "folders": list(folders_of(image.uri))}
    return payload if image.taken_at is None else {**payload, "taken_at": image.taken_at}


def point_vector(tags: Sequence[TagRecord]) -> SparseVector | None:
    """What a picture's tags say; a tag without a score counts as certain. None when there is nothing to find."""
    return picture_vector((tag.text, 1.0 if tag.score is None else min(1.0, tag.score)) for tag in tags if tag.score != 0)


def _write(catalog: Catalog, store: VectorStore, image_ids: Sequence[str]) -> None:
    known: _Tags = catalog.tags(image_ids)
    while image_ids:
        images = catalog.images(image_ids)
        points = {
            image_id: vector
            for image_id in image_ids
            if image_id in images
            and images[image_id].state not in _UNSHOWN
            and (vector := point_vector(known.get(image_id, ()))) is not None
        }
        if points:
            payloads = [payload_of(images[image_id]) for image_id in points]
            store.upsert_sparse(COLLECTION, SparseBatch(list(points), list(points.values()), payloads))
        gone = [image_id for image_id in image_ids if image_id not in points]
        if gone:
            store.delete(COLLECTION, gone)
        now: _Tags = catalog.tags(image_ids)
        image_ids = [image_id for image_id in image_ids if now.get(image_id) != known.get(image_id)]
        known = now


def _has_tags(catalog: Catalog) -> bool:
    return bool(catalog.list_tags(offset=0, limit=1))
