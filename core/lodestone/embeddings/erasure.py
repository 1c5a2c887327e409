"""Erasure of removed pictures from slices: only the slices that hold rows of them are rewritten, and their old files deleted.

The catalog lists these slices (catalog/embeddings/compaction.py). The rows of all other pictures, those of gone files included,
are copied into a new slice as they are; no picture is read and no model runs. If it is killed at any point, the next erasure
continues. Old files stay while another run may be reading them, and the list keeps them until they are deleted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from lodestone.catalog.records import ImageRecord, ImageState, Receipt, RunState, SliceRecord
from lodestone.embeddings.compaction import rows_of, unneeded_files
from lodestone.embeddings.slices import fingerprint, read_part, write_part
from lodestone.errors import EmbeddingsDamagedError
from lodestone.imaging.thumbnail_packs import PackName

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.files.area import FileArea
    from lodestone.imaging.thumbnail_packs import ThumbnailPacks

_KEPT: Final = (ImageState.ACTIVE, ImageState.FAILED, ImageState.GONE)
_ALIVE: Final = timedelta(minutes=10)  # a run without a heartbeat for longer has ended
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """Reports what was erased from the slices of a corpus.

    Attributes:
        slices: Number of slices whose files were deleted.
        rewritten: Number of slices whose other rows went into a new slice.
        again: Number of slices whose remaining pictures the next index run embeds again: they were being embedded, or a file
            was damaged.
        waiting: Number of slices whose old files are kept because another run is in progress.
        waiting_bytes: Size of these files, in bytes.
    """

    slices: int = 0
    rewritten: int = 0
    again: int = 0
    waiting: int = 0
    waiting_bytes: int = 0


@dataclass(slots=True)
class Eraser:
    """Erases removed pictures from the slices of one corpus, whose lock the caller holds.

    Attributes:
        catalog: The catalog, which is read and updated.
        area: The area that holds the embeddings files.
        packs: The packs of thumbnails.
        own_run: Id of the caller's own run, which does not count as another one; empty for none.
    """

    catalog: Catalog
    area: FileArea
    packs: ThumbnailPacks
    own_run: str = ""
    _counts: Counter[str] = field(default_factory=Counter)

    def run(self, corpus_id: str) -> ErasureReport:
        """Erase what the catalog lists for a corpus.

        Raises:
            OutOfSpaceError: There is no space for the new files; what is finished is kept.
            SourceError: The bucket cannot be read or written.
            CatalogError: The catalog failed.
        """
        self._counts = Counter()
        superseded = [record for record in self.catalog.slices_to_erase(corpus_id) if self._is_superseded(record)]
        if superseded and self._others_run():
            waiting, size = self.catalog.bytes_to_erase(corpus_id)
            self._counts.update(waiting=waiting, waiting_bytes=size)
            return ErasureReport(**self._counts)
        for record in superseded:
            self._delete_files(record)
            self.catalog.drop_slice(record.slice_id)
            self._counts["slices"] += 1
        if self._counts["slices"]:  # captions that were replaced lie in files of their own
            for path in list(unneeded_files(self.catalog, self.area, corpus_id)):
                self.area.delete(path)
        return ErasureReport(**self._counts)

    def _is_superseded(self, record: SliceRecord) -> bool:
        """Move a slice's remaining pictures elsewhere, and return whether the slice is left without any."""
        pending, others = self.catalog.count_living(record.slice_id)
        if pending:  # its files are made again once these pictures are embedded
            self._restart(record)
            return False
        if not others:
            return True
        try:
            self._replace(record)
        except EmbeddingsDamagedError as error:
            _log.warning("slice %s is embedded again: %s", record.slice_id, error.message)
            self._restart(record)
            return False
        return True

    def _replace(self, old: SliceRecord) -> None:
        """Write the rows of a slice's remaining pictures to a new slice, which takes its place."""
        images = self.catalog.slice_images(old.slice_id, states=_KEPT)
        slice_id = str(uuid4())
        name = fingerprint([(image.image_id, image.hash) for image in images], f"erased {slice_id}")
        new = SliceRecord(slice_id, old.corpus_id, name, len(images), datetime.now(UTC))
        captions = self.catalog.captions([image.image_id for image in images])
        receipts = []
        for part, receipt in sorted(self.catalog.receipts(old.slice_id).items()):
            table = rows_of(read_part(self.area, receipt), images, captions)
            written = write_part(self.area, new.corpus_id, new.fingerprint, part, table)
            receipts.append(Receipt(slice_id, part, written.path, written.rows, written.size, written.checksum, 0.0))
        self._write_pack(old, new, images)
        ids = [image.image_id for image in images]
        self.catalog.replace_slices(new, ids, receipts, old=[old.slice_id], states=_KEPT)
        self._counts["rewritten"] += 1

    def _restart(self, record: SliceRecord) -> None:
        self._delete_files(record)
        self.catalog.restart_slice(record.slice_id)
        self._counts["slices"] += 1
        self._counts["again"] += 1

    def _write_pack(self, old: SliceRecord, new: SliceRecord, images: Sequence[ImageRecord]) -> None:
        wanted = {image.hash for image in images if image.state is not ImageState.GONE}
        thumbnails = self.packs.thumbnails(PackName(old.corpus_id, old.fingerprint), wanted)
        if thumbnails:
            self.packs.write(PackName(new.corpus_id, new.fingerprint), thumbnails)

    def _delete_files(self, record: SliceRecord) -> None:
        """Delete all files of a slice, those of killed writers that have no receipt included."""
        self.packs.remove(PackName(record.corpus_id, record.fingerprint))
        for receipt in self.catalog.receipts(record.slice_id).values():
            self.area.delete(receipt.path)
        folder = f"{record.corpus_id}/{record.fingerprint[:2]}"
        for stored in list(self.area.files(folder)):
            if stored.path.startswith(f"{folder}/{record.fingerprint}."):
                self.area.delete(stored.path)

    def _others_run(self) -> bool:
        """Return whether another run may be reading the old slices at this moment."""
        now = datetime.now(UTC)
        running = [run for run in self.catalog.runs(1000, state=RunState.RUNNING) if run.run_id != self.own_run]
        return any(now - (run.heartbeat_at or run.started_at) < _ALIVE for run in running)
