"""Calls of Ray Data that do bulk work: a task of any `BulkWork` each, in a thread of the actor."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lodestone.errors import LodestoneError
from lodestone.indexing.bulk_work import BulkTask, BulkWork
from lodestone_jobs.slice_calls import SliceCalls


@dataclass(frozen=True, slots=True)
class BulkCall:
    """A task on its way to an actor.

    Attributes:
        task: The task.
        attempt: Number of the attempt, from 1.
    """

    task: BulkTask
    attempt: int = 1

    @property
    def slice_id(self) -> str:
        """Return the name of the task."""
        return self.task.key

    @property
    def needs_a_worker(self) -> bool:
        """Return whether its last attempt ended with its worker: by itself, it shows whether it is to blame."""
        return self.attempt > 1


@dataclass(frozen=True, slots=True)
class BulkReceipt:
    """What became of a task.

    Attributes:
        slice_id: Name of the task.
        result: What the work returned; None with an error.
        error: Error that ended it.
        worker: `host:pid` of the worker.
    """

    slice_id: str
    result: Any = None
    error: LodestoneError | None = None
    worker: str = ""


class DoBulkWork(SliceCalls[BulkCall, BulkReceipt]):
    """Does tasks of some bulk work, as `SliceCalls`.

    Args:
        bulk_work: The work.
        desk: Actor with the ledger.
    """

    _do: Callable[[Any], Any]

    def __init__(self, bulk_work: BulkWork[Any, Any], desk: Any) -> None:  # noqa: ANN401 - a handle of Ray
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
        self._bulk_work = bulk_work
        super().__init__(desk)

    def load(self) -> None:
        """Load what all tasks need."""
        self._do = self._bulk_work.prepare()

    async def work(self, task: BulkCall) -> BulkReceipt:
        """Do a task in a thread."""
        try:
            result = await asyncio.to_thread(self._do, task.task)
        except LodestoneError as error:
            return self.failure(task, error, self._place.worker)
        return BulkReceipt(task.slice_id, result, worker=self._place.worker)

    def failure(self, task: BulkCall, error: LodestoneError, worker: str) -> BulkReceipt:
        """Return the receipt of a task that was not done."""
        return BulkReceipt(task.slice_id, error=error, worker=worker)
