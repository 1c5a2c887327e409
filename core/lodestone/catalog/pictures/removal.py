"""Removal of pictures from the catalog: their rows, and what other rows say of them.

`withdraw_images` takes pictures out of their slices, which are listed for erasure (embeddings/compaction.py), and gives each a
tombstone, which makes every collection delete its points. `remove_images` then deletes the rows with everything that names
them: captions, tags, copies and failures. Rows go last, so that a removal that was killed can be asked for again. Recorded
queries, feedback, answers to writes and texts of runs name pictures too: `forget_mentions` takes them out of those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, exists, func, select, tuple_, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.deletions import mark_deleted, mark_erased
from lodestone.catalog.pictures.images import mark_images_gone
from lodestone.catalog.records import ImageState
from lodestone.catalog.use.tags import queue

AT_ONCE: Final = 10_000  # pictures per transaction, so that other writers are not blocked for long
_ID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PAGE: Final = 200

Redact = Callable[[bytes, Collection[str]], bytes | None]
"""Takes a recorded trace and the ids of removed pictures; returns the trace without them, or None if it is about them."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """What may stand in other rows about removed pictures.

    Attributes:
        ids: Ids of the pictures, and of their directory if that is removed too.
        names: Their uris, and the path of their directory.
    """

    ids: frozenset[str]
    names: frozenset[str]

    def named_in(self, text: str) -> bool:
        """Return whether a text holds one of the names."""
        return any(name in text for name in self.names)


class RemovalRows(CatalogBase):
    """Part of the catalog that removes pictures."""

    def withdraw_images(self, image_ids: Sequence[str]) -> None:
        """Mark pictures as gone, and take them out of all slices, which are listed for erasure; unknown ids are ignored."""
        images, members = tables.images, tables.slice_members
        for batch in chunks(image_ids, AT_ONCE):

            def change(connection: Connection, batch: list[str] = batch) -> None:
                mark_images_gone(connection, batch)
                mark_erased(connection, batch)
                for chunk in chunks(batch):
                    connection.execute(update(images).where(images.c.image_id.in_(chunk)).values(slice_id=None))
                    connection.execute(delete(members).where(members.c.image_id.in_(chunk)))

            self._write(change)

    def remove_images(self, image_ids: Sequence[str]) -> int:
        """Delete pictures by id, in short transactions, and return how many there were; unknown ids are ignored."""
        images = tables.images
        removed = 0
        for batch in chunks(image_ids, AT_ONCE):

            def change(connection: Connection, batch: list[str] = batch) -> int:
                known: list[str] = []
                for chunk in chunks(batch):
                    known += connection.execute(select(images.c.image_id).where(images.c.image_id.in_(chunk))).scalars()
                delete_images(connection, known)
                return len(known)

            removed += self._write(change)
        return removed

    def gone_images(self, *, before: datetime | None = None, corpus_id: str | None = None) -> Iterator[str]:
        """Yield the ids of pictures whose files are gone, ascending, read a page at a time.

        Args:
            before: Only those that were noticed to be gone before this moment, or that were never embedded.
            corpus_id: Only those of this corpus; None for all.
        """
        images, tombstones = tables.images, tables.tombstones
        query = select(images.c.image_id).where(images.c.state == ImageState.GONE)
        if corpus_id is not None:
            query = query.where(images.c.corpus_id == corpus_id)
        if before is not None:
            later = exists().where(tombstones.c.image_id == images.c.image_id, tombstones.c.created_at >= before)
            query = query.where(~later)
        return (row.image_id for row in self._streamed(query, (images.c.image_id,)))

    def count_gone(self) -> tuple[int, datetime | None]:
        """Return the number of pictures whose files are gone, and when the first of them was noticed."""
        images, tombstones = tables.images, tables.tombstones
        query = (
            select(func.count(), func.min(tombstones.c.created_at))
            .select_from(images)
            .outerjoin(tombstones, tombstones.c.image_id == images.c.image_id)
            .where(images.c.state == ImageState.GONE)
        )
        with self._reading() as connection:
            count, since = connection.execute(query).one()
        return int(count), since

    def forget_tombstones(self, collections: Collection[str]) -> int:
        """Delete the tombstones of removed pictures that each of the collections has carried out; return their number.

        Tombstones of pictures that still have a row stay: they say since when a file is gone.

        Args:
            collections: All collections that hold pictures or captions.
        """
        table, done = tables.tombstones, tables.deletions
        orphan = ~exists().where(tables.images.c.image_id == table.c.image_id)
        conditions = [
            exists().where(done.c.image_id == table.c.image_id, done.c.collection == collection)
            for collection in sorted(collections)
        ]
        return self._write(lambda connection: connection.execute(delete(table).where(orphan, *conditions)).rowcount)

    def forget_mentions(self, mentions: Mentions, *, redact: Redact) -> int:
        """Take pictures out of queries, feedback, answers to writes, and texts of runs; return how many rows were changed.

        Idempotent. Queries keep their words, and the ranking of all other pictures.

        Args:
            mentions: The pictures.
            redact: Takes pictures out of a trace.
        """
        if not mentions.ids:
            return 0
        changed = self._redact_queries(mentions, redact) + self._redact_feedback(mentions)
        changed += self._forget_writes(mentions) + self._redact_runs(mentions)
        return changed

    def _redact_queries(self, mentions: Mentions, redact: Redact) -> int:
        table = tables.queries
        changed, last = 0, ""
        while True:
            page = (
                select(table.c.query_id, table.c.trace).where(table.c.query_id > last).order_by(table.c.query_id).limit(_PAGE)
            )
            with self._reading() as connection:
                rows = connection.execute(page).all()
            for query_id, trace in rows:
                kept = redact(trace, mentions.ids)
                if kept == trace:
                    continue
                changed += 1
                of_query = table.c.query_id == query_id
                statement: Any = (
                    delete(table).where(of_query) if kept is None else update(table).where(of_query).values(trace=kept)
                )
                self._write(lambda connection, statement=statement: connection.execute(statement))  # type: ignore[misc]
            if len(rows) < _PAGE:
                return changed
            last = rows[-1].query_id

    def _redact_feedback(self, mentions: Mentions) -> int:
        table = tables.feedback

        def change(connection: Connection) -> int:
            changed = 0
            for row in connection.execute(select(table.c.query_id, table.c.digest, table.c.relevant, table.c.irrelevant)).all():
                if mentions.ids.isdisjoint((*row.relevant, *row.irrelevant)):
                    continue
                kept = {
                    name: [image_id for image_id in getattr(row, name) if image_id not in mentions.ids]
                    for name in ("relevant", "irrelevant")
                }
                of_row = (table.c.query_id == row.query_id, table.c.digest == row.digest)
                connection.execute(update(table).where(*of_row).values(**kept))
                changed += 1
            return changed

        return self._write(change)

    def _forget_writes(self, mentions: Mentions) -> int:
        table = tables.idempotency

        def change(connection: Connection) -> int:
            answered = select(table.c.owner, table.c.key, table.c.body).where(table.c.body.is_not(None))
            keys = [
                (row.owner, row.key)
                for row in connection.execute(answered)
                if not mentions.ids.isdisjoint(found.decode() for found in _ID.findall(row.body))
                or mentions.named_in(row.body.decode("utf-8", "replace"))
            ]
            for chunk in chunks(keys, 400):
                connection.execute(delete(table).where(tuple_(table.c.owner, table.c.key).in_(chunk)))
            return len(keys)

        return self._write(change)

    def _redact_runs(self, mentions: Mentions) -> int:
        return self._write(
            lambda connection: (
                _redact_texts(connection, tables.runs, ("run_id",), mentions)
                + _redact_texts(connection, tables.slice_attempts, ("slice_id", "attempt"), mentions)
                + _redact_requests(connection, mentions)
            )
        )


def delete_images(connection: Connection, image_ids: Sequence[str]) -> None:
    """Delete pictures in a transaction, with all that refers to them; their slices are listed for erasure."""
    images, failures, duplicates = tables.images, tables.failures, tables.duplicates
    tombstones = tables.tombstones
    buried: set[str] = set()
    for chunk in chunks(image_ids):
        buried.update(connection.execute(select(tombstones.c.image_id).where(tombstones.c.image_id.in_(chunk))).scalars())
    mark_deleted(connection, [image_id for image_id in image_ids if image_id not in buried])
    mark_erased(connection, image_ids)
    queue(connection, image_ids)
    for chunk in chunks(image_ids):
        places = connection.execute(select(images.c.root_id, images.c.uri).where(images.c.image_id.in_(chunk))).all()
        for some in chunks([(row.root_id, row.uri) for row in places], 400):
            connection.execute(delete(failures).where(tuple_(failures.c.root_id, failures.c.uri).in_(some)))
        in_groups = select(duplicates.c.group_id).where(duplicates.c.image_id.in_(chunk)).distinct()
        groups = list(connection.execute(in_groups).scalars())
        connection.execute(delete(images).where(images.c.image_id.in_(chunk)))
        for group_id in {*groups, *chunk}:
            _mend_group(connection, group_id)


def _mend_group(connection: Connection, group_id: str) -> None:
    """Give a group of copies whose representative went another one; a group of one picture is none."""
    table = tables.duplicates
    members = connection.execute(
        select(table.c.kind, table.c.image_id).where(table.c.group_id == group_id).order_by(table.c.distance, table.c.image_id)
    ).all()
    for kind in {row.kind for row in members}:
        of_kind = (table.c.group_id == group_id, table.c.kind == kind)
        ids = [row.image_id for row in members if row.kind == kind]
        if len(ids) == 1:
            connection.execute(delete(table).where(*of_kind))
        elif group_id not in ids:
            connection.execute(update(table).where(*of_kind).values(group_id=ids[0]))
            connection.execute(update(table).where(table.c.image_id == ids[0], table.c.kind == kind).values(distance=0.0))


def _redact_texts(connection: Connection, table: Table, key: tuple[str, ...], mentions: Mentions) -> int:
    """Replace errors of a table that name removed pictures."""
    columns = [table.c[name] for name in key]
    rows = connection.execute(select(*columns, table.c.error).where(table.c.error != "")).all()
    named = [row for row in rows if mentions.named_in(row.error)]
    for row in named:
        of_row = [column == value for column, value in zip(columns, row, strict=False)]
        code = row.error.partition(":")[0]
        code = "an error" if mentions.named_in(code) else code
        connection.execute(update(table).where(*of_row).values(error=f"{code}: (its text named a picture that was removed)"))
    return len(named)


def _redact_requests(connection: Connection, mentions: Mentions) -> int:
    """Take removed folders and files out of the requests of runs that ended."""
    table, changed = tables.runs, 0
    for row in connection.execute(select(table.c.run_id, table.c.request).where(table.c.finished_at.is_not(None))).all():
        kept = _without(row.request, mentions.names)
        if kept != row.request:
            connection.execute(update(table).where(table.c.run_id == row.run_id).values(request=kept))
            changed += 1
    return changed


def _without(value: Any, names: Collection[str]) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value without the strings that are one of the names, or end in one as a path does."""
    if isinstance(value, dict):
        return {key: _without(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, names) for item in value if not (isinstance(item, str) and _is_named(item, names))]
    return "" if isinstance(value, str) and _is_named(value, names) else value


def _is_named(text: str, names: Iterable[str]) -> bool:
    return any(text == name or text.endswith(f"/{name}") or text.startswith(f"{name}/") for name in names)
