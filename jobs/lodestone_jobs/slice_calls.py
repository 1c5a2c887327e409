"""Calls of Ray Data that embed one slice each, and share one `SlicePipeline` with its models among the calls of an actor.

Batches are so filled across slices, as everywhere else. Everything here but two threads runs in the actor's event loop.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import Advance, EmbedSettings, SliceReceipt, SliceTask, this_worker
from lodestone_jobs.feed import TASK, TICKET
from lodestone_jobs.ledger import RefusedSlice, WorkerPlace

if TYPE_CHECKING:
    from lodestone.indexing.slices.flow import SliceFlow
    from lodestone.indexing.slices.pipeline import SlicePipeline

RECEIPT: Final = "receipt"
_REPORT_SECONDS: Final = 0.5  # between two reports of progress

PipelineFactory = Callable[[EmbedSettings], "SlicePipeline"]
"""Makes the pipeline of an actor, with its models loaded. Picklable."""


def load_pipeline(settings: EmbedSettings) -> SlicePipeline:
    """Return the pipeline of some settings, with its models loaded.

    Raises:
        LodestoneError: a model cannot be loaded.
    """
    from lodestone.indexing.slices.pipeline import SlicePipeline

    pipeline = SlicePipeline(settings)
    pipeline.warm_up()
    return pipeline


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


class EmbedSlices:
    """Callable of `Dataset.map_batches`: rows of `ticket` and `task` in, rows of `ticket` and `receipt` (pickled) out.

    Args:
        settings: Settings of the worker.
        load: Makes its pipeline.
        desk: Actor with the ledger.
    """

    def __init__(self, settings: EmbedSettings, load: PipelineFactory, desk: Any) -> None:  # noqa: ANN401 - a handle of Ray
        import ray

        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
        context = ray.get_runtime_context()
        self._desk = desk
        self._place = WorkerPlace(this_worker(), context.get_node_id(), uuid4().hex)
        self._company = Company()
        self._calls: dict[str, asyncio.Future[SliceReceipt]] = {}  # by slice
        self._ended: deque[int] = deque()  # tickets that the ledger has not heard of yet
        self._advances: dict[str, Advance] = {}
        self._broken: Exception | None = None
        self._failed: LodestoneError | None = None
        self._flow: SliceFlow | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        actor = context.get_actor_id()
        ray.get(desk.arrive.remote(actor, self._place))
        try:
            pipeline = load(replace(settings, models=settings.models.expanduser()))  # expanded on this node
        except LodestoneError as error:  # sent with the receipts, because an actor that does not start tells no reason
            self._failed = error
        else:
            self._context = pipeline.flow()  # kept, because the flow ends with it
            self._flow = self._context.__enter__()
            threading.Thread(target=self._relay, args=(self._flow,), name="relay", daemon=True).start()
            threading.Thread(target=self._report, name="report", daemon=True).start()
        ray.get(desk.be_ready.remote(actor))

    async def __call__(self, batch: pa.Table) -> pa.Table:
        """Embed the slice of a row, and return its receipt; where the ledger refuses it, what became of it."""
        ticket: int = batch[TICKET][0].as_py()
        message: bytes = batch[TASK][0].as_py()
        receipt = await self._receipt(ticket, pickle.loads(message)) if message else None  # noqa: S301 - our driver's own
        return pa.table({TICKET: pa.array([ticket], pa.int64()), RECEIPT: pa.array([pickle.dumps(receipt)], pa.binary())})

    async def _receipt(self, ticket: int, task: SliceTask) -> SliceReceipt:
        if self._flow is None:
            return SliceReceipt(task.slice_id, (), error=self._failed, worker=self._place.worker)
        if task.slice_id in self._calls:  # Ray repeats a call whose answer was lost on the way
            return await asyncio.shield(self._calls[task.slice_id])
        async with self._company.join(alone=task.needs_a_worker):
            refusal: RefusedSlice | None = await self._desk.begin.remote(ticket, self._place, self._take_ended())
            if refusal is not None:
                return SliceReceipt(task.slice_id, (), error=refusal.error, worker=refusal.worker)
            try:
                return await self._embed(self._flow, task)
            finally:
                self._ended.append(ticket)

    def _take_ended(self) -> list[int]:
        return [self._ended.popleft() for _ in range(len(self._ended))]

    async def _embed(self, flow: SliceFlow, task: SliceTask) -> SliceReceipt:
        self._loop = asyncio.get_running_loop()
        call: asyncio.Future[SliceReceipt] = self._loop.create_future()
        self._calls[task.slice_id] = call
        try:
            if self._broken is not None:
                raise self._broken
            flow.admit(task)
            return await call
        finally:
            del self._calls[task.slice_id]

    def _relay(self, flow: SliceFlow) -> None:
        """Pass what the flow tells on to the calls that wait for it."""
        try:
            while (event := flow.take()) is not None:
                if isinstance(event, Advance):
                    self._advances[event.slice_id] = event
                elif self._loop is not None:
                    self._loop.call_soon_threadsafe(self._answer, event)
        except Exception as error:  # noqa: BLE001 - raised by every call
            self._broken = error
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._break, error)

    def _answer(self, receipt: SliceReceipt) -> None:
        self._advances.pop(receipt.slice_id, None)
        call = self._calls.get(receipt.slice_id)
        if call is not None and not call.done():
            call.set_result(receipt)

    def _break(self, error: Exception) -> None:
        for call in self._calls.values():
            if not call.done():
                call.set_exception(error)

    def _report(self) -> None:
        """Tell the desk how far the slices are, and which are finished, for as long as there is a desk."""
        import ray

        over = threading.Event()
        while not over.wait(_REPORT_SECONDS):
            advances, self._advances = self._advances, {}
            ended = self._take_ended()
            if advances or ended:
                try:
                    ray.get(self._desk.report.remote(list(advances.values()), ended))
                except Exception:  # noqa: BLE001 - the run has ended, and this actor soon will
                    return
