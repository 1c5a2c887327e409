"""Compaction in the catalog: finding slices with unneeded rows, and replacing several slices by one new slice.

A row of a slice is needed while its picture is in that slice and not gone. A replacement is one transaction: pictures, receipts
and loads move to the new slice together. The old slices stay, superseded, until `drop_superseded`.

Slices whose Parquet files and packs still hold rows of removed pictures, until those files are replaced or deleted. The
transaction that deletes a picture's row lists its slices here (pictures/deletions.py). So a killed removal is finished by
whatever erases next: the same command, an index run, a compaction or the service. A slice leaves the list when its last file
is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import PAGE, chunks, insert_ignoring
from lodestone.catalog.embeddings.slice_parts import refresh_parts
from lodestone.catalog.embeddings.slices import SliceRows, _claim
from lodestone.catalog.records import ImageState, Receipt, SliceRecord
from lodestone.errors import CatalogError

_KEPT = (ImageState.ACTIVE, ImageState.FAILED)  # states of pictures whose rows hold facts that are stored nowhere else
_META = "meta"


@dataclass(frozen=True, slots=True)
class SliceUsage:
    """Usage of one slice: `kept` of its `rows` are needed, `pending` pictures wait to be embedded, `parts` are on disk."""

    record: SliceRecord
    kept: int
    pending: int
    parts: frozenset[str]

    @property
    def rows(self) -> int:
        """Return the number of pictures that its files have rows of."""
        return self.record.rows if _META in self.parts else 0


@dataclass(frozen=True, slots=True)
class PartUsage:
    """Space that the files of one part take, over all slices of some corpora."""

    part: str
    files: int
    rows: int
    bytes: int


class CompactionRows(SliceRows):
    """Part of the catalog that finds slices worth replacing, and replaces them."""

    def slice_usage(self, corpus_id: str) -> Iterator[SliceUsage]:
        """Yield all slices of a corpus with their needed rows, oldest first, read a page at a time."""
        page: list[SliceRecord] = []
        for record in self.slices(corpus_id):
            page.append(record)
            if len(page) == PAGE:
                yield from self._usage(page)
                page = []
        yield from self._usage(page)

    def live_receipts(self, corpus_id: str) -> Iterator[Receipt]:
        """Yield the receipts of all slices that contain pictures, by slice and part, read a page at a time."""
        receipts, slices = tables.receipts, tables.slices
        query = (
            select(receipts)
            .join(slices, slices.c.slice_id == receipts.c.slice_id)
            .where(slices.c.corpus_id == corpus_id, exists().where(tables.images.c.slice_id == slices.c.slice_id))
        )
        return (Receipt(*row) for row in self._streamed(query, (receipts.c.slice_id, receipts.c.part)))

    def part_usage(self, corpus_id: str | None = None) -> list[PartUsage]:
        """Return the files, rows and bytes of each part in a corpus (or in all), by part."""
        receipts, slices = tables.receipts, tables.slices
        query = select(receipts.c.part, func.count(), func.sum(receipts.c.rows), func.sum(receipts.c.size))
        if corpus_id is not None:
            query = query.join(slices, slices.c.slice_id == receipts.c.slice_id).where(slices.c.corpus_id == corpus_id)
        with self._reading() as connection:
            rows_by_part = connection.execute(query.group_by(receipts.c.part).order_by(receipts.c.part))
            return [PartUsage(part, int(files), int(rows), int(size)) for part, files, rows, size in rows_by_part]

    def replace_slices(
        self,
        new: SliceRecord,
        image_ids: Sequence[str],
        receipts: Sequence[Receipt],
        *,
        old: Sequence[str],
        states: Sequence[ImageState] = _KEPT,
    ) -> None:
        """Move the pictures of some slices into a new slice that is embedded already; it inherits their loads.

        Args:
            new: The new slice.
            image_ids: Its rows: all pictures of the old slices in one of `states`.
            receipts: Receipts of the new slice's parts.
            old: Ids of the slices that it replaces. Their other pictures lose their rows; any that comes back is embedded.
            states: States of the pictures that keep their rows; all but pending and gone ones, at least.

        Raises:
            CatalogError: A picture changed meanwhile; nothing was changed.
        """
        images, members = tables.images, tables.slice_members

        def change(connection: Connection) -> None:
            connection.execute(insert(tables.slices), [asdict(new)])
            moved = 0
            for chunk in chunks(image_ids):
                of_old = (images.c.image_id.in_(chunk), images.c.slice_id.in_(old), images.c.state.in_(states))
                moved += connection.execute(update(images).where(*of_old).values(slice_id=new.slice_id)).rowcount
            remaining = connection.execute(
                select(func.count()).select_from(images).where(images.c.slice_id.in_(old), images.c.state != ImageState.GONE)
            ).scalar_one()
            if moved != len(image_ids) or remaining:
                raise CatalogError(
                    f"pictures of {len(old)} slices changed while they were compacted",
                    hint="run `lodestone embeddings compact` again",
                )
            connection.execute(update(images).where(images.c.slice_id.in_(old)).values(slice_id=None))
            # The members of a slice record which pictures were ever embedded (see deletions.py), so they move along.
            others = members.alias("others")
            is_elsewhere = exists().where(others.c.image_id == members.c.image_id, others.c.slice_id.not_in(old))
            orphans = connection.execute(
                select(members.c.image_id).where(members.c.slice_id.in_(old), ~is_elsewhere).distinct()
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
        """Delete at most `limit` slices that contain no picture, and return the paths of their files, which the caller deletes.

        Slices with members that are in no other slice are kept, until `replace_slices` takes these members over.
        """
        paths: list[str] = []
        for slice_id in self._superseded(corpus_id, limit):

            def change(connection: Connection, slice_id: str = slice_id) -> list[str]:
                if self._is_needed(connection, slice_id):
                    return []
                result = connection.execute(select(tables.receipts.c.path).where(tables.receipts.c.slice_id == slice_id))
                of_slice = list(result.scalars())
                connection.execute(delete(tables.slices).where(tables.slices.c.slice_id == slice_id))
                return of_slice

            paths += self._write(change)
        return paths

    def is_droppable(self, slice_id: str) -> bool:
        """Return True if `drop_superseded` would drop the slice."""
        with self._reading() as connection:
            return not self._is_needed(connection, slice_id)

    def count_superseded(self, corpus_id: str) -> int:
        """Return the number of slices of the corpus that contain no picture."""
        return sum(usage.kept == 0 and usage.pending == 0 for usage in self.slice_usage(corpus_id))

    def known_files(self, corpus_id: str, paths: Sequence[str], fingerprints: Sequence[str]) -> tuple[set[str], set[str]]:
        """Return the paths that a receipt names, and the fingerprints that a slice of the corpus has."""
        receipts, slices = tables.receipts, tables.slices
        with self._reading() as connection:
            recorded = {
                path
                for chunk in chunks(paths)
                for path in connection.execute(select(receipts.c.path).where(receipts.c.path.in_(chunk))).scalars()
            }
            planned = {
                fingerprint
                for chunk in chunks(fingerprints)
                for fingerprint in connection.execute(
                    select(slices.c.fingerprint).where(slices.c.corpus_id == corpus_id, slices.c.fingerprint.in_(chunk))
                ).scalars()
            }
        return recorded, planned

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
                part_query = select(receipts.c.slice_id, receipts.c.part).where(receipts.c.slice_id.in_(chunk))
                for slice_id, part in connection.execute(part_query):
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
        is_elsewhere = exists().where(others.c.image_id == members.c.image_id, others.c.slice_id != slice_id)
        reasons = (
            select(images.c.image_id).where(images.c.slice_id == slice_id),
            select(members.c.image_id).where(members.c.slice_id == slice_id, ~is_elsewhere),
        )
        return any(connection.execute(reason.limit(1)).first() is not None for reason in reasons)

    def _inherit_loads(self, connection: Connection, slice_id: str, old: Sequence[str]) -> None:
        """Mark the new slice as loaded in every collection that holds all old slices with rows of it."""
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
        loaded: dict[str, set[str]] = {}
        for collection, of_slice in connection.execute(
            select(loads.c.collection, loads.c.slice_id).where(loads.c.slice_id.in_(old))
        ):
            loaded.setdefault(collection, set()).add(of_slice)
        now = datetime.now(UTC)
        rows = [
            {"collection": collection, "slice_id": slice_id, "loaded_at": now}
            for collection, slices in loaded.items()
            if needed <= slices and not collection.endswith(_claim(""))
        ]
        insert_ignoring(connection, loads, rows)


class ErasureRows(CatalogBase):
    """Part of the catalog that lists what is still to be erased."""

    def slices_to_erase(self, corpus_id: str) -> list[SliceRecord]:
        """Return the slices of a corpus whose files hold rows of removed pictures, oldest first."""
        slices, erasures = tables.slices, tables.erasures
        columns = (slices.c.slice_id, slices.c.corpus_id, slices.c.fingerprint, slices.c.rows, slices.c.created_at)
        query = select(*columns).join(erasures, erasures.c.slice_id == slices.c.slice_id).order_by(slices.c.seq)
        with self._reading() as connection:
            return [SliceRecord(*row) for row in connection.execute(query.where(slices.c.corpus_id == corpus_id))]

    def bytes_to_erase(self, corpus_id: str | None = None) -> tuple[int, int]:
        """Return how many slices of a corpus, or of all, hold rows of removed pictures, and the bytes of their files."""
        slices, erasures, receipts = tables.slices, tables.erasures, tables.receipts
        query = (
            select(func.count(erasures.c.slice_id.distinct()), func.coalesce(func.sum(receipts.c.size), 0))
            .select_from(erasures)
            .join(slices, slices.c.slice_id == erasures.c.slice_id)
            .outerjoin(receipts, receipts.c.slice_id == erasures.c.slice_id)
        )
        if corpus_id is not None:
            query = query.where(slices.c.corpus_id == corpus_id)
        with self._reading() as connection:
            count, size = connection.execute(query).one()
        return int(count), int(size)

    def drop_slice(self, slice_id: str) -> None:
        """Delete a slice that has no picture, with its receipts; the caller has deleted its files."""
        has_image = select(tables.images.c.image_id).where(tables.images.c.slice_id == slice_id).limit(1)

        def change(connection: Connection) -> None:
            if connection.execute(has_image).first() is None:
                connection.execute(delete(tables.slices).where(tables.slices.c.slice_id == slice_id))

        self._write(change)

    def restart_slice(self, slice_id: str) -> None:
        """Forget the receipts of a slice whose files were deleted because some of its pictures wait to be embedded.

        Its pictures that can be found are embedded again with them.
        """

        def change(connection: Connection) -> None:
            connection.execute(delete(tables.receipts).where(tables.receipts.c.slice_id == slice_id))
            connection.execute(delete(tables.erasures).where(tables.erasures.c.slice_id == slice_id))
            members = select(func.count()).where(tables.images.c.slice_id == slice_id).scalar_subquery()
            connection.execute(update(tables.slices).where(tables.slices.c.slice_id == slice_id).values(rows=members))
            refresh_parts(connection, [slice_id])

        self._write(change)

    def count_living(self, slice_id: str) -> tuple[int, int]:
        """Return how many pictures a slice has that wait to be embedded, and how many others, gone ones included."""
        images = tables.images
        query = select(images.c.state, func.count()).where(images.c.slice_id == slice_id).group_by(images.c.state)
        with self._reading() as connection:
            counts = {ImageState(state): int(count) for state, count in connection.execute(query)}
        waiting = counts.pop(ImageState.PENDING, 0)
        return waiting, sum(counts.values())
