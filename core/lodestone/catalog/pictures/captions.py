"""Captions of pictures, each with its source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import PAGE, chunks
from lodestone.catalog.pictures.deletions import mark_erased
from lodestone.catalog.records import CaptionRecord, ImageState
from lodestone.catalog.use.tags import queue

_CAPTIONS = tables.captions.c
# One statement, so that it is compiled once: queries read the captions of hundreds of pictures.
_OF_IMAGES = (
    select(_CAPTIONS.image_id, _CAPTIONS.source, _CAPTIONS.text)
    .where(_CAPTIONS.image_id.in_(bindparam("ids", expanding=True)))
    .order_by(_CAPTIONS.image_id, _CAPTIONS.source, _CAPTIONS.position)
)


class CaptionRows(CatalogBase):
    """Part of the catalog that keeps captions."""

    def set_captions(self, captions: Mapping[str, Sequence[CaptionRecord]], *, sources: Collection[str] | None = None) -> None:
        """Replace the captions of pictures (image id -> captions) that come from `sources`; captions from other sources stay.

        Args:
            captions: For each picture all its captions from `sources`; an empty list removes them. Repetitions are dropped.
            sources: Sources whose captions are replaced; None for the sources that occur in `captions`.

        Raises:
            CatalogError: A picture is unknown.
        """
        if sources is None:
            sources = {record.source for records in captions.values() for record in records}
        texts = {image_id: [(record.source, record.text) for record in records] for image_id, records in captions.items()}
        if captions and sources:
            wanted = list(sources)
            self._write(lambda connection: replace_captions(connection, texts, sources=wanted, described=list(texts)))

    def captions(self, image_ids: Iterable[str]) -> dict[str, list[CaptionRecord]]:
        """Return captions by image id, by source and then in the order given; pictures without captions are left out."""
        captions: dict[str, list[CaptionRecord]] = {}
        with self._reading() as connection:
            for chunk in chunks(image_ids):
                for image_id, source, text in connection.execute(_OF_IMAGES, {"ids": chunk}).all():
                    captions.setdefault(image_id, []).append(CaptionRecord(image_id, source, text))
        return captions

    def has_captions(self) -> bool:
        """Return whether any picture has a caption."""
        with self._reading() as connection:
            return connection.execute(select(tables.captions.c.image_id).limit(1)).first() is not None

    def captioned_images(self, corpus_id: str | None = None) -> Iterator[tuple[str, list[str]]]:
        """Yield (image id, distinct texts) of every pending or active picture with a caption, by id, read a page at a time."""
        images, table = tables.images, tables.captions
        is_living = images.c.state.in_([ImageState.PENDING, ImageState.ACTIVE])
        has_caption = select(table.c.image_id).where(table.c.image_id == images.c.image_id).exists()
        ids = select(images.c.image_id).where(is_living, has_caption).order_by(images.c.image_id).limit(PAGE)
        if corpus_id is not None:
            ids = ids.where(images.c.corpus_id == corpus_id)
        order = (table.c.image_id, table.c.source, table.c.position)
        last = ""
        while True:
            with self._reading() as connection:
                page = list(connection.execute(ids.where(images.c.image_id > last)).scalars())
                rows: list[Row[Any]] = []
                for chunk in chunks(page):
                    query = select(table.c.image_id, table.c.text).where(table.c.image_id.in_(chunk)).order_by(*order)
                    rows.extend(connection.execute(query))
            for image_id, group in groupby(rows, key=lambda row: str(row.image_id)):
                yield image_id, list(dict.fromkeys(row.text for row in group))
            if len(page) < PAGE:
                return
            last = page[-1]


def replace_captions(
    connection: Connection,
    captions: Mapping[str, Iterable[tuple[str, str]]],
    *,
    sources: Sequence[str],
    described: Sequence[str],
) -> None:
    """Replace the captions of pictures that come from some sources; captions that stay as they are are not written.

    Pictures whose captions change are put into the outbox of tags. Slices of pictures that lose a caption are listed for
    erasure: their files hold its text.

    Args:
        connection: The transaction.
        captions: Image id -> (source, text) of each caption; repetitions are dropped.
        sources: Sources whose captions are replaced.
        described: The pictures among them that may have captions from these sources.
    """
    table = tables.captions
    wanted = {
        image_id: [(source, position, text) for position, (source, text) in enumerate(dict.fromkeys(texts))]
        for image_id, texts in captions.items()
    }
    former: dict[str, list[tuple[str, int, str]]] = {}
    for chunk in chunks(described):
        of_sources = (table.c.image_id.in_(chunk), table.c.source.in_(sources))
        query = select(table.c.image_id, table.c.source, table.c.position, table.c.text).where(*of_sources)
        for image_id, source, position, text in connection.execute(query):
            former.setdefault(image_id, []).append((source, position, text))
    changed = [image_id for image_id, rows in wanted.items() if sorted(rows) != sorted(former.get(image_id, []))]
    mark_erased(connection, [image_id for image_id in changed if not {*former.get(image_id, ())} <= {*wanted[image_id]}])
    for chunk in chunks(image_id for image_id in changed if image_id in former):
        connection.execute(delete(table).where(table.c.image_id.in_(chunk), table.c.source.in_(sources)))
    rows = [
        {"image_id": image_id, "source": source, "position": position, "text": text}
        for image_id in changed
        for source, position, text in wanted[image_id]
    ]
    if rows:
        connection.execute(insert(table), rows)
    if changed:
        queue(connection, changed)
