"""Parquet files of a slice: they are written from a worker's results, and those of a killed run are adopted.

A file under its final name is complete (it was renamed there). It is adopted when it can be read and holds the rows that the
task expects; otherwise it is made again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import find_part, read_part, write_part
from lodestone.files.area import FileArea
from lodestone.indexing.parts.captions import known_captions
from lodestone.indexing.parts.contract import SlicePart
from lodestone.indexing.tasks import EMBEDDED_SOURCES, META_PART, RowFailure, SliceRow, SliceTask


class PartFiles:
    """Reads and writes the Parquet files of slices in one area.

    Args:
        area: Where the embeddings are.
    """

    def __init__(self, area: FileArea) -> None:
        self._area = area

    def adopt(self, task: SliceTask, parts: Sequence[SlicePart], *, without_meta: bool = False) -> dict[str, Receipt]:
        """Return receipts of parts that are on disk already and fit the task, by the names of their files.

        A part says whether its file fits the pictures that it must have: all of the task, or, where `meta` exists too, those
        that `meta` lists without an error.

        Args:
            task: The task.
            parts: Parts that the task lacks.
            without_meta: Whether `meta` is made again even if it is there.
        """
        receipts: dict[str, Receipt] = {}
        for part in parts:
            if without_meta and part.file == META_PART:
                continue
            receipt = find_part(self._area, task.corpus_id, part.file_key(task), part.file, slice_id=task.slice_id)
            if receipt is not None:
                receipts[part.file] = receipt
        planned = {row.image_id: row.hash for row in task.rows}
        needed = planned
        if META_PART in receipts:
            hashes, failures = self._meta_rows(receipts[META_PART])
            if all(hashes.get(image_id) == content for image_id, content in planned.items()):
                needed = {image_id: content for image_id, content in planned.items() if image_id not in failures}
            else:
                del receipts[META_PART]
        for part in parts:
            receipt = receipts.get(part.file)
            if receipt is not None and part.file != META_PART and not part.fits(partial(self.read, receipt), needed):
                del receipts[part.file]
        return receipts

    def usable(self, task: SliceTask, meta: Receipt) -> tuple[tuple[SliceRow, ...], tuple[RowFailure, ...]]:
        """Return the task's pictures that an adopted `meta` lists without an error, with their captions, and its failures."""
        table = self.read(meta, ("image_id", "uri", "captions", "error_code", "error_message"))
        inside: dict[str, tuple[tuple[str, str], ...]] = {}
        failures: list[RowFailure] = []
        for row in table.to_pylist():
            if row["error_code"] is not None:
                failures.append(RowFailure(row["image_id"], row["uri"], row["error_code"], row["error_message"] or ""))
                continue
            pairs = ((caption["source"], caption["text"]) for caption in row["captions"] or ())
            inside[row["image_id"]] = tuple(pair for pair in pairs if pair[0] in EMBEDDED_SOURCES)
        rows = tuple(
            row._replace(captions=tuple(dict.fromkeys((*known_captions(row), *inside[row.image_id]))))
            for row in task.rows
            if row.image_id in inside
        )
        return rows, tuple(failures)

    def write(self, task: SliceTask, part: SlicePart, table: pa.Table) -> Receipt:
        """Write the rows of a part.

        Raises:
            OutOfSpaceError: the disk is full; no partial file is left.
        """
        started = time.perf_counter()
        written = write_part(self._area, task.corpus_id, part.file_key(task), part.file, table)
        return Receipt(
            slice_id=task.slice_id,
            part=part.file,
            path=written.path,
            rows=written.rows,
            size=written.size,
            checksum=written.checksum,
            seconds=time.perf_counter() - started,
        )

    def read(self, receipt: Receipt, columns: Sequence[str] | None = None) -> pa.Table:
        """Read columns of a part's file; None for all.

        Raises:
            EmbeddingsDamagedError: the file is missing or damaged.
        """
        return read_part(self._area, receipt, columns=columns)

    def _meta_rows(self, meta: Receipt) -> tuple[dict[str, str], set[str]]:
        table = self.read(meta, ("image_id", "hash", "error_code"))
        ids = table.column("image_id").to_pylist()
        hashes = dict(zip(ids, table.column("hash").to_pylist(), strict=True))
        codes = table.column("error_code").to_pylist()
        return hashes, {image_id for image_id, code in zip(ids, codes, strict=True) if code is not None}
