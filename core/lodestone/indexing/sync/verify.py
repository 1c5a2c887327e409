"""Verification that a collection holds what catalog and Parquet files say: by count, by slice, and by projecting vectors again.

`verify` is the quick check after each load: the count, the points of some slices, and a few vectors. `examine` checks every
slice, so that equal numbers of surplus and missing points do not hide each other; `repair_collection` loads wrong slices again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lodestone.catalog.records import SliceRecord
from lodestone.errors import CollectionDamagedError, EmbeddingsDamagedError, StoreError
from lodestone.indexing.progress import Meter, Progress, ProgressEvent, RunStage
from lodestone.indexing.sync.loading import groups
from lodestone.indexing.sync.targets import Target
from lodestone.store.base import Filter, HasId, VectorStore

# For two unit vectors this distance is a cosine of 0.99999. A distance, because a lengthened vector would always rank first.
MOST_DISTANCE: Final = 0.0045
_COUNTED: Final = 16  # slices whose points the quick check counts
_COMPARED: Final = 3  # slices of which it compares vectors
_ROWS: Final = 8  # fewest vectors compared per slice, because reading its files takes most of the time
_SHOWN: Final = 10  # ids shown of each kind of difference
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class CollectionVerification:
    """Result of `examine` for one collection.

    Attributes:
        alias: Name of the space, or `captions`.
        collection: Name of the collection.
        exists: True when the collection exists.
        standing_by: True when it belongs to a model swap and is not searched: it may be anywhere between new and complete.
        promoted: True when the alias points at it, or need not.
        points: Number of points in the store.
        expected: Number of points of embedded slices in the catalog.
        unloaded: Pictures embedded and not loaded yet; `lodestone index` loads them.
        missing: Points of loaded slices that the store lacks.
        surplus: Points that the catalog does not know.
        compared: Points compared with their Parquet rows.
        looked_into: Number of slices that the compared points belong to.
        differing: Compared points whose vector differs.
        stale: Compared points whose filter fields differ.
        damaged: Messages about stored files that are missing or truncated.
        examples: Ids of some points that are wrong.
        slices: Slices with wrong points.
        broken: Why the collection cannot be read at all, and has to be rebuilt; empty if it can.
    """

    alias: str
    collection: str
    exists: bool = True
    standing_by: bool = False
    promoted: bool = True
    points: int = 0
    expected: int = 0
    unloaded: int = 0
    missing: int = 0
    surplus: int = 0
    compared: int = 0
    looked_into: int = 0
    differing: int = 0
    stale: int = 0
    damaged: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    slices: tuple[SliceRecord, ...] = ()
    broken: str = ""

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong; pictures that wait to be loaded are not an error."""
        wrong = self.broken or self.missing or self.surplus or self.differing or self.stale or self.damaged
        return (self.exists or self.standing_by) and self.promoted and not wrong


def verify(store: VectorStore, target: Target, *, progress: Progress) -> StoreError | None:
    """Compare the collection with the catalog; return the difference as the error to raise, or None.

    Raises:
        EmbeddingsDamagedError: a sampled slice's file is missing or damaged.
    """
    progress(ProgressEvent(RunStage.VERIFY, detail=target.collection))
    least, most = target.expected()
    points = store.count(target.collection)
    if not least <= points <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        return _difference_error(target, f"holds {points} points; the catalog has {wanted}")
    chosen = _sample(target, _COUNTED)
    for record in chosen:
        if lacking := _missing_points(store, target, target.point_ids(record)):
            return _difference_error(target, f"lacks {len(lacking)} of a slice's points, and holds as many that nobody knows")
    for record in chosen[:_COMPARED]:
        _, wrong, _, worst = _compare(store, target, record, rows=_ROWS)
        if wrong:
            return _difference_error(target, f"holds a vector that differs from its projection (distance {worst:.5f})")
    return None


def examine(
    store: VectorStore, target: Target, *, progress: Progress, sample: int | None = 1000, draw: random.Random | None = None
) -> CollectionVerification:
    """Compare every slice of the collection with the catalog, without changing anything. Memory holds one slice.

    Args:
        store: Vector store that holds the collection.
        target: The collection.
        progress: Called for each slice.
        sample: Approximate number of points whose vectors and filter fields are compared with their Parquet rows, spread
            evenly; None for all.
        draw: Random generator that chooses them; None for a new one.
    """
    try:
        return _examine(store, target, progress=progress, sample=sample, draw=draw)
    except CollectionDamagedError as error:
        return CollectionVerification(target.alias, target.collection, standing_by=not target.promoted, broken=error.message)


