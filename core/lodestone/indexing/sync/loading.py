"""Loading of stored outputs into a collection, group by group: read, project, upsert, mark as loaded.

While one group is upserted the next is read and projected. Memory holds these two whatever the collection's size: a slow store
makes the reading wait. A group counts as loaded once the store has it durably. After a crash in between it is upserted again,
which changes nothing. A slice does not count as loaded if another run changed its pictures meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final, TypeVar

from lodestone.catalog.records import SliceRecord
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter, Progress, RunStage
from lodestone.indexing.sync.targets import Target
from lodestone.store.base import PointBatch, VectorStore

_FIRST_ROWS: Final = 512
_GROUP_ROWS: Final = 2048

_T = TypeVar("_T")
_R = TypeVar("_R")


def load(store: VectorStore, target: Target, *, progress: Progress, faults: Faults) -> int:
    """Upsert every slice that the collection does not hold; return the number of points."""
    catalog, collection = target.catalog, target.collection
    slices, rows = catalog.count_unloaded(collection, parts=target.required)
    if not slices:
        return 0
    target.warm_up()
    fresh = store.count(collection) == 0  # then no picture can have older points
    meter = Meter(progress, RunStage.LOAD, total=rows, detail=collection)

    def read(group: Sequence[SliceRecord]) -> PointBatch:
        catalog.begin_loading(collection, [record.slice_id for record in group])  # before any of the pictures' rows is read
        return target.points(group)

    loaded = 0
    waiting = catalog.unloaded_slices(collection, parts=target.required)
    with closing(_read_ahead(groups(waiting), read)) as ready:
        # Written in the order in which they were read, so that a picture's newer state overwrites the older one.
        for group, points in ready:
            target.write(store, group, points, fresh=fresh)
            loaded += len(points)
            faults.reach("loading")
            catalog.mark_loaded(collection, [record.slice_id for record in group])
            meter.add(sum(record.rows for record in group))
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


def _read_ahead(items: Iterable[_T], read: Callable[[_T], _R]) -> Generator[tuple[_T, _R]]:
    """Yield each item with the result of `read`, in order; the next item is read while the caller works on one."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="lodestone-load")
    running: deque[tuple[_T, Future[_R]]] = deque()
    try:
        for item in items:
            running.append((item, pool.submit(read, item)))
            if len(running) > 1:
                first, result = running.popleft()
                yield first, result.result()
        while running:
            first, result = running.popleft()
            yield first, result.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
