"""Calls of Ray Data that embed one slice each, and share one `SlicePipeline` with its models among the calls of an actor.

Batches are so filled across slices, as everywhere else.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import Advance, EmbedSettings, SliceReceipt, SliceTask
from lodestone_jobs.slice_calls import SliceCalls

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lodestone.indexing.slices.flow import SliceFlow
    from lodestone.indexing.slices.pipeline import SlicePipeline

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


class EmbedSlices(SliceCalls[SliceTask, SliceReceipt]):
    """Embeds slices, as `SliceCalls`.

    Args:
        settings: Settings of the worker.
        load: Makes its pipeline.
        desk: Actor with the ledger.
    """

    _context: AbstractContextManager[SliceFlow]
    _flow: SliceFlow

    def __init__(self, settings: EmbedSettings, load: PipelineFactory, desk: Any) -> None:  # noqa: ANN401 - a handle of Ray
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
        self._settings = settings
        self._load = load
        self._waiting: dict[str, asyncio.Future[SliceReceipt]] = {}  # by slice
        self._advances: dict[str, Advance] = {}
        self._broken: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(desk)

    def load(self) -> None:
        """Load the models of the pipeline."""
        settings = self._settings
        pipeline = self._load(replace(settings, models=settings.models.expanduser()))  # expanded on this node
        self._context = pipeline.flow()  # kept, because the flow ends with it
        self._flow = self._context.__enter__()
        threading.Thread(target=self._relay, args=(self._flow,), name="relay", daemon=True).start()

    async def work(self, task: SliceTask) -> SliceReceipt:
        """Embed a slice, in batches with others."""
        self._loop = asyncio.get_running_loop()
        waiting: asyncio.Future[SliceReceipt] = self._loop.create_future()
        self._waiting[task.slice_id] = waiting
        try:
            if self._broken is not None:
                raise self._broken
            self._flow.admit(task)
            return await waiting
        finally:
            del self._waiting[task.slice_id]

    def failure(self, task: SliceTask, error: LodestoneError, worker: str) -> SliceReceipt:
        """Return the receipt of a slice that was not embedded."""
        return SliceReceipt(task.slice_id, (), error=error, worker=worker)

    def take_advances(self) -> Sequence[Advance]:
        """Return how far slices are, the last news of each."""
        advances, self._advances = self._advances, {}
        return list(advances.values())

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
        waiting = self._waiting.get(receipt.slice_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(receipt)

    def _break(self, error: Exception) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
