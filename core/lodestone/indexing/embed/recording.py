"""Recording of a finished slice in the catalog.

It reads the slice's `meta` file, so that fresh and adopted slices take the same path.

Pictures are written first; then the receipts and the end of the attempt, in one transaction. After a crash in between, the
slice still counts as unfinished, its files are adopted, and the same rows are written again. So the attempts of a run tell what
it finished, however it ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.pictures.photo_facts import PHOTO_FACTS
from lodestone.catalog.records import AttemptState, CaptionRecord, Failure, ImageRecord, ImageState, Receipt
from lodestone.embeddings.slices import read_part
from lodestone.errors import LodestoneError, WorkerDiedError
from lodestone.files.area import FileArea
from lodestone.indexing.tasks import EMBEDDED_SOURCES, META_PART, SliceReceipt

_PLAIN = ("width", "height", "format", "taken_at")
_WRITTEN = ("state", *_PLAIN, *PHOTO_FACTS, "metadata_version")
_READ = ("image_id", *_PLAIN, *PHOTO_FACTS, "metadata_version", "captions", "error_code", "error_message")


@dataclass(frozen=True, slots=True)
class RecordedSlice:
    """Counts of one slice: `active` pictures that can be found now, and `failed` ones that cannot be used."""

    active: int = 0
    failed: int = 0


def record_slice(catalog: Catalog, embeddings: FileArea, receipt: SliceReceipt, *, run_id: str, attempt: int) -> RecordedSlice:
    """Write the result of an attempt at a slice to the catalog. Idempotent.

    Args:
        catalog: Written.
        embeddings: Area where the worker left its files.
        receipt: The worker's receipt.
        run_id: The run of the attempt.
        attempt: Number of the attempt.
    """
    meta = next((part for part in receipt.receipts if part.part == META_PART), None)
    recorded = RecordedSlice() if meta is None else _record_meta(catalog, embeddings, meta, run_id)
    catalog.end_attempt(
        receipt.slice_id,
        attempt,
        _state(receipt.error),
        worker=receipt.worker,
        embedded=receipt.embedded,
        failed=recorded.failed,
        seconds=receipt.seconds,
        error="" if receipt.error is None else receipt.error.message,
        receipts=receipt.receipts,
    )
    return recorded


def _record_meta(catalog: Catalog, embeddings: FileArea, meta: Receipt, run_id: str) -> RecordedSlice:
    rows: dict[str, dict[str, Any]] = {row["image_id"]: row for row in read_part(embeddings, meta, columns=_READ).to_pylist()}
    states = (ImageState.PENDING, ImageState.ACTIVE, ImageState.FAILED)
    members = [m for m in catalog.slice_images(meta.slice_id, states=states) if m.image_id in rows]
    updates = [_updated(member, rows[member.image_id]) for member in members]
    captions: dict[str, list[CaptionRecord]] = {}
    failures: list[Failure] = []
    fine: defaultdict[str, list[str]] = defaultdict(list)
    for image in updates:
        row = rows[image.image_id]
        if image.state is ImageState.FAILED:
            failures.append(
                Failure(run_id, image.root_id, image.uri, row["error_code"], row["error_message"] or "", image.image_id)
            )
            continue
        fine[image.root_id].append(image.uri)
        inside = [caption for caption in row["captions"] or () if caption["source"] in EMBEDDED_SOURCES]
        captions[image.image_id] = [CaptionRecord(image.image_id, c["source"], c["text"]) for c in inside]
    catalog.set_captions(captions, sources=EMBEDDED_SOURCES)
    for root_id, uris in fine.items():
        catalog.clear_failures(root_id, uris)
    catalog.add_failures(failures)
    catalog.update_images(updates, columns=_WRITTEN)
    return RecordedSlice(active=len(updates) - len(failures), failed=len(failures))


def _updated(image: ImageRecord, row: dict[str, Any]) -> ImageRecord:
    if row["error_code"] is not None:
        return replace(image, state=ImageState.FAILED)
    fields = {name: row[name] for name in _PLAIN}
    version = row.get("metadata_version") or 0
    if version or not image.metadata_version:  # else the file is older than what was read from the picture's header since
        fields |= {name: row.get(name) for name in PHOTO_FACTS} | {"metadata_version": version}
    return replace(image, state=ImageState.ACTIVE, **fields)


def _state(error: LodestoneError | None) -> AttemptState:
    if error is None:
        return AttemptState.DONE
    return AttemptState.DIED if isinstance(error, WorkerDiedError) else AttemptState.FAILED
