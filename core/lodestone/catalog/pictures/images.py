"""Pictures in the catalog, and the consequences when one moves, fails, goes or comes back.

Three consequences of a change are recorded in the same transaction: a picture that was embedded and can no longer be shown gets
a tombstone (see deletions.py), a slice whose members need another payload in the stores (moved, came back) counts as not loaded
any more (see slices.py), and a tagged picture of either kind goes into the outbox (see tags.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Update, bindparam, delete, exists, func, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, insert_rows
from lodestone.catalog.identity import mint_image_id
from lodestone.catalog.pictures.deletions import lift, mark_deleted, mark_erased
from lodestone.catalog.records import ImageRecord, ImageState, WaitingPicture
from lodestone.catalog.use.tags import queue
from lodestone.errors import NotFoundError

DEAD = (ImageState.GONE, ImageState.FAILED)  # states in which a picture must not be found
_NAMES = tuple(field.name for field in fields(ImageRecord))
_VALUES = attrgetter(*_NAMES)
_STATE = _NAMES.index("state")
_ID = _NAMES.index("image_id")
_CHANGEABLE = tuple(name for name in _NAMES if name != "image_id")
IMAGE_COLUMNS = tuple(tables.images.c[name] for name in _NAMES)
_BY_ID = select(*IMAGE_COLUMNS).where(tables.images.c.image_id.in_(bindparam("ids", expanding=True)))  # compiled once


def image_record(row: Row[Any]) -> ImageRecord:
    """Convert a row of `IMAGE_COLUMNS` to a record."""
    values: list[Any] = list(row)
    values[_STATE] = ImageState(values[_STATE])
    return ImageRecord(*values)


class ImageRows(CatalogBase):
    """Part of the catalog that keeps pictures."""

    def images_of_root(self, root_id: str) -> Iterator[ImageRecord]:
        """Yield all pictures of a root in every state, by uri (code point order), read a page at a time.

        No transaction stays open between pages, so the caller may write while it reads.
        """
        images = tables.images
        query = select(*IMAGE_COLUMNS).where(images.c.root_id == root_id)
        return map(image_record, self._streamed(query, (images.c.uri,)))

    def image_page(
        self, roots: Sequence[str], limit: int, *, after: tuple[str, str] | None = None, states: Collection[ImageState]
    ) -> list[ImageRecord]:
        """Return a page of the pictures of several roots in some states: root by root in the order given, by uri within each.

        Args:
            roots: Ids of the roots.
            limit: Pictures a page.
            after: (root id, uri) of the last picture of the page before; a root that is not among `roots` gives an empty page.
            states: States of the pictures to return.
        """
        images, page = tables.images, list[ImageRecord]()
        rest, last_uri = list(roots), None
        if after is not None:
            rest, last_uri = (rest[rest.index(after[0]) :], after[1]) if after[0] in rest else ([], None)
        with self._reading() as connection:
            for root_id in rest:
                query = select(*IMAGE_COLUMNS).where(images.c.root_id == root_id, images.c.state.in_(states))
                if last_uri is not None:
                    query, last_uri = query.where(images.c.uri > last_uri), None
                rows = connection.execute(query.order_by(images.c.uri).limit(limit - len(page)))
                page.extend(map(image_record, rows))
                if len(page) >= limit:
                    break
        return page

    def images_without_slice(self, corpus_id: str) -> Iterator[WaitingPicture]:
        """Yield pending pictures of a corpus that are in no slice, by root and uri, read a page at a time."""
        images = tables.images
        is_waiting = (images.c.corpus_id == corpus_id, images.c.state == ImageState.PENDING, images.c.slice_id.is_(None))
        query = select(images.c.image_id, images.c.hash, images.c.root_id, images.c.uri).where(*is_waiting)
        return (WaitingPicture(row[0], row[1]) for row in self._streamed(query, (images.c.root_id, images.c.uri)))

    def images_by_uri(self, root_id: str, uris: Iterable[str]) -> dict[str, ImageRecord]:
        """Return the pictures of a root by uri, in every state; unknown uris are left out."""
        images: dict[str, ImageRecord] = {}
        with self._reading() as connection:
            for chunk in chunks(uris):
                query = select(*IMAGE_COLUMNS).where(tables.images.c.root_id == root_id, tables.images.c.uri.in_(chunk))
                images.update((row.uri, image_record(row)) for row in connection.execute(query))
        return images

    def images(self, image_ids: Iterable[str]) -> dict[str, ImageRecord]:
        """Return pictures by id, in every state; unknown ids are left out."""
        images: dict[str, ImageRecord] = {}
        with self._reading() as connection:
            for chunk in chunks(image_ids):
                rows = connection.execute(_BY_ID, {"ids": chunk}).all()
                images.update((row[_ID], image_record(row)) for row in rows)
        return images

    def gone_by_hash(
        self, corpus_id: str, hashes: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, list[ImageRecord]]:
        """Return gone pictures of a corpus with these contents, because a new file with such a content is one of them, moved.

        Pictures that were embedded and had gone before `since` are left out.
        """
        tomb = tables.tombstones
        conditions: list[ColumnElement[bool]] = [tables.images.c.state == ImageState.GONE]
        if since is not None:
            conditions.append(~exists().where(tomb.c.image_id == tables.images.c.image_id, tomb.c.created_at < since))
        return self._by_hash(corpus_id, hashes, conditions)

    def entered_by_hash(self, corpus_id: str, hashes: Iterable[str]) -> dict[str, list[ImageRecord]]:
        """Return pictures of a corpus with these contents that were only entered: never in a slice, and without tags."""
        images, members, tags = tables.images, tables.slice_members, tables.tags
        conditions = [
            images.c.state == ImageState.PENDING,
            images.c.slice_id.is_(None),
            ~exists().where(members.c.image_id == images.c.image_id),
            ~exists().where(tags.c.image_id == images.c.image_id),
        ]
        return self._by_hash(corpus_id, hashes, conditions)

    def _by_hash(
        self, corpus_id: str, hashes: Iterable[str], which: Sequence[ColumnElement[bool]]
    ) -> dict[str, list[ImageRecord]]:
        images_by_hash: dict[str, list[ImageRecord]] = {}
        images = tables.images
        with self._reading() as connection:
            for chunk in chunks(hashes):
                query = select(*IMAGE_COLUMNS).where(images.c.hash.in_(chunk), images.c.corpus_id == corpus_id, *which)
                for row in connection.execute(query.order_by(images.c.uri)):
                    images_by_hash.setdefault(row.hash, []).append(image_record(row))
        return images_by_hash

    def living_hashes(self, hashes: Iterable[str], *, except_corpus: str = "") -> set[str]:
        """Return those of the content hashes that a picture has which is not gone, outside the corpus `except_corpus`."""
        images = tables.images
        living: set[str] = set()
        with self._reading() as connection:
            for chunk in chunks(hashes):
                query = select(images.c.hash).where(
                    images.c.hash.in_(chunk), images.c.state != ImageState.GONE, images.c.corpus_id != except_corpus
                )
                living.update(connection.execute(query.distinct()).scalars())
        return living

    def count_images(self, corpus_id: str | None = None, state: ImageState | None = None) -> int:
        """Return the number of pictures of one corpus (or all) in one state (or any)."""
        query = select(func.count()).select_from(tables.images)
        if corpus_id is not None:
            query = query.where(tables.images.c.corpus_id == corpus_id)
        if state is not None:
            query = query.where(tables.images.c.state == state)
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def count_incomplete(self, corpus_id: str) -> int:
        """Return the number of the corpus's pictures that can be found and whose files end early."""
        images = tables.images.c
        query = (
            select(func.count())
            .select_from(tables.images)
            .where(images.corpus_id == corpus_id, images.decoded_share.is_not(None), images.state == ImageState.ACTIVE)
        )
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def active_ids(self, corpus_id: str, *, after: str = "") -> Iterator[str]:
        """Yield the ids of the corpus's pictures that can be found, above an id, ascending, read a page at a time."""
        images = tables.images
        query = select(images.c.image_id).where(images.c.corpus_id == corpus_id, images.c.state == ImageState.ACTIVE)
        return (row.image_id for row in self._streamed(query, (images.c.image_id,), after=(after,)))

    def count_by_root(self, corpus_id: str) -> dict[str, int]:
        """Return the number of searchable (active) pictures by root id; roots without any are left out."""
        images = tables.images
        query = (
            select(images.c.root_id, func.count())
            .where(images.c.corpus_id == corpus_id, images.c.state == ImageState.ACTIVE)
            .group_by(images.c.root_id)
        )
        with self._reading() as connection:
            return {root_id: count for root_id, count in connection.execute(query)}  # noqa: C416 - rows are no tuples to mypy

    def count_of_root(self, root_id: str) -> dict[ImageState, int]:
        """Return the number of the root's pictures by state; states without any are left out."""
        images = tables.images
        query = select(images.c.state, func.count()).where(images.c.root_id == root_id).group_by(images.c.state)
        with self._reading() as connection:
            return {ImageState(state): count for state, count in connection.execute(query)}

    def mint_image_ids(self, corpus_id: str, root_name: str, uris: Iterable[str]) -> dict[str, str]:
        """Return ids for new pictures by uri, skipping ids that belong to pictures which moved away."""
        minted: dict[str, str] = {}
        uris_left, attempt = list(uris), 0
        while uris_left:
            ids = {uri: mint_image_id(corpus_id, root_name, uri, attempt=attempt) for uri in uris_left}
            taken = self._known(ids.values())
            minted.update((uri, image_id) for uri, image_id in ids.items() if image_id not in taken)
            uris_left = [uri for uri in uris_left if ids[uri] in taken]
            attempt += 1
        return minted

    def add_images(self, records: Sequence[ImageRecord]) -> int:
        """Insert pictures and return how many were new; a picture whose id or (root, uri) is known is left unchanged.

        (Two index runs over one folder may add the same file; the first wins, and the next run brings it up to date.)
        """

        def change(connection: Connection) -> int:
            added = insert_rows(connection, IMAGE_COLUMNS, [_row(record) for record in records], ignoring=True)
            lift(connection, [record.image_id for record in records if record.state is ImageState.ACTIVE])
            return added

        return self._write(change) if records else 0

    def update_images(
        self,
        records: Sequence[ImageRecord],
        *,
        gone: Sequence[str] = (),
        edited: Iterable[str] = (),
        columns: tuple[str, ...] = _CHANGEABLE,
    ) -> None:
        """Replace rows by image id, in one transaction; pass some thousands at a time.

        A picture may take the uri of another of the batch, or that of a gone picture, whose row it then replaces.

        Args:
            records: Pictures as they are now.
            gone: Ids of other pictures, which are marked gone before; unknown ones are ignored.
            edited: Ids of those of the pictures that have other content: they leave their groups of copies, and their slices
                are listed for erasure.
            columns: Those that may have changed; the others are not written, which saves the work on their indexes.

        Raises:
            NotFoundError: A picture is unknown.
            CatalogError: Its new uri belongs to another picture that is not gone.
        """
        if not records and not gone:
            return
        altered = list(edited)

        def change(connection: Connection) -> None:
            mark_images_gone(connection, gone)
            for chunk in chunks(altered):
                connection.execute(delete(tables.duplicates).where(tables.duplicates.c.image_id.in_(chunk)))
            mark_erased(connection, altered)  # their slices say what was in them before
            if not records:
                return
            before = _states(connection, [record.image_id for record in records])
            unknown = next((record for record in records if record.image_id not in before), None)
            if unknown is not None:
                raise NotFoundError(
                    f"there is no picture with id {unknown.image_id!r} (uri {unknown.uri!r})", hint="add it first"
                )
            moved = [r for r in records if (r.root_id, r.uri) != (before[r.image_id].root_id, before[r.image_id].uri)]
            _free_uris(connection, moved)
            written = ("image_id", *columns)
            connection.execute(
                _update(columns), [{f"new_{name}": _value(record, name) for name in written} for record in records]
            )
            self._follow_up(connection, records, before)

        self._write(change)

    def filing_names(self, corpus_id: str | None = None, *, most: int) -> list[str]:
        """Return the distinct names of folders, files and cameras of so many pictures at most, of one corpus or of all."""
        images = tables.images
        living = images.c.state.in_([ImageState.PENDING, ImageState.ACTIVE])
        query = select(images.c.uri, images.c.camera_make, images.c.camera_model).where(living).limit(most)
        roots = select(tables.roots.c.name)
        if corpus_id is not None:
            query = query.where(images.c.corpus_id == corpus_id)
            roots = roots.where(tables.roots.c.corpus_id == corpus_id)
        names: set[str] = set()
        with self._reading() as connection:
            names.update(connection.execute(roots).scalars())
            for uri, make, model in connection.execute(query):
                folder, _, name = uri.rpartition("/")
                names.update((folder, name.rpartition(".")[0] or name, make or "", model or ""))
        return sorted(names - {""})

    def positions(self, corpus_id: str | None = None, *, most: int) -> list[tuple[float, float]]:
        """Return the distinct positions of so many pictures at most, of one corpus or of all.

        Returns:
            Pairs of latitude and longitude in degrees, to two digits: about a kilometre.
        """
        images = tables.images
        living = images.c.state.in_([ImageState.PENDING, ImageState.ACTIVE])
        query = (
            select(images.c.latitude, images.c.longitude)
            .where(living, images.c.latitude.is_not(None), images.c.longitude.is_not(None))
            .limit(most)
        )
        if corpus_id is not None:
            query = query.where(images.c.corpus_id == corpus_id)
        with self._reading() as connection:
            return sorted({(round(latitude, 2), round(longitude, 2)) for latitude, longitude in connection.execute(query)})

    def mark_gone(self, image_ids: Sequence[str]) -> None:
        """Mark pictures as gone; unknown ids are ignored."""
        if image_ids:
            self._write(lambda connection: mark_images_gone(connection, image_ids))

    def _known(self, image_ids: Iterable[str]) -> set[str]:
        known: set[str] = set()
        with self._reading() as connection:
            for chunk in chunks(image_ids):
                known.update(
                    connection.execute(select(tables.images.c.image_id).where(tables.images.c.image_id.in_(chunk))).scalars()
                )
        return known

    def _follow_up(self, connection: Connection, records: Sequence[ImageRecord], before: dict[str, _FormerRow]) -> None:
        hidden, restored, changed, stale = [], [], [], set()
        for record in records:
            former = before[record.image_id]
            if record.state in DEAD:
                if former.state not in DEAD:
                    hidden.append(record.image_id)
                continue
            if record.state is ImageState.ACTIVE and former.state is not ImageState.ACTIVE:
                restored.append(record.image_id)
            if former.is_shown_otherwise(record) or record.metadata_version > former.metadata_version:
                changed.append(record.image_id)  # a newer reader may have read another camera
            if record.slice_id is not None and record.slice_id == former.slice_id and former.needs_loading_as(record):
                stale.add(record.slice_id)
        mark_deleted(connection, hidden)
        lift(connection, restored)
        queue(connection, [*hidden, *restored, *changed])
        for chunk in chunks(stale):
            connection.execute(delete(tables.loads).where(tables.loads.c.slice_id.in_(chunk)))


