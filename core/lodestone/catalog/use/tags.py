"""Tags of pictures, and the outbox of pictures whose words the tag collection lacks.

The catalog is the truth; the sparse `tags` collection is built from it. Every change that affects what that collection holds of
a picture (a tag, a caption, its path, camera or date, its removal) puts the picture into the outbox, in the same transaction. A
process that delivers reads the outbox first, then the pictures' words, writes the collection, and reports with `tags_delivered`
exactly what it read: a picture that changed meanwhile stays in the outbox.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, and_, bindparam, delete, func, literal, or_, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import PAGE, chunks, insert_ignoring, upsert, upsert_selected
from lodestone.catalog.identity import tag_id
from lodestone.catalog.records import ImageState, TagChange, TagRecord
from lodestone.errors import NotFoundError

_NEWEST = (tables.tags.c.created_at.desc(), tables.tags.c.tag_id)


class TagRows(CatalogBase):
    """Part of the catalog that keeps tags and their outbox."""

    def add_tags(self, tags: Sequence[TagRecord]) -> list[TagRecord]:
        """Add tags (`TagRecord.new`) and return them as the catalog has them, in the order given, without repeats.

        The catalog sets ids, and takes the corpus from the picture. The same (picture, text, source) again changes nothing and
        returns the existing tag.

        Raises:
            NotFoundError: A picture is unknown; nothing was added.
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
            existing: dict[str, TagRecord] = {}
            for chunk in chunks(minted):
                rows = connection.execute(select(tables.tags).where(tables.tags.c.tag_id.in_(chunk)))
                existing.update((row.tag_id, TagRecord(*row)) for row in rows)
            new_tags = [tag for tag in minted.values() if tag.tag_id not in existing]
            insert_ignoring(connection, tables.tags, [asdict(tag) for tag in new_tags])
            queue(connection, {tag.image_id for tag in new_tags})
            return [existing.get(key, tag) for key, tag in minted.items()]

        return self._write(change) if tags else []

    def remove_tags(self, tag_ids: Iterable[str]) -> int:
        """Remove tags by id and return how many there were; unknown ids are ignored."""
        wanted = list(tag_ids)

        def change(connection: Connection) -> int:
            return sum(_remove(connection, tables.tags.c.tag_id.in_(chunk)) for chunk in chunks(wanted))

        return self._write(change) if wanted else 0

    def undo_tags(self, since: datetime, source: str | None = None, corpus_id: str | None = None) -> int:
        """Remove all tags added at or after `since`, of one source (or all) and one corpus (or all), and return how many.

        A tag that was removed since then does not come back.
        """
        conditions = [tables.tags.c.created_at >= since, *_conditions(source=source, corpus_id=corpus_id)]
        return self._write(lambda connection: _remove(connection, *conditions))

    def tag(self, tag_id: str) -> TagRecord | None:
        """Return one tag; None for an unknown id."""
        with self._reading() as connection:
            row = connection.execute(select(tables.tags).where(tables.tags.c.tag_id == tag_id)).first()
        return None if row is None else TagRecord(*row)

    def tags(self, image_ids: Iterable[str]) -> dict[str, list[TagRecord]]:
        """Return tags by image id, oldest first; pictures without tags are left out."""
        table = tables.tags
        tags: dict[str, list[TagRecord]] = {}
        with self._reading() as connection:
            for chunk in chunks(image_ids):
                query = select(table).where(table.c.image_id.in_(chunk)).order_by(table.c.created_at, table.c.tag_id)
                for row in connection.execute(query):
                    tags.setdefault(row.image_id, []).append(TagRecord(*row))
        return tags

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
        """Return a page of tags, newest first.

        Args:
            corpus_id: Only tags of this corpus; None for any, as for the next three.
            text: Only tags with this text.
            source: Only tags from this source.
            image_id: Only tags of this picture.
            offset: Tags to skip.
            limit: Tags a page.
            after: Place (`created_at`, `tag_id`) of the last tag of the page before.
            corpus_ids: Only tags of these corpora; None for any.
        """
        conditions = _conditions(corpus_id=corpus_id, text=text, source=source, image_id=image_id)
        if corpus_ids is not None:
            conditions.append(tables.tags.c.corpus_id.in_(sorted(corpus_ids)))
        if after is not None:
            created_at, key = tables.tags.c.created_at, tables.tags.c.tag_id
            conditions.append(or_(created_at < after[0], and_(created_at == after[0], key > after[1])))
        query = select(tables.tags).where(*conditions).order_by(*_NEWEST).offset(offset).limit(limit)
        with self._reading() as connection:
            return [TagRecord(*row) for row in connection.execute(query)]

    def tag_texts(
        self, *, source: str | None = None, corpus_ids: Collection[str] | None = None, limit: int = 100
    ) -> list[tuple[str, int]]:
        """Return the texts of tags with the number of pictures that have each, most pictures first, then by text.

        Args:
            source: Only tags from this source; None for any.
            corpus_ids: Only tags of these corpora; None for any.
            limit: Texts at most.
        """
        table = tables.tags
        conditions = _conditions(source=source)
        if corpus_ids is not None:
            conditions.append(table.c.corpus_id.in_(sorted(corpus_ids)))
        pictures = func.count(table.c.image_id.distinct())
        query = select(table.c.text, pictures).where(*conditions).group_by(table.c.text)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(pictures.desc(), table.c.text).limit(limit))
            return [(text, count) for text, count in rows]

    def tagged_pictures(self, text: str, most: int) -> list[str]:
        """Return the ids of the pictures that have a tag, ascending, at most so many.

        Args:
            text: The whole tag. Upper and lower case are the same; in SQLite, those of the letters a to z.
            most: Pictures at most.
        """
        table = tables.tags
        same = or_(table.c.text == text, func.lower(table.c.text) == text.lower())
        query = select(table.c.image_id).distinct().where(same).order_by(table.c.image_id).limit(most)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    def tag_outbox(self, limit: int = 1_000) -> list[TagChange]:
        """Return pictures whose words the collection lacks, longest waiting first. Read it before them."""
        outbox = tables.tag_outbox
        query = select(outbox.c.seq, outbox.c.image_id).order_by(outbox.c.seq, outbox.c.image_id).limit(limit)
        with self._reading() as connection:
            return [TagChange(*row) for row in connection.execute(query)]

    def count_tag_outbox(self) -> int:
        """Return the number of pictures in the outbox."""
        with self._reading() as connection:
            return connection.execute(select(func.count()).select_from(tables.tag_outbox)).scalar_one()

    def tags_delivered(self, changes: Sequence[TagChange]) -> None:
        """Remove delivered pictures from the outbox; a picture that changed after it was read stays."""
        if changes:
            rows = [{"of_image": change.image_id, "of_seq": change.seq} for change in changes]
            self._write(lambda connection: connection.execute(_DELIVERED, rows))

    def reset_tag_outbox(self) -> int:
        """Put every picture into the outbox, to rebuild the collection, in short transactions; return how many there are.

        Pending pictures follow when they are embedded.
        """
        images = tables.images
        page = select(images.c.image_id).where(images.c.state != ImageState.PENDING)
        page = page.order_by(images.c.image_id).limit(PAGE)
        count, last = 0, ""
        while True:
            with self._reading() as connection:
                ids = list(connection.execute(page.where(images.c.image_id > last)).scalars())
            if not ids:
                return count
            self._write(partial(queue_known, image_ids=ids))
            count, last = count + len(ids), ids[-1]


