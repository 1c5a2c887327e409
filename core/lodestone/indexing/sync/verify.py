"""Does a collection hold what catalog and Parquet files say? By count, by slice, and by vectors projected once more.

`verify` is the quick look after each load: the count, the points of some slices, and a few vectors. `examine` looks at every
slice, so that as many surplus points as missing ones do not hide each other; `repair_collection` loads again what it found wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lodestone.catalog.records import SliceRecord
from lodestone.errors import EmbeddingsDamagedError, StoreError
from lodestone.indexing.progress import Meter, Progress, ProgressEvent, RunStage
from lodestone.indexing.sync.loading import groups
from lodestone.indexing.sync.targets import Target
from lodestone.store.base import Filter, HasId, VectorStore

# Of two vectors of length 1 this is a cosine of 0.99999. One that was only made longer would rank first for ever.
MOST_DISTANCE: Final = 0.0045
_COUNTED: Final = 16  # slices whose points the quick look counts
_COMPARED: Final = 3  # slices of which it compares vectors
_ROWS: Final = 8  # vectors compared of a slice, at least: reading its files is what takes time
_SHOWN: Final = 10  # ids told of each kind of difference
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class CollectionVerification:
    """What `examine` found in one collection.

    Attributes:
        alias: Space, or `captions`.
        collection: Name of the collection.
        exists: Whether there is one.
        standing_by: It is of a model swap, and not searched: it may be anywhere between new and complete.
        promoted: Whether the alias points at it, where it should.
        points: In the store.
        expected: By the catalog: of slices that are embedded.
        unloaded: Pictures embedded and not loaded yet; `lodestone index` loads them.
        missing: Points of loaded slices that the store lacks.
        surplus: Points that the catalog does not know.
        compared: Points compared with their Parquet rows.
        looked_into: Slices that these are of.
        differing: Of these, vectors that are others.
        stale: Of these, filter fields that are others.
        damaged: Stored files that are missing or cut.
        examples: Ids of some points that are wrong.
        slices: Which slices have wrong points.
    """

    alias: str
    collection: str
    exists: bool = True
    standby_projections: bool = False
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

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; what waits to be loaded is not."""
        wrong = self.missing or self.surplus or self.differing or self.stale or self.damaged
        return (self.exists or self.standby_projections) and self.promoted and not wrong


def verify(store: VectorStore, target: Target, *, progress: Progress) -> StoreError | None:
    """Compare the collection with the truth; returns what is wrong as the error to raise, or None.

    Raises:
        EmbeddingsDamagedError: a sampled slice's file is missing or damaged.
    """
    progress(ProgressEvent(RunStage.VERIFY, detail=target.collection))
    least, most = target.expected()
    points = store.count(target.collection)
    if not least <= points <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        return _differs(target, f"holds {points} points; the catalog has {wanted}")
    chosen = _sample(target, _COUNTED)
    for record in chosen:
        if lacking := _lacking(store, target, target.point_ids(record)):
            return _differs(target, f"lacks {len(lacking)} of a slice's points, and holds as many that nobody knows")
    for record in chosen[:_COMPARED]:
        _, wrong, _, worst = _compare(store, target, record, rows=_ROWS)
        if wrong:
            return _differs(target, f"holds a vector that differs from its projection (distance {worst:.5f})")
    return None


def examine(
    store: VectorStore, target: Target, *, progress: Progress, sample: int | None = 1000, draw: random.Random | None = None
) -> CollectionVerification:
    """Compare every slice of the collection with the truth, without changing anything. Memory holds one slice.

    Args:
        store: Where the collection is.
        target: The collection.
        progress: Is told of each slice.
        sample: About how many points' vectors and filter fields are compared with their Parquet rows, spread evenly; None for
            all.
        draw: Which ones.
    """
    found = CollectionVerification(target.alias, target.collection, standby_projections=not target.promoted)
    _, unloaded = target.catalog.count_unloaded(target.collection, parts=target.required)
    if target.collection not in store.collections():
        nothing = not any(target.catalog.slices())  # was indexed: there need be no collection
        return replace(found, exists=nothing, promoted=nothing or not target.promoted, unloaded=unloaded)
    promoted = not target.promoted or store.aliases().get(target.alias) == target.collection
    points = store.count(target.collection)
    look = _Look(store, target, sample, draw or random.Random())  # noqa: S311 - a sample, not a secret
    meter = Meter(progress, RunStage.VERIFY, total=look.total, detail=target.collection)
    for record in target.catalog.slices():
        look.at(record)
        meter.add(1)
    orphan_points: list[str] = []
    if points != look.expected - look.lost:  # points of pictures that wait to be embedded again are no strangers
        for batch in store.scroll(target.collection, batch_size=_PAGE):
            orphan_points += target.orphan_points(batch)
    return replace(
        found,
        promoted=promoted,
        points=points,
        expected=look.expected,
        unloaded=unloaded,
        missing=look.missing,
        surplus=len(orphan_points),
        compared=look.compared,
        looked_into=look.looked_into,
        differing=look.differing,
        stale=look.stale,
        damaged=tuple(look.damaged),
        examples=(*look.examples[:_SHOWN], *orphan_points[:_SHOWN]),
        slices=tuple(look.wrong),
    )


