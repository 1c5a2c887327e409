"""Outcomes of attempts at slices: an attempt's end, its receipts and what became of its pictures, in one transaction.

This is what the driver of an index run does for every picture. So the few facts that decide about the consequences of a change
are read for a whole slice by one query, pictures are changed by one statement, and rows of other tables (captions, failures,
tombstones, tags) are touched only for pictures that have any. The consequences are those of `ImageRows.update_images`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Table,
    bindparam,
    case,
    delete,
    exists,
    false,
    select,
    update,
)

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, update_rows, upsert
from lodestone.catalog.embeddings.slice_parts import save_receipts
from lodestone.catalog.pictures.captions import replace_captions
from lodestone.catalog.pictures.deletions import lift, mark_deleted
from lodestone.catalog.pictures.images import DEAD
from lodestone.catalog.pictures.photo_facts import PHOTO_FACTS
from lodestone.catalog.records import AttemptState, Failure, ImageState, Receipt
from lodestone.catalog.use.tags import queue_known
from lodestone.errors import NotFoundError

_IMAGES: Final = tables.images.c
_PLAIN: Final = ("width", "height", "format", "decoded_share")
OUTCOME_COLUMNS: Final = (*_PLAIN, *PHOTO_FACTS, "metadata_version")
"""Columns of a picture that its embedding fills, in the order of `PictureOutcome`."""
_STATES: Final = (ImageState.PENDING.value, ImageState.ACTIVE.value, ImageState.FAILED.value)


class PictureOutcome(NamedTuple):
    """What became of one picture of a slice: its facts, as in `ImageRecord`, or its failure.

    `captions` are (source, text) pairs from inside the picture's file. With an `error_code`, everything before it is ignored.
    A `metadata_version` of 0 says that its reader did not read time, place and camera.
    """

    image_id: str
    width: int
    height: int
    format: str
    decoded_share: float | None = None
    taken_at: int | None = None
    latitude: float | None = None
    longitude: float | None = None
    utc_offset_minutes: int | None = None
    taken_subsec_ms: int | None = None
    camera_make: str | None = None
    camera_model: str | None = None
    taken_precision: str | None = None
    taken_source: str | None = None
    taken_zone: str | None = None
    metadata_version: int = 0
    captions: Sequence[tuple[str, str]] = ()
    error_code: str | None = None
    error_message: str | None = None


_CAPTIONS_AT: Final = PictureOutcome._fields.index("captions")
_PLAIN_END: Final = 1 + len(_PLAIN)


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """Outcome of one attempt at a slice.

    Attributes:
        slice_id: The slice.
        attempt: Number of the attempt.
        run_id: Run of the attempt; failures are recorded for it.
        state: Any `AttemptState` but RUNNING.
        worker: Worker of the attempt (`host:pid`).
        embedded: Number of pictures embedded.
        seconds: Duration of the attempt.
        error: Why it did not succeed.
        receipts: Receipts of the parts that it finished.
        pictures: What became of the slice's pictures, if the attempt finished its `meta` part.
        reloads: Whether the parts that it finished give points filter fields, so that the slice is loaded again.
    """

    slice_id: str
    attempt: int
    run_id: str
    state: AttemptState
    worker: str = ""
    embedded: int = 0
    seconds: float = 0.0
    error: str = ""
    receipts: Sequence[Receipt] = ()
    pictures: Sequence[PictureOutcome] = ()
    reloads: bool = False


@dataclass(frozen=True, slots=True)
class RecordedSlice:
    """Counts of one slice: pictures that can be found now, those of them that are incomplete, and those that cannot be used."""

    active: int = 0
    failed: int = 0
    incomplete: int = 0


class _Member(NamedTuple):
    """The facts of a picture that decide about the consequences of its outcome; the last three say which rows it has."""

    image_id: str
    root_id: str
    uri: str
    state: str
    taken_at: int | None
    utc_offset_minutes: int | None
    taken_precision: str | None
    metadata_version: int
    has_captions: bool
    has_failures: bool
    has_tombstone: bool

    def is_shown_otherwise(self, picture: PictureOutcome) -> bool:
        if self.state in DEAD:
            return True
        if self.keeps_facts(picture):
            return False
        return (self.taken_at, self.utc_offset_minutes, self.taken_precision) != (
            picture.taken_at,
            picture.utc_offset_minutes,
            picture.taken_precision,
        )

    def keeps_facts(self, picture: PictureOutcome) -> bool:
        """Return whether an older reader read time, place and camera than what the catalog has of them."""
        return picture.metadata_version < self.metadata_version


class OutcomeRows(CatalogBase):
    """Part of the catalog that records the outcomes of attempts at slices."""

    def record_outcome(self, outcome: SliceOutcome, *, sources: Sequence[str]) -> RecordedSlice:
        """Record the outcome of an attempt, all of it or nothing. Idempotent.

        On SQLite it does not wait for the disk: if a power cut takes it back, the slice's files are adopted, as when the driver
        was killed before.

        Pictures that are gone or have left the slice meanwhile are left alone.

        Args:
            outcome: The outcome.
            sources: Sources of captions that `PictureOutcome.captions` replaces.

        Raises:
            NotFoundError: There is no such attempt; nothing was recorded.
        """

        def change(connection: Connection) -> RecordedSlice:
            recorded = _record_pictures(connection, outcome, sources) if outcome.pictures else RecordedSlice()
            _end_attempt(connection, outcome, failed=recorded.failed)
            save_receipts(connection, outcome.receipts)
            if outcome.reloads:
                connection.execute(delete(tables.loads).where(tables.loads.c.slice_id == outcome.slice_id))
            return recorded

        return self._write(change, awaits_disk=False)


def _record_pictures(connection: Connection, outcome: SliceOutcome, sources: Sequence[str]) -> RecordedSlice:
    rows = connection.execute(_MEMBERS, {"of_slice": outcome.slice_id, "caption_sources": list(sources)}).all()
    members = {row[0]: _Member._make(row) for row in rows}
    known = [(members[picture.image_id], picture) for picture in outcome.pictures if picture.image_id in members]
    fine = [(member, picture) for member, picture in known if picture.error_code is None]
    failed = [(member, picture) for member, picture in known if picture.error_code is not None]
    _set_facts(connection, fine)
    replace_captions(
        connection,
        {member.image_id: picture.captions for member, picture in fine},
        sources=sources,
        described=[member.image_id for member, _ in fine if member.has_captions],
    )
    for member, _ in fine:
        if member.has_failures:
            table = tables.failures
            connection.execute(delete(table).where(table.c.root_id == member.root_id, table.c.uri == member.uri))
    lift(connection, [member.image_id for member, _ in fine if member.has_tombstone])
    _set_failed(connection, failed, outcome.run_id)
    shown_otherwise = [member for member, picture in fine if member.is_shown_otherwise(picture)]
    hidden = [member for member, _ in failed if member.state not in DEAD]
    mark_deleted(connection, [member.image_id for member in hidden])
    fresh = [
        member
        for member, picture in fine
        if member.state != ImageState.ACTIVE or picture.metadata_version > member.metadata_version
    ]
    queue_known(connection, {member.image_id for member in (*hidden, *fresh, *shown_otherwise)})
    if any(member.state != ImageState.PENDING for member in shown_otherwise):  # the stores hold it as it was before
        connection.execute(delete(tables.loads).where(tables.loads.c.slice_id == outcome.slice_id))
    incomplete = sum(picture.decoded_share is not None for _, picture in fine)
    return RecordedSlice(active=len(fine), failed=len(failed), incomplete=incomplete)


def _set_facts(connection: Connection, fine: Iterable[tuple[_Member, PictureOutcome]]) -> None:
    """Set the columns of pictures that are embedded. A file that is older than what was read since keeps the newer facts."""
    whole: list[tuple[Any, ...]] = []
    plain: list[tuple[Any, ...]] = []
    active = (ImageState.ACTIVE.value,)
    for member, picture in fine:
        if member.keeps_facts(picture):
            plain.append(picture[:_PLAIN_END] + active)
        else:
            whole.append(picture[:_CAPTIONS_AT] + active)
    update_rows(connection, _IMAGES.image_id, _WHOLE, whole)
    update_rows(connection, _IMAGES.image_id, _SHORT, plain)


def _set_failed(connection: Connection, failed: Sequence[tuple[_Member, PictureOutcome]], run_id: str) -> None:
    for chunk in chunks(member.image_id for member, _ in failed):
        connection.execute(update(tables.images).where(_IMAGES.image_id.in_(chunk)).values(state=ImageState.FAILED.value))
    failures = [
        Failure(run_id, member.root_id, member.uri, picture.error_code or "", picture.error_message or "", member.image_id)
        for member, picture in failed
    ]
    upsert(connection, tables.failures, [asdict(failure) for failure in failures])


def _end_attempt(connection: Connection, outcome: SliceOutcome, *, failed: int) -> None:
    changed = {
        "of_slice": outcome.slice_id,
        "of_attempt": outcome.attempt,
        "state": AttemptState(outcome.state).value,
        "worker": outcome.worker,
        "embedded": outcome.embedded,
        "failed": failed,
        "seconds": outcome.seconds,
        "error": outcome.error,
    }
    if not connection.execute(_END_ATTEMPT, changed).rowcount:
        raise NotFoundError(
            f"there is no try {outcome.attempt} at slice {outcome.slice_id!r}",
            hint="its corpus may have been removed meanwhile",
        )


_WHOLE: Final = tuple(_IMAGES[name] for name in (*OUTCOME_COLUMNS, "state"))
_SHORT: Final = tuple(_IMAGES[name] for name in (*_PLAIN, "state"))
_CAPTIONS, _FAILURES, _TOMBSTONES = tables.captions.c, tables.failures.c, tables.tombstones.c
_SOURCES: Final[BindParameter[Any]] = bindparam("caption_sources", expanding=True)


def _has(table: Table, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return whether the picture has such a row. An empty table is looked at once, and not for each picture."""
    first = select(next(iter(table.primary_key))).limit(1).scalar_subquery()
    return case((first.is_not(None), exists().where(*conditions)), else_=false())


# Statements stand here, so that they are made and compiled once.
_MEMBERS: Final = select(
    _IMAGES.image_id,
    _IMAGES.root_id,
    _IMAGES.uri,
    _IMAGES.state,
    _IMAGES.taken_at,
    _IMAGES.utc_offset_minutes,
    _IMAGES.taken_precision,
    _IMAGES.metadata_version,
    _has(tables.captions, _CAPTIONS.image_id == _IMAGES.image_id, _CAPTIONS.source.in_(_SOURCES)),
    _has(tables.failures, _FAILURES.root_id == _IMAGES.root_id, _FAILURES.uri == _IMAGES.uri),
    _has(tables.tombstones, _TOMBSTONES.image_id == _IMAGES.image_id),
).where(_IMAGES.slice_id == bindparam("of_slice"), _IMAGES.state.in_(_STATES))
_ATTEMPTS = tables.slice_attempts.c
_END_ATTEMPT: Final = update(tables.slice_attempts).where(
    _ATTEMPTS.slice_id == bindparam("of_slice"), _ATTEMPTS.attempt == bindparam("of_attempt")
)
