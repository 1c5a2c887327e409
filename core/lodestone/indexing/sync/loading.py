"""Loading of stored outputs into a collection, several groups of slices at once: read, project, upsert, mark as loaded.

The catalog is read and written by the calling thread alone: it plans a group, has a `GroupLoader` load it in a thread, and
marks its slices as loaded once the store has them durably. After a crash in between a group is upserted again, which changes
nothing. A slice does not count as loaded if another run changed its pictures meanwhile. Memory holds the groups in flight,
whatever the collection's size: a slow store makes the reading wait.

Groups may finish in any order. A picture that moved to another slice while its first group was in flight would be in two of
them: the later group then waits, so that the picture's newer state overwrites the older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from lodestone.catalog.records import SliceRecord
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter, Progress, RunStage
from lodestone.indexing.sync.load_groups import LoadGroup, PointMaker
from lodestone.indexing.sync.loaders import GroupLoader, StoreLoader
from lodestone.indexing.sync.targets import Target
from lodestone.store.base import VectorStore

_FIRST_ROWS: Final = 512
_GROUP_ROWS: Final = 2048
IN_FLIGHT: Final = 2  # groups: one is read and projected while the other is upserted


def load(
    store: VectorStore,
    target: Target,
    *,
    progress: Progress,
    faults: Faults,
    loader: GroupLoader | None = None,
    loaders: int = IN_FLIGHT,
) -> int:
    """Upsert every slice that the collection does not hold; return the number of points.

    Args:
        store: The opened store.
        target: The collection.
        progress: Called for each group.
        faults: Points at which a test can kill this process.
        loader: Loads the groups; None to load them in threads of this process.
        loaders: Most groups in flight.

    Raises:
        LodestoneError: a group could not be loaded; those that were in flight with it are finished, and recorded.
    """
    catalog, collection = target.catalog, target.collection
    slices, rows = catalog.count_unloaded(collection, parts=target.required)
    if not slices:
        return 0
    fresh = store.count(collection) == 0  # then no picture can have older points
    meter = Meter(progress, RunStage.LOAD, total=rows, detail=collection)
    loaded = 0
    chosen = loader if loader is not None else StoreLoader(store, target.embeddings)
    window = _Window(store, target, target.maker, chosen, fresh=fresh, width=loaders)
    try:
        for group in groups(catalog.unloaded_slices(collection, parts=target.required)):
            for done in window.room_for(group):
                loaded += _record(target, done, meter, faults)
        for done in window.rest():
            loaded += _record(target, done, meter, faults)
    except Exception:
        for done in window.finished():  # its points are in the store, so it need not be sent again
            catalog.mark_loaded(collection, done.group.slice_ids)
        raise
    finally:
        window.close()
    return loaded


def groups(slices: Iterable[SliceRecord]) -> Iterator[list[SliceRecord]]:
    """Yield slices in groups of about 2048 pictures; the first groups are smaller, so that the store starts early."""
    group: list[SliceRecord] = []
    rows, most = 0, _FIRST_ROWS
    for record in slices:
        if group and rows + record.rows > most:
            yield group
            group, rows, most = [], 0, min(2 * most, _GROUP_ROWS)
        group.append(record)
        rows += record.rows
    if group:
        yield group


@dataclass(slots=True)
class _Flight:
    """A group in flight, and what became of it."""

    slices: list[SliceRecord]
    group: LoadGroup
    touched: set[str] = field(default_factory=set)
    points: int = 0


class _Window:
    """The groups in flight: at most `width` at once, and no two that touch the same picture."""

    def __init__(
        self, store: VectorStore, target: Target, maker: PointMaker, loader: GroupLoader, *, fresh: bool, width: int
    ) -> None:
        self._store, self._target, self._maker, self._loader, self._fresh = store, target, maker, loader, fresh
        self._width = width
        self._pool = ThreadPoolExecutor(width, thread_name_prefix="lodestone-load")
        self._flying: dict[Future[int], _Flight] = {}

    def room_for(self, slices: list[SliceRecord]) -> Iterator[_Flight]:
        """Start loading a group when it may be, and yield the groups that were finished meanwhile.

        The first error of a group is raised.
        """
        while len(self._flying) >= self._width:
            yield from self._next()
        target = self._target
        target.catalog.begin_loading(target.collection, [record.slice_id for record in slices])  # before any row is read
        flight = _Flight(slices, target.plan(slices))
        flight.touched = flight.group.touched
        while any(not flight.touched.isdisjoint(other.touched) for other in self._flying.values()):
            yield from self._next()
        self._flying[self._pool.submit(self._load, flight.group)] = flight

    def rest(self) -> Iterator[_Flight]:
        """Yield the remaining groups as they are finished; the first error is raised."""
        while self._flying:
            yield from self._next()

    def finished(self) -> Iterator[_Flight]:
        """Wait for the groups that are in flight after an error, and yield those that were loaded."""
        for future, flight in list(self._flying.items()):
            if not future.cancel() and future.exception() is None:
                yield _with_points(flight, future)
        self._flying.clear()

    def close(self) -> None:
        """Let the threads end. Groups are still in flight only after an interruption, which need not wait for a slow store."""
        self._pool.shutdown(wait=not self._flying, cancel_futures=True)

    def _next(self) -> Iterator[_Flight]:
        for future in wait(self._flying, return_when=FIRST_COMPLETED).done:
            flight = self._flying.pop(future)
            yield _with_points(flight, future)

    def _load(self, group: LoadGroup) -> int:
        with self._store.patient():  # which holds for one thread
            if not self._fresh:
                self._target.clear(self._store, group)
            return self._loader.load(self._maker, group)


def _with_points(flight: _Flight, future: Future[int]) -> _Flight:
    flight.points = future.result()
    return flight


def _record(target: Target, done: _Flight, meter: Meter, faults: Faults) -> int:
    faults.reach("loading")
    target.catalog.mark_loaded(target.collection, done.group.slice_ids)
    meter.add(sum(record.rows for record in done.slices))
    return done.points