@dataclass(frozen=True, slots=True)
class _FormerRow:
    """Part of a picture's former row that decides about the consequences of a change."""

    root_id: str
    uri: str
    state: ImageState
    slice_id: str | None
    taken: tuple[int | None, int | None, str | None]  # time, offset, precision
    metadata_version: int

    def needs_loading_as(self, record: ImageRecord) -> bool:
        """Return True if the stores' point of an embedded picture must be written again."""
        if self.state is ImageState.PENDING:
            return False  # not in the stores yet
        return self.is_shown_otherwise(record)

    def is_shown_otherwise(self, record: ImageRecord) -> bool:
        """Return True if the payload of a picture that can be found has changed."""
        taken = (record.taken_at, record.utc_offset_minutes, record.taken_precision)
        return self.state in DEAD or (self.root_id, self.uri, self.taken) != (record.root_id, record.uri, taken)


@cache
def _update(columns: tuple[str, ...]) -> Update:
    return (
        update(tables.images)
        .where(tables.images.c.image_id == bindparam("new_image_id"))
        .values({name: bindparam(f"new_{name}") for name in columns})
    )


def _value(record: ImageRecord, name: str) -> Any:  # noqa: ANN401 - of any column
    return record.state.value if name == "state" else getattr(record, name)


def _row(record: ImageRecord) -> tuple[Any, ...]:
    values: tuple[Any, ...] = _VALUES(record)
    return (*values[:_STATE], record.state.value, *values[_STATE + 1 :])


