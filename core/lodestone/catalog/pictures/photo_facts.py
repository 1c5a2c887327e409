"""Facts from photos' headers, for pictures that were recorded before the catalog kept them: a list of these, and an update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, literal_column, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.images import IMAGE_COLUMNS, image_record
from lodestone.catalog.records import ImageRecord
from lodestone.catalog.use.tags import queue

PHOTO_FACTS: Final = (
    "taken_at",
    "latitude",
    "longitude",
    "utc_offset_minutes",
    "taken_subsec_ms",
    "camera_make",
    "camera_model",
    "taken_precision",
    "taken_source",
    "taken_zone",
)
"""Columns that a header, or the name of the file, fills."""

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


@dataclass(frozen=True, slots=True)
class _Former:
    """What a picture's point says of its time, place and camera before a change, and after it."""

    image_id: str
    slice_id: str | None
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    was_in_utc: bool

    @property
    def is_shown_otherwise(self) -> bool:
        """Whether the stores' point of the picture is out of date; versions that kept no source wrote UTC into it."""
        offset_minutes = self.before[_POINT_FACTS.index("utc_offset_minutes")]
        return self.before != self.after or (self.was_in_utc and bool(offset_minutes))


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

        Where a time, place or camera changes, the loads of the picture's slice are forgotten, so that its points are written
        again. A picture that is unknown or has another content by now is left alone.
        """
        if not records:
            return
        rows: list[dict[str, Any]] = [
            {f"the_{name}": value for name, value in zip(_KEY, _VALUES(record), strict=True)} for record in records
        ]

        def change(connection: Connection) -> None:
            known = list(_former(connection, records))
            changed = [former for former in known if former.is_shown_otherwise]
            connection.execute(_UPDATE, rows)
            queue(connection, [former.image_id for former in known])  # for their cameras, too
            for chunk in chunks({former.slice_id for former in changed} - {None}):
                connection.execute(delete(tables.loads).where(tables.loads.c.slice_id.in_(chunk)))

        self._write(change)


_POINT_FACTS: Final = (
    *("taken_at", "utc_offset_minutes", "taken_precision"),
    *("latitude", "longitude", "camera_make", "camera_model"),
)
_OF_POINT: Final = attrgetter(*_POINT_FACTS)


def _former(connection: Connection, records: Sequence[ImageRecord]) -> Iterator[_Former]:
    """Yield the facts of each picture that still has the content of its record."""
    wanted = {record.image_id: record for record in records}
    facts = (_IMAGES.c[name] for name in _POINT_FACTS)
    columns = (_IMAGES.c.image_id, _IMAGES.c.hash, _IMAGES.c.slice_id, _IMAGES.c.taken_source, *facts)
    for chunk in chunks(wanted):
        for image_id, content, slice_id, source, *before in connection.execute(
            select(*columns).where(_IMAGES.c.image_id.in_(chunk))
        ):
            record = wanted[image_id]
            if content == record.hash:
                yield _Former(image_id, slice_id, tuple(before), _OF_POINT(record), was_in_utc=source is None)
