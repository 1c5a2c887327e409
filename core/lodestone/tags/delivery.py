"""Delivery of tags and other words of pictures from the catalog's outbox to the sparse collection behind the alias `tags`.

The catalog is the truth; the collection can be dropped at any time and is filled again from it. Image collections are never
touched. A picture's point holds the words of all its tags and captions, its names and its date, so writing it twice changes
nothing: after a crash between any two steps, the next delivery repairs the collection. After writing, all of it is read once
more, and pictures that changed meanwhile are written again, so that two processes that deliver at once cannot leave an
older state behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import ImageState
from lodestone.errors import CollectionDamagedError
from lodestone.facts.facts import VERSION as FACTS_VERSION
from lodestone.facts.points import point_fields
from lodestone.sources.captions import CaptionSource
from lodestone.spaces.names import TAGS
from lodestone.store.base import SparseBatch, SparseVector, VectorStore
from lodestone.tags.filed import filed_words
from lodestone.tags.service import FEEDBACK, USER
from lodestone.tags.terms import VERSION, Given, PictureTag, picture_vector
from lodestone_schemas.collections import PAYLOAD_FIELDS, CollectionSpec

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import CaptionRecord, ImageRecord, TagRecord

COLLECTION: Final = f"tags-{VERSION}-{FACTS_VERSION}"
_BATCH: Final = 256  # pictures written at once
_UNSHOWN: Final = frozenset({ImageState.GONE, ImageState.FAILED})  # other collections have no points of such pictures either
_GIVEN: Final[Mapping[str, Given]] = {USER: "words", FEEDBACK: "query"}


def deliver(catalog: Catalog, store: VectorStore, *, most: int | None = None) -> int:
    """Bring the collection up to date with the catalog; it blocks, and only the store's owner may call it.

    A delivery of all pictures to a new collection that was interrupted goes on where it was. The former version's collection is
    searched until the new one is whole.

    Args:
        catalog: The truth.
        store: Holds the collection.
        most: Pictures after which it ends, to the next 256; the others stay in the outbox. None for all of them.

    Returns:
        How many pictures were written or removed; 0 when there was nothing to do.

    Raises:
        StoreError: the store failed; what was not delivered stays in the outbox.
        CatalogError: the catalog failed; what was not delivered stays in the outbox.
    """
    former = store.aliases().get(TAGS)
    if COLLECTION not in store.collections():
        if not catalog.reset_tag_outbox():
            return 0  # there are no pictures, so no collection is needed
        store.create(CollectionSpec(COLLECTION, sparse=True, fields=PAYLOAD_FIELDS))
    done = 0
    changes = catalog.tag_outbox(_BATCH)
    while changes and (most is None or done < most):
        _write(catalog, store, [change.image_id for change in changes])
        catalog.tags_delivered(changes)
        done += len(changes)
        changes = catalog.tag_outbox(_BATCH)
    if former != COLLECTION and (former is None or not changes):
        store.set_alias(TAGS, COLLECTION)  # last: until now searches had no tags, or the former version's
    return done


def mend(catalog: Catalog, store: VectorStore) -> str:
    """Drop the collection and deliver all tags again if its files are damaged; return the damage, or an empty text.

    Raises:
        StoreError: the store failed.
        CatalogError: the catalog failed.
    """
    if COLLECTION not in store.collections():
        return ""
    try:
        store.info(COLLECTION)
    except CollectionDamagedError as error:
        store.drop(COLLECTION)
        deliver(catalog, store)
        return error.message
    return ""


def point_vector(
    tags: Sequence[TagRecord], captions: Sequence[CaptionRecord] = (), filed: Iterable[str] = ()
) -> SparseVector | None:
    """Return the sparse vector of a picture's tags and captions, or None when there is nothing to find.

    A tag without a score counts as certain. Keywords that a person wrote into the picture's file count as tags.

    Args:
        tags: Its tags.
        captions: Its captions.
        filed: Stems of the words under which it is filed.
    """
    given = [
        PictureTag(tag.text, 1.0 if tag.score is None else min(1.0, tag.score), _GIVEN.get(tag.source, "nobody"))
        for tag in tags
        if tag.score != 0
    ]
    keywords = [
        PictureTag(keyword, given="words")
        for caption in captions
        if caption.source == CaptionSource.KEYWORDS
        for keyword in caption.text.split(", ")
    ]
    return picture_vector([*given, *keywords], [caption.text for caption in captions], filed)


@dataclass(frozen=True, slots=True)
class _Written:
    """Pictures and what was written to them, as the catalog had it at one time: image id -> record, tags, and captions."""

    images: Mapping[str, ImageRecord]
    tags: Mapping[str, Sequence[TagRecord]]
    captions: Mapping[str, Sequence[CaptionRecord]]

    @classmethod
    def read(cls, catalog: Catalog, image_ids: Sequence[str]) -> _Written:
        return cls(catalog.images(image_ids), catalog.tags(image_ids), catalog.captions(image_ids))

    def of(self, image_id: str) -> tuple[ImageRecord | None, Sequence[TagRecord], Sequence[CaptionRecord]]:
        return self.images.get(image_id), self.tags.get(image_id, ()), self.captions.get(image_id, ())

    def vector(self, image_id: str, roots: Mapping[str, str]) -> SparseVector | None:
        """Return the vector of a picture; None for one that is not shown, or without words."""
        image, tags, captions = self.of(image_id)
        if image is None or image.state in _UNSHOWN:
            return None
        return point_vector(tags, captions, filed_words(image, roots.get(image.root_id, "")))


def _write(catalog: Catalog, store: VectorStore, image_ids: Sequence[str]) -> None:
    written = _Written.read(catalog, image_ids)
    while image_ids:
        roots = {root.root_id: root.name for root in catalog.roots()}
        vectors = {image_id: written.vector(image_id, roots) for image_id in image_ids}
        points = {image_id: vector for image_id, vector in vectors.items() if vector is not None}
        if points:
            payloads = [point_fields(written.images[image_id]) for image_id in points]
            store.upsert_sparse(COLLECTION, SparseBatch(list(points), list(points.values()), payloads))
        gone = [image_id for image_id in image_ids if image_id not in points]
        if gone:
            store.delete(COLLECTION, gone)
        current = _Written.read(catalog, image_ids)
        image_ids = [image_id for image_id in image_ids if current.of(image_id) != written.of(image_id)]
        written = current