def _states(connection: Connection, image_ids: Iterable[str]) -> dict[str, _FormerRow]:
    images = tables.images
    taken = (images.c.taken_at, images.c.utc_offset_minutes, images.c.taken_precision)
    known = (images.c.image_id, images.c.root_id, images.c.uri, images.c.state, images.c.slice_id, images.c.metadata_version)
    states: dict[str, _FormerRow] = {}
    for chunk in chunks(image_ids):
        for image_id, root_id, uri, state, slice_id, version, *time in connection.execute(
            select(*known, *taken).where(images.c.image_id.in_(chunk))
        ):
            states[image_id] = _FormerRow(root_id, uri, ImageState(state), slice_id, (time[0], time[1], time[2]), version)
    return states


def mark_images_gone(connection: Connection, image_ids: Sequence[str]) -> None:
    """Mark pictures as gone in a transaction; unknown ids, and those that are gone already, are ignored."""
    for chunk in chunks(image_ids):
        gone = [i for i, former in _states(connection, chunk).items() if former.state is not ImageState.GONE]
        connection.execute(update(tables.images).where(tables.images.c.image_id.in_(gone)).values(state=ImageState.GONE.value))
        mark_deleted(connection, gone)
        queue(connection, gone)


def _free_uris(connection: Connection, moved: Sequence[ImageRecord]) -> None:
    """Free the uris that `moved` will take, from each other (a swap) and from gone pictures."""
    images = tables.images
    for chunk in chunks([record.image_id for record in moved]):
        # A uri that no file can have, distinct for each; the update that follows replaces it.
        connection.execute(update(images).where(images.c.image_id.in_(chunk)).values(uri="\x01" + images.c.image_id))
    by_root: dict[str, list[str]] = {}
    for record in moved:
        by_root.setdefault(record.root_id, []).append(record.uri)
    for root_id, uris in by_root.items():
        for chunk in chunks(uris):
            in_the_way = (images.c.root_id == root_id, images.c.uri.in_(chunk), images.c.state == ImageState.GONE)
            replaced = list(connection.execute(select(images.c.image_id).where(*in_the_way)).scalars())
            mark_erased(connection, replaced)
            queue(connection, replaced)
            connection.execute(delete(images).where(*in_the_way))
