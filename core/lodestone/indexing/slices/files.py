"""Parquet files of a slice: they are written from a worker's results, and those of a killed run are adopted.

A file under its final name is complete (it was renamed there). It is adopted when it can be read and holds the rows that the
task expects; otherwise it is made again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import find_part, fingerprint, read_part, write_part
from lodestone.embeddings.tables import captions_table, meta_table, outputs_table
from lodestone.files.area import FileArea
from lodestone.imaging.decode import DECODER_VERSION
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.slices.picture_inputs import PreparedPicture
from lodestone.indexing.tasks import EMBEDDED_SOURCES, META_PART, RowFailure, SliceRow, SliceTask

CAPTIONS_PREFIX = "captions-"


class PartFiles:
    """Reads and writes the Parquet files of slices in one area.

    Args:
        area: Where the embeddings are.
    """

    def __init__(self, area: FileArea) -> None:
        self._area = area

    def adopt(self, task: SliceTask, *, without_meta: bool = False) -> dict[str, Receipt]:
        """Return receipts of the task's parts that are on disk already and fit the task, by part.

        Outputs fit when they have a row for each picture that they must have: all of the task, or, where `meta` exists too,
        those that `meta` lists without an error. Captions fit by their file's name, which depends on the texts.

        Args:
            task: The task.
            without_meta: Whether `meta` is made again even if it is there.
        """
        receipts: dict[str, Receipt] = {}
        for part in task.parts:
            if without_meta and part == META_PART:
                continue
            receipt = find_part(self._area, task.corpus_id, self._name(task, part), part, slice_id=task.slice_id)
            if receipt is not None:
                receipts[part] = receipt
        planned = {row.image_id: row.hash for row in task.rows}
        needed = planned
        if META_PART in receipts:
            hashes, failures = self._meta_rows(receipts[META_PART])
            if all(hashes.get(image_id) == content for image_id, content in planned.items()):
                needed = {image_id: content for image_id, content in planned.items() if image_id not in failures}
            else:
                del receipts[META_PART]
        for part in [part for part in receipts if part != META_PART and not part.startswith(CAPTIONS_PREFIX)]:
            table = self._read(receipts[part], ("image_id", "hash"))
            rows = dict(zip(table.column("image_id").to_pylist(), table.column("hash").to_pylist(), strict=True))
            if any(rows.get(image_id) != content for image_id, content in needed.items()):
                del receipts[part]
        return receipts

    def usable(self, task: SliceTask, meta: Receipt) -> tuple[tuple[SliceRow, ...], tuple[RowFailure, ...]]:
        """Return the task's pictures that an adopted `meta` lists without an error, with their captions, and its failures."""
        table = self._read(meta, ("image_id", "uri", "captions", "error_code", "error_message"))
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

    def write_outputs(
        self, task: SliceTask, part: str, rows: Sequence[SliceRow], outputs: Mapping[str, NDArray[np.float16]]
    ) -> Receipt:
        """Write one backbone's outputs for `rows`."""
        table = outputs_table([row.image_id for row in rows], [row.hash for row in rows], outputs, metadata={"part": part})
        return self._write(task, part, table)

    def write_captions(
        self, task: SliceTask, part: str, captions: Sequence[tuple[str, str, str]], vectors: NDArray[np.float32]
    ) -> Receipt:
        """Write (image id, source, text) rows with their vectors."""
        return self._write(task, part, captions_table(captions, vectors, metadata={"part": part}))

    def write_meta(self, task: SliceTask, pictures: Sequence[PreparedPicture], failures: Sequence[RowFailure]) -> Receipt:
        """Write the metadata or the failure of each picture of the task, in the task's order."""
        fine = {picture.row.image_id: _meta(picture) for picture in pictures}
        failed = {f.image_id: {"error_code": f.code, "error_message": f.message} for f in failures}
        rows = [_planned(row) | (fine.get(row.image_id) or failed[row.image_id]) for row in task.rows]
        return self._write(task, META_PART, meta_table(rows, metadata={"decoder": DECODER_VERSION}))

    def _write(self, task: SliceTask, part: str, table: pa.Table) -> Receipt:
        started = time.perf_counter()
        written = write_part(self._area, task.corpus_id, self._name(task, part), part, table)
        return Receipt(
            slice_id=task.slice_id,
            part=part,
            path=written.path,
            rows=written.rows,
            size=written.size,
            checksum=written.checksum,
            seconds=time.perf_counter() - started,
        )

    def _name(self, task: SliceTask, part: str) -> str:
        """Return the fingerprint in the file's name.

        It is the slice's; for captions, which may change alone, it also depends on their texts.
        """
        if not part.startswith(CAPTIONS_PREFIX):
            return task.fingerprint
        pixels = META_PART in task.parts
        texts = [
            (row.image_id, "\n".join(f"{source}\t{text}" for source, text in (known_captions(row) if pixels else row.captions)))
            for row in task.rows
        ]
        return fingerprint(texts, f"{task.fingerprint}{'' if pixels else '+'}")

    def _meta_rows(self, meta: Receipt) -> tuple[dict[str, str], set[str]]:
        table = self._read(meta, ("image_id", "hash", "error_code"))
        ids = table.column("image_id").to_pylist()
        hashes = dict(zip(ids, table.column("hash").to_pylist(), strict=True))
        codes = table.column("error_code").to_pylist()
        return hashes, {image_id for image_id, code in zip(ids, codes, strict=True) if code is not None}

    def _read(self, receipt: Receipt, columns: Sequence[str]) -> pa.Table:
        return read_part(self._area, receipt, columns=columns)


def known_captions(row: SliceRow) -> tuple[tuple[str, str], ...]:
    """Return the captions that do not come from inside the picture's own file."""
    return tuple(pair for pair in row.captions if pair[0] not in EMBEDDED_SOURCES)


def _planned(row: SliceRow) -> dict[str, Any]:
    return {"image_id": row.image_id, "uri": row.uri, "hash": row.hash, "size": row.size, "mtime_ns": row.mtime_ns}


def _meta(picture: PreparedPicture) -> dict[str, Any]:
    about = picture.metadata
    return {
        "width": picture.width,
        "height": picture.height,
        "format": picture.format,
        "taken_at": about.taken_at,
        "latitude": about.latitude,
        "longitude": about.longitude,
        "camera": " ".join(part for part in (about.camera_make, about.camera_model) if part) or None,
        "utc_offset_minutes": about.utc_offset_minutes,
        "taken_subsec_ms": about.taken_subsec_ms,
        "camera_make": about.camera_make,
        "camera_model": about.camera_model,
        "metadata_version": METADATA_VERSION,
        "taken_precision": about.taken_precision,
        "taken_source": about.taken_source,
        "taken_zone": about.taken_zone,
        "decoded_share": picture.decoded_share,
        "captions": [{"source": source, "text": text} for source, text in picture.captions],
    }
