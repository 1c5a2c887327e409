"""Workers inside Ray actors: an `EmbedSlice` with its models, where each slice ends with a receipt, also after an error."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.tasks import EmbedSettings, RowFailure, SliceReceipt, SliceTask, this_worker
from lodestone_jobs.attempts import MOST, Attempts, deadly

if TYPE_CHECKING:
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

MESSAGE: Final = "message"
PIXELS: Final = "pixels"


class SliceWorker:
    """Runs an `EmbedSlice` inside a Ray actor.

    Args:
        settings: Settings of the worker.
        attempts: Counter of attempts at a slice.
    """

    def __init__(self, settings: EmbedSettings, attempts: Attempts) -> None:
        from lodestone.indexing.embed.slice_embedder import EmbedSlice

        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
        self._attempts = attempts
        self._embed = EmbedSlice(replace(settings, models=settings.models.expanduser()))  # expanded on this node
        self.parts = self._embed.parts
        self._failed: LodestoneError | None = None
        try:
            self._embed.warm_up()
        except LodestoneError as error:
            # Sent with the first receipt, because Ray restarts an actor that fails to start without end.
            self._failed = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Embed pickled tasks, and return their pickled receipts."""
        return {MESSAGE: packed(*(self.work(pickle.loads(message)) for message in batch[MESSAGE]))}  # noqa: S301 - our driver's

    def work(self, task: SliceTask, prepared: Sequence[PreparedPicture | RowFailure] | None = None) -> SliceReceipt:
        """Embed one slice, and return its receipt; `prepared` is as `EmbedSlice` takes it."""
        if self._failed is not None:
            return SliceReceipt(task.slice_id, (), error=self._failed, worker=this_worker())
        if self._attempts.begin(task.slice_id) > MOST:
            self._attempts.end(task.slice_id)
            return SliceReceipt(task.slice_id, (), error=deadly(task), worker=this_worker())
        try:
            receipt = self._embed(task, prepared)
        except Exception as error:  # noqa: BLE001 - sent to the driver, which tries again and then raises it
            receipt = SliceReceipt(task.slice_id, (), error=failure_of(task, error), worker=this_worker())
        self._attempts.end(task.slice_id)
        return receipt


def failure_of(task: SliceTask, error: Exception) -> LodestoneError:
    """Return an exception as an error that can cross processes and names the slice."""
    if isinstance(error, LodestoneError):
        return error
    first = repr(task.rows[0].uri) if task.rows else "nowhere"
    return RunFailedError(
        f"embedding the slice from {first} failed: {type(error).__name__}: {error}",
        hint="what is finished is kept; run the same command again",
    )


def packed(*messages: object) -> NDArray[np.object_]:
    """Return objects, pickled, as a column of a Ray Data batch."""
    column = np.empty(len(messages), dtype=object)
    column[:] = [pickle.dumps(message) for message in messages]
    return column
