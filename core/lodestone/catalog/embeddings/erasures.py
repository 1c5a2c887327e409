"""Slices whose Parquet files and packs still hold rows of removed pictures, until those files are replaced or deleted.

The transaction that deletes a picture's row lists its slices here (pictures/deletions.py). So a killed removal is finished by
whatever erases next: the same command, an index run, a compaction or the service. A slice leaves the list when its last file
is deleted.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.embeddings.slice_parts import refresh_parts
from lodestone.catalog.records import ImageState, SliceRecord


class ErasureRows(CatalogBase):
    """Part of the catalog that lists what is still to be erased."""

    def slices_to_erase(self, corpus_id: str) -> list[SliceRecord]:
        """Return the slices of a corpus whose files hold rows of removed pictures, oldest first."""
        slices, erasures = tables.slices, tables.erasures
        columns = (slices.c.slice_id, slices.c.corpus_id, slices.c.fingerprint, slices.c.rows, slices.c.created_at)
        query = select(*columns).join(erasures, erasures.c.slice_id == slices.c.slice_id).order_by(slices.c.seq)
        with self._reading() as connection:
            return [SliceRecord(*row) for row in connection.execute(query.where(slices.c.corpus_id == corpus_id))]

    def bytes_to_erase(self, corpus_id: str | None = None) -> tuple[int, int]:
        """Return how many slices of a corpus, or of all, hold rows of removed pictures, and the bytes of their files."""
        slices, erasures, receipts = tables.slices, tables.erasures, tables.receipts
        query = (
            select(func.count(erasures.c.slice_id.distinct()), func.coalesce(func.sum(receipts.c.size), 0))
            .select_from(erasures)
            .join(slices, slices.c.slice_id == erasures.c.slice_id)
            .outerjoin(receipts, receipts.c.slice_id == erasures.c.slice_id)
        )
        if corpus_id is not None:
            query = query.where(slices.c.corpus_id == corpus_id)
        with self._reading() as connection:
            count, size = connection.execute(query).one()
        return int(count), int(size)

    def drop_slice(self, slice_id: str) -> None:
        """Delete a slice that has no picture, with its receipts; the caller has deleted its files."""
        has_image = select(tables.images.c.image_id).where(tables.images.c.slice_id == slice_id).limit(1)

        def change(connection: Connection) -> None:
            if connection.execute(has_image).first() is None:
                connection.execute(delete(tables.slices).where(tables.slices.c.slice_id == slice_id))

        self._write(change)

    def restart_slice(self, slice_id: str) -> None:
        """Forget the receipts of a slice whose files were deleted because some of its pictures wait to be embedded.

        Its pictures that can be found are embedded again with them.
        """

        def change(connection: Connection) -> None:
            connection.execute(delete(tables.receipts).where(tables.receipts.c.slice_id == slice_id))
            connection.execute(delete(tables.erasures).where(tables.erasures.c.slice_id == slice_id))
            members = select(func.count()).where(tables.images.c.slice_id == slice_id).scalar_subquery()
            connection.execute(update(tables.slices).where(tables.slices.c.slice_id == slice_id).values(rows=members))
            refresh_parts(connection, [slice_id])

        self._write(change)

    def count_living(self, slice_id: str) -> tuple[int, int]:
        """Return how many pictures a slice has that wait to be embedded, and how many others, gone ones included."""
        images = tables.images
        query = select(images.c.state, func.count()).where(images.c.slice_id == slice_id).group_by(images.c.state)
        with self._reading() as connection:
            counts = {ImageState(state): int(count) for state, count in connection.execute(query)}
        waiting = counts.pop(ImageState.PENDING, 0)
        return waiting, sum(counts.values())
