"""Compaction of slices: the rows that pictures still need go into new, immutable slices.

Pictures that changed, moved to another slice or are gone leave rows behind, and small runs leave small slices. Compaction reads
no picture and runs no model: it copies the rows that are needed, and their thumbnails where those lie in packs. It writes the
new files first, then makes one catalog transaction per slice, then deletes the old files. If it is killed at any point, the
same command continues the work. Collections are not touched, because they hold the same pictures before and after.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.photo_facts import PHOTO_FACTS
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState, Receipt, RunState, SliceRecord
from lodestone.embeddings.corpus_records import FILE
from lodestone.embeddings.slices import fingerprint, read_part, write_part
from lodestone.embeddings.thumbnail_upkeep import drop_unneeded, sweep_packs
from lodestone.errors import CatalogError, EmbeddingsDamagedError
from lodestone.imaging.thumbnail_packs import PackName
from lodestone_schemas.arrow import META_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.embeddings.compaction import SliceUsage
    from lodestone.files.area import FileArea
    from lodestone.imaging.thumbnail_packs import ThumbnailPacks

KIND: Final = "compact"
_KEPT: Final = (ImageState.ACTIVE, ImageState.FAILED)
_WASTE: Final = 0.2  # a slice is rewritten when a larger share of its rows is unused
_SMALL: Final = 0.5  # a slice with a smaller share of a full slice's pictures is merged with another
_ALIVE: Final = timedelta(minutes=10)  # a run without a heartbeat for longer has ended
_SWEEP_BATCH: Final = 1000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """Reports what compaction did, or with `dry_run` what it would do.

    Attributes:
        replaced: Number of old slices that were replaced.
        written: Number of new slices that replaced them.
        rows_dropped: Number of rows that no picture needs any more.
        files_deleted: Number of deleted files: those of superseded slices, and leftovers of killed writers.
        bytes_freed: Size of the deleted files minus the size of the new ones, in bytes; negative while the old files are kept.
        waiting: Number of superseded slices that are kept because another run is in progress; the next compaction deletes them.
        damaged: Number of slices left alone because one of their files is damaged; the next index run makes that file again.
        thumbnails_dropped: Number of thumbnails that were taken out of packs whose slices stay.
    """

    replaced: int = 0
    written: int = 0
    rows_dropped: int = 0
    files_deleted: int = 0
    bytes_freed: int = 0
    waiting: int = 0
    damaged: int = 0
    thumbnails_dropped: int = 0


@dataclass(slots=True)
class Compactor:
    """Compacts the slices of one corpus, whose lock the caller holds.

    Attributes:
        catalog: The catalog, which is read and updated.
        area: The area that holds the embeddings files.
        packs: The packs of thumbnails.
        slice_size: Highest number of pictures in a slice.
        report_progress: Progress callback; gets the number of slices processed and their total number.
    """

    catalog: Catalog
    area: FileArea
    packs: ThumbnailPacks
    slice_size: int = 256
    report_progress: Callable[[int, int], None] | None = None
    _counts: Counter[str] = field(default_factory=Counter)

    def run(self, corpus_id: str, *, dry_run: bool = False) -> CompactionReport:
        """Compact a corpus; a second call right after changes nothing more.

        Args:
            corpus_id: The corpus to compact.
            dry_run: Whether to count only, and change nothing.

        Raises:
            OutOfSpaceError: there is no space for the new files; what is finished is kept.
            CatalogError: the catalog failed.
        """
        self._counts = Counter()
        groups = list(self._groups(corpus_id))
        total, done = sum(len(group) for group in groups), 0
        for group in groups:
            if dry_run:
                self._count(group)
            else:
                self._replace_or_leave(corpus_id, group)
            done += len(group)
            if self.report_progress is not None:
                self.report_progress(done, total)
        if not dry_run:
            # A slice may keep a fifth of unneeded rows, but no unneeded thumbnail: that shows what the picture showed.
            self._counts["thumbnails_dropped"] += drop_unneeded(self.catalog, self.packs, corpus_id)
            if self._others_run():
                self._counts["waiting"] = self.catalog.count_superseded(corpus_id)
            else:
                self._drop(corpus_id)
                self._sweep(corpus_id)
                sweep_packs(self.catalog, self.packs, corpus_id)
        return CompactionReport(**self._counts)

    def _groups(self, corpus_id: str) -> Iterator[list[SliceUsage]]:
        """Yield groups of slices that are worth rewriting and whose pictures fit into one slice.

        The slices of a group have the same parts, because a row must keep all the outputs that it has.
        """
        open_groups: dict[frozenset[str], list[SliceUsage]] = {}
        empty: list[SliceUsage] = []
        for usage in self.catalog.slice_usage(corpus_id):
            if usage.pending:
                continue  # being embedded, or waiting for it
            if usage.kept == 0:
                empty.append(usage)
                continue
            spare = 1 - usage.kept / max(1, usage.rows)
            if not usage.rows or (spare <= _WASTE and usage.kept >= _SMALL * self.slice_size):
                continue
            group = open_groups.setdefault(usage.parts, [])
            if sum(member.kept for member in group) + usage.kept > self.slice_size:
                yield from self._worth(group)
                group = open_groups[usage.parts] = []
            group.append(usage)
        for group in open_groups.values():
            yield from self._worth(group)
        for batch in chunks(empty, self.slice_size):
            # These slices still list pictures that no other slice has: deleted ones, which stores may not have removed yet.
            needed = [usage for usage in batch if not self.catalog.is_droppable(usage.record.slice_id)]
            if any(usage.record.rows for usage in needed):  # a slice that compaction itself wrote for such pictures has no rows
                yield needed

    def _worth(self, group: list[SliceUsage]) -> Iterator[list[SliceUsage]]:
        if len(group) > 1 or any(usage.rows - usage.kept > _WASTE * usage.rows for usage in group):
            yield group

    def _count(self, group: Sequence[SliceUsage]) -> None:
        self._counts["replaced"] += len(group)
        self._counts["written"] += any(usage.kept for usage in group)
        self._counts["rows_dropped"] += sum(usage.rows - usage.kept for usage in group)

    def _replace_or_leave(self, corpus_id: str, group: list[SliceUsage]) -> None:
        try:
            self._replace(corpus_id, group)
        except EmbeddingsDamagedError as error:
            slice_id, part = str(error.details["slice_id"]), str(error.details["part"])
            _log.warning("slice %s is left as it is: %s", slice_id, error.message)
            self.catalog.forget_receipts(slice_id, [part])
            self._counts["damaged"] += 1
        except CatalogError as error:
            _log.warning("%d slices are left as they are: %s", len(group), error.message)

    def _replace(self, corpus_id: str, group: list[SliceUsage]) -> None:
        pictures = {usage.record.slice_id: self.catalog.slice_images(usage.record.slice_id, states=_KEPT) for usage in group}
        images = [image for members in pictures.values() for image in members]
        slice_id = str(uuid4())
        name = fingerprint([(image.image_id, image.hash) for image in images], f"compacted {slice_id}")
        new = SliceRecord(slice_id, corpus_id, name, len(images), datetime.now(UTC))
        receipts: list[Receipt] = []
        if images:
            of_old = {old: self.catalog.receipts(old) for old in pictures}
            captions = self.catalog.captions([image.image_id for image in images])
            for part in sorted(group[0].parts):
                tables = [
                    rows_of(read_part(self.area, of_old[old][part]), members, captions)
                    for old, members in pictures.items()
                    if members
                ]
                written = write_part(self.area, corpus_id, name, part, _joined(tables))
                receipts.append(Receipt(slice_id, part, written.path, written.rows, written.size, written.checksum, 0.0))
            self._join_packs(PackName(corpus_id, name), group, pictures)
        self.catalog.replace_slices(new, [image.image_id for image in images], receipts, old=list(pictures))
        for usage in group:
            self.packs.remove(PackName(corpus_id, usage.record.fingerprint))
        self._count(group)
        self._counts["bytes_freed"] -= sum(receipt.size for receipt in receipts)

    def _join_packs(self, new: PackName, group: Sequence[SliceUsage], pictures: Mapping[str, Sequence[ImageRecord]]) -> None:
        """Write the pack of a new slice from those of the old ones; a thumbnail that is damaged is made again on request."""
        joined: dict[str, bytes] = {}
        for usage in group:
            wanted = {image.hash for image in pictures[usage.record.slice_id]}
            joined |= self.packs.thumbnails(PackName(new.corpus_id, usage.record.fingerprint), wanted)
        if joined:
            self.packs.write(new, joined)

    def _others_run(self) -> bool:
        """Return whether another run may be reading the old slices at this moment."""
        now = datetime.now(UTC)
        running = self.catalog.runs(1000, state=RunState.RUNNING)
        return any(run.kind != KIND and now - (run.heartbeat_at or run.started_at) < _ALIVE for run in running)

    def _drop(self, corpus_id: str) -> None:
        while paths := self.catalog.drop_superseded(corpus_id):
            for path in paths:
                self._delete(path)

    def _sweep(self, corpus_id: str) -> None:
        for path in unneeded_files(self.catalog, self.area, corpus_id):
            self._delete(path)

    def _delete(self, path: str) -> None:
        size = self.area.size(path)
        if self.area.delete(path):
            self._counts["files_deleted"] += 1
            self._counts["bytes_freed"] += size or 0


def unneeded_files(catalog: Catalog, area: FileArea, corpus_id: str) -> Iterator[str]:
    """Yield the paths of files that no receipt names and that no slice may adopt later.

    A killed compaction leaves such files, so do slices that were just dropped, and captions that were replaced.
    """
    for batch in chunks(area.files(corpus_id), _SWEEP_BATCH):
        names = {stored.path: stored.path.rpartition("/")[2].partition(".")[0] for stored in batch}
        known, planned = catalog.known_files(corpus_id, list(names), list(set(names.values())))
        for stored in batch:
            if stored.path.endswith(f"/{FILE}"):
                continue  # the record of the corpus
            if stored.path not in known and names[stored.path] not in planned:
                yield stored.path


def rows_of(table: pa.Table, images: Sequence[ImageRecord], captions: Mapping[str, Sequence[CaptionRecord]]) -> pa.Table:
    """Return the rows of these pictures.

    Rows of the `meta` part get the picture's present uri, size and time, and what its header said since: the file may be older
    than these columns. Captions that the pictures no longer have are left out of it.

    Args:
        table: The rows of a part.
        images: The pictures.
        captions: Image id -> the captions that each has now.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = table.filter(
        pc.is_in(table.column("image_id"), value_set=pa.array([image.image_id for image in images], pa.string()))
    )
    if "uri" not in table.column_names:
        return kept
    by_id = {image.image_id: image for image in images}
    current = [by_id[image_id] for image_id in kept.column("image_id").to_pylist()]
    columns: dict[str, list[Any]] = {
        "uri": [image.uri for image in current],
        "size": [image.size for image in current],
        "mtime_ns": [image.mtime_ns for image in current],
    }
    for name in (*PHOTO_FACTS, "metadata_version"):
        before = kept.column(name).to_pylist() if name in kept.column_names else [None] * len(current)
        columns[name] = [
            getattr(image, name) if image.metadata_version > 0 else value for image, value in zip(current, before, strict=True)
        ]
    columns["decoded_share"] = [image.decoded_share for image in current]
    present = {image.image_id: {(one.source, one.text) for one in captions.get(image.image_id, ())} for image in current}
    columns["captions"] = [
        [one for one in before or () if (one["source"], one["text"]) in present[image.image_id]]
        for image, before in zip(current, kept.column("captions").to_pylist(), strict=True)
    ]
    for name, values in columns.items():
        kept = _with_column(kept, META_SCHEMA.field(name), pa.array(values, META_SCHEMA.field(name).type))
    return kept.select([name for name in META_SCHEMA.names if name in kept.column_names])  # as in files that had them all


def _with_column(table: pa.Table, field: pa.Field, values: pa.Array) -> pa.Table:
    """Return the table with these values in a column, which is appended where the table lacks it."""
    number = table.schema.get_field_index(field.name)
    return table.append_column(field, values) if number < 0 else table.set_column(number, field, values)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return one table with one chunk per column; its metadata combines the values of all tables' schemas."""
    import pyarrow as pa

    facts: dict[bytes, set[bytes]] = {}
    for table in tables:
        for key, value in (table.schema.metadata or {}).items():
            facts.setdefault(key, set()).update(value.split(b","))
    plain = [table.replace_schema_metadata(None) for table in tables]
    joined = pa.concat_tables(plain).combine_chunks()
    return joined.replace_schema_metadata({key: b",".join(sorted(values)) for key, values in facts.items()})
