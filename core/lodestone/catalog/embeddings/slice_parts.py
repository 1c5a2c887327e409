"""Which slices lack a part, found at the cost of those that do, however many are finished?

`slices.parts` names the parts that a slice has receipts for. It is worked out from `receipts` in the transaction that writes
them, never counted up. A corpus has few different values of it: an index is searched from one value to the next, and only
slices with a value that lacks something are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from heapq import merge
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, case, exists, func, select, tuple_, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import PAGE, chunks, placed, upsert
from lodestone.catalog.records import ImageState, Receipt, SliceRecord

LIVING: Final = (ImageState.PENDING, ImageState.ACTIVE)
ORDER: Final = (tables.slices.c.seq, tables.slices.c.slice_id)
COLUMNS: Final = (*(tables.slices.c[field.name] for field in fields(SliceRecord)), tables.slices.c.seq)
LIVE: Final = exists().where(tables.images.c.slice_id == tables.slices.c.slice_id, tables.images.c.state.in_(LIVING))
_BETWEEN: Final = "/"  # in no part's name: a part is a file
_TOO_LONG: Final = "*"  # what stands for names that an index entry of PostgreSQL (2.7 kB) would not take: ask the receipts
_LONGEST: Final = 2000


def save_receipts(connection: Connection, receipts: Sequence[Receipt]) -> None:
    """Insert receipts, or replace those of the same slice and part."""
    upsert(connection, tables.receipts, [asdict(receipt) for receipt in receipts])
    refresh_parts(connection, {receipt.slice_id for receipt in receipts})


def refresh_parts(connection: Connection, slice_ids: Iterable[str] | None = None) -> None:
    """Work out `slices.parts` anew, of these slices or of all. Who inserts or deletes receipts calls it afterwards.

    In a serialisable transaction, as all that write are: of two that write receipts of one slice, the second runs again.
    """
    slices, now = tables.slices, _parts_now()
    statement = update(slices).where(slices.c.parts != now).values(parts=now)
    if slice_ids is None:
        connection.execute(statement)
        return
    for chunk in chunks(sorted(slice_ids)):
        connection.execute(statement.where(slices.c.slice_id.in_(chunk)))


class PartRows(CatalogBase):
    """Slices by what they lack."""

    def unfinished_slices(self, parts: Collection[str], corpus_id: str | None = None) -> Iterator[SliceRecord]:
        """Live slices that lack a receipt for any of `parts`, oldest first (of all corpora: one after the other), by pages.

        Slices may be finished while they are listed; one that is finished before its page is read is left out.
        """
        wanted = frozenset(parts)
        found = self._at_one_moment(lambda connection: _lacking(connection, wanted, corpus_id))
        for each in sorted({of for of, _ in found}):
            yield from self._unfinished_of(each, wanted)

    def count_unfinished(self, parts: Collection[str], corpus_id: str | None = None) -> tuple[int, int]:
        """How many slices `unfinished_slices` would yield, and how many rows they were planned with."""
        wanted, slices = frozenset(parts), tables.slices
        counting = select(func.count(), func.coalesce(func.sum(slices.c.rows), 0)).select_from(slices)

        def count(connection: Connection) -> tuple[int, int]:
            found = _lacking(connection, wanted, corpus_id)
            counted = [connection.execute(counting.where(*_having(*one, wanted))).one() for one in found]
            return sum(int(slices) for slices, _ in counted), sum(int(rows) for _, rows in counted)

        return self._at_one_moment(count)

    def slices_without(self, part: str, corpus_id: str | None = None) -> list[SliceRecord]:
        """Live slices that have no receipt for `part`: what is unfinished, oldest first."""
        return list(self.unfinished_slices([part], corpus_id))

    def misnoted_slices(self, corpus_id: str) -> list[str]:
        """Ids of slices whose `parts` are not those of their receipts. Reads all receipts: 4 s for 1,000,000 slices.

        A process of a version that knows nothing of the column, and had the catalog open while it was migrated, leaves them.
        """
        slices = tables.slices
        query = select(slices.c.slice_id).where(slices.c.corpus_id == corpus_id, slices.c.parts != _parts_now())
        return self._at_one_moment(lambda connection: list(connection.execute(query).scalars()))

    def mend_parts(self, corpus_id: str) -> int:
        """Put right what `misnoted_slices` finds; returns how many."""
        if wrong := self.misnoted_slices(corpus_id):
            self._write(lambda connection: refresh_parts(connection, wrong))
        return len(wrong)

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
    """Reads the next unfinished slices. A slice that gains or loses a part between two pages is neither missed nor twice."""
    beyond = [tuple_(*ORDER) > placed(ORDER, after)] if after else []

    def read(connection: Connection) -> list[Row[*tuple[Any, ...]]]:
        by_value = []
        for one in _lacking(connection, wanted, corpus_id):
            query: Select[Any] = select(*COLUMNS).where(*_having(*one, wanted), *beyond).order_by(*ORDER).limit(PAGE)
            by_value.append(connection.execute(query).all())
        return list(islice(merge(*by_value, key=_place), PAGE))

    return read


def _place(row: Row[Any]) -> tuple[Any, ...]:
    return row.seq, row.slice_id


def _lacking(connection: Connection, wanted: frozenset[str], corpus_id: str | None) -> list[tuple[str, str]]:
    """(corpus id, value of `parts`) of all values in use that lack a wanted part, or may."""
    corpora, slices = tables.corpora, tables.slices
    least = select(func.min(slices.c.parts))
    first = least.where(slices.c.corpus_id == corpora.c.corpus_id).correlate(corpora).scalar_subquery()
    of = [] if corpus_id is None else [corpora.c.corpus_id == corpus_id]
    held = select(corpora.c.corpus_id, first.label("parts")).where(*of).cte("held", recursive=True)
    greater = (
        least.where(slices.c.corpus_id == held.c.corpus_id, slices.c.parts > held.c.parts).correlate(held).scalar_subquery()
    )
    held = held.union_all(select(held.c.corpus_id, greater).where(held.c.parts.is_not(None)))
    rows = connection.execute(select(held.c.corpus_id, held.c.parts).where(held.c.parts.is_not(None)))
    return [(of, parts) for of, parts in rows if parts == _TOO_LONG or not wanted.issubset(parts.split(_BETWEEN))]


def _having(corpus_id: str, parts: str, wanted: frozenset[str]) -> list[ColumnElement[bool]]:
    """Live slices with this value of `parts` that lack a wanted part."""
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