_DELIVERED = delete(tables.tag_outbox).where(
    tables.tag_outbox.c.image_id == bindparam("of_image"), tables.tag_outbox.c.seq == bindparam("of_seq")
)


def queue(connection: Connection, image_ids: Iterable[str]) -> None:
    """Put pictures into the outbox, each as a new change."""
    first = time.time_ns()  # never repeats for one picture, and `tags_delivered` relies only on that
    rows = [{"image_id": image_id, "seq": first + place} for place, image_id in enumerate(sorted(set(image_ids)))]
    upsert(connection, tables.tag_outbox, rows)


def queue_known(connection: Connection, image_ids: Iterable[str]) -> None:
    """Put pictures that the catalog has into the outbox, by one statement for some hundreds of them."""
    column = tables.images.c.image_id
    for chunk in chunks(image_ids):
        queue_selected(connection, select(column).where(column.in_(chunk)))


def queue_selected(connection: Connection, image_ids: Select[Any]) -> None:
    """Put the pictures that a query selects into the outbox."""
    changed = image_ids.add_columns(literal(time.time_ns(), BigInteger)).distinct()
    upsert_selected(connection, tables.tag_outbox, changed)


def _corpora(connection: Connection, image_ids: Iterable[str]) -> dict[str, str]:
    images = tables.images
    corpora: dict[str, str] = {}
    for chunk in chunks(image_ids):
        query = select(images.c.image_id, images.c.corpus_id).where(images.c.image_id.in_(chunk))
        corpora.update((row.image_id, row.corpus_id) for row in connection.execute(query))
    return corpora


def _conditions(**wanted: str | None) -> list[ColumnElement[bool]]:
    return [tables.tags.c[name] == value for name, value in wanted.items() if value is not None]


def _remove(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    queue_selected(connection, select(tables.tags.c.image_id).where(*conditions))
    return connection.execute(delete(tables.tags).where(*conditions)).rowcount
