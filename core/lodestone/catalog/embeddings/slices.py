"""Slices in the catalog: their members, their files on disk (receipts), and the collections that hold them (loads).

A slice is planned first (`add_slices`), then embedded (a receipt for every part), then loaded into each collection. A slice is
*live* while at least one pending or active picture has it as its slice; others are superseded and need no work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Exists,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
)

from lodestone.catalog import tables
from lodestone.catalog.database.sql import chunks, insert_ignoring, insert_rows, update_rows
from lodestone.catalog.embeddings.slice_parts import COLUMNS, LIVE, LIVING, ORDER, PartRows, refresh_parts, save_receipts
from lodestone.catalog.pictures.images import IMAGE_COLUMNS, image_record
from lodestone.catalog.records import ImageFields, ImageRecord, ImageState, PlannedPicture, Receipt, SliceRecord


class SliceRows(PartRows):
    """Part of the catalog that keeps slices, receipts and loads."""

    def add_slices(self, planned: Sequence[tuple[SliceRecord, Sequence[str]]]) -> None:
        """Add slices with their members (image ids, in row order) in one transaction, and make each the slice of its members.

        Raises:
            CatalogError: A member is unknown, or a slice id exists already.
        """
        members = [
            (record.slice_id, image_id, position)
            for record, image_ids in planned
            for position, image_id in enumerate(image_ids)
        ]

        def change(connection: Connection) -> None:
            first = connection.execute(select(func.coalesce(func.max(tables.slices.c.seq), 0) + 1)).scalar_one()
            rows = [asdict(record) | {"seq": first + place} for place, (record, _) in enumerate(planned)]
            connection.execute(insert(tables.slices), rows)
            insert_rows(connection, (_MEMBERS.slice_id, _MEMBERS.image_id, _MEMBERS.position), members)
            slices_of = [(image_id, slice_id) for slice_id, image_id, _ in members]
            update_rows(connection, _IMAGES.image_id, [_IMAGES.slice_id], slices_of)

        if planned:
            self._write(change)

    def slices(self, corpus_id: str | None = None) -> Iterator[SliceRecord]:
        """Yield all slices of a corpus (or of all), including superseded ones, oldest first, read a page at a time."""
        return self._paged(select(*COLUMNS).where(*_in_corpus(corpus_id)))

    def live_slices(self, corpus_id: str, *, until: int) -> Iterator[SliceRecord]:
        """Yield the live slices of a corpus up to a number (`newest_slice`), oldest first, read a page at a time.

        A picture that changes meanwhile moves to a newer slice, so no picture is found in two of them.
        """
        return self._paged(select(*COLUMNS).where(*_in_corpus(corpus_id), LIVE, tables.slices.c.seq <= until))

    def newest_slice(self, corpus_id: str) -> int:
        """Return the number of the slice of a corpus that was added last; 0 where there is none."""
        query = select(func.coalesce(func.max(tables.slices.c.seq), 0)).where(*_in_corpus(corpus_id))
        with self._reading() as connection:
            return int(connection.execute(query).scalar_one())

    def _paged(self, query: Select[Any]) -> Iterator[SliceRecord]:
        """Yield the slices that a query over `slices` selects, oldest first."""
        return (SliceRecord(*tuple(row)[:-1]) for row in self._streamed(query, ORDER))

    def slice_images(self, slice_id: str, *, states: Collection[ImageState] = LIVING) -> list[ImageRecord]:
        """Return the slice's live members in row order: pictures whose slice it is now, in one of `states`."""
        images, members = tables.images, tables.slice_members
        query = (
            select(*IMAGE_COLUMNS)
            .join(members, (members.c.image_id == images.c.image_id) & (members.c.slice_id == images.c.slice_id))
            .where(images.c.slice_id == slice_id, images.c.state.in_(list(states)))
            .order_by(members.c.position)
        )
        with self._reading() as connection:
            return [image_record(row) for row in connection.execute(query)]

    def planned_pictures(self, slice_id: str, *, states: Collection[ImageState] = LIVING) -> list[PlannedPicture]:
        """Return what workers need to know of the slice's live members, which `slice_images` returns whole, in row order."""
        with self._reading() as connection:
            rows = connection.execute(_PLANNED, {"of_slice": slice_id, "in_states": list(states)}).all()
        return list(map(PlannedPicture._make, rows))

    def slice_captions(self, slice_id: str) -> dict[str, list[tuple[str, str]]]:
        """Return the captions of the slice's pictures by image id: (source, text), by source and then in the order given."""
        captions: dict[str, list[tuple[str, str]]] = {}
        with self._reading() as connection:
            for image_id, source, text in connection.execute(_CAPTIONS, {"of_slice": slice_id}).all():
                captions.setdefault(image_id, []).append((source, text))
        return captions

    def slice_fields(self, slice_id: str, *, states: Collection[ImageState]) -> list[ImageFields]:
        """Return what vector collections hold of the slice's live members, which `slice_images` returns whole, in row order."""
        images, members = tables.images, tables.slice_members
        columns = (images.c[name] for name in ImageFields._fields)
        query = (
            select(*columns)
            .join(members, (members.c.image_id == images.c.image_id) & (members.c.slice_id == images.c.slice_id))
            .where(images.c.slice_id == slice_id, images.c.state.in_(list(states)))
            .order_by(members.c.position)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [ImageFields._make((*row[:-1], ImageState(row[-1]))) for row in rows]

    def slice_members(self, slice_id: str) -> list[str]:
        """Return the image ids of all rows the slice was planned with, in row order, whatever the pictures' states."""
        members = tables.slice_members
        query = select(members.c.image_id).where(members.c.slice_id == slice_id).order_by(members.c.position)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    def record_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Record (or replace) receipts of finished parts, in one transaction."""
        if receipts:
            self._write(lambda connection: save_receipts(connection, receipts))

    def receipts(self, slice_id: str) -> dict[str, Receipt]:
        """Return the slice's receipts by part."""
        query = select(tables.receipts).where(tables.receipts.c.slice_id == slice_id)
        with self._reading() as connection:
            return {row.part: Receipt(*row) for row in connection.execute(query)}

    def forget_receipts(self, slice_id: str, parts: Collection[str]) -> None:
        """Mark parts as unfinished (files damaged, captions changed), so that they are embedded and loaded again."""

        def change(connection: Connection) -> None:
            table, loads = tables.receipts, tables.loads
            connection.execute(delete(table).where(table.c.slice_id == slice_id, table.c.part.in_(list(parts))))
            refresh_parts(connection, [slice_id])
            connection.execute(delete(loads).where(loads.c.slice_id == slice_id))

        self._write(change)

    def begin_loading(self, collection: str, slice_ids: Iterable[str]) -> None:
        """Record that the live rows of these slices are about to be read for `collection`; `mark_loaded` completes this."""
        rows = _load_rows(_claim(collection), slice_ids)
        if rows:
            self._write(lambda connection: insert_ignoring(connection, tables.loads, rows))

    def mark_loaded(self, collection: str, slice_ids: Iterable[str]) -> None:
        """Record that `collection` holds the live rows of these slices as they were at `begin_loading`.

        A slice that changed since (a picture's filter fields, a part, the collection) is skipped, and so loaded again.
        """
        loads, claim = tables.loads, _claim(collection)

        def change(connection: Connection) -> None:
            for chunk in chunks(ids):
                claims = (loads.c.collection == claim, loads.c.slice_id.in_(chunk))
                unchanged = list(connection.execute(select(loads.c.slice_id).where(*claims)).scalars())
                insert_ignoring(connection, loads, _load_rows(collection, unchanged))
                connection.execute(delete(loads).where(*claims))

        if ids := list(slice_ids):
            self._write(change)

    def unloaded_slices(self, collection: str, *, parts: Collection[str] = ("meta",)) -> Iterator[SliceRecord]:
        """Yield live slices with receipts for all `parts` that `collection` does not hold in their current state, oldest first.

        They are read a page at a time; mark them as you go.
        """
        return self._paged(select(*COLUMNS).where(*_unloaded(collection, parts)))

    def count_unloaded(self, collection: str, *, parts: Collection[str] = ("meta",)) -> tuple[int, int]:
        """Return the number of slices that `unloaded_slices` would yield, and the number of rows they were planned with."""
        slices = tables.slices
        query = select(func.count(), func.coalesce(func.sum(slices.c.rows), 0)).where(*_unloaded(collection, parts))
        with self._reading() as connection:
            count, rows = connection.execute(query.select_from(slices)).one()
        return int(count), int(rows)

    def count_loaded(self, collection: str) -> int:
        """Return the number of slices that `collection` holds."""
        query = select(func.count()).select_from(tables.loads).where(tables.loads.c.collection == collection)
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def forget_loads(self, collection: str) -> None:
        """Record that the collection was dropped or emptied: it holds no slice and has carried out no deletion."""

        def change(connection: Connection) -> None:
            connection.execute(delete(tables.loads).where(tables.loads.c.collection.in_([collection, _claim(collection)])))
            connection.execute(delete(tables.deletions).where(tables.deletions.c.collection == collection))

        self._write(change)


# Statements stand here, so that they are compiled once.
_IMAGES, _MEMBERS, _TEXTS = tables.images.c, tables.slice_members.c, tables.captions.c
_PLANNED = (
    select(*(_IMAGES[name] for name in PlannedPicture._fields))
    .join(tables.slice_members, (_MEMBERS.image_id == _IMAGES.image_id) & (_MEMBERS.slice_id == _IMAGES.slice_id))
    .where(_IMAGES.slice_id == bindparam("of_slice"), _IMAGES.state.in_(bindparam("in_states", expanding=True)))
    .order_by(_MEMBERS.position)
)
_CAPTIONS = (
    select(_TEXTS.image_id, _TEXTS.source, _TEXTS.text)
    .join(tables.images, _IMAGES.image_id == _TEXTS.image_id)
    .where(_IMAGES.slice_id == bindparam("of_slice"))
    .order_by(_TEXTS.image_id, _TEXTS.source, _TEXTS.position)
)


def _claim(collection: str) -> str:
    """Return the name under which `loads` keeps slices whose loading has begun.

    Every change that deletes a load deletes these rows as well.
    """
    return f"{collection} (loading)"  # no collection can have this name


def _load_rows(collection: str, slice_ids: Iterable[str]) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    return [{"collection": collection, "slice_id": slice_id, "loaded_at": now} for slice_id in slice_ids]


def _in_corpus(corpus_id: str | None) -> list[ColumnElement[bool]]:
    return [] if corpus_id is None else [tables.slices.c.corpus_id == corpus_id]


def _unloaded(collection: str, parts: Collection[str]) -> list[ColumnElement[bool]]:
    loads, slices = tables.loads, tables.slices
    loaded = exists().where(loads.c.collection == collection, loads.c.slice_id == slices.c.slice_id)
    return [~loaded, *(_has_receipt(part) for part in parts), LIVE]


def _has_receipt(part: str) -> Exists:
    return exists().where(tables.receipts.c.slice_id == tables.slices.c.slice_id, tables.receipts.c.part == part)
