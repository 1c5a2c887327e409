"""Tombstones of pictures that the vector stores must still delete.

A tombstone says that a picture, once embedded, is gone or failed now. Each collection carries it out once: `tombstones` lists
the deletions that remain for it, `mark_deleted` records finished ones. A picture that comes back is not deleted by its old
tombstone: only pictures whose state is gone or failed (or whose row was replaced) are listed, and becoming active removes the
tombstone. If the picture goes again, it gets a new tombstone, which every collection carries out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, and_, delete, exists, literal, or_, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, insert_ignoring
from lodestone.catalog.records import ImageState


class DeletionRows(CatalogBase):
    """Part of the catalog that keeps tombstones, and which collections have carried them out."""

    def tombstones(self, collection: str) -> Iterator[str]:
        """Yield ids of pictures that `collection` must still delete, ascending, read a page at a time; mark them as you go."""
        tombstones, done, images = tables.tombstones, tables.deletions, tables.images
        query = (
            select(tombstones.c.image_id)
            .outerjoin(images, images.c.image_id == tombstones.c.image_id)
            .outerjoin(done, and_(done.c.image_id == tombstones.c.image_id, done.c.collection == collection))
            .where(done.c.image_id.is_(None))
            .where(or_(images.c.image_id.is_(None), images.c.state.in_([ImageState.GONE, ImageState.FAILED])))
        )
        return (row.image_id for row in self._streamed(query, (tombstones.c.image_id,)))

    def mark_deleted(self, collection: str, image_ids: Iterable[str]) -> None:
        """Record that `collection` no longer holds these pictures. A picture that came back meanwhile is skipped."""
        tombstones = tables.tombstones

        def change(connection: Connection) -> None:
            for chunk in chunks(ids):
                remaining = connection.execute(select(tombstones.c.image_id).where(tombstones.c.image_id.in_(chunk))).scalars()
                rows = [{"collection": collection, "image_id": image_id} for image_id in remaining]
                insert_ignoring(connection, tables.deletions, rows)

        if ids := list(image_ids):
            self._write(change)


def mark_deleted(connection: Connection, image_ids: Iterable[str]) -> None:
    """Create new tombstones for those of the pictures that were ever in a slice."""
    tombstones, images, members = tables.tombstones, tables.images, tables.slice_members
    for chunk in chunks(image_ids):
        connection.execute(delete(tombstones).where(tombstones.c.image_id.in_(chunk)))
        embedded = exists().where(members.c.image_id == images.c.image_id)
        now = literal(datetime.now(UTC), tables.UtcDateTime)
        deleted_images = select(images.c.image_id, images.c.corpus_id, now).where(images.c.image_id.in_(chunk), embedded)
        connection.execute(tombstones.insert().from_select(["image_id", "corpus_id", "created_at"], deleted_images))


def lift(connection: Connection, image_ids: Iterable[str]) -> None:
    """Remove the tombstones of pictures that are active again."""
    for chunk in chunks(image_ids):
        connection.execute(delete(tables.tombstones).where(tables.tombstones.c.image_id.in_(chunk)))


def mark_erased(connection: Connection, image_ids: Iterable[str]) -> None:
    """List all slices that ever held these pictures. To be called before their rows are deleted."""
    members = tables.slice_members
    for chunk in chunks(image_ids):
        slices = connection.execute(select(members.c.slice_id).where(members.c.image_id.in_(chunk)).distinct()).scalars()
        insert_ignoring(connection, tables.erasures, [{"slice_id": slice_id} for slice_id in slices])
