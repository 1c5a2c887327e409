"""Facts from photos' headers, for pictures that were recorded before the catalog kept them: a list of these, and an update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, bindparam, literal_column, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.pictures.images import IMAGE_COLUMNS, image_record
from lodestone.catalog.records import ImageRecord

PHOTO_FACTS: Final = ("latitude", "longitude", "utc_offset_minutes", "taken_subsec_ms", "camera_make", "camera_model")
"""Columns that a header fills; `taken_at` is not among them, because the stores have it too."""

_IMAGES = tables.images
_FACTS = (*PHOTO_FACTS, "metadata_version")
_KEY = ("image_id", "hash", *_FACTS)
_VALUES = attrgetter(*_KEY)
# Written out, not as parameters: only then do databases see that the partial index holds these rows.
_UNREAD = (_IMAGES.c.metadata_version == literal_column("0"), _IMAGES.c.state == literal_column("'active'"))
_UPDATE = (
    update(_IMAGES)
    .where(_IMAGES.c.image_id == bindparam("the_image_id"), _IMAGES.c.hash == bindparam("the_hash"))
    .values({name: bindparam(f"the_{name}") for name in _FACTS})
)


class PhotoFactRows(CatalogBase):
    """Part of the catalog that keeps what the headers of photos say."""

    def images_with_unread_metadata(self, root_id: str, *, at_once: int = 0) -> Iterator[ImageRecord]:
        """Yield the root's active pictures whose headers are still to be read, by uri, a page at a time.

        No transaction stays open between pages, so the caller may write while it reads. Pictures whose headers were read are
        not visited: when none is left, this costs one look into an empty index.

        Args:
            root_id: Id of the root.
            at_once: Pictures a page; 0 for the default.
        """
        query = select(*IMAGE_COLUMNS).where(_IMAGES.c.root_id == root_id, *_UNREAD)
        return map(image_record, self._streamed(query, (_IMAGES.c.uri,), at_once=at_once))

    def set_photo_facts(self, records: Sequence[ImageRecord]) -> None:
        """Write `PHOTO_FACTS` and `metadata_version` of pictures, in one transaction; all else of their rows stays.

        A picture that is unknown or has another content by now is left alone.
        """
        if not records:
            return
        rows: list[dict[str, Any]] = [
            {f"the_{name}": value for name, value in zip(_KEY, _VALUES(record), strict=True)} for record in records
        ]

        def change(connection: Connection) -> None:
            connection.execute(_UPDATE, rows)

        self._write(change)
