"""Part of a picture: facts of its file. Every slice has this part, `meta`, which is written last and marks it as complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lodestone.embeddings.tables import meta_table
from lodestone.imaging.decode import DECODER_VERSION
from lodestone.imaging.metadata import METADATA_VERSION, read_metadata
from lodestone.indexing.parts.contract import FinishedSlice, Made, OpenedPicture, PartResult, PictureGroup, Reads, SlicePart
from lodestone.indexing.tasks import META_PART, SliceRow
from lodestone.sources.uris import name_of
from lodestone_schemas.arrow import META_SCHEMA


class MetadataPart(SlicePart):
    """Keeps size, format, time, place, camera and captions of a picture, or why it could not be used: one row for each."""

    name = META_PART
    reads = Reads.METADATA
    version = "1"  # of the columns; its readers have versions of their own, which the rows tell

    @property
    def file(self) -> str:
        """Return `meta`, without a version: what a newer reader would read otherwise is filled in by the scan."""
        return META_PART

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of `meta`."""
        return META_SCHEMA

    def prepare(self, picture: OpenedPicture) -> dict[str, Any]:
        """Return the columns of a picture, without those of its row."""
        decoded = picture.decoded
        about = read_metadata(decoded.embedded, name=name_of(picture.row.uri))
        return {
            "width": decoded.width,
            "height": decoded.height,
            "format": decoded.format,
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
            "decoded_share": decoded.decoded_share,
            "captions": [{"source": source, "text": text} for source, text in picture.captions],
        }

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        """Return what was read when the pictures were opened."""
        return [Made(columns) for columns in pictures.prepared]

    def table(self, finished: FinishedSlice) -> pa.Table:
        """Return the facts or the failure of each picture of the task, in the task's order."""
        fine = {
            row.image_id: result.value
            for row, result in zip(finished.rows, finished.results, strict=True)
            if isinstance(result, Made)
        }
        failed = {f.image_id: {"error_code": f.code, "error_message": f.message} for f in finished.failures}
        rows = [
            _planned(row) | (fine[row.image_id] if row.image_id in fine else failed[row.image_id]) for row in finished.task.rows
        ]
        return meta_table(rows, metadata={"decoder": DECODER_VERSION})


def _planned(row: SliceRow) -> dict[str, Any]:
    return {"image_id": row.image_id, "uri": row.uri, "hash": row.hash, "size": row.size, "mtime_ns": row.mtime_ns}
