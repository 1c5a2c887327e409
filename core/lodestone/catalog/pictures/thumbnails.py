"""Look-up of the slices whose packs hold the thumbnail of a content (imaging/thumbnail_packs.py); nothing is stored for it."""

from __future__ import annotations

from typing import Final

from sqlalchemy import select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.records import ImageState

_MOST: Final = 4  # slices that are tried: copies of a picture may lie in several


class ThumbnailRows(CatalogBase):
    """Part of the catalog that finds the packs of thumbnails."""

    def slices_of_content(self, content_hash: str) -> list[tuple[str, str]]:
        """Return (corpus id, fingerprint) of some slices of living pictures with this content, in a stable order."""
        images, slices = tables.images, tables.slices
        query = (
            select(slices.c.corpus_id, slices.c.fingerprint)
            .join(images, images.c.slice_id == slices.c.slice_id)
            .where(images.c.hash == content_hash, images.c.state != ImageState.GONE)
            .distinct()
            .order_by(slices.c.corpus_id, slices.c.fingerprint)
            .limit(_MOST)
        )
        with self._reading() as connection:
            return [(corpus_id, fingerprint) for corpus_id, fingerprint in connection.execute(query)]
