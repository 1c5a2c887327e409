"""Recording of a finished slice in the catalog.

It reads the slice's `meta` file, so that fresh and adopted slices take the same path.

Pictures, receipts and the end of the attempt are written in one transaction. After a crash before it, the slice still counts as
unfinished, and its files are adopted. So the attempts of a run tell what it finished, however it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.embeddings.outcomes import PictureOutcome, RecordedSlice, SliceOutcome
from lodestone.catalog.records import AttemptState, Receipt
from lodestone.embeddings.slices import read_part
from lodestone.errors import InvalidRequestError, LodestoneError, WorkerDiedError
from lodestone.files.area import FileArea
from lodestone.imaging.failures import FailureReason
from lodestone.imaging.metadata import read_by
from lodestone.indexing.parts.registry import further_parts
from lodestone.indexing.tasks import EMBEDDED_SOURCES, META_PART, SliceReceipt

_COLUMNS: Final = PictureOutcome._fields


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
    outcome = SliceOutcome(
        slice_id=receipt.slice_id,
        attempt=attempt,
        run_id=run_id,
        state=_state(receipt.error),
        worker=receipt.worker,
        embedded=receipt.embedded,
        seconds=receipt.seconds,
        error="" if receipt.error is None else receipt.error.message,
        receipts=receipt.receipts,
        pictures=() if meta is None else _pictures(embeddings, meta),
        reloads=any(part.fields and part.file == done.part for part in further_parts() for done in receipt.receipts),
    )
    try:
        return catalog.record_outcome(outcome, sources=EMBEDDED_SOURCES)
    except InvalidRequestError:
        kept = replace(outcome, pictures=[_kept_or_failed(catalog, outcome, picture) for picture in outcome.pictures])
        return catalog.record_outcome(kept, sources=EMBEDDED_SOURCES)


def _kept_or_failed(catalog: Catalog, outcome: SliceOutcome, picture: PictureOutcome) -> PictureOutcome:
    """Return what became of a picture, or its failure where the catalog refuses what its file states."""
    try:
        catalog.record_outcome(replace(outcome, pictures=(picture,), receipts=()), sources=EMBEDDED_SOURCES)
    except InvalidRequestError as error:
        return picture._replace(error_code=FailureReason.UNREADABLE.value, error_message=error.message)
    return picture


def _pictures(embeddings: FileArea, meta: Receipt) -> list[PictureOutcome]:
    table = read_part(embeddings, meta, columns=_COLUMNS)
    columns = {name: _values(table, name) for name in _COLUMNS}
    columns["metadata_version"] = [read_by(version) for version in columns["metadata_version"]]
    columns["captions"] = [_from_inside(captions) for captions in columns["captions"]]
    return list(map(PictureOutcome, *columns.values()))


def _values(table: pa.Table, name: str) -> Sequence[Any]:
    """Return the values of a column; null for all rows where an older file does not have it."""
    column = table.column(name) if name in table.column_names else None
    if column is None or column.null_count == len(column):  # most columns of pictures that are no photos
        return [None] * table.num_rows
    values: list[Any] = column.to_pylist()
    return values


def _from_inside(captions: Iterable[Mapping[str, str]] | None) -> tuple[tuple[str, str], ...]:
    if not captions:
        return ()
    return tuple((caption["source"], caption["text"]) for caption in captions if caption["source"] in EMBEDDED_SOURCES)


def _state(error: LodestoneError | None) -> AttemptState:
    if error is None:
        return AttemptState.DONE
    return AttemptState.DIED if isinstance(error, WorkerDiedError) else AttemptState.FAILED
