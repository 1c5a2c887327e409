"""Search for slices that lack a part, or hold a thumbnail; its cost grows with the unfinished slices, not the finished ones.

`slices.parts` names the parts that a slice has receipts for. It is computed from `receipts` in the transaction that writes
them, and never updated incrementally. A corpus has few distinct values of it: an index is searched from one value to the next,
and only slices with a value that lacks something are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from heapq import merge
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, case, exists, func, select, tuple_, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import PAGE, chunks, placed, upsert
from lodestone.catalog.records import ImageState, Receipt, SliceRecord

LIVING: Final = (ImageState.PENDING, ImageState.ACTIVE)
ORDER: Final = (tables.slices.c.seq, tables.slices.c.slice_id)
COLUMNS: Final = (*(tables.slices.c[field.name] for field in fields(SliceRecord)), tables.slices.c.seq)
LIVE: Final = exists().where(tables.images.c.slice_id == tables.slices.c.slice_id, tables.images.c.state.in_(LIVING))
_BETWEEN: Final = "/"  # no part's name contains it, because a part is a file
_TOO_LONG: Final = "*"  # replaces names too long for an index entry of PostgreSQL (2.7 kB): the receipts are read instead
_LONGEST: Final = 2000


def save_receipts(connection: Connection, receipts: Sequence[Receipt]) -> None:
    """Insert receipts, or replace those of the same slice and part."""
    upsert(connection, tables.receipts, [asdict(receipt) for receipt in receipts])
    refresh_parts(connection, {receipt.slice_id for receipt in receipts})


def refresh_parts(connection: Connection, slice_ids: Iterable[str] | None = None) -> None:
    """Compute `slices.parts` again, for these slices or for all. Must be called after receipts are inserted or deleted.

    Every writing transaction is serialisable: of two that write receipts of one slice, the second runs again.
    """
    if slice_ids is None:
        connection.execute(_REFRESH_ALL)
        return
    for chunk in chunks(sorted(slice_ids)):
        connection.execute(_REFRESH, {"of_slices": chunk})


class PartRows(CatalogBase):
    """Part of the catalog that finds slices by the parts they lack."""

    def unfinished_slices(self, parts: Collection[str], corpus_id: str | None = None) -> Iterator[SliceRecord]:
        """Yield live slices that lack a receipt for any of `parts`, oldest first within each corpus, read a page at a time.

        Slices may be finished while they are listed; one that is finished before its page is read is left out.
        """
        wanted = frozenset(parts)
        lacking = self._at_one_moment(lambda connection: _lacking(connection, wanted, corpus_id))
        for lacking_corpus in sorted({corpus for corpus, _ in lacking}):
            yield from self._unfinished_of(lacking_corpus, wanted)

    def count_unfinished(self, parts: Collection[str], corpus_id: str | None = None) -> tuple[int, int]:
        """Return the number of slices that `unfinished_slices` would yield, and the number of rows they were planned with."""
        wanted, slices = frozenset(parts), tables.slices
        counting = select(func.count(), func.coalesce(func.sum(slices.c.rows), 0)).select_from(slices)

        def count(connection: Connection) -> tuple[int, int]:
            lacking = _lacking(connection, wanted, corpus_id)
            counted = [connection.execute(counting.where(*_having(*value, wanted))).one() for value in lacking]
            return sum(int(slices) for slices, _ in counted), sum(int(rows) for _, rows in counted)

        return self._at_one_moment(count)

    def misnoted_slices(self, corpus_id: str) -> list[str]:
        """Return the ids of slices whose `parts` differ from their receipts. Reads all receipts: 4 s for 1,000,000 slices.

        A process of an older version, which does not write the column, causes this if it had the catalog open during its
        migration.
        """
        slices = tables.slices
        query = select(slices.c.slice_id).where(slices.c.corpus_id == corpus_id, slices.c.parts != _parts_now())
        return self._at_one_moment(lambda connection: list(connection.execute(query).scalars()))

    def mend_parts(self, corpus_id: str) -> int:
        """Correct the slices that `misnoted_slices` finds, and return their number."""
        if misnoted := self.misnoted_slices(corpus_id):
            self._write(lambda connection: refresh_parts(connection, misnoted))
        return len(misnoted)

    def _unfinished_of(self, corpus_id: str, wanted: frozenset[str]) -> Iterator[SliceRecord]:
        after: tuple[Any, ...] = ()
        while True:
            page = self._at_one_moment(_page_after(after, corpus_id, wanted))
            yield from (SliceRecord(*tuple(row)[:-1]) for row in page)
            if len(page) < PAGE:
                return
            after = _place(page[-1])


def _page_after(
    after: tuple[Any, ...], corpus_id: str, wanted: frozenset[str]
) -> Callable[[Connection], list[Row[*tuple[Any, ...]]]]:
    """Return a function that reads the next unfinished slices after a place.

    A slice that gains or loses a part between two pages is neither missed nor repeated.
    """
    beyond = [tuple_(*ORDER) > placed(ORDER, after)] if after else []

    def read(connection: Connection) -> list[Row[*tuple[Any, ...]]]:
        by_value = []
        for value in _lacking(connection, wanted, corpus_id):
            query: Select[Any] = select(*COLUMNS).where(*_having(*value, wanted), *beyond).order_by(*ORDER).limit(PAGE)
            by_value.append(connection.execute(query).all())
        return list(islice(merge(*by_value, key=_place), PAGE))

    return read


def _place(row: Row[Any]) -> tuple[Any, ...]:
    return row.seq, row.slice_id


def _lacking(connection: Connection, wanted: frozenset[str], corpus_id: str | None) -> list[tuple[str, str]]:
    """Return (corpus id, value of `parts`) of all values in use that lack a wanted part, or may lack one."""
    corpora, slices = tables.corpora, tables.slices
    least = select(func.min(slices.c.parts))
    first = least.where(slices.c.corpus_id == corpora.c.corpus_id).correlate(corpora).scalar_subquery()
    only = [] if corpus_id is None else [corpora.c.corpus_id == corpus_id]
    values = select(corpora.c.corpus_id, first.label("parts")).where(*only).cte("held", recursive=True)
    greater = (
        least.where(slices.c.corpus_id == values.c.corpus_id, slices.c.parts > values.c.parts)
        .correlate(values)
        .scalar_subquery()
    )
    values = values.union_all(select(values.c.corpus_id, greater).where(values.c.parts.is_not(None)))
    rows = connection.execute(select(values.c.corpus_id, values.c.parts).where(values.c.parts.is_not(None)))
    return [(corpus, parts) for corpus, parts in rows if parts == _TOO_LONG or not wanted.issubset(parts.split(_BETWEEN))]


def _having(corpus_id: str, parts: str, wanted: frozenset[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of live slices with this value of `parts` that lack a wanted part."""
    slices, receipts = tables.slices, tables.receipts
    having: list[ColumnElement[bool]] = [slices.c.corpus_id == corpus_id, slices.c.parts == parts, LIVE]
    if parts == _TOO_LONG:
        has = select(func.count()).where(receipts.c.slice_id == slices.c.slice_id, receipts.c.part.in_(sorted(wanted)))
        having.append(has.scalar_subquery() < len(wanted))
    return having


def _parts_now() -> ColumnElement[str]:
    slices, receipts = tables.slices, tables.receipts
    names = select(receipts.c.part).where(receipts.c.slice_id == slices.c.slice_id).correlate(slices)
    sorted_names = names.order_by(receipts.c.part).subquery()
    joined = func.aggregate_strings(sorted_names.c.part, _BETWEEN)
    length = func.coalesce(func.sum(func.length(sorted_names.c.part) + len(_BETWEEN)), 0)
    value = select(func.coalesce(case((length > _LONGEST, _TOO_LONG), else_=joined), ""))
    return value.select_from(sorted_names).scalar_subquery()


# Made once: to make such statements takes longer than to run them.
_NOW: Final = _parts_now()
_REFRESH_ALL: Final = update(tables.slices).where(tables.slices.c.parts != _NOW).values(parts=_NOW)
_REFRESH: Final = _REFRESH_ALL.where(tables.slices.c.slice_id.in_(bindparam("of_slices", expanding=True)))


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
