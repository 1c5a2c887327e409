"""How do stored outputs get into a collection? In groups of slices: read, projected, upserted, and then marked as loaded.

While one group is upserted the next is read and projected. Memory holds these two whatever the collection's size: a store that
is slow makes the reading wait. A group counts as loaded once the store has it durably; killed in between, it is upserted again,
which changes nothing. Neither does a slice count whose pictures another run changed meanwhile.
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
    """Upsert every slice that the collection does not hold; returns the number of points."""
    catalog, collection = target.catalog, target.collection
    slices, rows = catalog.count_unloaded(collection, parts=target.required)
    if not slices:
        return 0
    target.warm_up()
    fresh = store.count(collection) == 0  # then no picture can have older points
    meter = Meter(progress, RunStage.LOAD, total=rows, detail=collection)

    def read(group: Sequence[SliceRecord]) -> PointBatch:
        catalog.begin_loading(collection, [record.slice_id for record in group])  # before anything of the pictures is read
        return target.points(group)

    loaded = 0
    waiting = catalog.unloaded_slices(collection, parts=target.required)
    with closing(_read_ahead(groups(waiting), read)) as ready:
        # Written in the order in which they were read: what a picture became meanwhile comes after what it was.
        for group, points in ready:
            target.write(store, group, points, fresh=fresh)
            loaded += len(points)
            faults.reach("loading")
            catalog.mark_loaded(collection, [record.slice_id for record in group])
            meter.add(sum(record.rows for record in group))
    return loaded


def groups(slices: Iterable[SliceRecord]) -> Iterator[list[SliceRecord]]:
    """Slices in groups of about 2048 pictures; the first ones are smaller, so that the store soon has something to do."""
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
    """Each item with what `read` makes of it, in their order; the next is read while the caller works on one."""
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
