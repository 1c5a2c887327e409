"""Calls of Ray Data that work on one slice each, behind the ledger: what all of them share, whatever the work is.

Everything here but one thread runs in the actor's event loop. A subclass does the work: embed_slices.py, bulk_calls.py.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import uuid4

import pyarrow as pa

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import Advance, this_worker
from lodestone_jobs.feed import TASK, TICKET
from lodestone_jobs.ledger import RefusedSlice, WorkerPlace

RECEIPT: Final = "receipt"
_REPORT_SECONDS: Final = 0.5  # between two reports of progress


class Task(Protocol):
    """What is to be done with one slice; picklable."""

    @property
    def slice_id(self) -> str:
        """Return what no other task in flight has."""

    @property
    def needs_a_worker(self) -> bool:
        """Return whether no other slice may be in flight beside it in the same worker."""


class CallReceipt(Protocol):
    """What became of a task; picklable."""

    @property
    def slice_id(self) -> str:
        """Return that of the task."""


TaskT = TypeVar("TaskT", bound=Task)
ReceiptT = TypeVar("ReceiptT", bound=CallReceipt)


class Company:
    """Lets slices run beside each other, and one that needs its worker run by itself. Who comes first enters first."""

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def join(self, *, alone: bool) -> AsyncIterator[None]:
        """Return a context in which a slice may run.

        Args:
            alone: Whether no other slice may run meanwhile.
        """
        async with self._door:
            if alone:
                await self._empty.wait()
                yield
                return
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()


class SliceCalls(ABC, Generic[TaskT, ReceiptT]):
    """Callable of `Dataset.map_batches`: rows of `ticket` and `task` in, rows of `ticket` and `receipt` (pickled) out.

    Args:
        desk: Actor with the ledger.
    """

    def __init__(self, desk: Any) -> None:  # noqa: ANN401 - a handle of Ray
        import ray

        context = ray.get_runtime_context()
        self._desk = desk
        self._place = WorkerPlace(this_worker(), context.get_node_id(), uuid4().hex)
        self._company = Company()
        self._calls: dict[str, asyncio.Future[ReceiptT]] = {}  # by slice
        self._ended: deque[int] = deque()  # tickets that the ledger has not heard of yet
        self._failed: LodestoneError | None = None
        actor = context.get_actor_id()
        ray.get(desk.arrive.remote(actor, self._place))
        try:
            self.load()
        except LodestoneError as error:  # sent with the receipts, because an actor that does not start tells no reason
            self._failed = error
        else:
            threading.Thread(target=self._report, name="report", daemon=True).start()
        ray.get(desk.be_ready.remote(actor))

    @abstractmethod
    def load(self) -> None:
        """Load what all slices need.

        Raises:
            LodestoneError: something is not there.
        """

    @abstractmethod
    async def work(self, task: TaskT) -> ReceiptT:
        """Do a task, beside others, and return its receipt."""

    @abstractmethod
    def failure(self, task: TaskT, error: LodestoneError, worker: str) -> ReceiptT:
        """Return the receipt of a task that was not done.

        Args:
            task: The task.
            error: Why it was not done.
            worker: `host:pid` of the worker that is to blame.
        """

    def take_advances(self) -> Sequence[Advance]:
        """Return the progress of slices since the last call."""
        return ()

    async def __call__(self, batch: pa.Table) -> pa.Table:
        """Do the task of a row, and return its receipt; where the ledger refuses it, what became of it."""
        ticket: int = batch[TICKET][0].as_py()
        message: bytes = batch[TASK][0].as_py()
        receipt = await self._receipt(ticket, pickle.loads(message)) if message else None  # noqa: S301 - our driver's own
        return pa.table({TICKET: pa.array([ticket], pa.int64()), RECEIPT: pa.array([pickle.dumps(receipt)], pa.binary())})

    async def _receipt(self, ticket: int, task: TaskT) -> ReceiptT:
        if self._failed is not None:
            return self.failure(task, self._failed, self._place.worker)
        if task.slice_id in self._calls:  # Ray repeats a call whose answer was lost on the way
            return await asyncio.shield(self._calls[task.slice_id])
        async with self._company.join(alone=task.needs_a_worker):
            refusal: RefusedSlice | None = await self._desk.begin.remote(ticket, self._place, self._take_ended())
            if refusal is not None:
                return self.failure(task, refusal.error, refusal.worker)
            call = self._calls[task.slice_id] = asyncio.ensure_future(self.work(task))
            try:
                return await call
            finally:
                del self._calls[task.slice_id]
                self._ended.append(ticket)

    def _take_ended(self) -> list[int]:
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def _report(self) -> None:
        """Tell the desk how far the slices are, and which are finished, for as long as there is a desk."""
        import ray

        over = threading.Event()
        while not over.wait(_REPORT_SECONDS):
            advances, ended = list(self.take_advances()), self._take_ended()
            if advances or ended:
                try:
                    ray.get(self._desk.report.remote(advances, ended))
                except Exception:  # noqa: BLE001 - the run has ended, and this actor soon will
                    return
