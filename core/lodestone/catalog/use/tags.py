"""Which tags do pictures have, and which of them has the tag collection not seen yet?

The catalog is the truth; the sparse `tags` collection is made from it. Whatever changes what that collection should say of a
picture (a tag, the picture's path, its end) puts the picture into the outbox, in the same transaction. Who delivers reads the
outbox first, then the tags, writes the collection, and reports with `tags_delivered` exactly what was read: a picture that
changed meanwhile stays in the outbox.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, or_, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, insert_ignoring, upsert
from lodestone.catalog.identity import tag_id
from lodestone.catalog.records import TagChange, TagRecord
from lodestone.errors import NotFoundError

_NEWEST = (tables.tags.c.created_at.desc(), tables.tags.c.tag_id)


class TagRows(CatalogBase):
    """Tags and their outbox."""

    def add_tags(self, tags: Sequence[TagRecord]) -> list[TagRecord]:
        """Add tags (`TagRecord.new`) and return them as the catalog has them, in the order given, without repeats.

        Ids are minted and the corpus is the picture's. The same (picture, text, source) again changes nothing and gives the
        present tag.

        Raises:
            NotFoundError: a picture is unknown; nothing was added.
        """
        wanted = dict.fromkeys(tag.image_id for tag in tags)

        def change(connection: Connection) -> list[TagRecord]:
            corpora = _corpora(connection, wanted)
            unknown = [image_id for image_id in wanted if image_id not in corpora]
            if unknown:
                raise NotFoundError(
                    f"there is no picture with id {unknown[0]!r} to tag", hint="take ids from a search", image_ids=unknown
                )
            minted: dict[str, TagRecord] = {}
            for tag in tags:
                minted_id = tag_id(tag.image_id, tag.source, tag.text)
                minted.setdefault(minted_id, replace(tag, tag_id=minted_id, corpus_id=corpora[tag.image_id]))
            known: dict[str, TagRecord] = {}
            for chunk in chunks(minted):
                rows = connection.execute(select(tables.tags).where(tables.tags.c.tag_id.in_(chunk)))
                known.update((row.tag_id, TagRecord(*row)) for row in rows)
            fresh = [tag for tag in minted.values() if tag.tag_id not in known]
            insert_ignoring(connection, tables.tags, [asdict(tag) for tag in fresh])
            queue(connection, {tag.image_id for tag in fresh})
            return [known.get(one, tag) for one, tag in minted.items()]

        return self._write(change) if tags else []

    def remove_tags(self, tag_ids: Iterable[str]) -> int:
        """Remove tags by id and return how many there were; unknown ids are ignored."""
        wanted = list(tag_ids)

        def change(connection: Connection) -> int:
            return sum(_remove(connection, tables.tags.c.tag_id.in_(chunk)) for chunk in chunks(wanted))

        return self._write(change) if wanted else 0

    def undo_tags(self, since: datetime, source: str | None = None, corpus_id: str | None = None) -> int:
        """Remove all tags added at or after `since`, of one source (or all) and one corpus (or all); returns how many.

        A tag that was removed since then does not come back.
        """
        conditions = [tables.tags.c.created_at >= since, *_conditions(source=source, corpus_id=corpus_id)]
        return self._write(lambda connection: _remove(connection, *conditions))

    def tag(self, tag_id: str) -> TagRecord | None:
        """One tag; None for an unknown id."""
        with self._reading() as connection:
            found = connection.execute(select(tables.tags).where(tables.tags.c.tag_id == tag_id)).first()
        return None if found is None else TagRecord(*found)

    def tags(self, image_ids: Iterable[str]) -> dict[str, list[TagRecord]]:
        """Tags by image id, oldest first; pictures without any are left out."""
        table = tables.tags
        found: dict[str, list[TagRecord]] = {}
        with self._reading() as connection:
            for chunk in chunks(image_ids):
                query = select(table).where(table.c.image_id.in_(chunk)).order_by(table.c.created_at, table.c.tag_id)
                for row in connection.execute(query):
                    found.setdefault(row.image_id, []).append(TagRecord(*row))
        return found

    def list_tags(
        self,
        *,
        corpus_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
        image_id: str | None = None,
        offset: int = 0,
        limit: int = 100,
        after: tuple[datetime, str] | None = None,
        corpus_ids: Collection[str] | None = None,
    ) -> list[TagRecord]:
        """A page of tags, newest first; None for any. `after`: of those behind one (`created_at`, `tag_id`)."""
        conditions = _conditions(corpus_id=corpus_id, text=text, source=source, image_id=image_id)
        if corpus_ids is not None:
            conditions.append(tables.tags.c.corpus_id.in_(sorted(corpus_ids)))
        if after is not None:
            moment, place = tables.tags.c.created_at, tables.tags.c.tag_id
            conditions.append(or_(moment < after[0], and_(moment == after[0], place > after[1])))
        query = select(tables.tags).where(*conditions).order_by(*_NEWEST).offset(offset).limit(limit)
        with self._reading() as connection:
            return [TagRecord(*row) for row in connection.execute(query)]

    def tag_outbox(self, limit: int = 1_000) -> list[TagChange]:
        """Pictures whose tags the collection has not taken over yet, longest waiting first. Read it before the tags."""
        outbox = tables.tag_outbox
        query = select(outbox.c.seq, outbox.c.image_id).order_by(outbox.c.seq, outbox.c.image_id).limit(limit)
        with self._reading() as connection:
            return [TagChange(*row) for row in connection.execute(query)]

    def count_tag_outbox(self) -> int:
        """Number of pictures in the outbox."""
        with self._reading() as connection:
            return connection.execute(select(func.count()).select_from(tables.tag_outbox)).scalar_one()

    def tags_delivered(self, changes: Sequence[TagChange]) -> None:
        """Take delivered pictures out of the outbox; one that changed after it was read from there stays."""
        if changes:
            rows = [{"of_image": change.image_id, "of_seq": change.seq} for change in changes]
            self._write(lambda connection: connection.execute(_DELIVERED, rows))

    def reset_tag_outbox(self) -> int:
        """Put every tagged picture into the outbox, to make the collection anew; returns how many."""

        def change(connection: Connection) -> int:
            tagged = list(connection.execute(select(tables.tags.c.image_id).distinct()).scalars())
            queue(connection, tagged)
            return len(tagged)

        return self._write(change)


_DELIVERED = delete(tables.tag_outbox).where(
    tables.tag_outbox.c.image_id == bindparam("of_image"), tables.tag_outbox.c.seq == bindparam("of_seq")
)


def queue(connection: Connection, image_ids: Iterable[str]) -> None:
    """Put pictures into the outbox, each as a new change."""
    first = time.time_ns()  # never the same twice for one picture, which is all that `tags_delivered` relies on
    rows = [{"image_id": image_id, "seq": first + place} for place, image_id in enumerate(sorted(set(image_ids)))]
    upsert(connection, tables.tag_outbox, rows)


def queue_tagged(connection: Connection, image_ids: Iterable[str]) -> None:
    """Put those of the pictures that have tags into the outbox: their points must say something else now, or go."""
    for chunk in chunks(image_ids):
        queue_selected(connection, select(tables.tags.c.image_id).where(tables.tags.c.image_id.in_(chunk)))


def queue_selected(connection: Connection, image_ids: Select[Any]) -> None:
    """Put the pictures that a query over `tags` gives into the outbox."""
    queue(connection, connection.execute(image_ids.distinct()).scalars())


def _corpora(connection: Connection, image_ids: Iterable[str]) -> dict[str, str]:
    images = tables.images
    found: dict[str, str] = {}
    for chunk in chunks(image_ids):
        query = select(images.c.image_id, images.c.corpus_id).where(images.c.image_id.in_(chunk))
        found.update((row.image_id, row.corpus_id) for row in connection.execute(query))
    return found


def _conditions(**wanted: str | None) -> list[ColumnElement[bool]]:
    return [tables.tags.c[name] == value for name, value in wanted.items() if value is not None]


def _remove(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    queue_selected(connection, select(tables.tags.c.image_id).where(*conditions))
    return connection.execute(delete(tables.tags).where(*conditions)).rowcount