class _Look:
    """Goes through slices and counts what is wrong; see `CollectionVerification`."""

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
        """Look at one slice."""
        target = self._target
        chosen = self._sample != 0 and self._number % self._every == self._turn
        self._number += 1
        rows = self._rows() if chosen else None
        ids = target.point_ids(record)
        if not ids or not set(target.required) <= target.catalog.receipts(record.slice_id).keys():
            return
        self.expected += len(ids)
        lacking = _lacking(self._store, target, ids)
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
        """How many vectors of this slice: what is left of the sample, in equal parts; small slices leave theirs to the next."""
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
    """Load the wrong slices again and delete points that the catalog does not know; returns how many points were written.

    A collection that is not there, and one without its alias, is `sync`'s to make.

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
    """Delete the points that the catalog does not know; returns how many."""
    deleted = 0
    for batch in store.scroll(target.collection, batch_size=_PAGE):
        if orphan_points := target.orphan_points(batch):
            store.delete(target.collection, orphan_points)
            deleted += len(orphan_points)
    return deleted


def _sample(target: Target, size: int) -> list[SliceRecord]:
    """Some slices that should be loaded, chosen evenly by one pass over their records; others each time."""
    draw = random.Random()  # noqa: S311 - a sample, not a secret
    chosen: list[SliceRecord] = []
    for number, record in enumerate(target.catalog.slices()):
        if len(chosen) < size:
            chosen.append(record)
        elif (place := draw.randrange(number + 1)) < size:
            chosen[place] = record
    draw.shuffle(chosen)
    return [record for record in chosen if set(target.required) <= target.catalog.receipts(record.slice_id).keys()]


def _lacking(store: VectorStore, target: Target, ids: Sequence[str]) -> list[str]:
    """Those of the points that the collection lacks."""
    of_slice = Filter(must=(HasId(tuple(ids)),))
    if not ids or store.count(target.collection, of_slice) == len(ids):
        return []
    there = {point_id for batch in store.scroll(target.collection, of_slice, batch_size=_PAGE) for point_id in batch.ids}
    return [point_id for point_id in ids if point_id not in there]


def _compare(
    store: VectorStore, target: Target, record: SliceRecord, *, rows: int | None, draw: random.Random | None = None
) -> tuple[int, list[str], list[str], float]:
    """Compare points with their Parquet rows.

    Returns:
        How many were compared; ids of those whose vector, and of those whose filter fields, are others; the largest distance.
    """
    batch = target.points([record])
    every = range(len(batch))
    draw = draw or random.Random(record.slice_id)  # noqa: S311
    chosen = list(every) if rows is None else sorted(draw.sample(every, min(rows, len(batch))))
    found = store.retrieve(target.collection, [batch.ids[row] for row in chosen])
    row_of = {point_id: row for row, point_id in enumerate(batch.ids)}
    if not len(found):
        return 0, [], [], 0.0
    there = [row_of[point_id] for point_id in found.ids]
    distances = np.linalg.norm(batch.vectors[there] - found.vectors, axis=1)
    others = [point_id for point_id, distance in zip(found.ids, distances, strict=True) if not distance <= MOST_DISTANCE]
    fields = [
        point_id
        for point_id, row, payload in zip(found.ids, there, found.payloads, strict=True)
        if dict(payload) != dict(batch.payloads[row])
    ]
    return len(found), others, fields, float(distances.max())


def _differs(target: Target, how: str) -> StoreError:
    return StoreError(
        f"the collection {target.collection!r} {how}",
        hint="run the same command again when no other index run is going on; if it persists, see `lodestone verify`, or stop "
        "the service, delete the home's store folder (on a server: the collection) and index again: stored outputs are loaded, "
        "no picture is read",
        collection=target.collection,
    )
