"""Which slices hold rows that no picture needs any more, and how does one new slice take the place of several?

A row of a slice is needed while its picture is in that slice and not gone. Replacing is one transaction: pictures, receipts and
loads move to the new slice together. The old slices stay, superseded, until `drop_superseded`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import PAGE, chunks, insert_ignoring
from lodestone.catalog.embeddings.slice_parts import refresh_parts
from lodestone.catalog.embeddings.slices import SliceRows, _claim
from lodestone.catalog.records import ImageState, Receipt, SliceRecord
from lodestone.errors import CatalogError

_KEPT = (ImageState.ACTIVE, ImageState.FAILED)  # of these a row says something that no other place does
_META = "meta"


@dataclass(frozen=True, slots=True)
class SliceUsage:
    """What of a slice is needed: `kept` pictures of its `rows`, `pending` ones that wait to be embedded; its parts."""

    record: SliceRecord
    kept: int
    pending: int
    parts: frozenset[str]

    @property
    def rows(self) -> int:
        """Pictures that its files have rows of."""
        return self.record.rows if _META in self.parts else 0


@dataclass(frozen=True, slots=True)
class PartUsage:
    """Files of one part, over all slices of some corpora."""

    part: str
    files: int
    rows: int
    bytes: int


class CompactionRows(SliceRows):
    """Which slices are worth replacing, and their replacement."""

    def slice_usage(self, corpus_id: str) -> Iterator[SliceUsage]:
        """All slices of a corpus with what of them is needed, oldest first, a page at a time."""
        page: list[SliceRecord] = []
        for record in self.slices(corpus_id):
            page.append(record)
            if len(page) == PAGE:
                yield from self._usage(page)
                page = []
        yield from self._usage(page)

    def live_receipts(self, corpus_id: str) -> Iterator[Receipt]:
        """Receipts of all slices that pictures are in, by slice and part, a page at a time."""
        receipts, slices = tables.receipts, tables.slices
        query = (
            select(receipts)
            .join(slices, slices.c.slice_id == receipts.c.slice_id)
            .where(slices.c.corpus_id == corpus_id, exists().where(tables.images.c.slice_id == slices.c.slice_id))
        )
        return (Receipt(*row) for row in self._streamed(query, (receipts.c.slice_id, receipts.c.part)))

    def part_usage(self, corpus_id: str | None = None) -> list[PartUsage]:
        """What the parts of a corpus (or of all) take, by part."""
        receipts, slices = tables.receipts, tables.slices
        query = select(receipts.c.part, func.count(), func.sum(receipts.c.rows), func.sum(receipts.c.size))
        if corpus_id is not None:
            query = query.join(slices, slices.c.slice_id == receipts.c.slice_id).where(slices.c.corpus_id == corpus_id)
        with self._reading() as connection:
            found = connection.execute(query.group_by(receipts.c.part).order_by(receipts.c.part))
            return [PartUsage(part, int(files), int(rows), int(size)) for part, files, rows, size in found]

    def replace_slices(
        self, new: SliceRecord, image_ids: Sequence[str], receipts: Sequence[Receipt], *, old: Sequence[str]
    ) -> None:
        """Put pictures of some slices into a new one that is embedded already; collections that held them hold it.

        Args:
            new: The new slice.
            image_ids: Its rows: all active and failed pictures of the old slices.
            receipts: Of the new slice's parts.
            old: Ids of the slices whose place it takes. Their gone pictures lose their rows: one that comes back is
                embedded again.

        Raises:
            CatalogError: a picture changed meanwhile; nothing was changed.
        """
        images, members = tables.images, tables.slice_members

        def change(connection: Connection) -> None:
            connection.execute(insert(tables.slices), [asdict(new)])
            moved = 0
            for chunk in chunks(image_ids):
                of_old = (images.c.image_id.in_(chunk), images.c.slice_id.in_(old), images.c.state.in_(_KEPT))
                moved += connection.execute(update(images).where(*of_old).values(slice_id=new.slice_id)).rowcount
            left = connection.execute(
                select(func.count()).select_from(images).where(images.c.slice_id.in_(old), images.c.state != ImageState.GONE)
            ).scalar_one()
            if moved != len(image_ids) or left:
                raise CatalogError(
                    f"pictures of {len(old)} slices changed while they were compacted",
                    hint="run `lodestone embeddings compact` again",
                )
            connection.execute(update(images).where(images.c.slice_id.in_(old)).values(slice_id=None))
            # who was ever in a slice is known by its members (see deletions.py): they go with the rows
            others = members.alias("others")
            remote_stages = exists().where(others.c.image_id == members.c.image_id, others.c.slice_id.not_in(old))
            orphans = connection.execute(
                select(members.c.image_id).where(members.c.slice_id.in_(old), ~remote_stages).distinct()
            ).scalars()
            ordered = dict.fromkeys([*image_ids, *sorted(orphans)])
            rows = [{"slice_id": new.slice_id, "image_id": i, "position": p} for p, i in enumerate(ordered)]
            if rows:
                connection.execute(insert(members), rows)
            if receipts:
                connection.execute(insert(tables.receipts), [asdict(receipt) for receipt in receipts])
                refresh_parts(connection, [new.slice_id])
            self._inherit_loads(connection, new.slice_id, old)

        self._write(change)

    def drop_superseded(self, corpus_id: str, *, limit: int = 1000) -> list[str]:
        """Forget slices that no picture is in, at most `limit`; returns the paths of their files, to be deleted then.

        Slices whose members are in no other slice are left: `replace_slices` takes them in.
        """
        paths: list[str] = []
        for slice_id in self._superseded(corpus_id, limit):

            def change(connection: Connection, slice_id: str = slice_id) -> list[str]:
                if self._is_needed(connection, slice_id):
                    return []
                found = connection.execute(select(tables.receipts.c.path).where(tables.receipts.c.slice_id == slice_id))
                of_slice = list(found.scalars())
                connection.execute(delete(tables.slices).where(tables.slices.c.slice_id == slice_id))
                return of_slice

            paths += self._write(change)
        return paths

    def is_droppable(self, slice_id: str) -> bool:
        """Whether `drop_superseded` would drop the slice."""
        with self._reading() as connection:
            return not self._is_needed(connection, slice_id)

    def count_superseded(self, corpus_id: str) -> int:
        """How many slices of the corpus no picture is in."""
        return sum(usage.kept == 0 and usage.pending == 0 for usage in self.slice_usage(corpus_id))

    def known_files(self, corpus_id: str, paths: Sequence[str], fingerprints: Sequence[str]) -> tuple[set[str], set[str]]:
        """Those of the paths that a receipt names, and those of the fingerprints that a slice of the corpus has."""
        receipts, slices = tables.receipts, tables.slices
        with self._reading() as connection:
            named = {
                path
                for chunk in chunks(paths)
                for path in connection.execute(select(receipts.c.path).where(receipts.c.path.in_(chunk))).scalars()
            }
            planned = {
                fp
                for chunk in chunks(fingerprints)
                for fp in connection.execute(
                    select(slices.c.fingerprint).where(slices.c.corpus_id == corpus_id, slices.c.fingerprint.in_(chunk))
                ).scalars()
            }
        return named, planned

    def _usage(self, records: Sequence[SliceRecord]) -> Iterator[SliceUsage]:
        images, receipts = tables.images, tables.receipts
        counts: dict[str, dict[str, int]] = {}
        parts: dict[str, set[str]] = {}
        with self._reading() as connection:
            for chunk in chunks([record.slice_id for record in records]):
                by_state = (
                    select(images.c.slice_id, images.c.state, func.count())
                    .where(images.c.slice_id.in_(chunk))
                    .group_by(images.c.slice_id, images.c.state)
                )
                for slice_id, state, count in connection.execute(by_state):
                    counts.setdefault(slice_id, {})[state] = count
                found = select(receipts.c.slice_id, receipts.c.part).where(receipts.c.slice_id.in_(chunk))
                for slice_id, part in connection.execute(found):
                    parts.setdefault(slice_id, set()).add(part)
        for record in records:
            of_slice = counts.get(record.slice_id, {})
            yield SliceUsage(
                record=record,
                kept=sum(of_slice.get(state, 0) for state in _KEPT),
                pending=of_slice.get(ImageState.PENDING, 0),
                parts=frozenset(parts.get(record.slice_id, ())),
            )

    def _superseded(self, corpus_id: str, limit: int) -> list[str]:
        images, slices = tables.images, tables.slices
        empty = ~exists().where(images.c.slice_id == slices.c.slice_id)
        query = select(slices.c.slice_id).where(slices.c.corpus_id == corpus_id, empty).order_by(slices.c.seq)
        with self._reading() as connection:
            return list(connection.execute(query.limit(limit)).scalars())

    def _is_needed(self, connection: Connection | RetryingReader, slice_id: str) -> bool:
        images, members, others = tables.images, tables.slice_members, tables.slice_members.alias("others")
        remote_stages = exists().where(others.c.image_id == members.c.image_id, others.c.slice_id != slice_id)
        reasons = (
            select(images.c.image_id).where(images.c.slice_id == slice_id),
            select(members.c.image_id).where(members.c.slice_id == slice_id, ~remote_stages),
        )
        return any(connection.execute(reason.limit(1)).first() is not None for reason in reasons)

    def _inherit_loads(self, connection: Connection, slice_id: str, old: Sequence[str]) -> None:
        """The new slice counts as loaded where all old ones with rows of it did."""
        loads, members, kept = tables.loads, tables.slice_members, tables.slice_members.alias("kept")
        images = tables.images
        with_rows = select(members.c.slice_id).where(
            members.c.slice_id.in_(old),
            members.c.image_id.in_(
                select(kept.c.image_id)
                .join(images, images.c.image_id == kept.c.image_id)
                .where(kept.c.slice_id == slice_id, images.c.slice_id == slice_id)
            ),
        )
        needed = set(connection.execute(with_rows.distinct()).scalars())
        held: dict[str, set[str]] = {}
        for collection, of_slice in connection.execute(
            select(loads.c.collection, loads.c.slice_id).where(loads.c.slice_id.in_(old))
        ):
            held.setdefault(collection, set()).add(of_slice)
        now = datetime.now(UTC)
        rows = [
            {"collection": collection, "slice_id": slice_id, "loaded_at": now}
            for collection, slices in held.items()
            if needed <= slices and not collection.endswith(_claim(""))
        ]
        insert_ignoring(connection, loads, rows)