def _examine(
    store: VectorStore, target: Target, *, progress: Progress, sample: int | None, draw: random.Random | None
) -> CollectionVerification:
    result = CollectionVerification(target.alias, target.collection, standing_by=not target.promoted)
    _, unloaded = target.catalog.count_unloaded(target.collection, parts=target.required)
    if target.collection not in store.collections():
        nothing = not any(target.catalog.slices())  # was indexed, so no collection is needed
        return replace(result, exists=nothing, promoted=nothing or not target.promoted, unloaded=unloaded)
    promoted = not target.promoted or store.aliases().get(target.alias) == target.collection
    points = store.count(target.collection)
    store.examine_files(target.collection)
    checker = _SliceChecker(store, target, sample, draw or random.Random())  # noqa: S311 - a sample, not a secret
    meter = Meter(progress, RunStage.VERIFY, total=checker.total, detail=target.collection)
    for record in target.catalog.slices():
        checker.at(record)
        meter.add(1)
    orphan_points: list[str] = []
    if points != checker.expected - checker.lost:  # points of pictures that wait to be embedded again are known to the catalog
        for batch in store.scroll(target.collection, batch_size=_PAGE):
            orphan_points += target.orphan_points(batch)
    return replace(
        result,
        promoted=promoted,
        points=points,
        expected=checker.expected,
        unloaded=unloaded,
        missing=checker.missing,
        surplus=len(orphan_points),
        compared=checker.compared,
        looked_into=checker.looked_into,
        differing=checker.differing,
        stale=checker.stale,
        damaged=tuple(checker.damaged),
        examples=(*checker.examples[:_SHOWN], *orphan_points[:_SHOWN]),
        slices=tuple(checker.wrong),
    )


