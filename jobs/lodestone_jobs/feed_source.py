"""Source of blocks for Ray Data whose rows are the tasks of a feed, one a block. Importing it imports Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from lodestone_jobs.feed import TASK, TICKET, Ticketed

if TYPE_CHECKING:
    from ray.data import DataContext


class FeedSource(Datasource):
    """Source of a dataset whose blocks have one row each, `ticket` and `task`: one slice.

    Args:
        desk: Actor with the feed (see desk.py).
        lanes: Number of read tasks; one alone is too slow, because Ray Data lets it be only two blocks ahead.
    """

    def __init__(self, desk: Any, lanes: int) -> None:  # noqa: ANN401 - a handle of Ray
        super().__init__()  # type: ignore[no-untyped-call]
        self._desk = desk
        self._lanes = lanes

    def estimate_inmemory_data_size(self) -> int | None:
        """Return None: nobody knows how much will come."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """Return a read task for each lane, which ends when the feed is closed."""
        del parallelism, per_task_row_limit, data_context
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(_Lane(self._desk, lane), unknown) for lane in range(self._lanes)]


class _Lane:
    def __init__(self, desk: Any, lane: int) -> None:  # noqa: ANN401 - a handle of Ray
        self._desk = desk
        self._lane = lane

    def __call__(self) -> Iterator[pa.Table]:
        index = 0
        while True:
            found: Sequence[Ticketed] | None = ray.get(self._desk.pull.remote(self._lane, index))
            if found is None:
                return
            for ticket, task in found:
                yield pa.table({TICKET: pa.array([ticket], pa.int64()), TASK: pa.array([task], pa.binary())})
            index += len(found)
