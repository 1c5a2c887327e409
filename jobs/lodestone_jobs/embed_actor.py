"""Embedding actor: a `SlicePipeline` with its models, loaded once, that is given slices for as long as a run lasts."""

from __future__ import annotations

import pickle
import queue
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import Advance, EmbedSettings, SliceReceipt, SliceTask, this_worker

if TYPE_CHECKING:
    from lodestone.indexing.slices.flow import SliceFlow
    from lodestone.indexing.slices.pipeline import SlicePipeline

PipelineFactory = Callable[[EmbedSettings], "SlicePipeline"]
"""Makes the pipeline of an actor, with its models loaded. Picklable."""

Event = Advance | SliceReceipt


@dataclass(frozen=True, slots=True)
class Hello:
    """First answer of an actor, when its models are loaded.

    Attributes:
        worker: `host:pid`.
        node: Id of its Ray node.
    """

    worker: str
    node: str


def load_pipeline(settings: EmbedSettings) -> SlicePipeline:
    """Return the pipeline of some settings, with its models loaded.

    Raises:
        LodestoneError: a model cannot be loaded.
    """
    from lodestone.indexing.slices.pipeline import SlicePipeline

    pipeline = SlicePipeline(settings)
    pipeline.warm_up()
    return pipeline


class EmbedActor:
    """Body of a Ray actor. `take` blocks, so the actor needs threads for it and for `give` (`max_concurrency`).

    Args:
        settings: Settings of the worker.
        load: Makes its pipeline.
    """

    def __init__(self, settings: EmbedSettings, load: PipelineFactory = load_pipeline) -> None:
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
        self._events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
        self._flow: SliceFlow | None = None
        self._failed: LodestoneError | None = None
        try:
            pipeline = load(replace(settings, models=settings.models.expanduser()))  # expanded on this node
        except LodestoneError as error:  # sent with the receipts, because an actor that does not start tells no reason
            self._failed = error
            return
        self._context = pipeline.flow()  # kept, because the flow ends with it
        self._flow = self._context.__enter__()
        threading.Thread(target=self._relay, args=(self._flow,), name="relay", daemon=True).start()

    def hello(self) -> Hello:
        """Return who and where this is. It is answered once the models are loaded."""
        import ray

        return Hello(this_worker(), ray.get_runtime_context().get_node_id())

    def give(self, message: bytes) -> None:
        """Start on some tasks, pickled."""
        tasks: list[SliceTask] = pickle.loads(message)  # noqa: S301 - our driver's own
        for task in tasks:
            if self._flow is None:
                self._events.put(SliceReceipt(task.slice_id, (), error=self._failed, worker=this_worker()))
            else:
                self._flow.admit(task)

    def take(self, seconds: float) -> bytes:
        """Return the events since the last call, pickled: of each slice its receipt, or how far it is.

        Args:
            seconds: Longest wait for the first one.
        """
        events: dict[str, Event] = {}
        wait = seconds
        while True:
            try:
                event = self._events.get(timeout=wait) if wait else self._events.get_nowait()
            except queue.Empty:
                return pickle.dumps(list(events.values()))
            if isinstance(event, Exception):
                raise event
            events[event.slice_id] = event
            wait = 0.0

    def _relay(self, flow: SliceFlow) -> None:
        try:
            while (event := flow.take()) is not None:
                self._events.put(event)
        except Exception as error:  # noqa: BLE001 - raised by `take`
            self._events.put(error)