class _SliceChecker:
    """Checks slices one after the other and counts what is wrong, for `CollectionVerification`."""

    def __init__(self, store: VectorStore, target: Target, sample: int | None, draw: random.Random) -> None:
        self._store, self._target, self._sample, self._draw = store, target, sample, draw
        catalog = target.catalog
        sizes = [record.rows for record in catalog.slices()]
        self.total = len(sizes)
        if sample is not None and sample >= sum(sizes):
            self._sample = None
        self._every = 1
        if self._sample:
            rows = min(_ROWS, max(sum(sizes) // (2 * self.total), 1))
            self._every = min(max(self.total * rows // self._sample, 1), self.total)
        self._turn = draw.randrange(self._every)
        self._visits = len(range(self._turn, self.total, self._every))  # slices of which vectors are still to be compared
        unloaded = catalog.unloaded_slices(target.collection, parts=target.required)
        self._waiting = {record.slice_id for record in unloaded}
        self._number = 0
        self.expected = self.lost = self.missing = self.compared = self.looked_into = self.differing = self.stale = 0
        self.damaged: list[str] = []
        self.examples: list[str] = []
        self.wrong: list[SliceRecord] = []

    def at(self, record: SliceRecord) -> None:
        """Check one slice and add what is wrong to the counts."""
        target = self._target
        chosen = self._sample != 0 and self._number % self._every == self._turn
        self._number += 1
        rows = self._rows() if chosen else None
        ids = target.point_ids(record)
        if not ids or not set(target.required) <= target.catalog.receipts(record.slice_id).keys():
            return
        self.expected += len(ids)
        lacking = _missing_points(self._store, target, ids)
        self.lost += len(lacking)
        if record.slice_id in self._waiting:
            return
        self.missing += len(lacking)
        ours = [*lacking]
        if chosen:
            ours += self._compare(record, rows)
        if ours:
            self.examples += ours[: _SHOWN - len(self.examples)]
            self.wrong.append(record)

    def _rows(self) -> int | None:
        """Return how many vectors of this slice to compare: an equal part of the rest of the sample.

        Small slices leave the rest of their part to later ones.
        """
        if self._sample is None:
            return None
        rows = -(-(self._sample - self.compared) // max(self._visits, 1))
        self._visits -= 1
        return max(rows, 0)

    def _compare(self, record: SliceRecord, rows: int | None) -> list[str]:
        try:
            compared, others, fields, _ = _compare(self._store, self._target, record, rows=rows, draw=self._draw)
        except EmbeddingsDamagedError as error:
            self.damaged.append(error.message)
            return []
        self.compared += compared
        self.looked_into += compared > 0
        self.differing += len(others)
        self.stale += len(fields)
        return [*others, *fields]


def repair_collection(store: VectorStore, target: Target, found: CollectionVerification) -> int:
    """Load the wrong slices again and delete points that the catalog does not know; return the number of points written.

    A missing collection, or one without its alias, is left to `sync`.

    Raises:
        EmbeddingsDamagedError: a slice's file is missing or damaged; the next index run makes it again.
    """
    if found.surplus:
        delete_orphan_points(store, target)
    written = 0
    for group in groups(found.slices):
        points = target.points(group)
        target.write(store, group, points)
        written += len(points)
    return written


def delete_orphan_points(store: VectorStore, target: Target) -> int:
    """Delete the points that the catalog does not know; return their number."""
    deleted = 0
    for batch in store.scroll(target.collection, batch_size=_PAGE):
        if orphan_points := target.orphan_points(batch):
            store.delete(target.collection, orphan_points)
            deleted += len(orphan_points)
    return deleted


def _sample(target: Target, size: int) -> list[SliceRecord]:
    """Return some loadable slices, drawn uniformly in one pass over their records; each call draws others."""
    draw = random.Random()  # noqa: S311 - a sample, not a secret
    chosen: list[SliceRecord] = []
    for number, record in enumerate(target.catalog.slices()):
        if len(chosen) < size:
            chosen.append(record)
        elif (place := draw.randrange(number + 1)) < size:
            chosen[place] = record
    draw.shuffle(chosen)
    return [record for record in chosen if set(target.required) <= target.catalog.receipts(record.slice_id).keys()]


def _missing_points(store: VectorStore, target: Target, ids: Sequence[str]) -> list[str]:
    """Return those of the point ids that the collection lacks."""
    of_slice = Filter(must=(HasId(tuple(ids)),))
    if not ids or store.count(target.collection, of_slice) == len(ids):
        return []
    existing = {point_id for batch in store.scroll(target.collection, of_slice, batch_size=_PAGE) for point_id in batch.ids}
    return [point_id for point_id in ids if point_id not in existing]


def _compare(
    store: VectorStore, target: Target, record: SliceRecord, *, rows: int | None, draw: random.Random | None = None
) -> tuple[int, list[str], list[str], float]:
    """Compare points with their Parquet rows.

    Returns:
        Number of points compared; ids of those whose vector differs; ids of those whose filter fields differ; largest distance.
    """
    batch = target.points([record])
    every = range(len(batch))
    draw = draw or random.Random(record.slice_id)  # noqa: S311
    chosen = list(every) if rows is None else sorted(draw.sample(every, min(rows, len(batch))))
    stored = store.retrieve(target.collection, [batch.ids[row] for row in chosen])
    row_of = {point_id: row for row, point_id in enumerate(batch.ids)}
    if not len(stored):
        return 0, [], [], 0.0
    rows_found = [row_of[point_id] for point_id in stored.ids]
    distances = np.linalg.norm(batch.vectors[rows_found] - stored.vectors, axis=1)
    others = [point_id for point_id, distance in zip(stored.ids, distances, strict=True) if not distance <= MOST_DISTANCE]
    fields = [
        point_id
        for point_id, row, payload in zip(stored.ids, rows_found, stored.payloads, strict=True)
        if dict(payload) != dict(batch.payloads[row])
    ]
    return len(stored), others, fields, float(distances.max())


def _difference_error(target: Target, how: str) -> StoreError:
    return StoreError(
        f"the collection {target.collection!r} {how}",
        hint="run the same command again when no other index run is going on; if it persists, see `lodestone verify`, or stop "
        "the service, delete the home's store folder (on a server: the collection) and index again: stored outputs are loaded, "
        "no picture is read",
        collection=target.collection,
    )
